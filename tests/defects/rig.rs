//! A device whose engines work in the doorbell, with faults and a clock of its own.

use std::sync::Arc;

use neuron_abi::errno::Errno;
use neuron_driver::hw::{Hardware, VirtualClock};
use neuron_driver::pool::{ChunkRef, Lifespan, Request};
use neuron_driver::queues::Binding;
use neuron_driver::{Device, Params};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::{DeviceConfig, Product};
use neuron_tests::client::Client;
use neuron_tests::machine::{Call, Failing};

pub(crate) const EINVAL: i64 = -22;

pub(crate) struct Rig {
    pub(crate) device: Arc<Device>,
    pub(crate) hardware: Arc<Failing>,
    pub(crate) host: Arc<HostMemory>,
}

impl Rig {
    pub(crate) fn with(product: Product, fault: &str) -> Self {
        let host = Arc::new(HostMemory::new().unwrap());
        let config = DeviceConfig { faults: fault.parse().unwrap(), ..DeviceConfig::new(product) };
        let inner = SoftHardware::new(neuron_softdev::Device::new(config).unwrap(), Arc::clone(&host));
        let hardware = Arc::new(Failing::new(inner));
        let shared: Arc<dyn Hardware> = Arc::clone(&hardware) as _;
        let device = Device::probe(shared, Arc::new(VirtualClock::default()), Params::default()).unwrap();
        Self { device, hardware, host }
    }

    pub(crate) fn new() -> Self {
        Self::with(Product::Trn1, "")
    }

    /// Register writes since the last call.
    pub(crate) fn writes(&self) -> u64 {
        let writes = self.hardware.seen(Call::Write);
        self.hardware.fail(Call::Write, 0);
        writes
    }

    pub(crate) fn client(&self, pid: i32) -> Client {
        Client::open_as(&self.device, pid).unwrap()
    }

    pub(crate) fn chunk(&self, bytes: u64, pid: i32) -> ChunkRef {
        let request = Request {
            lifespan: Lifespan::CurrentProcess,
            pid,
            ..Request::driver_host(bytes, 0, Lifespan::Device)
        };
        self.device.pools().allocate(request).unwrap()
    }

    pub(crate) fn bind(&self, engine: u32, qid: u32, count: u32, pid: i32) -> Result<(), Errno> {
        let bytes = u64::from(count) * 16;
        let binding = Binding {
            tx_count: count,
            rx_count: count,
            tx: Some(self.chunk(bytes, pid)),
            rx: Some(self.chunk(bytes, pid)),
            ..Binding::default()
        };
        self.device.queue_init(engine, qid, binding, pid)
    }

    pub(crate) fn owner(&self, engine: u32, qid: u32) -> i32 {
        self.device.engines().lock(engine).unwrap().queues[qid as usize].owner()
    }
}
