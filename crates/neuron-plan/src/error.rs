//! Why there is no answer. That something does not fit is one.

use neuron_dmem::DmemError;
use neuron_dmem::log::LogError;
use neuron_ndl::NdlError;
use neuron_ndl::software::MachineError;

/// A question without an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// An unknown instance type, or a software device that did not come up.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// No logical core at all.
    #[error("models need at least one logical core")]
    NoCores,
    /// A logical core of neither one core nor two.
    #[error("a logical core is 1 physical core or 2, not {0}")]
    Lnc(u32),
    /// Logical cores of two on an instance that has none.
    #[error("{instance} has logical cores of one physical core only; leave the size of logical cores out")]
    NoPairs {
        /// Instance type.
        instance: &'static str,
    },
    /// More logical cores than there are.
    #[error("{instance} has {has} logical cores of {lnc}, not {asked}; {}", others(enough))]
    TooManyCores {
        /// Instance type.
        instance: &'static str,
        /// Logical cores it has.
        has: u32,
        /// Physical cores of each.
        lnc: u32,
        /// Logical cores asked for.
        asked: u32,
        /// Instance types that have as many.
        enough: Vec<&'static str>,
    },
    /// A core that the device does not have.
    #[error("a device of {instance} has no core {core}; it has cores 0 to {last}", last = cores.saturating_sub(1))]
    NoCore {
        /// Instance type.
        instance: &'static str,
        /// Core asked for.
        core: u32,
        /// Cores of a device.
        cores: u32,
    },
    /// A core named twice.
    #[error("core {0} is named twice")]
    Twice(u32),
    /// Part of a logical core.
    #[error("cores {} and {} are one logical core, and core {missing} is not among those named", missing & !1, missing | 1)]
    HalfCore {
        /// The core that is missing.
        missing: u32,
    },
    /// Two different numbers of logical cores.
    #[error(
        "the cores named make {named} logical cores of {lnc}, and {asked} are asked for; leave one of the two out"
    )]
    Differ {
        /// Logical cores of the list.
        named: u32,
        /// Physical cores of each.
        lnc: u32,
        /// Logical cores asked for.
        asked: u32,
    },
    /// No alignment.
    #[error("an alignment is a power of two, not {0}")]
    Align(u64),
    /// The memory of a device could not be set up.
    #[error("the usage log of a device cannot be kept")]
    Log(#[from] LogError),
    /// The device refused an allocation for another reason than that it is full.
    #[error("{what} of {bytes} bytes cannot be allocated on neuron{device}, core {core}")]
    Refused {
        /// What it is.
        what: String,
        /// Its bytes.
        bytes: u64,
        /// Device.
        device: u32,
        /// Physical core.
        core: u32,
        /// Why.
        #[source]
        source: Box<DmemError>,
    },
    /// An allocator could not be made.
    #[error(transparent)]
    Memory(#[from] DmemError),
    /// The software device refused another call.
    #[error(transparent)]
    Device(#[from] NdlError),
}

impl PlanError {
    /// Whether the question was wrong, and not the device that was to answer it.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Machine(MachineError::UnknownInstance(_))
            | Self::NoCores
            | Self::Lnc(_)
            | Self::NoPairs { .. }
            | Self::TooManyCores { .. }
            | Self::NoCore { .. }
            | Self::Twice(_)
            | Self::HalfCore { .. }
            | Self::Differ { .. }
            | Self::Align(_) => true,
            Self::Machine(_) | Self::Log(_) | Self::Refused { .. } | Self::Memory(_) | Self::Device(_) => {
                false
            }
        }
    }
}

fn others(enough: &[&str]) -> String {
    match enough {
        [] => "no instance has as many".to_owned(),
        names => format!("as many has {}", names.join(", ")),
    }
}
