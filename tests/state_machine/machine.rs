//! The driver's side: a device whose engines move bytes in the doorbell, a clock that moves
//! only when somebody waits, and open files.

use std::sync::Arc;

use neuron_abi::cmd::Command;
use neuron_driver::hw::{Clock, Hardware, VirtualClock};
use neuron_driver::{Device, OpenFile, OpenMode, Params};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::fault::{Fault, FaultId, Place, When};
use neuron_softdev::{DeviceConfig, Product};
use neuron_tests::client::Space;
use neuron_tests::machine::UserPages;
use vm_memory::{Bytes, VolatileMemory};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::model::Trouble;

/// User address of arguments, and of what they point to.
const ARGUMENT: u64 = 0x1000_0000;
pub(crate) const RESULT: u64 = 0x1100_0000;
pub(crate) const BUFFER: u64 = 0x2000_0000;
/// User pages: how many, and where they are in physical memory, above the machine's own.
const PAGES: u64 = 60;
const PHYSICAL: u64 = 0x1_8000_0000;
/// Where nothing is ever mapped.
pub(crate) const NOWHERE: u64 = 0x10;

pub(crate) struct Machine {
    pub(crate) engines: Arc<neuron_softdev::Device>,
    pub(crate) host: Arc<HostMemory>,
    pub(crate) device: Arc<Device>,
    clock: Arc<VirtualClock>,
    pub(crate) space: Space,
    /// Pages of every process, which a device can be given.
    pub(crate) pages: UserPages,
}

impl Machine {
    pub(crate) fn new(product: Product) -> Self {
        let host = Arc::new(HostMemory::new().unwrap());
        let engines = neuron_softdev::Device::new(DeviceConfig::new(product)).unwrap();
        let hardware: Arc<dyn Hardware> =
            Arc::new(SoftHardware::new(Arc::clone(&engines), Arc::clone(&host)));
        let clock = Arc::new(VirtualClock::default());
        let device = Device::probe(hardware, Arc::clone(&clock) as _, Params::default()).unwrap();
        // Every third page lies apart from the one before.
        let runs: Vec<_> = (0..PAGES / 3).map(|run| (PHYSICAL + run * 4 * 4096, 3)).collect();
        let pages = UserPages::new(&runs).unwrap();
        engines.set_dma_table(pages.dma_table(&host).unwrap());
        Self { engines, host, device, clock, space: Space::default(), pages }
    }

    pub(crate) fn open(&self, pid: i32, misc: bool) -> Result<OpenFile, i64> {
        let mode = if misc { OpenMode::Misc } else { OpenMode::Full };
        OpenFile::open(&self.device, pid, mode).map_err(|errno| errno.negated().into())
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(crate) fn pass(&self, microseconds: u64) {
        self.clock.delay(microseconds);
    }

    /// One ioctl of a process through a file. The argument shows afterwards what the driver
    /// wrote into it.
    pub(crate) fn call<T: IntoBytes + Immutable + FromBytes>(
        &self,
        (file, pid): (&OpenFile, i32),
        command: &Command,
        argument: &mut T,
    ) -> i64 {
        self.space.map(ARGUMENT, argument.as_bytes().to_vec());
        let ret = file.ioctl_as(pid, command.word, ARGUMENT, &self.space);
        *argument = T::read_from_bytes(&self.space.bytes(ARGUMENT, size_of::<T>()).unwrap()).unwrap();
        ret.map_or_else(|errno| errno.negated().into(), |()| 0)
    }

    /// The same of a process whose user pages the call names.
    pub(crate) fn call_with_pages<T: IntoBytes + Immutable>(
        &self,
        (file, pid): (&OpenFile, i32),
        command: &Command,
        argument: &T,
    ) -> i64 {
        self.pages.space().map(ARGUMENT, argument.as_bytes().to_vec());
        let ret = file.ioctl_as(pid, command.word, ARGUMENT, &self.pages);
        ret.map_or_else(|errno| errno.negated().into(), |()| 0)
    }

    /// The word that a command wrote where its argument pointed.
    pub(crate) fn result(&self) -> u64 {
        u64::read_from_bytes(&self.space.bytes(RESULT, 8).unwrap()).unwrap()
    }

    /// The bytes at a bus address: a chunk's host memory, or HBM.
    pub(crate) fn bytes(&self, pa: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match self.device.pools().at_address(pa) {
            Some(chunk) if !chunk.is_device() => {
                let slice = chunk.host_slice().unwrap();
                slice.subslice((pa - chunk.pa()) as usize, len).unwrap().copy_to(&mut bytes);
            }
            _ => {
                let offset = self.device.geometry().bar4_offset(pa, len as u64).unwrap();
                let (region, offset) = self.engines.bar4().region(offset, len as u64).unwrap();
                region.get_slice(offset as usize, len).unwrap().read_slice(&mut bytes, 0).unwrap();
            }
        }
        bytes
    }

    /// The next doorbell of a ring meets trouble.
    pub(crate) fn trouble(&self, (engine, qid): (u32, u32), trouble: Trouble) -> FaultId {
        let engine = Some(engine as u16);
        self.engines.faults().add(match trouble {
            Trouble::DroppedKick => {
                let place = Place { engine, queue: Some(qid as u8) };
                Fault::DroppedKick { when: When::nth(1), place }
            }
            Trouble::Hang => Fault::Hang { nth: 1, engine },
        })
    }
}
