//! The ioctl boundary: a command word and an argument address in, an errno out
//! (`spec/abi.md`).
//!
//! | module | commands |
//! |---|---|
//! | `discovery` | what the device is and who has it open |
//! | `memory` | allocation, lookup, chunk dump |
//! | `copy` | copies, buffer copies, memset |
//! | `zerocopy` | copies with user pages, their completion queues |
//! | `engine` | DMA engines and queues |
//! | `descriptors` | descriptors that processes build |
//! | `bar` | BAR access, PROGRAM_ENGINE |
//! | `onchip` | semaphores, events, counters and metrics of the firmware |
//! | `notifications` | notification queues |
//! | `cores` | bring-up states, model locks and claims of cores |
//! | `shared` | data stores, dma-bufs, HBM scrub |
//! | `log` | texts and states for the log |
//! | `reset` | resets and initialisation states |
//! | [`mmap`] | not an ioctl, but the other way in |
//!
//! Handlers validate and translate; the work is done by the layers they call. Words
//! that no handler takes answer EINVAL and are logged.

mod bar;
mod copy;
mod cores;
mod descriptors;
mod discovery;
mod engine;
mod log;
mod memory;
pub mod mmap;
mod notifications;
mod onchip;
mod reset;
mod shared;
mod zerocopy;

use ::zerocopy::{FromBytes, Immutable, IntoBytes};
use neuron_abi::cmd::{self, Command};
use neuron_abi::errno::Errno;

use crate::core_locks::CoreLocks;
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

/// Stands for the kernel address that the shipped driver gives away: clients only use it
/// as a base for register addresses, so any value does that cannot be a pointer.
const BAR0_COOKIE: u64 = 1 << 60;

/// One call: who asks, and where the argument is.
pub(crate) struct Call<'a> {
    file: &'a OpenFile,
    /// The calling process, which need not be the one that opened the file.
    pid: i32,
    argument: u64,
    user: &'a dyn UserMemory,
}

impl Call<'_> {
    fn device(&self) -> &Device {
        self.file.device()
    }

    /// Refuses a process without a slot: what it took would never be given back.
    fn attached(&self) -> Result<(), Errno> {
        self.device().slots().usage(self.pid).map(drop).ok_or(Errno::EACCES)
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
    /// Serves one ioctl of the process that opened the file. `argument` is the third
    /// argument of `ioctl(2)`: an address in the caller's memory, which `user` reaches.
    ///
    /// # Errors
    /// The errno of `spec/abi.md` for the command; EACCES for a command that needs a
    /// process slot from a process without; EINVAL for a word that is no command of this
    /// file's lane.
    pub fn ioctl(&self, word: u32, argument: u64, user: &dyn UserMemory) -> Result<(), Errno> {
        self.ioctl_as(self.pid(), word, argument, user)
    }

    /// Serves one ioctl of process `pid`, which got the file from the one that opened it,
    /// as a forked child does. That gives it no process slot: it has one only if it opened
    /// the device itself.
    ///
    /// # Errors
    /// As [`ioctl`](Self::ioctl).
    pub fn ioctl_as(&self, pid: i32, word: u32, argument: u64, user: &dyn UserMemory) -> Result<(), Errno> {
        let call = Call { file: self, pid, argument, user };
        let Some(command) = resolve(word) else {
            tracing::warn!(word = format_args!("{word:#010x}"), pid, "unknown ioctl");
            return Err(Errno::EINVAL);
        };
        if self.mode() == OpenMode::Full {
            let gated = GATED.contains(&command.nr()) || *command == cmd::DRIVER_INFO_SET;
            if gated && self.device().slots().usage(pid).is_none() {
                return Err(Errno::EACCES);
            }
            if let Some(result) = call.full_lane(command) {
                return result;
            }
        }
        call.misc_lane(command).unwrap_or_else(|| {
            tracing::warn!(command = command.name, pid, "ioctl not served here");
            Err(Errno::EINVAL)
        })
    }
}

/// The command of a word. Most words are compared whole; some numbers are taken by size,
/// whatever the direction bits say (`spec/abi.md` 2.3, 2.4).
fn resolve(word: u32) -> Option<&'static Command> {
    if let Some(command) = cmd::lookup(word) {
        return Some(command);
    }
    if !cmd::is_neuron(word) {
        return None;
    }
    let size = cmd::size_of_word(word);
    let by_size = |command: &'static Command| (command.size() == size).then_some(command);
    match cmd::nr_of(word) {
        // Longer structures are served their first 24 bytes.
        nr if nr == cmd::DRIVER_INFO_GET.nr() && size >= cmd::DRIVER_INFO_GET.size() => {
            Some(&cmd::DRIVER_INFO_GET)
        }
        nr if nr == cmd::MEM_MC_GET_INFO.nr() => {
            by_size(&cmd::MEM_MC_GET_INFO).or_else(|| by_size(&cmd::MEM_MC_GET_INFO_V2))
        }
        nr if nr == cmd::HOST_DEVICE_ID_TO_RID_MAP.nr() => by_size(&cmd::HOST_DEVICE_ID_TO_RID_MAP),
        nr if nr == cmd::POD_INFO.nr() => by_size(&cmd::POD_INFO),
        nr if nr == cmd::POD_STATUS.nr() => {
            by_size(&cmd::POD_STATUS).or_else(|| by_size(&cmd::POD_STATUS_V2))
        }
        nr if nr == cmd::POD_CTRL.nr() => by_size(&cmd::POD_CTRL).or_else(|| by_size(&cmd::POD_CTRL_V2)),
        nr if nr == cmd::MEM_BUF_ZEROCOPY64.nr() => by_size(&cmd::MEM_BUF_ZEROCOPY64),
        _ => None,
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
            cmd::MEM_GET_EXTENDED_INFO => self.mem_get_extended_info(),
            cmd::MEM_MC_GET_INFO => self.mem_mc_get_info(),
            cmd::MEM_MC_GET_INFO_V2 => self.mem_mc_get_info_v2(),
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
            cmd::PROGRAM_ENGINE => self.program_engine(),
            cmd::PROGRAM_ENGINE_NC => self.program_engine_nc(),
            cmd::PROGRAM_ENGINE_NC64 => self.program_engine_nc64(),
            cmd::DMA_ENG_INIT | cmd::DMA_QUEUE_RELEASE | cmd::NOTIFICATIONS_DESTROY_V1 => Ok(()),
            cmd::DMA_ENG_SET_STATE => self.eng_set_state(),
            cmd::DMA_ENG_GET_STATE => self.eng_get_state(),
            cmd::DMA_QUEUE_INIT => self.queue_init(),
            cmd::DMA_QUEUE_INIT_BATCH => self.queue_init_batch(),
            cmd::DMA_QUEUE_COPY_START => self.queue_copy_start(),
            cmd::DMA_ACK_COMPLETED => self.ack_completed(),
            cmd::DMA_QUEUE_GET_STATE => self.queue_get_state(),
            cmd::DMA_COPY_DESCRIPTORS => self.copy_descriptors(),
            cmd::DMA_COPY_DESCRIPTORS64 => self.copy_descriptors64(),
            cmd::DMA_DESCRIPTOR_COPYOUT => self.descriptor_copyout(),
            // Served no longer; the kernel's entry turns its inner answer into this one.
            cmd::DMA_QUIESCE_QUEUES => Err(Errno::ENOTTY),
            cmd::MEM_BUF_ZEROCOPY64 => self.mem_buf_zerocopy64(),
            cmd::MEM_BUF_ZEROCOPY64_BATCHES => self.mem_buf_zerocopy64_batches(),
            cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES => self.async_h2t_completion_queues(),
            cmd::H2T_DMA_ALLOC_QUEUES => self.h2t_alloc_queues(),
            cmd::H2T_DMA_FREE_QUEUES => self.h2t_free_queues(),
            cmd::BAR_READ => self.bar_read(),
            cmd::BAR_WRITE => self.bar_write(),
            cmd::DEVICE_INIT | cmd::DEVICE_RELEASE => Ok(()),
            cmd::DEVICE_BDF => self.device_bdf(),
            cmd::NOTIFICATIONS_QUEUE_INFO => Err(Errno::EPERM),
            cmd::DEVICE_RESET => self.device_reset(),
            cmd::DEVICE_READY => self.device_ready(),
            cmd::DEVICE_RESET_STATUS => self.reply(&1_u8),
            cmd::NC_RESET => self.nc_reset(),
            cmd::NC_RESET_READY => self.nc_reset_ready(),
            cmd::NC_MODEL_STARTED_COUNT => self.nc_model_started_count(),
            cmd::DEVICE_INFO => self.device_info(),
            cmd::DEVICE_APP_PID => self.device_app_pid(),
            cmd::DEVICE_GET_ALL_APPS_INFO => self.device_get_all_apps_info(),
            cmd::RESOURCE_MMAP_INFO => self.resource_mmap_info(),
            cmd::SEMAPHORE_READ => self.semaphore_read(),
            cmd::SEMAPHORE_WRITE => self.semaphore_write(onchip::Semaphore::Set),
            cmd::SEMAPHORE_INCREMENT => self.semaphore_write(onchip::Semaphore::Add),
            cmd::SEMAPHORE_DECREMENT => self.semaphore_write(onchip::Semaphore::Subtract),
            cmd::EVENT_GET => self.event_get(),
            cmd::EVENT_SET => self.event_set(),
            cmd::NOTIFICATIONS_INIT_V1 => self.notifications_init_v1(),
            cmd::NOTIFICATIONS_INIT_V2 => self.notifications_init_v2(),
            cmd::NOTIFICATIONS_INIT_WITH_REALLOC_V2 => self.notifications_init_with_realloc(),
            cmd::READ_HW_COUNTERS => self.read_hw_counters(),
            cmd::POST_METRIC => self.post_metric(),
            cmd::POWER_PROFILE => self.power_profile(),
            cmd::METRICS_CTRL => self.metrics_ctrl(),
            cmd::CINIT_SET_STATE => self.cinit_set_state(),
            cmd::CRWL_READER_ENTER => self.core_lock(CoreLocks::enter_reader),
            cmd::CRWL_READER_EXIT => self.core_lock(CoreLocks::exit_reader),
            cmd::CRWL_WRITER_ENTER => self.core_lock(CoreLocks::enter_writer),
            cmd::CRWL_WRITER_DOWNGRADE => self.core_lock(CoreLocks::downgrade),
            cmd::ACQUIRE_NEURON_DS => self.acquire_data_store(),
            cmd::RELEASE_NEURON_DS => self.release_data_store(),
            cmd::HBM_SCRUB_START => self.hbm_scrub_start(),
            cmd::HBM_SCRUB_WAIT => self.hbm_scrub_wait(),
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
            cmd::HOST_DEVICE_ID_TO_RID_MAP => self.host_device_id_to_rid_map(),
            cmd::GET_LOGICAL_TO_PHYSICAL_NC_MAP => self.logical_to_physical_nc_map(),
            cmd::POD_INFO => self.pod_info(),
            cmd::POD_STATUS => self.pod_status(),
            cmd::POD_STATUS_V2 => self.pod_status_v2(),
            cmd::POD_CTRL => self.pod_ctrl(),
            cmd::POD_CTRL_V2 => self.pod_ctrl_v2(),
            cmd::DEVICE_BDF_EXT => self.device_bdf_ext(),
            cmd::DMABUF_FD => self.dmabuf_fd(),
            cmd::CRWL_NC_RANGE_MARK => self.range_mark(),
            cmd::CRWL_NC_RANGE_MARK_EXT0 => self.range_mark_ext(),
            cmd::CRWL_NC_RANGE_UNMARK => self.range_unmark(),
            cmd::CRWL_NC_RANGE_UNMARK_EXT0 => self.range_unmark_ext(),
            cmd::PRINTK => self.printk(),
            cmd::NC_PID_STATE_DUMP => self.nc_pid_state_dump(),
            _ => return None,
        })
    }
}
