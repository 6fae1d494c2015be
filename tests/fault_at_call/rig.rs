//! A machine that fails on demand, a driver on it, and what must be there when nobody uses
//! it.

use std::ops::Range;
use std::sync::Arc;

use neuron_abi::memory::Category;
use neuron_driver::arch::QUEUES;
use neuron_driver::hw::{Hardware, VirtualClock};
use neuron_driver::pool::{HbmUse, PoolParams};
use neuron_driver::{Device, Params, ProbeError};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::{DeviceConfig, Product};
use neuron_tests::machine::Failing;

/// A machine with one device, which is probed again and again.
pub(crate) struct Machine {
    pub(crate) engines: Arc<neuron_softdev::Device>,
    pub(crate) hardware: Arc<Failing>,
    pub(crate) host: Arc<HostMemory>,
}

impl Machine {
    pub(crate) fn new(product: Product) -> Self {
        let host = Arc::new(HostMemory::new().unwrap());
        let engines = neuron_softdev::Device::new(DeviceConfig::new(product)).unwrap();
        let hardware = Failing::new(SoftHardware::new(Arc::clone(&engines), Arc::clone(&host)));
        Self { engines, hardware: Arc::new(hardware), host }
    }

    /// Probes the device. `host_reserve` is the size of each pool that serves what the
    /// system refuses.
    pub(crate) fn probe(&self, host_reserve: u64) -> Result<Arc<Device>, ProbeError> {
        let params =
            Params { pools: PoolParams { host_reserve, ..PoolParams::default() }, ..Params::default() };
        let shared: Arc<dyn Hardware> = Arc::clone(&self.hardware) as _;
        Device::probe(shared, Arc::new(VirtualClock::default()), params)
    }

    pub(crate) fn held(&self, device: &Device) -> Held {
        let pools = device.pools();
        Held {
            host: self.host.in_use(),
            hbm: (0..).map_while(|channel| pools.hbm(channel)).collect(),
            cores: (0..8)
                .map(|core| pools.core_counters(core))
                .map(|(host, device)| (host.total, device.total))
                .collect(),
            driver: pools.host_counter(Category::NcdevHost).total,
            queues: (0..device.arch().engines())
                .map(|engine| device.engines().lock(engine).unwrap())
                .map(|engine| {
                    (0..QUEUES as usize).filter(|&qid| engine.queues[qid].holder().is_some()).count()
                })
                .sum(),
        }
    }
}

/// Which of many similar calls are struck. Cores are brought up engine by engine with the
/// same writes, about 380 each: all of the first and of the last engine of a second
/// generation device are struck, and of those between every so many, a prime that meets each
/// kind of write in some engine. The third generation has the same code and four times the
/// engines: there the net is wider. With `NEURON_MEM_FAULTS=all` it is every single one.
pub(crate) fn of_similar(product: Product, calls: Range<u64>) -> impl Iterator<Item = u64> {
    let (engine, stride) = if product == Product::Trn1 { (400, 61) } else { (40, 331) };
    let all = std::env::var("NEURON_MEM_FAULTS").is_ok_and(|which| which == "all");
    let between = calls.start + engine..calls.end.saturating_sub(engine);
    calls.filter(move |call| all || !between.contains(call) || (call - between.start).is_multiple_of(stride))
}

/// What is in use on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Bytes of host memory that the machine gave away. Fewer while the reserve serves.
    pub(crate) host: u64,
    hbm: Vec<HbmUse>,
    /// (host, device) bytes of each core.
    cores: Vec<(u64, u64)>,
    /// Host bytes of the driver's own.
    driver: u64,
    /// Queues that a process holds.
    queues: usize,
}
