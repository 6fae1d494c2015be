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
/// memcpy, V2 timeout in a reset's window.
pub const RETRY_READ_LATE: Difference =
    row("second batch of a retry, read where the first had been", "the first batch again, from slot 0");
/// memcpy, zerocopy.
pub const ZEROCOPY_CUT: Difference = row(
    "zero-copy cut, joined and ordered as in 2.24.7",
    "the same bytes in order; cut, joined and ordered as in 2.27.4",
);
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
/// mempool.
pub const SCRATCHPAD_SIZE: Difference =
    row("scratchpad size that sums up what lives", "the distance to the lowest living page");
/// ring: `init_ncs`, `process_exit` and `queue_init` that a later driver answers otherwise.
pub const SUPERSEDED: Difference = row("a case of 2.24.7 that has a later line", "that line");
/// ring, `init_ncs`, step that fails.
pub const FAILED_BRING_UP: Difference =
    row("bring-up that fails and leaves its ring bound", "the ring is undone");
/// ring, `init_ncs`, after a close.
pub const REMADE_RING: Difference =
    row("closed core whose default ring stays allocated", "freed, and made anew when the core comes up");
/// ring, `process_exit`, core-owned engines.
pub const DEAD_OWNER: Difference =
    row("dead process that owns the queues its exit has reset", "nobody owns them");
/// ring, `process_exit`, H2T engines.
pub const H2T_ENGINE_AT_EXIT: Difference =
    row("process exit that leaves rings on H2T engines", "they are reset behind all others");
/// ring, `queue_init`, counts.
pub const OVERSIZED_RING: Difference =
    row("queue init with a ring longer than its chunk", "-22, no access, no owner");
/// ring, `queue_init`, `owner`.
pub const REFUSED_OWNER: Difference = row("refused queue init that takes the queue", "owner as before");
/// ring and ioctl, `engine_set_state`.
pub const BAD_STATE: Difference = row("engine state that cannot be set, answered with 0", "-22, no access");
/// ring and ioctl, `ack_completed`.
pub const ACKNOWLEDGE_ASSERTS: Difference =
    row("acknowledge that stops the driver for a ring of no power of two", "-22, nothing changes");
/// ring, `descriptor_info`.
pub const LOCK_HELD: Difference = row("engine lock held after a read that failed", "the lock is free");
/// ring, quiesce.
pub const QUIESCE: Difference = row("quiesce, which later drivers do not have", "not compared");
/// `ring_dynamic`, close.
pub const CLOSE_KEEPS_RING: Difference = row("closed core that keeps its default ring", "freed");
/// `ring_dynamic`, `process_exit`.
pub const EXIT_KEEPS_QUEUES: Difference =
    row("process exit that leaves requested and bound rings", "freed, or pointed at the dummy ring");
/// `ring_dynamic`, request.
pub const REQUEST_TAKES_BOUND: Difference =
    row("request that takes a queue which a process has bound", "the lowest one that nobody has");
/// `ring_dynamic`, `queue_init`.
pub const SERVICE_TAKEN_OVER: Difference =
    row("queue init on a service ring of another process", "-16, no access");
