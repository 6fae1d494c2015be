//! What is open between `nrt_init` and `nrt_close`: the devices that have visible cores, and an
//! allocator for each of these cores.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use neuron_abi::arch::FIRMWARE_RESERVE;
use neuron_dmem::log::LogOptions;
use neuron_dmem::transfer::Path;
use neuron_dmem::{Allocator, AllocatorKind, DeviceMemory, Setup};
use neuron_ndl::environment::{CoreLayout, Environment};
use neuron_ndl::{Backend, ClaimError, CoreClaim, Device, FallbackHook, OpenOptions};

use crate::census::Census;
use crate::layout::MemoryStats;
use crate::logging::{self, Level};
use crate::refusal::Refusal;
use crate::spans::Spans;
use crate::storage::Storage;

/// The open devices.
#[derive(Debug)]
pub(crate) struct Runtime {
    /// The visible logical cores, as the process numbers them.
    cores: Vec<Core>,
    census: Census,
    spans: Arc<Spans<Storage>>,
    /// Whether device memory gets an address.
    maps: bool,
    /// The claim on the cores; none if the driver has no claims. Given back last.
    _claim: Option<CoreClaim>,
}

/// A logical core.
#[derive(Debug)]
pub(crate) struct Core {
    /// Allocates for its first physical core, on that one's HBM (`spec/dmem.md` 8).
    pub(crate) allocator: Allocator,
    /// Its physical cores, as the device numbers them.
    physical: Range<u32>,
}

impl Runtime {
    /// Takes the cores that the environment asks for, and opens their devices.
    pub(crate) fn open() -> Result<Self, Refusal> {
        let environment = Environment::from_process()?;
        let log = LogOptions::from_environment()?;
        let census = Census::take(&environment)?;
        let backend = census.backend()?;
        let (claim, logical) = claim(backend.as_ref(), &environment, &census)?;
        let cores = cores(backend.as_ref(), &environment, &log, census.layout, logical)?;
        let maps = environment.map_hbm != Some(false);
        let text = format!("{} cores on the {} backend", cores.len(), backend.name());
        logging::line(Level::Info, "nrt_init", &text);
        Ok(Self { cores, census, spans: Arc::default(), maps, _claim: claim })
    }

    pub(crate) const fn census(&self) -> &Census {
        &self.census
    }

    /// How many logical cores the process sees.
    pub(crate) fn visible(&self) -> usize {
        self.cores.len()
    }

    pub(crate) const fn spans(&self) -> &Arc<Spans<Storage>> {
        &self.spans
    }

    pub(crate) const fn maps(&self) -> bool {
        self.maps
    }

    /// A logical core by the number that the process has for it.
    pub(crate) fn core(&self, vnc: i64) -> Result<&Core, Refusal> {
        let core = usize::try_from(vnc).ok().and_then(|vnc| self.cores.get(vnc));
        core.ok_or_else(|| {
            let last = self.cores.len().saturating_sub(1);
            Refusal::invalid(format!("there is no core {vnc}: this process sees cores 0 to {last}"))
        })
    }

    /// A device's open end; the device has to have visible cores.
    pub(crate) fn device(&self, index: u8) -> Option<&Arc<Device>> {
        let devices = self.cores.iter().map(|core| core.allocator.memory().device());
        devices.into_iter().find(|device| device.facts().index == index)
    }

    /// Any open device.
    pub(crate) fn first_device(&self) -> Option<&Arc<Device>> {
        self.cores.first().map(|core| core.allocator.memory().device())
    }
}

impl Core {
    /// Bytes in use by this process on the core, and bytes that its HBM has beside the firmware's
    /// (`spec/nrt-abi.md` 7).
    pub(crate) fn stats(&self) -> MemoryStats {
        let memory = self.allocator.memory();
        let usage = memory.usage();
        let used: u64 = self.physical.clone().map(|core| usage.core_total(core)).sum();
        let geometry = memory.device().geometry();
        let hbm = geometry.hbm_of_core(self.physical.start).and_then(|hbm| geometry.hbm(hbm));
        let limit = hbm.map_or(0, |hbm| hbm.size.saturating_sub(FIRMWARE_RESERVE));
        MemoryStats { bytes_used: used as usize, bytes_limit: limit as usize }
    }
}

/// Claims the cores that are asked for; which logical ones of the machine they are.
fn claim(
    backend: &dyn Backend,
    environment: &Environment,
    census: &Census,
) -> Result<(Option<CoreClaim>, Range<u32>), Refusal> {
    let layout = census.layout;
    let visible = environment.visible(layout)?;
    // A number of cores is one of any free ones; a list, or all, are these.
    let anywhere = environment.visible_cores.is_none();
    let within = if anywhere { 0..layout.logical_total() } else { visible.clone() };
    let size = layout.logical_size;
    // The driver counts physical cores from the first device's first.
    let before = u32::from(census.first) * layout.cores_per_device;
    let physical = |logical: u32| (logical * size).saturating_sub(before);
    let count = (visible.end - visible.start) * size;
    let taken = CoreClaim::take(backend, census.first, physical(within.start)..physical(within.end), count);
    match taken {
        Ok(claim) => {
            let first = claim.cores().start + before;
            if !first.is_multiple_of(size) {
                let why = format!("core {first} is the first that is free, and logical cores are of {size}");
                return Err(Refusal::new(neuron_abi::status::NrtStatus::Resource, why));
            }
            let logical = first / size..first / size + count / size;
            Ok((Some(claim), logical))
        }
        Err(ClaimError::Driver(error)) if error.is_unsupported() => {
            logging::line(Level::Warn, "nrt_init", &format!("cores are not taken exclusively: {error}"));
            Ok((None, visible))
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the devices of these logical cores of the machine.
fn cores(
    backend: &dyn Backend,
    environment: &Environment,
    log: &LogOptions,
    layout: CoreLayout,
    logical: Range<u32>,
) -> Result<Vec<Core>, Refusal> {
    let on_fallback = FallbackHook::new(|device, fallback| {
        logging::line(Level::Warn, "nrt_init", &format!("neuron{device}: {fallback}"));
    });
    let options = OpenOptions { on_fallback: Some(on_fallback), ..OpenOptions::default() };
    let several = layout.device_of(logical.start) != layout.device_of(logical.end.saturating_sub(1));
    let mut devices: BTreeMap<u8, Arc<DeviceMemory>> = BTreeMap::new();
    let mut cores = Vec::new();
    for core in logical {
        let index = layout.device_of(core).and_then(|index| u8::try_from(index).ok());
        let index = index.ok_or_else(|| Refusal::failure(format!("core {core} is on no device")))?;
        let memory = match devices.get(&index) {
            Some(memory) => Arc::clone(memory),
            None => {
                let device = Device::open_with(backend, index, &options)?;
                let setup = Setup::default()
                    .path(path(environment, &device))
                    .log(log_of(log, index, several))
                    .cores_per_logical(layout.logical_size);
                let memory = DeviceMemory::with(device, setup)?;
                devices.insert(index, Arc::clone(&memory));
                memory
            }
        };
        let physical = layout.of_device(&(core..core + 1), index.into());
        let allocator = Allocator::labelled(&memory, AllocatorKind::Global, physical.start, "libnrt")?;
        cores.push(Core { allocator, physical });
    }
    Ok(cores)
}

/// As every program here copies: what the environment says is tried whatever the device says of itself.
fn path(environment: &Environment, device: &Device) -> Path {
    if !environment.zero_copy.unwrap_or_else(|| device.offers_zero_copy()) {
        return Path::Staged;
    }
    Path::ZeroCopy { direct_write: environment.direct_write(device.facts().generation) }
}

/// The log of a device. Where there are several, each has a file of its own, with the device's number
/// behind the name (our choice).
fn log_of(log: &LogOptions, index: u8, several: bool) -> LogOptions {
    match log.path() {
        Some(path) if several => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{index}"));
            log.clone().file(name)
        }
        _ => log.clone(),
    }
}
