//! What memory is wanted for.

use neuron_abi::memory::UsageType;
use serde::Serialize;

/// One term of the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Tensors of the models.
    Weights,
    /// KV cache.
    KvCache,
    /// Spill space that a core's graphs share.
    SharedScratchpad,
    /// Spill space of one graph.
    PrivateScratchpad,
    /// Instructions of the graphs.
    Code,
    /// Microcode of the cores' engines.
    Microcode,
    /// What the runtime keeps for itself.
    Runtime,
    /// Rings of the runtime.
    Rings,
    /// Buffers of collectives.
    Collectives,
}

impl Term {
    /// Every term, in the order in which a core gets them.
    pub const ALL: [Term; 9] = [
        Term::Weights,
        Term::KvCache,
        Term::SharedScratchpad,
        Term::PrivateScratchpad,
        Term::Code,
        Term::Microcode,
        Term::Runtime,
        Term::Rings,
        Term::Collectives,
    ];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Term::Weights => "weights",
            Term::KvCache => "KV cache",
            Term::SharedScratchpad => "shared scratchpad",
            Term::PrivateScratchpad => "private scratchpad",
            Term::Code => "instructions",
            Term::Microcode => "microcode",
            Term::Runtime => "runtime",
            Term::Rings => "rings",
            Term::Collectives => "collectives",
        }
    }

    /// What the allocator counts it under. Instructions are one block here, of an engine of theirs.
    pub(crate) const fn usage(self) -> UsageType {
        match self {
            Term::Weights => UsageType::Weight,
            Term::KvCache => UsageType::Tensor,
            Term::SharedScratchpad => UsageType::Scratchpad,
            Term::PrivateScratchpad => UsageType::ScratchpadNotShared,
            Term::Code => UsageType::InstrPe,
            Term::Microcode => UsageType::UcodeLib,
            Term::Runtime => UsageType::Generic,
            Term::Rings => UsageType::DmaRing,
            Term::Collectives => UsageType::Cc,
        }
    }

    /// What its blocks are aligned to, 0 for nothing: a page of scratchpad asks for 4 MiB
    /// (`spec/dmem.md` 5.2).
    pub(crate) const fn align(self) -> u64 {
        match self {
            Term::SharedScratchpad => 4 << 20,
            _ => 0,
        }
    }
}
