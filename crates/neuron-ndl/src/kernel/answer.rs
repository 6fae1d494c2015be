//! What a return value means, and which interrupted calls may be made again.

use neuron_abi::cmd;
use neuron_abi::errno::Errno;

/// What a non-negative return of ioctl says. The shipped driver returns positive numbers on
/// failure, so everything but 0 is one (`spec/abi.md` 2.5).
///
/// # Errors
/// EINVAL for a bad handle of `MEM_GET_EXTENDED_INFO`, which is told so; EBUSY for a core reset
/// that is still pending; else EFAULT: bytes that could not be copied from or to the caller.
pub(super) fn answer(word: u32, returned: i32) -> Result<(), Errno> {
    const EXTENDED_INFO: u8 = cmd::MEM_GET_EXTENDED_INFO.nr();
    const NC_RESET: u8 = cmd::NC_RESET.nr();
    match (returned, cmd::nr_of(word)) {
        (0, _) => Ok(()),
        // 48 is what is left of an argument that cannot be read, not an errno.
        (22, EXTENDED_INFO) => Err(Errno::EINVAL),
        (1, NC_RESET) => Err(Errno::EBUSY),
        _ => Err(Errno::EFAULT),
    }
}

/// Commands that only tell: asking twice is asking once.
const ONLY_TELL: &[u8] = &[
    cmd::DEVICE_INFO.nr(),
    cmd::DEVICE_APP_PID.nr(),
    cmd::DEVICE_GET_ALL_APPS_INFO.nr(),
    cmd::MEM_GET_PA.nr(),
    cmd::MEM_GET_INFO.nr(),
    cmd::DMA_ENG_GET_STATE.nr(),
    cmd::DMA_QUEUE_GET_STATE.nr(),
    cmd::COMPATIBLE_VERSION.nr(),
    cmd::DEVICE_BASIC_INFO.nr(),
    cmd::DEVICE_BDF.nr(),
    cmd::DRIVER_INFO_GET.nr(),
    cmd::MEM_MC_GET_INFO.nr(),
    cmd::RESOURCE_MMAP_INFO.nr(),
    cmd::HOST_DEVICE_ID.nr(),
    cmd::HOST_DEVICE_ID_TO_RID_MAP.nr(),
    cmd::DUMP_MEM_CHUNKS.nr(),
    cmd::GET_LOGICAL_TO_PHYSICAL_NC_MAP.nr(),
    cmd::POD_INFO.nr(),
    cmd::POD_STATUS.nr(),
    cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES.nr(),
];

/// Whether an interrupted command may be made again (our choice: the driver's sources name one
/// EINTR, that of open).
///
/// Only those that tell. A copy may have been started and, an asynchronous one, hold a context;
/// memory may have been freed, and its handle be another thread's by now; a wait may have
/// released its context. Those tell EINTR, and the caller knows what it asked for.
/// `MEM_GET_EXTENDED_INFO` is not among them: it overwrites the handle in its argument.
pub(super) fn may_repeat(word: u32) -> bool {
    ONLY_TELL.contains(&cmd::nr_of(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_return_but_0_is_a_failure() {
        for command in cmd::ALL {
            assert_eq!(answer(command.word, 0), Ok(()));
            for returned in [2, 8, 48, 4096, i32::MAX] {
                assert!(answer(command.word, returned).is_err(), "{} {returned}", command.name);
            }
        }
        assert_eq!(answer(cmd::MEM_GET_EXTENDED_INFO.word, 22), Err(Errno::EINVAL));
        assert_eq!(answer(cmd::MEM_GET_EXTENDED_INFO.word, 48), Err(Errno::EFAULT));
        assert_eq!(answer(cmd::MEM_COPY64.word, 22), Err(Errno::EFAULT));
        assert_eq!(answer(cmd::NC_RESET.word, 1), Err(Errno::EBUSY));
        assert_eq!(answer(cmd::MEM_ALLOC_V2.word, 40), Err(Errno::EFAULT));
    }

    #[test]
    fn nothing_that_changes_a_device_is_repeated() {
        for command in [
            cmd::MEM_ALLOC,
            cmd::MEM_ALLOC_V2MT64,
            cmd::MEM_FREE,
            cmd::MEM_COPY,
            cmd::MEM_COPY64,
            cmd::MEM_COPY_ASYNC64,
            cmd::MEM_COPY_ASYNC_WAIT,
            cmd::MEM_BUF_COPY64,
            cmd::MEM_BUF_ZEROCOPY64,
            cmd::MEM_BUF_ZEROCOPY64_BATCHES,
            cmd::MEMSET64,
            cmd::MEM_GET_EXTENDED_INFO,
            cmd::DMABUF_FD,
            cmd::HBM_SCRUB_START,
            cmd::HBM_SCRUB_WAIT,
            cmd::NC_RESET,
            cmd::NC_RESET_READY,
            cmd::DMA_QUEUE_INIT,
            cmd::SEMAPHORE_INCREMENT,
        ] {
            assert!(!may_repeat(command.word), "{}", command.name);
        }
        assert!(may_repeat(cmd::DEVICE_INFO.word) && may_repeat(cmd::MEM_GET_PA.word));
    }
}
