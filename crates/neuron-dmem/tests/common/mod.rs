//! A device to test on, and somebody in front of it who sees and refuses commands.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(dead_code, reason = "each test binary takes what it needs")]

use std::sync::{Arc, Mutex};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_dmem::{DeviceMemory, Setup};
use neuron_ndl::Device;
use neuron_ndl::intercept::{Call, Intercepted, Interceptor};
use neuron_ndl::software::{Execution, Machine, MachineOptions};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// `MEM_ALLOC_V2MT64`'s argument as it went to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alloc {
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) host: u32,
    pub(crate) hbm: u32,
    pub(crate) region: u32,
    pub(crate) core: u32,
    pub(crate) category: u32,
}

type Refuse = Box<dyn Fn(&Watch, u32, &[u8]) -> Option<Errno> + Send + Sync>;
type Change = Box<dyn Fn(&Watch, u32, &mut [u8]) + Send + Sync>;

/// Notes every command, and does with it what the test says.
pub(crate) struct Watch {
    pub(crate) machine: Arc<Machine>,
    calls: Mutex<Vec<(u32, Vec<u8>)>>,
    refuse: Mutex<Refuse>,
    change: Mutex<Change>,
}

impl Interceptor for Watch {
    fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
        let Call::Ioctl { word, argument, .. } = call else { return Ok(()) };
        self.calls.lock().unwrap().push((*word, argument.to_vec()));
        (self.refuse.lock().unwrap())(self, *word, argument).map_or(Ok(()), Err)
    }

    fn amend(&self, word: u32, argument: &mut [u8]) {
        (self.change.lock().unwrap())(self, word, argument);
    }
}

impl Watch {
    /// On the instance, from before the device is opened.
    pub(crate) fn on(instance: &str) -> Arc<Self> {
        Arc::new(Self {
            machine: Arc::new(machine(instance)),
            calls: Mutex::default(),
            refuse: Mutex::new(Box::new(|_, _, _| None)),
            change: Mutex::new(Box::new(|_, _, _| {})),
        })
    }

    pub(crate) fn refuse(&self, refuse: impl Fn(&Self, u32, &[u8]) -> Option<Errno> + Send + Sync + 'static) {
        *self.refuse.lock().unwrap() = Box::new(refuse);
    }

    /// A driver that does not know alignment (`spec/ndl.md` 3.2).
    pub(crate) fn cannot_align(&self) {
        self.refuse(|_, word, argument| {
            (word == cmd::MEM_ALLOC_V2MT64.word && alloc(argument).align != 0).then_some(Errno::EINVAL)
        });
    }

    pub(crate) fn change(&self, change: impl Fn(&Self, u32, &mut [u8]) + Send + Sync + 'static) {
        *self.change.lock().unwrap() = Box::new(change);
    }

    pub(crate) fn open(self: &Arc<Self>, setup: Setup) -> Arc<DeviceMemory> {
        let backend = Intercepted::new(Arc::clone(&self.machine), Arc::clone(self) as _);
        let memory = DeviceMemory::with(Device::open(&backend, 0).unwrap(), setup).unwrap();
        self.take();
        memory
    }

    /// Commands since the last look.
    pub(crate) fn take(&self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// Allocations asked for since the last look.
    pub(crate) fn allocs(&self) -> Vec<Alloc> {
        let asked = self.take().into_iter().filter(|(word, _)| *word == cmd::MEM_ALLOC_V2MT64.word);
        asked.map(|(_, argument)| alloc(&argument)).collect()
    }
}

pub(crate) fn u32_at(argument: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(argument[at..at + 4].try_into().unwrap())
}

pub(crate) fn u64_at(argument: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(argument[at..at + 8].try_into().unwrap())
}

fn alloc(argument: &[u8]) -> Alloc {
    Alloc {
        size: u64_at(argument, 0),
        align: u64_at(argument, 8),
        host: u32_at(argument, 16),
        hbm: u32_at(argument, 20),
        region: u32_at(argument, 24),
        core: u32_at(argument, 28),
        category: u32_at(argument, 32),
    }
}

pub(crate) fn machine(instance: &str) -> Machine {
    let options = MachineOptions { execution: Execution::Inline, ..MachineOptions::default() };
    Machine::with_options(instance, options).unwrap()
}

pub(crate) fn open(instance: &str) -> Arc<DeviceMemory> {
    DeviceMemory::new(Device::open(&machine(instance), 0).unwrap())
}

/// Device bytes and own host bytes, as the driver counts them.
pub(crate) fn driver_bytes(memory: &DeviceMemory) -> u64 {
    let device = memory.device();
    let hbms = 0..device.geometry().hbm.len() as u32;
    let on_device: u64 = hbms.flat_map(|hbm| device.chunks(hbm).unwrap()).map(|chunk| chunk.size).sum();
    on_device + device.processes().unwrap().iter().map(|app| app.host_mem_size).sum::<u64>()
}

pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8) ^ seed).collect()
}

/// Warnings that `work` gives.
pub(crate) fn warnings(work: impl FnOnce()) -> Vec<String> {
    let heard = Heard::default();
    tracing::subscriber::with_default(heard.clone(), work);
    let heard = heard.0.lock().unwrap();
    heard.clone()
}

/// Hears warnings.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Heard {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("neuron_dmem")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?};");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
