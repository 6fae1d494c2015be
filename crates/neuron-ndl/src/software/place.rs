//! Where the bytes of a mapping, or of an exported buffer, are: in which file of memory, and at
//! which offset.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_driver::dmabuf::DmaBuf;
use neuron_driver::ioctl::mmap::Window;
use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};

use super::hardware::{Devices, SoftHardware};

/// Part of a file of memory, from an offset on.
pub(super) struct Place {
    pub(super) file: Arc<File>,
    pub(super) offset: u64,
}

impl Place {
    /// Where a window is that is to be mapped.
    ///
    /// # Errors
    /// ENODEV for registers to write, or such that nothing shows; ENOMEM where no memory is.
    pub(super) fn of(hardware: &SoftHardware, window: &Window, writable: bool) -> Result<Self, Errno> {
        let range = match window {
            Window::Host(memory) => {
                let (file, offset) = hardware.host.place(memory);
                return Ok(Self { file, offset });
            }
            Window::Bar0 { offset, bytes } => {
                let range = hardware.device.on_chip_range(*offset, *bytes);
                range.filter(|range| !(writable && range.registers)).ok_or(Errno::ENODEV)?.file
            }
            Window::Bar4 { offset, bytes } => {
                hardware.device.bar4().file_range(*offset, *bytes).map_err(|_| Errno::ENOMEM)?
            }
        };
        Ok(Self { file: range.file, offset: range.offset })
    }

    /// Where an exported buffer is.
    ///
    /// # Errors
    /// EINVAL for registers, or a device that is not up.
    pub(super) fn of_export(devices: &Devices, buffer: &DmaBuf) -> Result<Self, Errno> {
        let hardware = devices.hardware(buffer.device()).ok_or(Errno::EINVAL)?;
        match buffer.window() {
            Window::Bar0 { .. } => Err(Errno::EINVAL),
            window => Self::of(&hardware, window, false).map_err(|_| Errno::EINVAL),
        }
    }

    /// The file opened anew, with a position, the place's, and rights of its own.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn reopened(&self, writable: bool) -> Result<OwnedFd, Errno> {
        let rights = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let errno = |error: rustix::io::Errno| Errno::new(error.raw_os_error()).unwrap_or(Errno::EINVAL);
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let fd = open(path, rights | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
        seek(&fd, SeekFrom::Start(self.offset)).map_err(errno)?;
        Ok(fd)
    }
}
