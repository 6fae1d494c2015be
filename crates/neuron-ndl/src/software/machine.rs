//! The machine: devices of an instance type, their host memory, and the driver on top.

use std::sync::Arc;

use neuron_abi::arch::Product;
use neuron_abi::errno::Errno;
use neuron_driver::hw::{Clock, Hardware, SystemClock};
use neuron_driver::{OpenFile, OpenMode, Params, ProbeError, System, sysfs, topology};
use neuron_softdev::{DeviceError, Execution, FaultPlan, Instance};

use super::file::SoftFile;
use super::hardware::{Devices, Running, SoftHardware};
use super::host::HostMemory;
use super::populate::populate;
use super::served::ServedFile;
use crate::backend::{Backend, DeviceFile, Lane};

/// Why a software machine, or one of its devices, did not come up.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No such instance type.
    #[error("unknown instance type {0:?}; known: {known}", known = instance_names())]
    UnknownInstance(String),
    /// The machine's memory could not be had.
    #[error("host memory of the software machine cannot be had")]
    HostMemory(#[source] std::io::Error),
    /// The instance has fewer devices.
    #[error("{instance} has {count} device(s), so there is no device {index}")]
    NoDevice {
        /// Instance type.
        instance: &'static str,
        /// Devices it has.
        count: u8,
        /// Device asked for.
        index: u8,
    },
    /// The software device refused its configuration.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The driver could not bring the device up.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

fn instance_names() -> String {
    let names: Vec<_> = neuron_softdev::INSTANCES.iter().map(|instance| instance.name).collect();
    names.join(", ")
}

/// How the machine runs.
#[derive(Clone)]
pub struct MachineOptions {
    /// Where engines do their work.
    pub execution: Execution,
    /// What goes wrong on each device.
    pub faults: FaultPlan,
    /// Time, as the driver sees it.
    pub clock: Arc<dyn Clock>,
    /// Driver parameters. The device count is the instance's.
    pub params: Params,
    /// Process id that files are opened with.
    pub pid: i32,
    /// Show nothing beyond the ABI, as a kernel's driver: [`introspect`](crate::introspect)
    /// answers `None`.
    pub abi_only: bool,
    /// Whether that process may map HBM as it is, past all allocations (`CAP_SYS_RAWIO`).
    pub raw_io: bool,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            execution: Execution::Threaded { workers: 1 },
            faults: FaultPlan::default(),
            clock: Arc::new(SystemClock::default()),
            params: Params::default(),
            pid: std::process::id().cast_signed(),
            abi_only: false,
            raw_io: false,
        }
    }
}

/// An instance type in software. Devices come up when they are first opened.
pub struct Machine {
    instance: &'static Instance,
    options: MachineOptions,
    host: Arc<HostMemory>,
    system: Arc<System>,
    devices: Arc<Devices>,
}

/// What the drivers of a machine show under `/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysfs {
    /// Files.
    pub files: Vec<sysfs::File>,
    /// Symbolic links.
    pub links: Vec<sysfs::Link>,
}

impl Machine {
    /// A machine of this instance type with default options.
    ///
    /// # Errors
    /// An unknown name, or no host memory.
    pub fn new(instance: &str) -> Result<Self, MachineError> {
        Self::with_options(instance, MachineOptions::default())
    }

    /// A machine of this instance type.
    ///
    /// # Errors
    /// An unknown name, or no host memory.
    pub fn with_options(instance: &str, options: MachineOptions) -> Result<Self, MachineError> {
        let instance =
            Instance::by_name(instance).ok_or_else(|| MachineError::UnknownInstance(instance.to_owned()))?;
        let host = Arc::new(HostMemory::new().map_err(MachineError::HostMemory)?);
        Ok(Self { instance, options, host, system: Arc::default(), devices: Arc::default() })
    }

    /// What it is.
    pub const fn instance(&self) -> &'static Instance {
        self.instance
    }

    /// Its memory.
    pub fn host_memory(&self) -> &HostMemory {
        &self.host
    }

    /// Brings a device up, if it is not.
    ///
    /// # Errors
    /// No such device, or the step that failed. Opening through [`Backend`] can only
    /// answer with an errno, so call this first to learn more.
    pub fn boot(&self, index: u8) -> Result<(), MachineError> {
        self.running(index).map(drop)
    }

    /// The software device behind a number, for faults and for looking inside.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn device(&self, index: u8) -> Result<Arc<neuron_softdev::Device>, MachineError> {
        self.running(index).map(|running| Arc::clone(&running.hardware.device))
    }

    /// The driver's side of a device, to look at what no ioctl shows.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn driver(&self, index: u8) -> Result<Arc<neuron_driver::Device>, MachineError> {
        self.running(index).map(|running| running.driver)
    }

    /// The tree under `/sys` as it is now, of all devices, which come up for it if they are
    /// not.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn sysfs(&self) -> Result<Sysfs, MachineError> {
        let device_count = self.instance.devices;
        let mut tree = Sysfs {
            files: sysfs::shared(&Params { device_count, ..self.options.params }),
            links: Vec::new(),
        };
        for index in 0..device_count {
            tree.files.extend(self.running(index)?.driver.sysfs());
            tree.links.push(sysfs::link(index));
        }
        Ok(tree)
    }

    /// Which files and links the tree has, of all devices, their contents left empty. Devices of a
    /// machine are alike, so only the first comes up for it.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn sysfs_shape(&self) -> Result<Sysfs, MachineError> {
        let node = |index| format!("{}/neuron{index}/", sysfs::DEVICES);
        let first = self.running(0)?.driver.sysfs();
        let mut tree = Sysfs { files: sysfs::shared(&self.options.params), links: Vec::new() };
        for index in 0..self.instance.devices {
            let of_device = first.iter().filter_map(|file| {
                let below = file.path.strip_prefix(&node(0))?;
                Some(sysfs::File { path: node(index) + below, ..file.clone() })
            });
            tree.files.extend(of_device);
            tree.links.push(sysfs::link(index));
        }
        tree.files.iter_mut().for_each(|file| file.content.clear());
        Ok(tree)
    }

    /// One file of the tree as it is now, by its path from the root, `sys/module/neuron/version`.
    /// The class's links to devices are followed.
    ///
    /// # Errors
    /// ENOENT if there is no such file.
    pub fn attribute(&self, path: &str) -> Result<sysfs::File, Errno> {
        let files = match self.node_of(path)? {
            Some((driver, _)) => driver.sysfs(),
            None => sysfs::shared(&Params { device_count: self.instance.devices, ..self.options.params }),
        };
        let path = devices_path(path);
        files.into_iter().find(|file| file.path == path).ok_or(Errno::ENOENT)
    }

    /// Writes to a file of the tree. Those of the class and the module take no writes that do
    /// anything.
    ///
    /// # Errors
    /// ENOENT if there is no such file; EACCES if nobody may write it.
    pub fn write_attribute(&self, path: &str, bytes: &[u8]) -> Result<(), Errno> {
        match self.node_of(path)? {
            Some((driver, below)) => driver.sysfs_write(&below, bytes),
            None if self.attribute(path)?.mode & 0o222 == 0 => Err(Errno::EACCES),
            None => Ok(()),
        }
    }

    /// The device whose part of the tree a path is in, and the path below its node; `None` for
    /// what is there once.
    fn node_of(&self, path: &str) -> Result<Option<(Arc<neuron_driver::Device>, String)>, Errno> {
        let path = devices_path(path);
        let node = path.strip_prefix(sysfs::DEVICES).and_then(|rest| rest.strip_prefix("/neuron"));
        let Some(node) = node else { return Ok(None) };
        let (index, below) = node.split_once('/').ok_or(Errno::ENOENT)?;
        let index = index.parse().map_err(|_| Errno::ENOENT)?;
        let driver = self.driver(index).map_err(|error| error.errno())?;
        Ok(Some((driver, below.to_owned())))
    }

    fn running(&self, index: u8) -> Result<Running, MachineError> {
        let (instance, count) = (self.instance.name, self.instance.devices);
        let no_device = || MachineError::NoDevice { instance, count, index };
        if index >= count {
            return Err(no_device());
        }
        let mut devices = self.devices.running();
        if let Some(running) = devices.get(&index) {
            return Ok(running.clone());
        }
        let mut config = self.instance.device_config(0);
        let product = Product::from_pci(neuron_abi::arch::VENDOR_ID, config.product.device_id())
            .ok_or_else(no_device)?;
        config.routing_id = topology::routing_id(product, index).ok_or_else(no_device)?;
        config.execution = self.options.execution;
        config.faults = self.options.faults.clone();
        config.populate = Some(populate);
        let hardware =
            Arc::new(SoftHardware::new(neuron_softdev::Device::new(config)?, Arc::clone(&self.host)));
        let params = Params { device_count: count, ..self.options.params };
        let shared: Arc<dyn Hardware> = Arc::clone(&hardware) as _;
        let clock = Arc::clone(&self.options.clock);
        let driver = neuron_driver::Device::probe_in(&self.system, shared, clock, params)?;
        let running = Running { hardware, driver };
        devices.insert(index, running.clone());
        Ok(running)
    }
}

/// A path by way of the class's links to devices, as it is without them.
fn devices_path(path: &str) -> String {
    match path.strip_prefix(sysfs::CLASS) {
        Some(rest) if rest.starts_with("/neuron") => format!("{}{rest}", sysfs::DEVICES),
        _ => path.to_owned(),
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("instance", &self.instance.name).finish_non_exhaustive()
    }
}

impl MachineError {
    /// What opening the device says.
    fn errno(&self) -> Errno {
        match self {
            Self::Probe(ProbeError::Step { errno, .. }) => *errno,
            Self::NoDevice { .. } => Errno::ENOENT,
            _ => Errno::ENODEV,
        }
    }
}

impl Machine {
    /// Opens device `index` for another process.
    ///
    /// # Errors
    /// ENOENT if there is no such device; EBUSY when all process slots are taken; the errno of
    /// the step that failed when the device came up.
    pub fn open_for(&self, pid: i32, index: u8, mode: OpenMode) -> Result<ServedFile, Errno> {
        let running = self.running(index).map_err(|error| error.errno())?;
        let file = OpenFile::open(&running.driver, pid, mode)?;
        Ok(ServedFile::new(file, running.hardware, Arc::clone(&self.devices)))
    }
}

impl Backend for Machine {
    fn name(&self) -> &'static str {
        "software"
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        let running = self.running(index).map_err(|error| error.errno())?;
        let mode = match lane {
            Lane::Full | Lane::ReadOnly => OpenMode::Full,
            Lane::Misc => OpenMode::Misc,
        };
        let file = OpenFile::open(&running.driver, self.options.pid, mode)?;
        let file = if self.options.raw_io { file.with_raw_io() } else { file };
        let devices = Arc::clone(&self.devices);
        Ok(Box::new(SoftFile::new(file, running.hardware, devices, self.options.abi_only)))
    }
}
