//! Where a command's devices are: those of the running kernel, or a software machine of the instance type asked
//! for. What only a machine without hardware has (faults, its own `/sys` tree) is asked for here and nowhere else.

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_ndl::diagnosis::{self, Roots};
use neuron_ndl::environment::{BackendName, DEFAULT_INSTANCE, instance_from_environment};
use neuron_ndl::kernel::Kernel;
use neuron_ndl::remote::{Address, Remote};
use neuron_ndl::software::{self, MachineError, MachineOptions, Sysfs};
use neuron_ndl::{Backend, Device, NdlError};

use crate::cli::MachineArgs;
use crate::exit::Exit;
use crate::failure::Failure;

/// What helps when a device of the kernel does not open.
const DOCTOR: &str =
    "`neuron-mem doctor --backend kernel` looks at everything between a program and a device";

/// A machine with devices.
#[derive(Clone)]
pub struct Machine {
    name: BackendName,
    backend: Arc<dyn Backend>,
    /// The same, if it is one without hardware.
    software: Option<Arc<software::Machine>>,
    instance: Option<String>,
    /// Numbers of the devices, ascending.
    devices: Vec<u8>,
    /// Where the kernel shows its devices.
    roots: Roots,
}

/// The backend: the one asked for, else the one set in the environment, else the software one.
#[must_use]
pub fn name(args: &MachineArgs, set: Option<&BackendName>) -> BackendName {
    args.backend.as_ref().or(set).cloned().unwrap_or_default()
}

/// Refuses what only a machine without hardware can do.
///
/// # Errors
/// [`Exit::Usage`] if it was given with another backend.
pub fn only_software(name: &BackendName, option: &str, is_given: bool) -> Result<(), Failure> {
    if !is_given || *name == BackendName::Software {
        return Ok(());
    }
    let why = format!(
        "{option} is for the software backend, and this is the {name} backend: leave it out, or add \
                       --backend software"
    );
    Err(Failure::new(Exit::Usage, why))
}

/// The number of a device as the command line gives it.
///
/// # Errors
/// [`Exit::Usage`] above what any machine has.
pub fn device_index(device: u32) -> Result<u8, Failure> {
    u8::try_from(device).map_err(|_| Failure::new(Exit::Usage, format!("there is no device {device}")))
}

impl Machine {
    /// The machine that the arguments, else the environment, ask for. `options` count for one without hardware.
    ///
    /// # Errors
    /// [`Exit::Usage`] for an instance type that is unknown, or with a backend that has none, or a
    /// `NEURON_MEM_BACKEND` or `NEURON_MEM_INSTANCE` that names none; [`Exit::Device`] if the machine's memory cannot be had.
    pub fn choose(args: &MachineArgs, options: MachineOptions) -> Result<Self, Failure> {
        let set = BackendName::from_environment().map_err(|error| Failure::new(Exit::Usage, error))?;
        Self::of(name(args, set.as_ref()), args, options)
    }

    /// The machine of a backend.
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
    pub fn of(name: BackendName, args: &MachineArgs, options: MachineOptions) -> Result<Self, Failure> {
        only_software(&name, "--instance", args.instance.is_some())?;
        match name {
            BackendName::Software => {
                let set = || instance_from_environment().map_err(|error| Failure::new(Exit::Usage, error));
                match &args.instance {
                    Some(asked) => Self::software(asked, options),
                    None => {
                        Self::software(set()?.map_or(DEFAULT_INSTANCE, |instance| instance.name), options)
                    }
                }
            }
            BackendName::Kernel => Ok(Self::kernel(Kernel::new(), Roots::system())),
            BackendName::Unix(address) => Self::served(address),
        }
    }

    /// The devices of a server.
    ///
    /// # Errors
    /// [`Exit::Device`] if it cannot be reached.
    pub fn served(address: Address) -> Result<Self, Failure> {
        let server = Remote::connect(address).map_err(|error| Failure::new(Exit::Device, error))?;
        Ok(Self {
            name: BackendName::Unix(server.address().clone()),
            instance: Some(server.instance().to_owned()),
            devices: (0..server.devices()).collect(),
            backend: Arc::new(server),
            software: None,
            roots: Roots::system(),
        })
    }

    /// A machine of this instance type, nothing on it up yet.
    ///
    /// # Errors
    /// [`Exit::Usage`] for an unknown name; [`Exit::Device`] if the machine's memory cannot be had.
    pub fn software(instance: &str, options: MachineOptions) -> Result<Self, Failure> {
        let machine = Arc::new(software::Machine::with_options(instance, options).map_err(failure)?);
        Ok(Self {
            name: BackendName::Software,
            backend: Arc::clone(&machine) as _,
            instance: Some(machine.instance().name.to_owned()),
            devices: (0..machine.instance().devices).collect(),
            software: Some(machine),
            roots: Roots::system(),
        })
    }

    /// The kernel's devices, of which `roots` tell more. Nothing is opened.
    #[must_use]
    pub fn kernel(kernel: Kernel, roots: Roots) -> Self {
        let (devices, instance) = (kernel.devices(), roots.instance());
        Self {
            name: BackendName::Kernel,
            backend: Arc::new(kernel),
            software: None,
            instance,
            devices,
            roots,
        }
    }

    /// Which backend it is.
    #[must_use]
    pub const fn name(&self) -> &BackendName {
        &self.name
    }

    /// The backend, to keep.
    #[must_use]
    pub fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }

    /// Instance type; of the kernel's devices what the driver calls them, if it shows it.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// Where the system shows its devices.
    #[must_use]
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Numbers of the devices, ascending.
    #[must_use]
    pub fn devices(&self) -> &[u8] {
        &self.devices
    }

    /// As [`devices`](Self::devices), of which there has to be one.
    ///
    /// # Errors
    /// [`Exit::Device`] with why there is none.
    pub fn some_devices(&self) -> Result<&[u8], Failure> {
        match self.devices.as_slice() {
            [] => {
                let why = diagnosis::explain_open_error(&self.roots, 0, neuron_abi::errno::Errno::ENOENT);
                Err(Failure::new(Exit::Device, why).with_note(DOCTOR))
            }
            devices => Ok(devices),
        }
    }

    /// The first device, 0 if there is none.
    #[must_use]
    pub fn first_device(&self) -> u8 {
        self.devices.first().copied().unwrap_or(0)
    }

    /// How many numbers devices have: one more than the highest.
    #[must_use]
    pub fn device_numbers(&self) -> u32 {
        self.devices.last().map_or(0, |last| u32::from(*last) + 1)
    }

    /// Generation of the devices, asked without a process slot being taken where the driver can be asked so.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn generation(&self, index: u8) -> Result<Generation, Failure> {
        self.boot(index)?;
        match diagnosis::generation(self.backend.as_ref(), index) {
            Ok(generation) => Ok(generation),
            // An older driver tells those who have a slot; and opening says best why a device does not serve.
            Err(_) => self.open(index).map(|device| device.facts().generation),
        }
    }

    /// Brings device `index` up, if it has to be, and opens it.
    ///
    /// # Errors
    /// [`Exit::Usage`] if the instance has no such device; [`Exit::Device`] with the step that failed and, of the
    /// kernel's devices, what to do.
    pub fn open(&self, index: u8) -> Result<Arc<Device>, Failure> {
        self.boot(index)?;
        Device::open(self.backend.as_ref(), index).map_err(|error| self.failed(error))
    }

    /// The tree that the machine's drivers show under `/sys`, which `option` asks for.
    ///
    /// # Errors
    /// [`Exit::Usage`] of the kernel's: its tree is the system's. [`Exit::Device`] if a device cannot be brought up.
    pub fn sysfs(&self, option: &str) -> Result<Sysfs, Failure> {
        only_software(&self.name, option, true)?;
        match &self.software {
            Some(machine) => machine.sysfs().map_err(failure),
            None => Ok(Sysfs { files: Vec::new(), links: Vec::new() }),
        }
    }

    /// Tells more of what keeps a software device from coming up than an errno can.
    fn boot(&self, index: u8) -> Result<(), Failure> {
        let Some(machine) = &self.software else { return Ok(()) };
        machine.boot(index).map_err(|error| match error {
            MachineError::Probe(step) => {
                Failure::because(Exit::Device, format!("neuron{index} cannot be brought up"), step)
            }
            error => failure(error),
        })
    }

    fn failed(&self, error: NdlError) -> Failure {
        let why = match self.name {
            BackendName::Kernel => diagnosis::explain_failed_open(&self.roots, &error),
            BackendName::Software | BackendName::Unix(_) => None,
        };
        let failure = Failure::new(Exit::Device, error);
        match why {
            Some(why) => failure.with_note(&why).with_note(DOCTOR),
            None => failure,
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("name", &self.name)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

fn failure(error: MachineError) -> Failure {
    let exit = match error {
        MachineError::UnknownInstance(_) | MachineError::NoDevice { .. } => Exit::Usage,
        _ => Exit::Device,
    };
    Failure::new(exit, error)
}
