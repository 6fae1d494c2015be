//! What a core costs before any model is on it (`spec/report.md` 4.1). Samples from logs, not
//! constants of the hardware: answers name them, and each can be replaced.

/// Bytes for each physical core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Microcode.
    pub microcode: u64,
    /// The runtime's own.
    pub runtime: u64,
    /// Rings of the runtime.
    pub rings: u64,
    /// Collectives: on the first core of a pair only, and only where cores work together.
    pub collectives: u64,
}

impl Costs {
    /// As runtimes of 2026 report it.
    pub const OF_2026: Self =
        Self { microcode: 1_772_093, runtime: 570_368, rings: 28_672, collectives: 92_274_688 };
    /// As runtimes of 2025 report it.
    pub const OF_2025: Self = Self { microcode: 100_669_588, runtime: 13_376, rings: 28_672, collectives: 0 };
}

impl Default for Costs {
    fn default() -> Self {
        Self::OF_2026
    }
}
