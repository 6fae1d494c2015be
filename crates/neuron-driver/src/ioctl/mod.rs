//! The ioctl boundary: a command word and an argument address in, an errno out
//! (`spec/abi.md`).
//!
//! | module | commands |
//! |---|---|
//! | `discovery` | what the device is and who has it open |
//! | `memory` | allocation, lookup, chunk dump |
//! | `copy` | copies, buffer copies, memset |
//! | [`mmap`] | not an ioctl, but the other way in |
//!
//! Handlers validate and translate; the work is done by the layers they call. Words
//! that no handler takes answer EINVAL and are logged.

mod copy;
mod discovery;
mod memory;
pub mod mmap;

use neuron_abi::cmd::{self, Command};
use neuron_abi::errno::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::device::Device;
use crate::process::{OpenFile, OpenMode};
use crate::user::{UserMemory, read_struct, write_struct};

/// Commands that need the caller to hold a process slot, by number, so that every width
/// is covered (`spec/abi.md` 2.2).
const GATED: &[u8] = &[
    cmd::DMA_ENG_INIT.nr(),
    cmd::DMA_ENG_SET_STATE.nr(),
    cmd::DMA_QUEUE_INIT.nr(),
    cmd::DMA_QUEUE_INIT_BATCH.nr(),
    cmd::DMA_ACK_COMPLETED.nr(),
    cmd::DMA_QUEUE_RELEASE.nr(),
    cmd::DMA_QUEUE_COPY_START.nr(),
    cmd::DMA_COPY_DESCRIPTORS.nr(),
    cmd::DMA_DESCRIPTOR_COPYOUT.nr(),
    cmd::MEM_ALLOC.nr(),
    cmd::MEM_ALLOC_V2.nr(),
    cmd::MEM_FREE.nr(),
    cmd::MEM_COPY.nr(),
    cmd::MEM_BUF_COPY.nr(),
    cmd::MEMSET.nr(),
    cmd::MEM_GET_PA.nr(),
    cmd::MEM_GET_INFO.nr(),
    cmd::MEM_COPY_ASYNC.nr(),
    cmd::MEM_COPY_ASYNC_WAIT.nr(),
    cmd::MEM_BUF_ZEROCOPY64.nr(),
    cmd::MEM_BUF_ZEROCOPY64_BATCHES.nr(),
    cmd::PROGRAM_ENGINE.nr(),
    cmd::PROGRAM_ENGINE_NC.nr(),
    cmd::BAR_WRITE.nr(),
    cmd::POST_METRIC.nr(),
    cmd::NOTIFICATIONS_INIT_V1.nr(),
    cmd::NOTIFICATIONS_INIT_V2.nr(),
    cmd::NOTIFICATIONS_INIT_WITH_REALLOC_V2.nr(),
    cmd::H2T_DMA_ALLOC_QUEUES.nr(),
    cmd::H2T_DMA_FREE_QUEUES.nr(),
];

/// One call: who asks, and where the argument is.
pub(crate) struct Call<'a> {
    file: &'a OpenFile,
    argument: u64,
    user: &'a dyn UserMemory,
}

impl Call<'_> {
    fn device(&self) -> &Device {
        self.file.device()
    }

    fn read<T: FromBytes + IntoBytes>(&self) -> Result<T, Errno> {
        read_struct(self.user, self.argument)
    }

    fn reply<T: IntoBytes + Immutable>(&self, value: &T) -> Result<(), Errno> {
        write_struct(self.user, self.argument, value)
    }

    fn write<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result<(), Errno> {
        write_struct(self.user, address, value)
    }
}

impl OpenFile {
    /// Serves one ioctl. `argument` is the third argument of `ioctl(2)`: an address in
    /// the caller's memory, which `user` reaches.
    ///
    /// # Errors
    /// The errno of `spec/abi.md` for the command; EACCES for a command that needs a
    /// process slot from a process without; EINVAL for a word that is no command of this
    /// file's lane.
    pub fn ioctl(&self, word: u32, argument: u64, user: &dyn UserMemory) -> Result<(), Errno> {
        let call = Call { file: self, argument, user };
        let Some(command) = cmd::lookup(word) else {
            tracing::warn!(word = format_args!("{word:#010x}"), pid = self.pid(), "unknown ioctl");
            return Err(Errno::EINVAL);
        };
        if self.mode() == OpenMode::Full {
            let gated = GATED.contains(&command.nr()) || *command == cmd::DRIVER_INFO_SET;
            if gated && self.device().slots().usage(self.pid()).is_none() {
                return Err(Errno::EACCES);
            }
            if let Some(result) = call.full_lane(command) {
                return result;
            }
        }
        call.misc_lane(command).unwrap_or_else(|| {
            tracing::warn!(command = command.name, pid = self.pid(), "ioctl not served here");
            Err(Errno::EINVAL)
        })
    }
}

impl Call<'_> {
    /// Commands of files opened for reading; `None` if it is none.
    fn full_lane(&self, command: &Command) -> Option<Result<(), Errno>> {
        Some(match *command {
            cmd::MEM_ALLOC => self.mem_alloc(),
            cmd::MEM_ALLOC_V2 => self.mem_alloc_v2(),
            cmd::MEM_ALLOC_V2MT => self.mem_alloc_v2_mem_type(),
            cmd::MEM_ALLOC_V2MT64 => self.mem_alloc_v2_mem_type64(),
            cmd::MEM_FREE => self.mem_free(),
            cmd::MEM_GET_PA => self.mem_get_pa(),
            cmd::MEM_GET_INFO => self.mem_get_info(),
            cmd::DUMP_MEM_CHUNKS => self.dump_mem_chunks(),
            cmd::MEM_COPY => self.mem_copy(),
            cmd::MEM_COPY64 => self.mem_copy64(),
            cmd::MEM_COPY_ASYNC => self.mem_copy_async(),
            cmd::MEM_COPY_ASYNC64 => self.mem_copy_async64(),
            cmd::MEM_COPY_ASYNC_WAIT => self.mem_copy_async_wait(),
            cmd::MEM_BUF_COPY => self.mem_buf_copy(),
            cmd::MEM_BUF_COPY64 => self.mem_buf_copy64(),
            cmd::MEMSET => self.memset(),
            cmd::MEMSET64 => self.memset64(),
            cmd::DEVICE_INFO => self.device_info(),
            cmd::DEVICE_APP_PID => self.device_app_pid(),
            cmd::DEVICE_GET_ALL_APPS_INFO => self.device_get_all_apps_info(),
            cmd::HOST_DEVICE_ID => self.reply(&u32::from(self.device().index())),
            _ => return None,
        })
    }

    /// Commands of every file; `None` if it is none.
    fn misc_lane(&self, command: &Command) -> Option<Result<(), Errno>> {
        Some(match *command {
            cmd::DEVICE_BASIC_INFO => self.device_basic_info(),
            cmd::DRIVER_INFO_GET => self.driver_info(),
            cmd::DRIVER_INFO_SET => Err(Errno::ENOTSUPP),
            cmd::COMPATIBLE_VERSION => self.compatible_version(),
            _ => return None,
        })
    }
}
