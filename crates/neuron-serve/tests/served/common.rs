//! Servers in temporary folders.

use std::ops::Deref;
use std::sync::Arc;

use neuron_ndl::Device;
use neuron_ndl::remote::{Address, Remote};
use neuron_serve::{Options, Server};
use tempfile::TempDir;

/// A server with a folder of its own.
pub(crate) struct Served {
    server: Server,
    _folder: TempDir,
}

impl Deref for Served {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Served {
    /// A machine of an instance type.
    pub(crate) fn new(instance: &str) -> Self {
        Self::with(instance, |options| options)
    }

    /// As [`new`](Self::new), with other options.
    pub(crate) fn with(instance: &str, change: impl FnOnce(Options) -> Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::new(folder.path().join("socket")).unwrap();
        let server = Server::start(change(Options::new(instance, address))).unwrap();
        Self { server, _folder: folder }
    }

    /// Its machine, as this process sees it.
    pub(crate) fn remote(&self) -> Remote {
        Remote::connect(self.address().clone()).unwrap()
    }

    /// A device of it, open.
    pub(crate) fn device(&self, index: u8) -> Arc<Device> {
        Device::open(&self.remote(), index).unwrap()
    }
}
