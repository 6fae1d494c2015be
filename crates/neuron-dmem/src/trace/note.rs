//! What happens to pieces of memory, from their address to their end: what a replay needs and a
//! timeline does not show. Only sinks that [follow memory](super::Sink::follows_memory) get it.

use neuron_abi::memory::{MemLocation, UsageType};

/// Something that happened to a piece of memory, or to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// When, in nanoseconds of the trace's [`Clock`](super::Clock).
    pub time_ns: u64,
    /// Device index.
    pub device: u8,
    /// Core on the device.
    pub core: u32,
    /// What.
    pub change: Change<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Memory was asked for, and the driver has answered.
    Asked {
        /// Host or device.
        location: MemLocation,
        /// HBM; 0 for host memory.
        hbm: u32,
        /// Bytes.
        size: u64,
        /// Alignment, bytes; 0 for none.
        align: u64,
        /// For what.
        usage: UsageType,
        /// Name of the memory.
        hint: Option<&'a str>,
        /// Name of the model whose it is.
        owner: Option<&'a str>,
        /// Physical address; `None` if it was refused.
        pa: Option<u64>,
    },
    /// Memory is about to go back to the driver. Told before it does: whoever gets the address next
    /// is told after it.
    Freed {
        /// Host or device.
        location: MemLocation,
        /// Physical address.
        pa: u64,
    },
    /// A copy to or from memory begins; of a batch one for each memory in it.
    Copied {
        /// Host or device.
        location: MemLocation,
        /// Physical address of the memory, not of the bytes.
        pa: u64,
        /// To the memory, or from it.
        into: bool,
        /// Bytes.
        bytes: u64,
    },
    /// A MODEL allocator was made.
    Loading {
        /// Its label.
        model: &'a str,
    },
    /// A MODEL allocator went.
    Unloaded {
        /// Its label.
        model: &'a str,
    },
}
