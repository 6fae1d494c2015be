//! Lines of the kernel log (`spec/report.md` 3.6). Kinds beyond those that it lists are ours.

use serde::Serialize;

use super::Message;
use crate::text::{after, behind, leading, number};

/// What a line of the kernel says, numbers as printed. In JSON `kind` and these fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are the numbers of the line, by their printed names")]
pub enum Kernel {
    /// A pool has no room.
    PoolExhausted {
        channel: u64,
        region: u64,
        total: u64,
        occupied: u64,
        needed: u64,
        available: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        available_small: Option<u64>,
    },
    /// Use of a whole device.
    DeviceRegions { regions: u64, occupied: u64 },
    /// No aligned place.
    AlignedAllocationFailed { size: u64, alignment: u64 },
    /// The next place of the contiguous scratchpad is taken.
    ContiguousScratchpadFailed { device: u64, hbm: u64, size: u64, offset: u64 },
    /// The main pool is full, the small one is tried.
    SmallPoolTried { hbm: u64, needed: u64, alignment: Option<u64> },
    /// Host memory in use.
    HostMemory { occupied: u64 },
    /// Host memory came from the driver's reserve.
    HostReserveUsed { size: u64 },
    /// A copy did not end in time.
    DmaTimeout {
        engine: String,
        queue: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        desc_count: Option<u64>,
    },
    /// A copy was hit by a reset and is tried again.
    CopyRetryDuringReset { device: u64, src: u64, dst: u64, size: u64 },
    /// A queue was asked for with too many descriptors.
    QueueTooLarge { queue: u64, size: u64 },
    /// A chunk outlived its process.
    ChunkLeaked { text: String },
    /// Pages of a process could not be pinned.
    PinFailed { text: String },
    /// Memory could not be cleared.
    MemsetFailed { size: u64 },
    /// Who has a device open.
    OpenCount {
        pid: u64,
        count: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<u64>,
    },
}

/// Reads a line. `cut`: the input ends in it, so that a number at its end is not whole.
pub(super) fn lex(text: &str, cut: bool) -> Option<Message> {
    if cut && text.ends_with(|c: char| c.is_ascii_hexdigit()) && !text.contains("too large") {
        return None;
    }
    if let Some(device) = usage(text) {
        return Some(Message::KernelUsage(device));
    }
    kernel(text).map(|kernel| Message::Kernel { uptime: uptime(text), kernel })
}

fn kernel(text: &str) -> Option<Kernel> {
    let get = |key: &str| after(text, key);
    let tail = |start: &str| text.get(text.find(start)?..).map(str::to_owned);
    if text.contains("device mempool [") {
        return pool_exhausted(text);
    }
    if text.contains("Aligned memory allocation failed!") {
        return Some(Kernel::AlignedAllocationFailed { size: get("size:")?, alignment: get("alignment:")? });
    }
    if text.contains("for contiguous scratchpad") {
        let (size, offset) = (get("Could not allocate ")?, get("at offset ")?);
        return Some(Kernel::ContiguousScratchpadFailed {
            device: get("nd ")?,
            hbm: get("HBM ")?,
            size,
            offset,
        });
    }
    if text.contains("no space in main genpool for HBM") {
        return Some(Kernel::SmallPoolTried {
            hbm: get("HBM ")?,
            needed: get("needed ")?,
            alignment: get("alignment "),
        });
    }
    if text.contains("DMA completion timeout") {
        return timeout(text);
    }
    if text.contains("Failed to copy memory during a NeuronCore reset") {
        let (src, dst) = (get("src ")?, get("dst ")?);
        return Some(Kernel::CopyRetryDuringReset { device: get("nd ")?, src, dst, size: get("size ")? });
    }
    if text.contains(") too large") {
        let (queue, rest) = leading(behind(text, ": queue").or_else(|| behind(text, "queue"))?)?;
        let size = after(rest, "size(")?;
        return rest.trim_start().starts_with("size(").then_some(Kernel::QueueTooLarge { queue, size });
    }
    if text.contains("from the internal pool") {
        return Some(Kernel::HostReserveUsed { size: get("host allocation of ")? });
    }
    if text.contains("device regions ") {
        return Some(Kernel::DeviceRegions { regions: get("device regions ")?, occupied: get("occupied ")? });
    }
    if text.contains("host mem occupied") {
        return Some(Kernel::HostMemory { occupied: get("host mem occupied")? });
    }
    if text.contains("mc leaked") {
        return tail("mc leaked").map(|text| Kernel::ChunkLeaked { text });
    }
    if text.contains("could not pin host pages") {
        return tail("could not pin host pages").map(|text| Kernel::PinFailed { text });
    }
    if text.contains("memset memory failed") {
        return Some(Kernel::MemsetFailed { size: get("for size:")? });
    }
    let (before, count) = text.split_once(" open count ")?;
    let pid = number(before.rsplit(' ').next()?)?;
    before.contains("pid ").then_some(Kernel::OpenCount { pid, count: leading(count)?.0, device: None })
}

/// `device mempool [0:0] total T occupied O needed N available A`, or `available - main gen pool
/// A[, small gen pool B]`.
fn pool_exhausted(text: &str) -> Option<Kernel> {
    let rest = behind(text, "device mempool [")?;
    let (channel, rest) = leading(rest)?;
    let (region, rest) = leading(rest.strip_prefix(':')?)?;
    let get = |key: &str| after(rest, key);
    Some(Kernel::PoolExhausted {
        channel,
        region,
        total: get("total ")?,
        occupied: get("occupied ")?,
        needed: get("needed ")?,
        available: get("main gen pool ").or_else(|| get("available ")),
        available_small: get("small gen pool "),
    })
}

/// `DMA completion timeout on nd00 for ENG q0 desc count 3`; old `... timeout for UDMA_ENG_33 q0`.
fn timeout(text: &str) -> Option<Kernel> {
    let text = behind(text, "DMA completion timeout")?;
    let (engine, rest) = behind(text, " for ")?.trim_start().split_once(" q")?;
    let (queue, rest) = leading(rest)?;
    let device = text.split(" for ").next().and_then(|it| after(it, "nd"));
    Some(Kernel::DmaTimeout {
        engine: engine.trim().to_owned(),
        queue,
        device,
        desc_count: after(rest, "desc count "),
    })
}

/// `nd0 usage:`
fn usage(text: &str) -> Option<u32> {
    let (before, _) = text.split_once(" usage:")?;
    let word = before.rsplit([' ', ':']).next()?;
    u32::try_from(number(word.strip_prefix("nd")?)?).ok()
}

/// Seconds since boot, `[ 1743.088462]`.
fn uptime(text: &str) -> Option<f64> {
    text.match_indices('[').find_map(|(place, _)| {
        let inside = text.get(place + 1..)?;
        // Nobody prints more figures than this.
        let end = inside.bytes().take(40).position(|byte| byte == b']')?;
        let inside = inside.get(..end)?.trim();
        let (whole, fraction) = inside.split_once('.')?;
        let is_number = number(whole).is_some() && number(fraction).is_some();
        is_number.then(|| inside.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Kernel {
        match lex(text, false) {
            Some(Message::Kernel { kernel, .. }) => kernel,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn each_text_gives_its_numbers() {
        let pool = |available, available_small| Kernel::PoolExhausted {
            channel: 1,
            region: 0,
            total: 9,
            occupied: 8,
            needed: 7,
            available,
            available_small,
        };
        for (text, kernel) in [
            (
                "neuron:mc_alloc: device mempool [1:0] total 9 occupied 8 needed 7 available 6",
                pool(Some(6), None),
            ),
            (
                "device mempool [1:0] total 9 occupied 8 needed 7 available - main gen pool 6",
                pool(Some(6), None),
            ),
            (
                "device mempool [1:0] total 9 occupied 8 needed 7 available - main gen pool 6, small gen pool 5",
                pool(Some(6), Some(5)),
            ),
            ("device regions 2 occupied 77", Kernel::DeviceRegions { regions: 2, occupied: 77 }),
            (
                "Aligned memory allocation failed! size: 0x100000, alignment: 0x1000",
                Kernel::AlignedAllocationFailed { size: 1 << 20, alignment: 4096 },
            ),
            (
                "nd 3 HBM 1: Could not allocate 64 bytes at offset 0x20 for contiguous scratchpad",
                Kernel::ContiguousScratchpadFailed { device: 3, hbm: 1, size: 64, offset: 32 },
            ),
            (
                "no space in main genpool for HBM 2, needed 5 (alignment 0), trying small genpool",
                Kernel::SmallPoolTried { hbm: 2, needed: 5, alignment: Some(0) },
            ),
            ("host mem occupied 12", Kernel::HostMemory { occupied: 12 }),
            (
                "Completed host allocation of 4096B from the internal pool",
                Kernel::HostReserveUsed { size: 4096 },
            ),
            (
                "DMA completion timeout on nd03 for H2T q1 desc count 9",
                Kernel::DmaTimeout {
                    engine: "H2T".to_owned(),
                    queue: 1,
                    device: Some(3),
                    desc_count: Some(9),
                },
            ),
            (
                "x: DMA completion timeout for UDMA_ENG_33 q0",
                Kernel::DmaTimeout {
                    engine: "UDMA_ENG_33".to_owned(),
                    queue: 0,
                    device: None,
                    desc_count: None,
                },
            ),
            (
                "Failed to copy memory during a NeuronCore reset: nd 0, src 0x10, dst 0x20, size 5. Retrying the copy.",
                Kernel::CopyRetryDuringReset { device: 0, src: 16, dst: 32, size: 5 },
            ),
            (
                "udma_q_init_validate: queue8 size(16777216) too large",
                Kernel::QueueTooLarge { queue: 8, size: 16_777_216 },
            ),
            ("memset memory failed for size:77", Kernel::MemsetFailed { size: 77 }),
            ("mc leaked pa 0x5", Kernel::ChunkLeaked { text: "mc leaked pa 0x5".to_owned() }),
            ("neuron: pid 77 open count 2", Kernel::OpenCount { pid: 77, count: 2, device: None }),
        ] {
            assert_eq!(read(text), kernel, "{text}");
        }
        assert_eq!(lex("neuron: nd5 usage:", false), Some(Message::KernelUsage(5)));
        assert_eq!(lex("queue is too large", false), None);
    }

    #[test]
    fn uptime_is_a_number_in_brackets_or_nothing() {
        let uptime = |text: &str| match lex(text, false) {
            Some(Message::Kernel { uptime, .. }) => uptime,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            uptime("kernel: [ 1743.088462] neuron:f: queue8 size(16777216) too large"),
            Some(1_743.088_462)
        );
        assert_eq!(uptime("[Thu May 21 15:02:21 2026] neuron: queue8 size(1) too large"), None);
        assert_eq!(
            uptime(
                "kernel: [XXXXX] neuron:mc_alloc: device mempool [0:0] total 1 occupied 1 needed 1 available 0"
            ),
            None
        );
    }

    #[test]
    fn a_number_that_the_end_of_the_input_may_have_cut_is_not_taken() {
        assert_eq!(lex("device mempool [0:0] total 9 occupied 8 needed 7 available 6", true), None);
        assert!(lex("queue8 size(16777216) too large", true).is_some());
    }
}
