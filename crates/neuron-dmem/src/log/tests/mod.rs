//! The log from outside its parts: against a naive model, stopped at every store, and handed
//! hostile files.

mod crash;
mod hostile;
mod model;

use neuron_abi::memory::{MemLocation, UsageType};

use super::{Charge, OwnerRow, Record, UsageLog};
use crate::kind::AllocatorKind;

fn record(size: u64) -> Record {
    Record {
        location: MemLocation::Device,
        usage: UsageType::Weight,
        hbm: 1,
        core: 1,
        size,
        padding: 0,
        pa: 0x10_0000_0000 + size,
        align_offset: 0,
    }
}

/// Allocates and frees in a fixed pattern, with a few owners and hints; `steps` events.
fn work(log: &UsageLog, steps: u64) -> Vec<Charge> {
    let owners: Vec<OwnerRow> =
        (0..3).map(|core| log.owner(AllocatorKind::Model, core, &format!("model {core}"))).collect();
    let mut live = std::collections::VecDeque::new();
    for step in 0..steps {
        if step % 5 == 4 || live.len() > 12 {
            log.freed(&live.pop_front().unwrap());
            continue;
        }
        let hint = format!("hint {}", step % 7);
        let hint = (step % 3 != 0).then_some(hint.as_str());
        let host = step % 11 == 10;
        let location = if host { MemLocation::Host } else { MemLocation::Device };
        let record = Record { location, core: (step % 2) as u32, ..record(1000 + step) };
        live.push_back(log.allocated(&record, owners[step as usize % 3], hint));
    }
    live.into()
}
