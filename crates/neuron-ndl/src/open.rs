//! An open device file: commands with the errors that name them.

use neuron_abi::cmd::Command;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::backend::{DeviceFile, Mapping};
use crate::error::NdlError;

/// An open file with its number, shared by everything that was allocated through it.
pub(crate) struct OpenDevice {
    pub(crate) file: Box<dyn DeviceFile>,
    pub(crate) index: u8,
}

impl OpenDevice {
    /// Issues a command and returns the argument as the driver left it.
    ///
    /// # Safety
    /// As [`DeviceFile::ioctl`]: `T` is the command's structure, addresses in it valid.
    pub(crate) unsafe fn call<T: IntoBytes + FromBytes + Immutable>(
        &self,
        operation: &'static str,
        command: Command,
        mut argument: T,
    ) -> Result<T, NdlError> {
        // SAFETY: passed on to the caller; the length is the structure's own.
        unsafe { self.call_bytes(operation, command, argument.as_mut_bytes()) }?;
        Ok(argument)
    }

    /// As [`call`](Self::call), for arguments with a tail.
    ///
    /// # Safety
    /// As [`DeviceFile::ioctl`].
    pub(crate) unsafe fn call_bytes(
        &self,
        operation: &'static str,
        command: Command,
        argument: &mut [u8],
    ) -> Result<(), NdlError> {
        // SAFETY: passed on to the caller.
        unsafe { self.file.ioctl(command.word, argument) }.map_err(|errno| NdlError {
            device: self.index,
            operation,
            errno,
        })
    }

    pub(crate) fn map(&self, operation: &'static str, offset: u64, bytes: u64) -> Result<Mapping, NdlError> {
        self.file.mmap(offset, bytes, true).map_err(|errno| NdlError { device: self.index, operation, errno })
    }
}

impl std::fmt::Debug for OpenDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "neuron{}", self.index)
    }
}
