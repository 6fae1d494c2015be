//! Status codes of the runtime's public functions (`NRT_STATUS`; spec/dmem.md 3, spec/nrt-abi.md 2).
//!
//! Not errnos: those are in [`crate::errno`]. Which call answers which status is the runtime's business.

use crate::enumeration::enumeration;

enumeration! {
    /// What a runtime call answers. Values may be added by later runtimes: a client must expect numbers
    /// that are none of these.
    NrtStatus: u32 {
        /// Done.
        Success = 0, "NRT_SUCCESS";
        /// Failed: any errno but ENOMEM, a copy that failed, no bounce buffer.
        Failure = 1, "NRT_FAILURE";
        /// An argument is not valid, a usage type is not allowed where it was asked for.
        Invalid = 2, "NRT_INVALID";
        /// A handle is not valid.
        InvalidHandle = 3, "NRT_INVALID_HANDLE";
        /// Out of device memory, of memory for the handle, or of another resource.
        Resource = 4, "NRT_RESOURCE";
        /// Timed out.
        Timeout = 5, "NRT_TIMEOUT";
        /// Hardware error.
        HwError = 6, "NRT_HW_ERROR";
        /// Queue full.
        QueueFull = 7, "NRT_QUEUE_FULL";
        /// Not enough cores to load.
        LoadNotEnoughNc = 9, "NRT_LOAD_NOT_ENOUGH_NC";
        /// The model file's version is not supported.
        UnsupportedNeffVersion = 10, "NRT_UNSUPPORTED_NEFF_VERSION";
        /// Out of host memory; not for new use elsewhere.
        FailHostMemAlloc = 11, "NRT_FAIL_HOST_MEM_ALLOC";
        /// The runtime is not initialised.
        Uninitialized = 13, "NRT_UNINITIALIZED";
        /// The runtime was closed.
        Closed = 14, "NRT_CLOSED";
        /// Queue empty.
        QueueEmpty = 15, "NRT_QUEUE_EMPTY";
        /// The execution unit cannot recover.
        ExecUnitUnrecoverable = 101, "NRT_EXEC_UNIT_UNRECOVERABLE";
        /// Execution: bad input.
        ExecBadInput = 1002, "NRT_EXEC_BAD_INPUT";
        /// Execution completed with numerical errors.
        ExecCompletedWithNumErr = 1003, "NRT_EXEC_COMPLETED_WITH_NUM_ERR";
        /// Execution completed with errors.
        ExecCompletedWithErr = 1004, "NRT_EXEC_COMPLETED_WITH_ERR";
        /// Execution: the core is busy.
        ExecNcBusy = 1005, "NRT_EXEC_NC_BUSY";
        /// Execution: out-of-bounds access.
        ExecOob = 1006, "NRT_EXEC_OOB";
        /// A collective is pending.
        CollPending = 1100, "NRT_COLL_PENDING";
        /// Execution: hardware error in collectives.
        ExecHwErrCollectives = 1200, "NRT_EXEC_HW_ERR_COLLECTIVES";
        /// Execution: uncorrectable HBM error.
        ExecHwErrHbmUe = 1201, "NRT_EXEC_HW_ERR_HBM_UE";
        /// Execution: uncorrectable core error.
        ExecHwErrNcUe = 1202, "NRT_EXEC_HW_ERR_NC_UE";
        /// Execution: a DMA engine aborted.
        ExecHwErrDmaAbort = 1203, "NRT_EXEC_HW_ERR_DMA_ABORT";
        /// Execution: a notification queue overflowed.
        ExecSwNqOverflow = 1204, "NRT_EXEC_SW_NQ_OVERFLOW";
        /// Execution: uncorrectable but repairable HBM error.
        ExecHwErrRepairableHbmUe = 1205, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE";
        /// A network proxy failed.
        NetworkProxyFailure = 1206, "NRT_NETWORK_PROXY_FAILURE";
    }
}

#[cfg(test)]
mod tests {
    use super::NrtStatus;
    use std::string::ToString;

    #[test]
    fn gaps_in_the_numbering_are_no_status() {
        for raw in [8, 12, 16, 100, 1001, 1207, u32::MAX] {
            assert_eq!(NrtStatus::from_raw(raw), None, "{raw}");
        }
    }

    #[test]
    fn numbers_and_symbols_pair_up() {
        assert_eq!(NrtStatus::from_raw(4), Some(NrtStatus::Resource));
        assert_eq!(NrtStatus::Resource.to_string(), "NRT_RESOURCE");
        assert_eq!(NrtStatus::FailHostMemAlloc.raw(), 11);
        assert_eq!(NrtStatus::from_raw(1205).map(NrtStatus::name), Some("NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE"));
        assert_eq!(NrtStatus::ALL.len(), 28);
        for &status in NrtStatus::ALL {
            assert_eq!(NrtStatus::from_raw(status.raw()), Some(status));
        }
    }
}
