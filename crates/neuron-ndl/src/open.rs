//! An open device file: commands with the errors that name them.

use neuron_abi::cmd::Command;
use neuron_abi::errno::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::backend::{DeviceFile, Mapping};
use crate::compat::Compat;
use crate::error::NdlError;

/// An open file with its number and what is known of the driver behind it, shared by everything
/// that was allocated through it.
pub(crate) struct OpenDevice {
    pub(crate) file: Box<dyn DeviceFile>,
    pub(crate) index: u8,
    pub(crate) compat: Compat,
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
        let answer = unsafe { self.file.ioctl(command.word, argument) };
        answer.map_err(|errno| self.failed(operation, errno))
    }

    pub(crate) fn map(&self, operation: &'static str, offset: u64, bytes: u64) -> Result<Mapping, NdlError> {
        self.map_as(operation, offset, bytes, true)
    }

    pub(crate) fn map_as(
        &self,
        operation: &'static str,
        offset: u64,
        bytes: u64,
        writable: bool,
    ) -> Result<Mapping, NdlError> {
        self.file.mmap(offset, bytes, writable).map_err(|errno| self.failed(operation, errno))
    }

    pub(crate) const fn failed(&self, operation: &'static str, errno: Errno) -> NdlError {
        NdlError::new(self.index, operation, errno)
    }
}

impl std::fmt::Debug for OpenDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "neuron{}", self.index)
    }
}
