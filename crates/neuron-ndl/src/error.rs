//! Errors of the driver layer.

use neuron_abi::errno::Errno;

/// A device operation that failed: which one, on what, and the driver's errno.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neuron{device}: {operation}: {errno}")]
pub struct NdlError {
    /// The N of `/dev/neuronN`.
    pub device: u8,
    /// What was asked, in words.
    pub operation: &'static str,
    /// The driver's answer.
    pub errno: Errno,
}
