//! Why an allocation found no room: one of a few kinds, and one sentence.

use neuron_abi::arch::PAGE_SIZE;

use super::bytes::UsageBytes;
use super::figures::{bytes, short};
use super::snapshot::{Asked, Cause, CauseKind, HbmState};
use crate::room::Room;

impl Cause {
    /// The cause of a host failure.
    pub(super) fn host(asked: &Asked) -> Self {
        let sentence = format!(
            "No contiguous block of {} that the device can reach is free on the host; ask for smaller blocks.",
            bytes(asked.size)
        );
        Self { kind: CauseKind::HostContiguous, sentence }
    }

    /// The cause of a device failure.
    pub(super) fn device(asked: &Asked, state: &HbmState) -> Self {
        let kind = state.room.as_ref().map_or(CauseKind::Unknown, |room| CauseKind::of(asked.size, room));
        Self { kind, sentence: sentence(kind, asked, state) }
    }
}

impl CauseKind {
    /// Why `size` bytes found no place in `room`, whose `largest_aligned_hole`s are for the
    /// alignment asked for. The driver allocates whole pages.
    pub fn of(size: u64, Room { main, small, .. }: &Room) -> Self {
        let needed = size.checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX);
        let pools = [main, small];
        let left = main.left().saturating_add(small.left());
        if pools.iter().all(|pool| pool.size < needed) {
            Self::LargerThanPool
        } else if left < needed {
            Self::Capacity
        } else if pools.iter().all(|pool| pool.left() < needed) {
            Self::PoolSplit
        } else if pools.iter().all(|pool| pool.largest_hole < needed) {
            Self::Fragmentation
        } else if pools.iter().all(|pool| pool.largest_aligned_hole < needed) {
            Self::Alignment
        } else {
            Self::FitsNow
        }
    }
}

fn sentence(kind: CauseKind, asked: &Asked, state: &HbmState) -> String {
    let hbm = state.hbm;
    let room = state.room.unwrap_or_default();
    let (main, small) = (room.main, room.small);
    let size = bytes(asked.size);
    let largest = main.largest_hole.max(small.largest_hole);
    match kind {
        CauseKind::LargerThanPool => format!(
            "A block of {size} is larger than any pool of HBM {hbm}, whose main one has {}: split it.",
            bytes(main.size)
        ),
        CauseKind::Capacity => {
            let left = main.left().saturating_add(small.left());
            // A request of less than a page needs a whole one.
            let missing = asked.size.saturating_sub(left).max(1);
            format!(
                "HBM {hbm} has {} left, {} less than was asked for; {}: free some of it, or spread the \
                 load over more cores.",
                bytes(left),
                short(missing),
                who(state)
            )
        }
        CauseKind::PoolSplit => format!(
            "HBM {hbm} has {} left in its main pool and {} in its small one, and a block must fit into \
             one of them: {}.",
            bytes(main.left()),
            bytes(small.left()),
            who(state)
        ),
        CauseKind::Fragmentation => {
            let (name, left) =
                if main.left() >= small.left() { ("main", main.left()) } else { ("small", small.left()) };
            format!(
                "HBM {hbm} has {} left in its {name} pool but in pieces of {} at most: free what lies \
                 between them, or allocate the largest blocks first.",
                bytes(left),
                bytes(largest)
            )
        }
        CauseKind::Alignment => format!(
            "HBM {hbm} has a piece of {}, but none with {size} from a multiple of {}: ask for a smaller \
             alignment, or allocate aligned blocks first.",
            bytes(largest),
            bytes(asked.align)
        ),
        CauseKind::FitsNow => format!(
            "HBM {hbm} now has a piece of {} that would do: memory was freed after the refusal, so try \
             again.",
            bytes(largest)
        ),
        CauseKind::Unknown => format!(
            "What is left on HBM {hbm} is not known, since this driver cannot list it; {}.",
            who(state)
        ),
        // Host failures have no HBM.
        CauseKind::HostContiguous => Cause::host(asked).sentence,
    }
}

/// Who has most of an HBM.
fn who(state: &HbmState) -> String {
    let total: UsageBytes = state.total();
    let others = state.others.unwrap_or(0);
    match total.biggest().first() {
        Some((category, count)) if *count >= others => {
            let of = if others == 0 { "" } else { " of this process" };
            format!("what fills it is mostly {category}{of}, {}", bytes(*count))
        }
        _ if others > 0 => format!("what fills it is mostly not this process's, {}", bytes(others)),
        _ => "this process has nothing on it".to_owned(),
    }
}
