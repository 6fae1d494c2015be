//! The answer, as plain data. Serialised it is the JSON of `neuron-mem plan`. Sizes are bytes;
//! sums stop at 2^64 - 1.

use neuron_dmem::PoolRoom;
use serde::Serialize;

use crate::ask::Placement;
use crate::term::Term;

/// Whether the models fit, and what says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Whether everything found room.
    pub fits: bool,
    /// Instance type.
    pub instance: String,
    /// Generation of its devices.
    pub generation: String,
    /// How tensors get to cores.
    pub placement: Placement,
    /// Logical cores asked for, if they were.
    pub tp: Option<u32>,
    /// Physical cores of a logical one.
    pub lnc: u32,
    /// Logical cores in use.
    pub cores: u32,
    /// Devices in use.
    pub devices: u32,
    /// What does not fit, at least, over all HBMs: those bytes more, in the right place, are needed. 0 if all fits.
    pub short_bytes: u64,
    /// What is left on the HBM that has least, of those in use, in both pools; 0 if not all fits.
    pub spare_bytes: u64,
    /// The models.
    pub models: Vec<ModelFacts>,
    /// What memory is wanted for, largest first.
    pub terms: Vec<TermFacts>,
    /// What each physical core was taken to cost.
    pub costs: CostFacts,
    /// Whether instructions are counted. If not, they are missing from the sum.
    pub code_counted: bool,
    /// The alignment at which holes are looked for.
    pub align: u64,
    /// HBMs of the devices in use, by device and HBM.
    pub hbms: Vec<Hbm>,
    /// The smallest number of logical cores that a sharded plan fits on, on this instance; of powers of two.
    pub smallest_tp: Option<u32>,
    /// The smallest instance that fits.
    pub smallest_instance: Option<Suggestion>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelFacts {
    /// What it is called.
    pub name: String,
    /// Tensors, those without data included.
    pub tensors: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The largest; the first of several.
    pub largest: Option<TensorFacts>,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorFacts {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Elements along each dimension.
    pub shape: Vec<u64>,
    /// Bytes.
    pub bytes: u64,
}

/// A term of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TermFacts {
    /// What for.
    pub term: Term,
    /// Blocks of it, on all devices.
    pub blocks: u64,
    /// Their bytes, as asked for.
    pub bytes: u64,
}

/// What each physical core was taken to cost before any model (`spec/report.md` 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CostFacts {
    /// Microcode.
    pub microcode: u64,
    /// The runtime's own.
    pub runtime: u64,
    /// Rings of the runtime.
    pub rings: u64,
    /// Collectives on the first core of a pair; 0 where no cores work together.
    pub collectives: u64,
}

/// An HBM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hbm {
    /// Device.
    pub device: u32,
    /// HBM.
    pub hbm: u32,
    /// Physical cores in use that have their memory here.
    pub cores: Vec<u32>,
    /// Its size.
    pub size: u64,
    /// In use before anything was allocated: what firmware and driver keep.
    pub before: u64,
    /// What was asked of it, in pages.
    pub asked: u64,
    /// What of that was allocated.
    pub placed: u64,
    /// What did not fit, at least.
    pub short: u64,
    /// For blocks above 512 KiB first.
    pub main: Pool,
    /// For the others first.
    pub small: Pool,
    /// The first block that found no room.
    pub refused: Option<Refused>,
}

/// A pool with everything in it that found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Size.
    pub size: u64,
    /// In use.
    pub used: u64,
    /// Left.
    pub left: u64,
    /// Largest run that is free.
    pub largest_hole: u64,
    /// Largest free run from a multiple of the alignment.
    pub largest_aligned_hole: u64,
}

/// A block that found no room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// What for.
    pub term: Term,
    /// What it is.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// The largest hole there was.
    pub largest_hole: u64,
}

/// What would fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Instance type.
    pub instance: String,
    /// Bytes of all its HBMs.
    pub hbm_bytes: u64,
    /// How tensors get to cores there.
    pub placement: Placement,
    /// Logical cores to ask for; `None` if none need be.
    pub tp: Option<u32>,
    /// Physical cores of a logical one to ask for; `None` if none need be.
    pub lnc: Option<u32>,
}

impl From<PoolRoom> for Pool {
    fn from(room: PoolRoom) -> Self {
        let PoolRoom { size, used, largest_hole, largest_aligned_hole } = room;
        Self { size, used, left: room.left(), largest_hole, largest_aligned_hole }
    }
}
