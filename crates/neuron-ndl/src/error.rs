//! Errors of the driver layer.

use std::fmt;

use neuron_abi::errno::Errno;

use crate::version::Verdict;

/// A device operation that failed: which one, on what, the driver's errno, and what else is
/// known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdlError {
    /// The N of `/dev/neuronN`.
    pub device: u8,
    /// What was asked, in words.
    pub operation: &'static str,
    /// The driver's answer, or ours where the driver could not be asked.
    pub errno: Errno,
    /// What an errno cannot say.
    pub detail: Option<Detail>,
}

/// What an errno cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// It was the bounce buffer of this core.
    CopyBuffer {
        /// Core.
        core: u32,
    },
    /// It was the window to this HBM.
    HbmWindow {
        /// HBM.
        hbm: u32,
    },
    /// The driver and this program do not speak a common version.
    Versions(Verdict),
    /// The driver has no such command.
    NoCommand(&'static str),
    /// The driver has only the 32-bit form of the command, which cannot say this.
    Narrow,
    /// The driver can only allocate without an alignment.
    NoAlignment,
}

impl NdlError {
    /// The operation that opens a device's node, in words.
    pub(crate) const OPENING: &'static str = "opening the device";

    /// What was asked when a physical address was: an allocation whose memory is there then, and
    /// whose address is not. Its status is another one (`spec/dmem.md` 9.10).
    pub const PHYSICAL_ADDRESS: &'static str = "asking for a physical address";

    /// An errno without more.
    pub const fn new(device: u8, operation: &'static str, errno: Errno) -> Self {
        Self { device, operation, errno, detail: None }
    }

    /// The same with what else is known. What was known first stays.
    #[must_use]
    pub fn with(mut self, detail: Detail) -> Self {
        self.detail.get_or_insert(detail);
        self
    }

    /// Whether it failed because the driver is older than what was asked for: it lacks the
    /// command, or the form of it.
    pub const fn is_unsupported(&self) -> bool {
        matches!(self.detail, Some(Detail::NoCommand(_) | Detail::Narrow | Detail::NoAlignment))
    }
}

impl fmt::Display for NdlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, operation, errno, detail } = self;
        write!(f, "neuron{device}: {operation}")?;
        match detail {
            None => write!(f, ": {errno}"),
            Some(Detail::CopyBuffer { core }) => {
                write!(f, " for the bounce buffer of core {core} (2 MiB of host memory): {errno}")
            }
            Some(Detail::HbmWindow { hbm }) => write!(f, " (HBM {hbm}): {errno}"),
            // No call failed: the errno is ours and says less.
            Some(Detail::Versions(verdict)) => write!(f, ": {verdict}"),
            Some(Detail::NoCommand(name)) => {
                write!(f, ": {errno}: the driver has no {name}; a newer driver has")
            }
            Some(Detail::Narrow) => write!(
                f,
                ": {errno}: the driver's form of this command carries 32 bits, so no size and no offset \
                 above 4294967295 bytes; a newer driver carries 64"
            ),
            Some(Detail::NoAlignment) => {
                write!(f, ": {errno}: the driver cannot align; ask for 0 and align inside, or update it")
            }
        }
    }
}

impl std::error::Error for NdlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let error = NdlError::new(3, "allocating memory", Errno::ENOMEM);
        assert_eq!(error.to_string(), "neuron3: allocating memory: ENOMEM (12): out of memory");
        assert!(!error.is_unsupported());
        let buffer = error.clone().with(Detail::CopyBuffer { core: 5 });
        assert_eq!(
            buffer.to_string(),
            "neuron3: allocating memory for the bounce buffer of core 5 (2 MiB of host memory): \
             ENOMEM (12): out of memory"
        );
        let narrow = NdlError::new(0, "copying", Errno::EINVAL).with(Detail::Narrow);
        assert!(narrow.is_unsupported() && narrow.to_string().contains("4294967295"));
        assert_eq!(narrow.clone().with(Detail::NoAlignment), narrow, "the first detail stays");
    }
}
