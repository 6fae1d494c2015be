//! The small enumerations of the interface (spec/abi.md 8 and 11).
//!
//! The argument structs carry these as raw integers, because a caller may send anything: convert with
//! `from_raw`, which answers `None` for values that are none, and `raw`. Memory categories and usage types
//! are in [`crate::memory`].

use crate::enumeration::enumeration;

enumeration! {
    /// Which ring of a queue.
    QueueType: u32 {
        /// Memory to stream (M2S): the ring of sources.
        Tx = 0, "TX";
        /// Stream to memory (S2M): the ring of destinations.
        Rx = 1, "RX";
        /// Completion ring.
        Completion = 2, "COMPLETION";
    }

    /// Wait handle of an asynchronous copy: `pwait_handle` and `wait_handle` of
    /// [`MemCopyAsync64`](crate::arg::MemCopyAsync64).
    ///
    /// The structs carry it as `u32`: [`word`](AsyncHandle::word), [`from_word`](AsyncHandle::from_word).
    AsyncHandle: i32 {
        /// As previous handle: no previous transfer, a chain starts here. Never the handle of a transfer.
        None = -1, "NONE";
        /// The transfer is finished when the call returns.
        Sync = 0, "SYNC";
        /// First asynchronous context.
        Async1 = 1, "ASYNC1";
        /// Second asynchronous context.
        Async2 = 2, "ASYNC2";
    }

    /// On-chip block of [`ResourceMmapInfo`](crate::arg::ResourceMmapInfo).
    Block: u32 {
        /// Core.
        Tpb = 0, "TPB";
        /// TopSP.
        TopSp = 1, "TOPSP";
        /// HBM.
        Hbm = 2, "HBM";
    }

    /// Part of a [`Block`].
    Resource: u32 {
        /// Semaphores.
        Semaphore = 0, "SEMAPHORE";
        /// The whole block, read only.
        All = 1, "ALL";
        /// State buffer.
        Sbuf = 2, "SBUF";
        /// Device memory.
        Dmem = 3, "DMEM";
    }

    /// What a notification queue belongs to.
    NqDevice: u32 {
        /// NeuronCore.
        Nc = 0, "NC";
        /// TopSP.
        TopSp = 1, "TOPSP";
    }

    /// What a notification queue tells.
    NqType: u32 {
        /// Instruction trace.
        Trace = 0, "TRACE";
        /// Notifications asked for by instructions.
        Notify = 1, "NOTIFY";
        /// Events.
        Event = 2, "EVENT";
        /// Errors.
        Error = 3, "ERROR";
        /// DMA trace.
        TraceDma = 4, "TRACE_DMA";
        /// Throttling.
        Throttle = 5, "THROTTLE";
    }

    /// How the nodes of a pod are connected.
    PodType: u8 {
        /// Not in a pod.
        None = 0, "NONE";
        /// Node to node.
        P2p = 1, "P2P";
        /// Through a switch.
        Switch = 2, "SWITCH";
    }

    /// State of a pod's election.
    PodState: u32 {
        /// Not started.
        NotStarted = 0, "NOT_STARTED";
        /// Running.
        InProgress = 1, "IN_PROGRESS";
        /// The node is part of an ultraserver.
        Ultraserver = 2, "ULTRASERVER";
        /// Failed.
        Failed = 3, "FAILED";
        /// The node stands alone.
        SingleNode = 4, "SINGLE_NODE";
    }

    /// How the nodes of an ultraserver are used.
    UltraserverMode: u32 {
        /// Not set.
        Unset = 0, "UNSET";
        /// Four nodes.
        X4 = 1, "X4";
        /// Two nodes, form H.
        X2H = 2, "X2H";
        /// Two nodes, form V.
        X2V = 3, "X2V";
        /// One node.
        X1 = 4, "X1";
    }

    /// Init state of a core ([`CinitSet`](crate::arg::CinitSet), spec/abi.md 8).
    CinitState: u32 {
        /// A process is initialising it.
        Started = 1, "STARTED";
        /// Initialised.
        Completed = 2, "COMPLETED";
        /// Neither.
        Invalid = 3, "INVALID";
    }
}

impl AsyncHandle {
    /// Contexts of a ring: SYNC, ASYNC1, ASYNC2.
    pub const CONTEXTS: usize = 3;

    /// As the argument structs carry it: two's complement.
    pub const fn word(self) -> u32 {
        self.raw().cast_unsigned()
    }

    /// From an argument struct; `None` outside -1..=2, which the driver refuses with EINVAL.
    pub const fn from_word(word: u32) -> Option<AsyncHandle> {
        AsyncHandle::from_raw(word.cast_signed())
    }

    /// Handle the driver gives to a transfer whose previous one is `self` (spec/dma-op.md 5): a chain
    /// alternates between the two asynchronous contexts, a synchronous one stays synchronous.
    pub const fn next(self) -> AsyncHandle {
        match self {
            AsyncHandle::None | AsyncHandle::Async2 => AsyncHandle::Async1,
            AsyncHandle::Sync => AsyncHandle::Sync,
            AsyncHandle::Async1 => AsyncHandle::Async2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn wait_handles_cross_the_boundary_as_twos_complement() {
        assert_eq!(AsyncHandle::None.word(), u32::MAX);
        for &handle in AsyncHandle::ALL {
            assert_eq!(AsyncHandle::from_word(handle.word()), Some(handle));
        }
        for word in [3, 4, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1] {
            assert_eq!(AsyncHandle::from_word(word), None, "{word:#x}");
        }
    }

    #[test]
    fn a_chain_alternates_between_the_two_contexts() {
        let chain = [AsyncHandle::Async1, AsyncHandle::Async2, AsyncHandle::Async1, AsyncHandle::Async2];
        let mut handle = AsyncHandle::None;
        for expected in chain {
            handle = handle.next();
            assert_eq!(handle, expected);
        }
        assert_eq!(AsyncHandle::Sync.next(), AsyncHandle::Sync);
    }

    #[test]
    fn values_are_the_abis() {
        let raw = |types: &[NqType]| types.iter().map(|t| t.raw()).collect::<std::vec::Vec<_>>();
        assert_eq!(raw(NqType::ALL), [0, 1, 2, 3, 4, 5]);
        assert_eq!(CinitState::from_raw(0), None);
        assert_eq!(CinitState::from_raw(3), Some(CinitState::Invalid));
        assert_eq!(PodState::from_raw(4), Some(PodState::SingleNode));
        assert_eq!(PodState::from_raw(5), None);
        assert_eq!(QueueType::from_raw(2), Some(QueueType::Completion));
        assert_eq!(Resource::Dmem.raw(), 3);
        assert_eq!(UltraserverMode::X2V.to_string(), "X2V");
    }
}
