//! Devices that another process serves (`neuron-mem serve`): the same ioctl bytes, over its
//! socket. What is said there is `neuron_wire`'s.
//!
//! Argument addresses are this process's: the server reaches them itself, or asks for the bytes
//! where the system forbids that. Mappings are shared memory.
//!
//! When the server ends, every call answers ENODEV, at once; devices have to be opened anew when
//! it is back. A forked child has its parent's open files without a process slot, as with a
//! kernel's.

mod file;

use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_wire::client::open::{self, greet};
use neuron_wire::message::{Hello, role};
pub use neuron_wire::{Address, AddressError, OpenError};
use neuron_wire::{Calls, OpenedFile};

use self::file::RemoteFile;
use crate::backend::{Backend, DeviceFile, Lane};

/// The devices of a server.
#[derive(Debug)]
pub struct Remote {
    calls: Arc<Calls>,
    devices: u8,
    instance: String,
}

impl Remote {
    /// Asks the server at an address what it has.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect(address: Address) -> Result<Self, OpenError> {
        let greeted = greet(&address, &Hello::new(role::QUESTION), &[])?;
        let instance = greeted.instance();
        let devices = u8::try_from(greeted.welcome.devices).unwrap_or(u8::MAX);
        Ok(Self { calls: Arc::new(Calls::new(address)), devices, instance })
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        self.calls.address()
    }

    /// Devices that it has, numbered from 0.
    pub const fn devices(&self) -> u8 {
        self.devices
    }

    /// The instance type that its machine is of.
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl Backend for Remote {
    fn name(&self) -> &'static str {
        "unix"
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        let flags = match lane {
            Lane::Full => libc::O_RDWR,
            Lane::ReadOnly => libc::O_RDONLY,
            Lane::Misc => libc::O_WRONLY,
        };
        let opened = open::open(self.address(), index.into(), flags.cast_unsigned());
        let OpenedFile { socket, file } = opened.map_err(|error| {
            tracing::warn!(index, %error, "a device of the server does not open");
            error.errno()
        })?;
        Ok(Box::new(RemoteFile::new(socket, file, Arc::clone(&self.calls))))
    }
}
