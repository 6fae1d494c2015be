//! What a log says, as plain data: nothing in here is guessed but what is named so
//! (`spec/report.md` 6). As JSON it is these fields under these names.

use std::collections::BTreeMap;

use neuron_dmem::report::Size;
use serde::ser::{Serialize, Serializer};

pub use crate::lex::kernel::Kernel;

/// A category of a list or table (`spec/report.md` 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "they are the printed names")]
pub enum Key {
    ModelCode,
    ModelConstants,
    Tensors,
    SharedScratchpad,
    Scratchpad,
    Runtime,
    /// All rings in one, before they were split.
    DmaRings,
    DmaRingsIo,
    DmaRingsSpill,
    DmaRingsCollectives,
    DmaRingsRuntime,
    Collectives,
    XtCc,
    ProfilerBuffers,
}

impl Key {
    /// In the order of the columns.
    pub const ALL: [Self; 14] = [
        Self::ModelCode,
        Self::ModelConstants,
        Self::Tensors,
        Self::SharedScratchpad,
        Self::Scratchpad,
        Self::Runtime,
        Self::DmaRings,
        Self::DmaRingsIo,
        Self::DmaRingsSpill,
        Self::DmaRingsCollectives,
        Self::DmaRingsRuntime,
        Self::Collectives,
        Self::XtCc,
        Self::ProfilerBuffers,
    ];

    /// Key in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelCode => "model_code",
            Self::ModelConstants => "model_constants",
            Self::Tensors => "tensors",
            Self::SharedScratchpad => "shared_scratchpad",
            Self::Scratchpad => "scratchpad",
            Self::Runtime => "runtime",
            Self::DmaRings => "dma_rings",
            Self::DmaRingsIo => "dma_rings_io",
            Self::DmaRingsSpill => "dma_rings_spill",
            Self::DmaRingsCollectives => "dma_rings_collectives",
            Self::DmaRingsRuntime => "dma_rings_runtime",
            Self::Collectives => "collectives",
            Self::XtCc => "xt_cc",
            Self::ProfilerBuffers => "profiler_buffers",
        }
    }

    /// As lists print it.
    pub const fn printed(self) -> &'static str {
        match self {
            Self::ModelCode => "model code",
            Self::ModelConstants => "model constants",
            Self::Tensors => "tensors",
            Self::SharedScratchpad => "shared scratchpad",
            Self::Scratchpad => "scratchpad",
            Self::Runtime => "runtime",
            Self::DmaRings => "dma rings",
            Self::DmaRingsIo => "dma rings io",
            Self::DmaRingsSpill => "dma rings spill",
            Self::DmaRingsCollectives => "dma rings collectives",
            Self::DmaRingsRuntime => "dma rings runtime",
            Self::Collectives => "collectives",
            Self::XtCc => "xt cc",
            Self::ProfilerBuffers => "profiler buffers",
        }
    }

    /// The key with this name in JSON.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Whether it counts rings.
    pub const fn is_rings(self) -> bool {
        matches!(
            self,
            Self::DmaRings
                | Self::DmaRingsIo
                | Self::DmaRingsSpill
                | Self::DmaRingsCollectives
                | Self::DmaRingsRuntime
        )
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Figures by category; what is not printed is not there.
pub type Categories = BTreeMap<Key, Size>;

/// The largest, the first in column order when equal; `None` when all are 0.
pub fn biggest(categories: &Categories) -> Option<Key> {
    let largest = categories.values().map(|size| size.bytes).max().filter(|bytes| *bytes > 0)?;
    categories.iter().find(|(_, size)| size.bytes == largest).map(|(key, _)| *key)
}

/// Which memory a row counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Scope {
    /// Device.
    pub device: Option<u32>,
    /// HBM on it.
    pub hbm: Option<u32>,
    /// Physical core on it.
    pub core: Option<u32>,
}

/// An alignment as printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Not printed: null.
    #[default]
    NotPrinted,
    /// `"none"`.
    None,
    /// Bytes.
    Bytes(Size),
}

impl Serialize for Align {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::NotPrinted => serializer.serialize_none(),
            Self::None => serializer.serialize_str("none"),
            Self::Bytes(size) => size.serialize(serializer),
        }
    }
}

/// One refused request, or a status without one.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct Failure {
    pub time: Option<String>,
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    /// `device`, `host`, or not told.
    pub location: Option<&'static str>,
    pub device: Option<u32>,
    pub core: Option<u32>,
    pub hbm: Option<u32>,
    pub requested: Option<Size>,
    pub alignment: Align,
    pub usage: Option<String>,
    pub status: Option<u32>,
    pub status_seen: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i64>,
    /// Its name, where the number is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_name: Option<String>,
    /// What a refusal answers: 4 for device memory, 11 for the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_inferred: Option<u32>,
    /// What the memory was for, where the lines above the request name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// The end of the input cut the line that says how much was asked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Its row in `usage`.
    pub row: Option<usize>,
}

/// A request that was refused too, without a report of its own.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct OtherRequest {
    pub time: Option<String>,
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    pub requested: Size,
}

/// A failure that the log shows only by its status.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct OtherFailure {
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    pub status: Option<u32>,
    pub status_seen: bool,
    #[serde(rename = "where")]
    pub place: Option<String>,
}

/// A row of a table, or a list.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Row {
    /// What it counts.
    pub scope: Scope,
    /// Sum as printed.
    pub total: Option<Size>,
    /// Its parts.
    pub categories: Categories,
    /// The largest of them.
    pub biggest: Option<Key>,
    /// Figures whose column cannot be named for sure, by what is left of its heading.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ambiguous: BTreeMap<String, Size>,
    /// Table it stands in; `None` for a list.
    #[serde(skip)]
    pub(crate) table: Option<usize>,
}

/// A model's row.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct Neff {
    pub device: Option<u32>,
    pub core: Option<u32>,
    pub neff: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub total: Option<Size>,
    pub categories: Categories,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Size>,
    #[serde(skip)]
    pub(crate) table: usize,
}

/// A block at the load of a model.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct Block {
    pub time: Option<String>,
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    pub device: u32,
    pub core: u32,
    pub current_total: Size,
    pub shared_scratchpad: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<Size>,
    pub neff_name: Option<String>,
    pub neff_total: Option<Size>,
    pub categories: Categories,
    pub biggest: Option<Key>,
}

/// A line of the kernel.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct KernelLine {
    /// Seconds since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime: Option<f64>,
    /// What it says.
    #[serde(flatten)]
    pub kernel: Kernel,
}

/// Versions as printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct Versions {
    pub runtime: Option<String>,
    pub driver: Option<String>,
}

/// Which runtimes a driver works with, and which runtime it met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct Compat {
    pub runtime_id: Option<u64>,
    pub driver_min: Option<u64>,
    pub driver_max: Option<u64>,
}

/// All that a log says.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "spec/report.md 6 has them")]
pub struct Facts {
    /// Which form it has: R0, R1, R1b, R2a, R2b, N1, N2, X, K, or other.
    pub format: &'static str,
    /// False for what is visibly a part only; null else.
    pub complete: Option<bool>,
    pub failures: Vec<Failure>,
    pub other_requests: Vec<OtherRequest>,
    pub other_failures: Vec<OtherFailure>,
    pub usage: Vec<Row>,
    pub neffs: Vec<Neff>,
    pub memory_blocks: Vec<Block>,
    pub kernel: Vec<KernelLine>,
    #[serde(serialize_with = "told_versions")]
    pub versions: Versions,
    pub compat: Option<Compat>,
    pub env: BTreeMap<String, String>,
    pub dump_files: Vec<String>,
    pub dump_time_utc: Option<String>,
    pub cores_on_hbm: Vec<u32>,
    pub lnc_size: Option<u32>,
    pub scratchpad_page: Option<Size>,
    pub duplicates: u64,
    /// Lines that speak of a limit of rings or queues.
    pub ring_limits: Vec<String>,
    /// Versions do not fit together.
    #[serde(skip)]
    pub(crate) mismatch: bool,
    /// A table was cut.
    #[serde(skip)]
    pub(crate) table_cut: bool,
    /// Records left out because there were too many to keep.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Null where the log has neither.
fn told_versions<S: Serializer>(versions: &Versions, serializer: S) -> Result<S::Ok, S::Error> {
    if *versions == Versions::default() {
        serializer.serialize_none()
    } else {
        versions.serialize(serializer)
    }
}

impl Facts {
    /// Whether nothing known was in the log.
    pub fn is_empty(&self) -> bool {
        self.failures.is_empty()
            && self.other_failures.is_empty()
            && self.usage.is_empty()
            && self.neffs.is_empty()
            && self.memory_blocks.is_empty()
            && self.kernel.is_empty()
            && self.versions == Versions::default()
            && self.compat.is_none()
            && self.env.is_empty()
            && self.dump_files.is_empty()
            && self.ring_limits.is_empty()
            && self.cores_on_hbm.is_empty()
    }

    /// The models of the table that a row stands in.
    pub(crate) fn neffs_of(&self, row: &Row) -> impl Iterator<Item = &Neff> {
        let table = row.table.unwrap_or(usize::MAX);
        let start = self.neffs.partition_point(|neff| neff.table < table);
        self.neffs.iter().skip(start).take_while(move |neff| neff.table == table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_biggest_is_the_first_of_equals_and_none_of_zeros() {
        let size = Size::exact;
        let of =
            |list: &[(Key, u64)]| biggest(&list.iter().map(|(key, bytes)| (*key, size(*bytes))).collect());
        assert_eq!(of(&[(Key::Tensors, 5), (Key::ModelCode, 5), (Key::Runtime, 1)]), Some(Key::ModelCode));
        assert_eq!(of(&[(Key::Tensors, 0)]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn keys_are_the_printed_names() {
        for key in Key::ALL {
            assert_eq!(key.name().replace('_', " "), key.printed());
            assert_eq!(Key::named(key.name()), Some(key));
        }
        assert!(Key::ALL.is_sorted());
    }
}
