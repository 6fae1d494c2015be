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
//!
//! Rows and headings of tables are cut by `join::table`, which knows the columns.

mod cascade;
pub(crate) mod files;
pub(crate) mod kernel;
mod request;
mod usage;

use neuron_abi::memory::MemLocation;
use neuron_dmem::report::{Alignment, Size};

pub(crate) use files::DumpFile;
pub(crate) use kernel::Kernel;

use crate::facts::Key;
use crate::prefix::Record;
use crate::text::collapsed;

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
    let text = collapsed(record.message);
    if record.module.is_none()
        && let Some(kernel) = kernel::lex(&collapsed(raw), cut)
    {
        return vec![kernel];
    }
    let mut messages = Vec::new();
    request::lex(&text, cut, &mut messages);
    files::lex(&text, &mut messages);
    usage::lex(record, raw, &text, cut, &mut messages);
    cascade::lex(record, &text, cut, &mut messages);
    messages
}
