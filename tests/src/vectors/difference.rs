//! The differences that are meant: rows of the table "Where an implementation of the
//! spec sheets differs from these vectors" in the cases' README. A case that falls under
//! one is compared with what the row says; any other difference is a failure.

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// What is recorded, and when.
    pub recorded: &'static str,
    /// What we do instead.
    pub ours: &'static str,
}

const fn row(recorded: &'static str, ours: &'static str) -> Difference {
    Difference { recorded, ours }
}

/// arch, wait.
pub const WAIT_FACTOR: Difference = row("V3 poll budget with factor 100", "factor 400");
/// arch, `bar4_offset`.
pub const BAR4_END: Difference =
    row("BAR4 offset refused where the range ends with its channel", "the offset");
/// `ioctl_numbers`, `MEM_BUF_ZEROCOPY64`.
pub const ZEROCOPY_ARGUMENT: Difference = row("zero-copy argument of 40 bytes", "48 bytes");
/// `queue_init`.
pub const HALF_PROGRAMMED: Difference =
    row("queue init that programs TX before it refuses RX", "nothing is written");
/// memcpy, async, first row.
pub const ASYNC_TOO_LONG: Difference =
    row("async copy above one batch that is started, then refused", "refused before anything is staged");
/// memcpy, async, second row.
pub const ASYNC_CONTEXT_TAKEN: Difference =
    row("async copy that takes over a context in use", "-16; the context stays in use");
/// memcpy, async, third row.
pub const ASYNC_CONTEXT_LOST: Difference =
    row("async copy that is refused and loses its own running context", "-22; the context stays in use");
/// memcpy, timeout.
pub const TIMEOUT: Difference =
    row("timeout that answers -1 and leaves its slots taken", "-110, and the ring is programmed anew");
/// memcpy, prepare, first row.
pub const PREPARE_REFUSED: Difference = row("prepare that answers -1", "-22");
/// memcpy, prepare, second row.
pub const STRONG_ORDER_WRITE: Difference =
    row("prepare that refuses barrier 3", "bit 29 of the RX descriptor's first word");
/// memcpy, prepare, third row.
pub const UNKNOWN_BARRIER: Difference =
    row("prepare that uses up a slot for an unknown barrier", "both cursors unchanged");
/// memcpy and ring, start.
pub const START_REFUSED: Difference = row("copy start that answers -1", "-22");
/// memcpy, ring and ioctl, start.
pub const START_OF_NOTHING: Difference =
    row("copy start of 0 RX descriptors that stops the driver", "-1, no access");
