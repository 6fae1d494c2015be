//! A failed allocation and all that bears on it, as plain data. Taken by
//! [`capture`](super::capture); written as text by [`human`](super::human),
//! [`failure_log`](super::failure_log) and [`table`](super::table).
//!
//! Its JSON is these fields under these names; bytes are integers.

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bytes::UsageBytes;
use super::column::{Column, Form};
use super::records::Chunk;
use super::size::Size;
use super::table::{Cell, Label, NeffName, Row, Table};
use super::time::Time;
use crate::room::Room;

/// Why an allocation found no room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Which kind of reason.
    pub kind: CauseKind,
    /// The same as one sentence, with figures and what to do.
    pub sentence: String,
}

/// Kinds of reasons, from the room there was right after the refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// No pool of the HBM is as large as the request, full or empty.
    LargerThanPool,
    /// Less is left in both pools together than was asked for.
    Capacity,
    /// Enough is left in both pools together, and too little in each.
    PoolSplit,
    /// A pool has enough, in pieces that are too small.
    Fragmentation,
    /// A piece is large enough, and has no aligned place for the request.
    Alignment,
    /// By what the driver lists the request would fit: memory was freed meanwhile, or the
    /// driver has another reason.
    FitsNow,
    /// The driver cannot list what lives.
    Unknown,
    /// Host memory: no contiguous block of the size.
    HostContiguous,
}

/// An allocation that found no room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OomReport {
    /// When it was refused.
    pub time: Time,
    /// The N of `/dev/neuronN`.
    pub device: u8,
    /// What was asked for.
    pub request: Asked,
    /// Why it was refused.
    pub cause: Cause,
    /// The HBM it was to be on; `None` for host memory.
    pub hbm: Option<HbmState>,
    /// Times that it was tried again, because the failure handler said so; left out if none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Host or device.
    #[serde(with = "location")]
    pub location: MemLocation,
    /// HBM; `None` for host memory.
    pub hbm: Option<u32>,
    /// Physical core that asked.
    pub core: u32,
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes; 0 for none.
    pub align: u64,
    /// What it was for.
    #[serde(with = "usage")]
    pub usage: UsageType,
    /// Its name.
    pub hint: Option<String>,
    /// The model whose allocator asked; `None` for a global one.
    pub model: Option<Model>,
}

/// A MODEL allocator, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Number, from 1001 in order of creation on a device (`spec/report.md` 3.3, our choice).
    pub id: u64,
    /// Label; the empty one for an allocator without.
    pub name: String,
}

/// An HBM when an allocation on it was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HbmState {
    /// HBM.
    pub hbm: u32,
    /// Physical cores that make a logical one. This layer drives each by itself: 1.
    pub lnc_size: u32,
    /// What this process has, by core that uses the HBM.
    pub cores: Vec<CoreUsage>,
    /// Room by pool; `None` where the driver cannot list what lives.
    pub room: Option<Room>,
    /// In use by none of this process's allocations: other processes, the driver's own, and
    /// what rounding to pages adds. The firmware's reserve is not part of it. `None` as `room`.
    pub others: Option<u64>,
    /// This process's allocations on the HBM by hint.
    pub hints: Hints,
    /// What came since the last load.
    pub growth: Option<Growth>,
    /// What lives on the HBM, by address, of all processes; written to a file, not to JSON.
    #[serde(skip)]
    pub chunks: Vec<Chunk>,
}

/// What a core of this process has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreUsage {
    /// Physical core.
    pub core: u32,
    /// By its counters.
    pub bytes: UsageBytes,
    /// Models on it, ascending.
    pub models: Vec<ModelUsage>,
}

/// What the allocations of a living MODEL allocator have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Which.
    pub model: Model,
    /// By its living handles.
    pub bytes: UsageBytes,
}

/// Living allocations by hint, the biggest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// The biggest, at most [`Hints::SHOWN`].
    pub biggest: Vec<HintUsage>,
    /// Bytes of all others.
    pub other_bytes: u64,
    /// Number of all others.
    pub other_allocations: u64,
    /// Bytes whose allocator is gone: they live, and nobody lists them (seed 000 §1).
    pub unlisted_bytes: u64,
}

impl Hints {
    /// Hints that a report names (our choice).
    pub const SHOWN: usize = 10;
}

/// Allocations that have a hint and a usage in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintUsage {
    /// The hint; `None` for those without.
    pub hint: Option<String>,
    /// What they are used for.
    #[serde(with = "usage")]
    pub usage: UsageType,
    /// Bytes.
    pub bytes: u64,
    /// Number.
    pub allocations: u64,
}

/// What a process's cores on an HBM took since the last load began: when a load fails, what
/// it took until then; later, what was added to the loaded model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// The newest MODEL allocator on the HBM's cores.
    pub since: Model,
    /// Bytes more, or fewer.
    pub bytes: i64,
    /// By category, those that changed.
    pub categories: Vec<CategoryGrowth>,
}

/// Change of a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryGrowth {
    /// Category.
    #[serde(with = "category")]
    pub category: Aggregate,
    /// Bytes more, or fewer.
    pub bytes: i64,
}

impl HbmState {
    /// What this process's cores have together: the HBM's row of the table.
    pub fn total(&self) -> UsageBytes {
        let mut total = UsageBytes::default();
        self.cores.iter().for_each(|core| total.add_all(&core.bytes));
        total
    }

    /// The usage table.
    pub fn table(&self, device: u8, form: Form) -> Table {
        let columns = form.columns();
        let mut rows = Vec::new();
        let mut names = Vec::new();
        let row = |label, bytes: &UsageBytes, of_model: bool| Row {
            label,
            cells: columns.iter().map(|column| cell(column, bytes, of_model)).collect(),
        };
        let label = Label::Hbm { device: device.into(), hbm: self.hbm };
        rows.push(row(label, &self.total(), false));
        for core in &self.cores {
            rows.push(row(Label::Core { core: core.core }, &core.bytes, false));
            for ModelUsage { model: Model { id, name }, bytes } in &core.models {
                rows.push(row(Label::Neff { id: *id }, bytes, true));
                names.push(NeffName { id: *id, name: name.clone() });
            }
        }
        Table { columns, rows, names, reservation_page: None }
    }
}

/// A model's total is the sum of what its row counts.
fn cell(column: &Column, bytes: &UsageBytes, of_model: bool) -> Cell {
    if of_model && column.is_per_core() {
        return Cell::NotCounted;
    }
    let bytes = match column {
        Column::Total if of_model => bytes.sum(|usage| !super::column::is_per_core(usage.aggregate())),
        Column::Total => bytes.total(),
        Column::Category(category) => bytes.category(*category),
        Column::Usage(usage) => bytes.usage(*usage),
        Column::XtCc | Column::Unnamed(_) => return Cell::Missing,
    };
    Cell::Size(Size::exact(bytes))
}

/// Enums by their names.
macro_rules! by_name {
    ($module:ident, $type:ty, $name:expr) => {
        mod $module {
            use super::*;

            pub(super) fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let name: fn($type) -> &'static str = $name;
                serializer.serialize_str(name(*value))
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = String::deserialize(deserializer)?;
                let name: fn($type) -> &'static str = $name;
                let found = <$type>::ALL.iter().copied().find(|value| name(*value) == text);
                found.ok_or_else(|| serde::de::Error::custom(format!("{text:?} is none of the names")))
            }
        }
    };
}

by_name!(usage, UsageType, UsageType::name);
by_name!(category, Aggregate, super::super::column::category_key);
by_name!(location, MemLocation, |location| match location {
    MemLocation::Host => "host",
    MemLocation::Device => "device",
    MemLocation::Invalid => "invalid",
});
