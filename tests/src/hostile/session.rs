//! One device, a victim, and hostile processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_abi::arch::{Generation, PAGE_SIZE};
use neuron_abi::arg;
use neuron_abi::cmd::{self, Command};
use neuron_abi::memory::Category;
use neuron_driver::hw::VirtualClock;
use neuron_driver::pool::HbmUse;
use neuron_driver::{Device, OpenFile, OpenMode, Params};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::DeviceConfig;
use vm_memory::{Bytes, VolatileMemory};

use super::fields::{self, Kind, number};
use super::generator::{ARGUMENT, BUFFERS, Call, Event, Generator, Known, PAGES};
use super::victim::{VICTIM, Victim};
use super::watched::{Reach, Watched};
use crate::client::Client;
use crate::machine::UserPages;
use crate::machine::registers::product;
use crate::vectors::Mismatch;

/// Whether hostile processes hold process slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// They open the device, and may do what a process may.
    Attached,
    /// They have the victim's file, as after a fork, and files for discovery.
    Inherited,
}

/// Bytes of each channel that a scrub reaches: the firmware's and some more.
const SCRUB: u64 = 20 << 20;
/// Where user pages are in physical memory: above the machine's own.
const PHYSICAL: u64 = 0x1_8000_0000;
/// First process id of hostile processes.
const FIRST_PID: i32 = 700;
/// Open files at most: more only take the slots.
const FILES: usize = 10;
/// Handles and chunks that are remembered.
const REMEMBERED: usize = 24;

/// Commands, by number, that succeed for a process without a slot (`spec/abi.md` 2.2): they
/// tell, reset, or touch what the chip shares anyway.
const OPEN_TO_ALL: &[Command] = &[
    cmd::DEVICE_RESET,
    cmd::DEVICE_READY,
    cmd::DEVICE_INFO,
    cmd::DEVICE_INIT,
    cmd::DEVICE_RELEASE,
    cmd::DEVICE_APP_PID,
    cmd::DEVICE_GET_ALL_APPS_INFO,
    cmd::BAR_READ,
    cmd::MEM_GET_EXTENDED_INFO,
    cmd::DMA_ENG_GET_STATE,
    cmd::DMA_QUEUE_GET_STATE,
    cmd::NOTIFICATIONS_DESTROY_V1,
    cmd::NC_MODEL_STARTED_COUNT,
    cmd::COMPATIBLE_VERSION,
    cmd::DEVICE_BASIC_INFO,
    cmd::DEVICE_BDF,
    cmd::NC_RESET,
    cmd::NC_RESET_READY,
    cmd::DEVICE_RESET_STATUS,
    cmd::DRIVER_INFO_GET,
    cmd::MEM_MC_GET_INFO,
    cmd::HOST_DEVICE_ID,
    cmd::HOST_DEVICE_ID_TO_RID_MAP,
    cmd::DUMP_MEM_CHUNKS,
    cmd::GET_LOGICAL_TO_PHYSICAL_NC_MAP,
    cmd::POD_INFO,
    cmd::POD_STATUS,
    cmd::POD_CTRL,
    cmd::SEMAPHORE_INCREMENT,
    cmd::SEMAPHORE_DECREMENT,
    cmd::SEMAPHORE_READ,
    cmd::SEMAPHORE_WRITE,
    cmd::EVENT_SET,
    cmd::EVENT_GET,
    cmd::READ_HW_COUNTERS,
    cmd::CINIT_SET_STATE,
    cmd::CRWL_NC_RANGE_MARK,
    cmd::CRWL_NC_RANGE_UNMARK,
    cmd::DEVICE_BDF_EXT,
    cmd::RESOURCE_MMAP_INFO,
    cmd::PRINTK,
    cmd::NC_PID_STATE_DUMP,
    cmd::ACQUIRE_NEURON_DS,
    cmd::RELEASE_NEURON_DS,
    cmd::POWER_PROFILE,
    cmd::METRICS_CTRL,
    cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES,
];

/// What is in use: of host memory, and of each channel.
type Use = (u64, Vec<HbmUse>);

/// A device under attack.
pub struct Session {
    device: Arc<Device>,
    engines: Arc<neuron_softdev::Device>,
    host: Arc<HostMemory>,
    idle: Use,
    attachment: Attachment,
    victim: Victim,
    files: Vec<OpenFile>,
    user: UserPages,
    known: Known,
    calls: u64,
    succeeded: BTreeMap<&'static str, u64>,
}

impl Session {
    /// A device that just came up, with a victim on it.
    ///
    /// # Errors
    /// If the device does not come up.
    pub fn new(generation: Generation, attachment: Attachment) -> Result<Self, Mismatch> {
        let told = |what: &str, error: &dyn std::fmt::Display| Mismatch::new(format!("{what}: {error}"));
        let host = Arc::new(HostMemory::new().map_err(|error| told("host memory", &error))?);
        let engines = neuron_softdev::Device::new(DeviceConfig::new(product(generation)))
            .map_err(|error| told("software device", &error))?;
        let hardware = Arc::new(SoftHardware::new(Arc::clone(&engines), Arc::clone(&host)));
        // A scrub writes all that it scrubs.
        let params = Params { scrub_bytes: Some(SCRUB), ..Params::default() };
        let device = Device::probe(hardware, Arc::new(VirtualClock::default()), params)
            .map_err(|error| told("probe", &error))?;
        // Messages to the firmware have memory from the first one on.
        let first = Client::open(&device)?;
        first.space().map(BUFFERS[0].0, vec![0; 8]);
        first.call(
            &cmd::POST_METRIC,
            &mut arg::PostMetric { data: BUFFERS[0].0, data_size: 8, ..Default::default() },
        );
        drop(first);
        let idle = in_use(&device, &host);
        let victim = Victim::new(&device)?;
        let mut known = Known::default();
        if attachment == Attachment::Inherited {
            // It can do nothing with them, so let it try.
            known.handles = victim.handles().collect();
            known.chunks = victim.chunks().collect();
        }
        known.pids = vec![VICTIM, FIRST_PID, FIRST_PID + 1, 0];
        // Every other page lies apart from its neighbour.
        let pages = PAGES.1 as u64 / PAGE_SIZE;
        let runs: Vec<_> = (0..pages).map(|page| (PHYSICAL + (page + page / 2) * PAGE_SIZE, 1)).collect();
        let user = UserPages::new(&runs)?;
        engines.set_dma_table(user.dma_table(&host)?);
        for (address, bytes) in BUFFERS {
            user.space().map(address, vec![0; bytes]);
        }
        let (files, calls, succeeded) = (Vec::new(), 0, BTreeMap::new());
        Ok(Self { device, engines, host, idle, attachment, victim, files, user, known, calls, succeeded })
    }

    /// Calls made.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// How many of the victim's chunks nobody who may has named.
    pub fn watched(&self) -> usize {
        self.victim.watched()
    }

    /// How many of each command succeeded.
    pub const fn succeeded(&self) -> &BTreeMap<&'static str, u64> {
        &self.succeeded
    }

    /// The next event. False when there is none.
    ///
    /// # Errors
    /// If a call went where it must not, or succeeded where it must not.
    pub fn step(&mut self, generator: &mut Generator) -> Result<bool, Mismatch> {
        let Some(event) = generator.event(&self.known) else { return Ok(false) };
        match event {
            Event::Open { pid, misc } => self.open(pid, misc),
            Event::Close { file } => {
                if let Some(index) = (file as usize).checked_rem(self.files.len()) {
                    drop(self.files.swap_remove(index));
                }
            }
            Event::Call { file, inherited, call } => {
                self.call(file as usize, inherited, &call).map_err(|error| error.at(format!("{call:x?}")))?;
            }
        }
        Ok(true)
    }

    fn open(&mut self, pid: u64, misc: bool) {
        let misc = misc || self.attachment == Attachment::Inherited;
        let mode = if misc { OpenMode::Misc } else { OpenMode::Full };
        if self.files.len() < FILES {
            let opened = OpenFile::open(&self.device, FIRST_PID + pid as i32, mode).ok();
            self.files.extend(opened);
        }
    }

    fn call(&mut self, pick: usize, inherited: bool, call: &Call) -> Result<(), Mismatch> {
        if self.attachment == Attachment::Attached {
            self.victim.note(call);
        }
        // Own files reach everything or nothing of interest.
        let others = match self.attachment {
            Attachment::Attached => pick == 0,
            Attachment::Inherited => !pick.is_multiple_of(4),
        };
        let own = if others { None } else { pick.checked_rem(self.files.len()) };
        let (file, pid) = match (self.attachment, own.and_then(|index| self.files.get(index))) {
            (_, Some(file)) => (file, if inherited { FIRST_PID + 1 } else { file.pid() }),
            (Attachment::Inherited, None) => (self.victim.client().file(), FIRST_PID),
            // Whoever is attached may call through the victim's file too.
            (Attachment::Attached, None) => (self.victim.client().file(), FIRST_PID + (pick % 8) as i32),
        };
        let mut argument = call.argument.clone();
        argument.truncate(call.mapped);
        self.user.space().map(ARGUMENT, argument);
        let (buffer, bytes) = &call.buffer;
        put(self.user.space(), *buffer, bytes);
        let watched = Watched::new(&self.user, Reach::of(call.word, ARGUMENT, &call.argument));
        let answer = file.ioctl_as(pid, call.word, ARGUMENT, &watched);
        self.calls += 1;
        if let Some(strayed) = watched.strayed() {
            return Err(Mismatch::new(strayed));
        }
        if answer.is_err() {
            return Ok(());
        }
        let name = cmd::lookup(call.word).map_or("by number", |command| command.name);
        *self.succeeded.entry(name).or_default() += 1;
        let open = OPEN_TO_ALL.iter().any(|command| command.nr() == cmd::nr_of(call.word));
        if self.attachment == Attachment::Inherited && !open {
            return Err(Mismatch::new("succeeded without a process slot"));
        }
        self.learn(call);
        Ok(())
    }

    /// A call succeeded: what it told is known now.
    fn learn(&mut self, call: &Call) {
        let Some(command) = cmd::lookup(call.word) else { return };
        if *command == cmd::DMA_QUEUE_INIT {
            let [engine, qid] = [0, 4].map(|offset| number(&call.argument, offset, 4) as u32);
            remember(&mut self.known.queues, (engine, qid));
        }
        let allocation = matches!(
            *command,
            cmd::MEM_ALLOC | cmd::MEM_ALLOC_V2 | cmd::MEM_ALLOC_V2MT | cmd::MEM_ALLOC_V2MT64
        );
        let told = fields::of(command).iter().find(|field| matches!(field.kind, Kind::Out(_)));
        let Some(told) = told.filter(|_| allocation) else { return };
        let address = number(&call.argument, told.offset, told.width);
        let Ok(bytes) = self.user.space().bytes(address, 8) else { return };
        let handle = number(&bytes, 0, 8);
        if let Ok(chunk) = self.device.pools().lookup(handle) {
            remember(&mut self.known.handles, handle);
            remember(&mut self.known.chunks, (chunk.pa(), chunk.size()));
        }
    }

    /// The victim is unharmed, and counters add up.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self) -> Result<(), Mismatch> {
        self.victim.is_unharmed(&self.device, |pa, len| self.bytes(pa, len))?;
        let (pools, geometry) = (self.device.pools(), self.device.geometry());
        let mut on_device = 0;
        for (channel, hbm) in (0..).zip(geometry.hbm) {
            let chunks: u64 = pools.device_chunks(channel).iter().map(|(_, bytes, _)| bytes).sum();
            let used = pools.hbm(channel).map_or(0, |used| used.allocated);
            let main = geometry.main_pool(channel).map_or(0, |main| main.end - main.start);
            let scratchpad = pools.hbm(channel).map_or(0, |used| used.scratchpad);
            if chunks != used || used > hbm.size || scratchpad > main {
                return Err(Mismatch::new(format!("channel {channel}: {used} in use, {chunks} in chunks")));
            }
            on_device += used;
        }
        let cores: Vec<_> = (0..8).map(|core| pools.core_counters(core)).collect();
        let by_core =
            cores.iter().fold((0, 0), |(host, device), core| (host + core.0.total, device + core.1.total));
        let categories = (0..Category::COUNT).filter_map(Category::from_raw);
        let by_category: u64 = categories.map(|category| pools.host_counter(category).total).sum();
        if by_core != (by_category, on_device) || by_category > self.host.in_use() {
            let host = self.host.in_use();
            return Err(Mismatch::new(format!(
                "by core {by_core:?}, {by_category} of {host} host, {on_device} device"
            )));
        }
        Ok(())
    }

    /// Bytes at a bus address; none where there is no memory.
    fn bytes(&self, pa: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = match self.device.pools().at_address(pa) {
            Some(chunk) if !chunk.is_device() => chunk
                .host_slice()
                .and_then(|slice| slice.subslice((pa - chunk.pa()) as usize, len).ok())
                .is_some_and(|slice| slice.read_slice(&mut bytes, 0).is_ok()),
            _ => self
                .device
                .geometry()
                .bar4_offset(pa, len as u64)
                .and_then(|offset| self.engines.bar4().region(offset, len as u64).ok())
                .is_some_and(|(region, offset)| {
                    let slice = region.get_slice(offset as usize, len);
                    slice.is_ok_and(|slice| slice.read_slice(&mut bytes, 0).is_ok())
                }),
        };
        if read { bytes } else { Vec::new() }
    }

    /// Everybody leaves: the victim last, which finds a device that works. Nothing is left.
    ///
    /// # Errors
    /// If something is.
    pub fn end(mut self) -> Result<(), Mismatch> {
        self.check()?;
        self.files.clear();
        self.check().map_err(|error| error.at("after they left"))?;
        self.victim.goes_on()?;
        let Self { victim, device, host, idle, user, .. } = self;
        drop(victim);
        if user.pinned() != 0 {
            return Err(Mismatch::new(format!("{} pages stay pinned", user.pinned())));
        }
        let left = in_use(&device, &host);
        if left == idle {
            Ok(())
        } else {
            Err(Mismatch::new(format!("left {left:?}, came up with {idle:?}")))
        }
    }
}

fn in_use(device: &Device, host: &HostMemory) -> Use {
    (host.in_use(), (0..).map_while(|channel| device.pools().hbm(channel)).collect())
}

fn remember<T>(known: &mut Vec<T>, new: T) {
    if known.len() >= REMEMBERED {
        known.remove(0);
    }
    known.push(new);
}

/// Overwrites the first bytes at an address.
fn put(space: &crate::client::Space, address: u64, bytes: &[u8]) {
    use neuron_driver::UserMemory;
    let mut bytes = bytes.to_vec();
    let _mapped = space.write(address, vm_memory::VolatileSlice::from(&mut bytes[..]));
}
