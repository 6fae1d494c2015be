//! Rows of the table of meant differences that only sessions meet.

use crate::vectors::Difference;

const fn row(recorded: &'static str, ours: &'static str) -> Difference {
    Difference { recorded, ours }
}

/// ioctl, `ret` > 0.
pub const RESIDUAL: Difference = row("a count of bytes not copied, or 22", "-14, or -22");
/// ioctl, range checks.
pub const RANGE_WRAPS: Difference = row("a range check that wraps around", "-22, nothing moves");
/// ioctl, `DMA_QUEUE_INIT`.
pub const UNCHECKED_INIT: Difference =
    row("queue init with an unknown handle or a count above its chunk", "-22, no access");
/// ioctl, close, `mmio`.
pub const UNCHECKED_EXIT: Difference =
    row("exit that resets a queue whose init should have been refused", "no access for it");
/// ioctl, `DMA_QUEUE_COPY_START`, `driver_faults`.
pub const START_WITHOUT_RX: Difference =
    row("copy start without an RX ring that stops the driver", "-22, no access");
/// ioctl, `MEM_ALLOC_V2MT64`, `driver_asserts`.
pub const UNATTACHED: Difference = row("allocation without a process slot that stops the driver", "-13");
/// ioctl, `MEM_ALLOC_V2MT64` with type 19 on the host, and its free.
pub const HOST_SCRATCHPAD: Difference =
    row("scratchpad pages on the host, whose free stops the driver", "-22 for both");
/// ioctl, `DRIVER_INFO_GET`.
pub const FEATURE_WORD: Difference = row("feature word 0xff", "0x1ff");
/// ioctl, `unknown_nr_129`.
pub const COMMAND_129: Difference = row("command 129 is unknown: -22", "-14: its array cannot be read");
/// ioctl, `DMA_QUIESCE_QUEUES`.
pub const REMOVED_COMMAND: Difference = row("-515 for a removed command", "-25, which is what clients see");
/// ring and ioctl, engine state.
pub const INVALID_STATE: Difference = row("engine set to an invalid state: 0", "-22, no access");
/// ring and ioctl, acknowledge.
pub const ACK_STOPS: Difference =
    row("acknowledge on a ring of no power of two that stops the driver", "-22, nothing changes");
/// `ioctl_h2t`, close, memory.
pub const RINGS_LEFT: Difference = row("requested H2T rings outlive their process", "freed at its exit");
/// `ioctl_h2t`, close, `mmio`.
pub const SERVICE_RINGS_LEFT: Difference =
    row("service rings outlive their process", "pointed at the dummy ring at its exit");
