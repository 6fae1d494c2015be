//! The kinds of allocators (seed 000 §1).

/// What an allocator's handles belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocatorKind {
    /// A core, for as long as the runtime runs.
    Global,
    /// One model.
    Model,
}
