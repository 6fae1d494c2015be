//! What programs left behind, as text: by process and device, then by what it was for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use neuron_abi::memory::{Category, MemLocation};
use neuron_serve::leaks::{Held, HeldMemory, Left};

use crate::bytes::{exact_and_human, plural};

/// What processes that still run have open, and what others left. Empty if there is nothing of either.
#[must_use]
pub fn text(running: &[(i32, String)], left: &[Left]) -> String {
    let mut text = String::new();
    for (pid, name) in running {
        let _ =
            writeln!(text, "neuron-mem run: {name} ({pid}) still runs and has devices open, which end now");
    }
    for process in left {
        process_left(&mut text, process);
    }
    text
}

fn process_left(text: &mut String, left: &Left) {
    let mut blocks: BTreeMap<_, Blocks> = BTreeMap::new();
    let mut others = Vec::new();
    for held in &left.held {
        match held {
            Held::Memory(memory) => {
                let blocks = blocks.entry(Purpose::of(memory)).or_default();
                blocks.count += 1;
                blocks.bytes += memory.size;
                blocks.cores.insert(memory.core);
            }
            Held::Queue(queue) => others.push(format!("queue {} of engine {}", queue.queue, queue.engine)),
            Held::CoreLock(lock) => others.push(format!("the lock of core {}", lock.core)),
        }
    }
    let sum = |device: bool| {
        let of = blocks.iter().filter(move |(purpose, _)| purpose.hbm.is_some() == device);
        of.map(|(_, blocks)| blocks.bytes).sum::<u64>()
    };
    let count: u64 = blocks.values().map(|blocks| blocks.count).sum();
    let Left { pid, name, device, .. } = left;
    let _ = writeln!(
        text,
        "neuron-mem run: {name} ({pid}) left on neuron{device}: {}, {} of device memory, {} of host memory",
        plural(count, "block"),
        exact_and_human(sum(true)),
        exact_and_human(sum(false)),
    );
    for (purpose, Blocks { count, bytes, cores }) in &blocks {
        let place = match purpose.hbm {
            Some(hbm) => format!("HBM {hbm}"),
            None => "host".to_owned(),
        };
        let cores: Vec<_> = cores.iter().map(u32::to_string).collect();
        let s = if cores.len() == 1 { "" } else { "s" };
        let (cores, owner) = (cores.join(", "), &purpose.owner);
        let (count, bytes) = (plural(*count, "block"), exact_and_human(*bytes));
        let _ = writeln!(text, "  {place}, core{s} {cores}: {owner}, {count}, {bytes}");
    }
    for other in others {
        let _ = writeln!(text, "  {other}");
    }
}

/// Blocks that are told of together.
#[derive(Debug, Default)]
struct Blocks {
    count: u64,
    bytes: u64,
    cores: BTreeSet<u32>,
}

/// What they have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Purpose {
    hbm: Option<u32>,
    owner: String,
}

impl Purpose {
    fn of(memory: &HeldMemory) -> Self {
        let on_host = memory.location == MemLocation::Host;
        // As sysfs counts it.
        let node = Category::accounted(memory.category, on_host).sysfs_node();
        let owner = node.rsplit_once('/').map_or(node, |(_, owner)| owner).replace('_', " ");
        Self { hbm: memory.hbm, owner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_serve::leaks::Lifespan;

    fn memory(hbm: Option<u32>, core: u32, category: Category, size: u64) -> Held {
        let location = if hbm.is_some() { MemLocation::Device } else { MemLocation::Host };
        let (category, lifespan) = (category as u32, Lifespan::CurrentProcess);
        Held::Memory(HeldMemory { location, core, hbm, category, size, address: 0, lifespan })
    }

    #[test]
    fn blocks_of_one_purpose_are_told_of_together() {
        let held = vec![
            memory(Some(0), 0, Category::TensorsDevice, 1 << 20),
            memory(Some(0), 0, Category::TensorsDevice, 1 << 20),
            memory(Some(1), 1, Category::CodeDevice, 4096),
            memory(None, 0, Category::NcdevHost, 2 << 20),
            memory(None, 3, Category::NcdevHost, 2 << 20),
        ];
        let left = Left { pid: 42, name: "python3".to_owned(), device: 3, held };
        let text = text(&[(43, "sleep".to_owned())], &[left]);
        assert_eq!(
            text,
            "neuron-mem run: sleep (43) still runs and has devices open, which end now\n\
             neuron-mem run: python3 (42) left on neuron3: 5 blocks, 2,101,248 B (2.0 MiB) of device memory, \
             4,194,304 B (4.0 MiB) of host memory\n\
             \x20 host, cores 0, 3: driver memory, 2 blocks, 4,194,304 B (4.0 MiB)\n\
             \x20 HBM 0, core 0: tensors, 2 blocks, 2,097,152 B (2.0 MiB)\n\
             \x20 HBM 1, core 1: model code, 1 block, 4,096 B (4.0 KiB)\n"
        );
        assert_eq!(self::text(&[], &[]), "");
    }
}
