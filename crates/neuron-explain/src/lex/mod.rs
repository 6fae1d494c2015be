//! Records to messages: what a record says, if it is one of the known ones
//! (`spec/report.md` 3).
//!
//! | module | messages |
//! |---|---|
//! | here | which there are, and which reader tries what |
//! | `request` | refused requests, exact and as reported, and what repeats them |
//! | `files` | dump files |
//! | `usage` | heads of lists and blocks, bullets, what stands around a table |
//! | `cascade` | statuses, errnos, places, limits, versions, environment |
//! | `kernel` | the kernel's |
//! | `words` | which of these readers a record may say something to |
//!
//! Rows and headings of tables are cut by `join::table`, which knows the columns.

mod cascade;
pub(crate) mod files;
pub(crate) mod kernel;
mod request;
mod usage;
mod words;

use neuron_abi::memory::MemLocation;
use neuron_dmem::report::{Alignment, Size};

pub(crate) use files::DumpFile;
pub(crate) use kernel::Kernel;

use crate::facts::Key;
use crate::prefix::Record;
use crate::text::collapsed;
use words::Readers;

/// One thing that a record says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// A request was refused; to the byte. `None`: the number may be cut.
    Exact { location: MemLocation, bytes: Option<u64> },
    /// The report of a refused request.
    Refused(Refused),
    /// A line further up that repeats how much was asked for.
    Repeat(u64),
    /// Name of what the memory was for.
    Tensor(String),
    /// A dump file; announced by the line that precedes a report, or only named.
    File { file: DumpFile, announced: bool },
    /// Who shares the HBM.
    Sharing { lnc_size: u32, cores: Vec<u32> },
    /// A table follows.
    TableTitle,
    /// A line with bars.
    Bars,
    /// Names of models follow.
    NamesTitle,
    /// A model's name.
    Name { id: u64, name: String },
    /// Page of scratchpad reservations.
    Page(Size),
    /// The line before a per-model block.
    BlockFollows,
    /// First line of a per-model block.
    Block { device: u32, core: u32, total: Size },
    /// The model of a block.
    BlockNeff(String),
    /// A list of an HBM follows.
    HbmList { device: Option<u32>, hbm: Option<u32> },
    /// A figure of a list or block; `None` for its total.
    Bullet { key: Option<Key>, size: Size },
    /// A status. `enclosing`: of neuron-rtd, whose message goes on over the next lines.
    Status { status: Option<u32>, name: Option<String>, place: Option<String>, enclosing: bool },
    /// A negative `ret=`.
    Errno(i64),
    /// `mla_idx=`.
    Device(u32),
    /// `tpb->idx=`.
    Core(u32),
    /// `channel n`.
    Channel(u32),
    /// A limit of rings or queues.
    RingLimit(String),
    /// Runtime and driver do not fit together.
    Mismatch { runtime_id: Option<u64>, driver: Option<(u64, u64)> },
    /// The runtime's version.
    Runtime(String),
    /// The driver's version.
    Driver(String),
    /// A variable of the environment.
    Env { name: String, value: String },
    /// A block of `nrt_infodump`.
    Infodump,
    /// A line of the kernel.
    Kernel { uptime: Option<f64>, kernel: Kernel },
    /// `nd0 usage:`; who uses it follows.
    KernelUsage(u32),
}

/// What a report line says; `None` is not printed, or cut.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused {
    pub(crate) host: bool,
    pub(crate) requested: Size,
    pub(crate) alignment: Alignment,
    pub(crate) usage: Option<String>,
    pub(crate) device: Option<u32>,
    pub(crate) core: Option<u32>,
    /// A list of the core follows.
    pub(crate) list: bool,
}

/// All that a record says. `raw` is the record with its prefix; `cut` tells that the input ends
/// in it, without a newline.
pub(crate) fn lex(record: &Record<'_>, raw: &str, cut: bool) -> Vec<Message> {
    by(Readers::of(raw), record, raw, cut)
}

fn by(readers: Readers, record: &Record<'_>, raw: &str, cut: bool) -> Vec<Message> {
    let mut messages = Vec::new();
    let has_module = record.module.is_some();
    if !has_module
        && readers.has(Readers::KERNEL)
        && let Some(kernel) = kernel::lex(&collapsed(raw), cut)
    {
        messages.push(kernel);
        return messages;
    }
    let has_bars = !has_module && memchr::memchr(b'|', raw.as_bytes()).is_some();
    // Nearly all of a long log: rows of tables, which go by their bars.
    if has_bars && !readers.any() {
        usage::bars(raw, &mut messages);
        return messages;
    }
    if has_module && !readers.any() {
        return messages;
    }
    let text = collapsed(record.message);
    if readers.has(Readers::REQUEST) {
        request::lex(&text, cut, &mut messages);
    }
    if readers.has(Readers::FILES) {
        files::lex(&text, &mut messages);
    }
    if has_bars {
        usage::bars(raw, &mut messages);
    } else {
        if readers.has(Readers::USAGE) {
            usage::titles(record, &text, &mut messages);
        }
        if !has_module && !matches!(messages.last(), Some(Message::BlockNeff(_))) {
            usage::lines(raw, &text, readers.has(Readers::HBM), cut, &mut messages);
        }
    }
    if readers.has(Readers::CASCADE) {
        cascade::lex(record, &text, cut, &mut messages);
    }
    if readers.has(Readers::BLOCK) {
        cascade::infodump(record, &text, cut, &mut messages);
    }
    messages
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that any reader looks for, and what may stand around it.
    const PARTS: [&str; 69] = [
        "2026-May-21 15:02:21.561070 15012:15765 ERROR  TDRV:log_dev_mem ",
        "2026-May-21 15:02:21.561070 1:1 ERROR   NRT:nrt_infodump ",
        "[TDRV:dmem_alloc]",
        "TDRV:dml_log_dev_neff_mem ",
        "[ 1743.088462] neuron:mc_alloc: ",
        "Failed to allocate ",
        "Failed to alloc ",
        "DEVICE memory",
        "HOST memory",
        " (77 bytes)",
        ": 77",
        "13.000MB",
        "(alignment: 16.000MB,",
        "(usage: tensors)",
        " on ND 0:NC 4",
        "of host memory",
        "current utilization:",
        " of size ",
        "7 bytes",
        "nrt tensor w",
        " bytes on DEVICE for tensor w",
        " in MLA DRAM for w",
        "LNC size is 2. Neuron Cores using this HBM: NC 4 and NC 5",
        "Wrote ",
        "/tmp/nrt_mem_log_device_0_6a0f1e7d.csv",
        "Displaying Current Memory Utilization:",
        "NEFF id to name mapping:",
        "rounded up to page size (16.000MB)",
        "Per NEFF memory usage breakdown for ",
        "[a.neff]:",
        "[ND 0:NC 4] Current Usage Total: 15.750GB",
        "* total: 1.000GB",
        "tensors: 1.000GB",
        "Overall HBM usage",
        "HBM 0:",
        "7: \"a\"",
        "| 1.000B |",
        "(ret=-12)",
        "ret=2",
        "mla_idx=3",
        "tpb->idx=1",
        "channel 0",
        "Failure: NRT_RESOURCE in f",
        "NERR_RESOURCE (4)",
        "err: 4",
        "message=x status=4",
        "No more pages for ring",
        "exceeded queue descriptor limits",
        "7 is not compatible with the installed 5..7",
        "NRT version: 2.31.24.0",
        "Driver version: 2.27.4.0",
        "NEURON_A=1",
        "A=1",
        "device mempool [1:0] total 9 occupied 8 needed 7 available 6",
        "Aligned memory allocation failed! size: 1 alignment: 2",
        "Could not allocate 1 at offset 2 for contiguous scratchpad nd 0 HBM 1",
        "no space in main genpool for HBM 0 needed 1",
        "DMA completion timeout on nd00 for ENG q0",
        "Failed to copy memory during a NeuronCore reset nd 0 src 1 dst 2 size 3",
        ": queue 1 size(2) too large",
        "host allocation of 5 from the internal pool",
        "device regions 2 occupied 77",
        "host mem occupied 5",
        "mc leaked x",
        "could not pin host pages",
        "memset memory failed for size: 5",
        "pid 7 open count 2",
        "nd0 usage:",
        "x",
    ];

    proptest! {
        #[test]
        fn readers_without_a_word_of_theirs_have_nothing_to_say(
            parts in proptest::collection::vec((0..PARTS.len(), 0..3_usize), 1..8),
            cut in any::<bool>(),
        ) {
            let blanks = ["", " ", "  "];
            let raw: String = parts.iter().flat_map(|(part, blank)| [PARTS[*part], blanks[*blank]]).collect();
            let record = Record::split(&raw);
            prop_assert_eq!(lex(&record, &raw, cut), by(Readers::ALL, &record, &raw, cut));
        }
    }
}
