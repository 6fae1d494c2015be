//! Errors of lower layers as the errno a caller sees.

use neuron_abi::errno::Errno;
use neuron_udma::UdmaError;

/// What a copy that ran out of its poll budget returns. Drivers before 2.27.4 returned
/// -1 here (`spec/dma-op.md` 13).
pub const COPY_TIMEOUT: Errno = Errno::ETIMEDOUT;

/// The errno of a UDMA error.
pub(crate) const fn udma_errno(error: UdmaError) -> Errno {
    match error {
        UdmaError::Invalid(_) => Errno::EINVAL,
        UdmaError::Refused(_) => Errno::EPERM,
        UdmaError::NoSlot => Errno::ENOMEM,
        UdmaError::Register(_) => Errno::EIO,
    }
}
