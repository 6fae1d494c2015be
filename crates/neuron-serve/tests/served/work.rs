//! A client that does all that a runtime does with a device, over and over, and looks at every
//! byte; and what a server's machine must look like when such a one is gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;
use neuron_abi::{arg, cmd};
use neuron_ndl::{
    AllocRequest, Backend, Batch, BatchOperation, CopyRequest, Device, DeviceFile, Direction, Lane, Memory,
    WaitHandle, ZeroCopyOptions,
};
use neuron_serve::Server;
use vm_memory::VolatileSlice;
use zerocopy::IntoBytes;

use crate::child::{remote, report, variable};

pub(crate) const DEVICE: &str = "NEURON_SERVE_TEST_DEVICE";
pub(crate) const SEED: &str = "NEURON_SERVE_TEST_SEED";
/// Rounds to work; without it, until it is killed.
pub(crate) const ROUNDS: &str = "NEURON_SERVE_TEST_ROUNDS";

/// Marsaglia's xorshift: the same life for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (start, step) = (self.below(251) as usize, 1 + 2 * self.below(100) as usize);
        (0..len).map(|index| (start + index * step + (index >> 9)) as u8).collect()
    }
}

pub(crate) fn allocate(device: &Arc<Device>, size: u64, host: bool, core: u32) -> Memory {
    let category = if host { Category::TensorsHost } else { Category::TensorsDevice };
    device.allocate(AllocRequest { size, align: 0, host, hbm: 0, core, category }).unwrap()
}

/// Claims a copy ring and a service ring of a core; the queues.
pub(crate) fn claim(file: &dyn DeviceFile, core: u32) -> u32 {
    let mut wanted = arg::H2tDmaAllocQueues {
        sz: size_of::<arg::H2tDmaAllocQueues>() as u16,
        nc_id: core as u16,
        copy_queue_cnt: 1,
        service_queue_cnt: 1,
        ..Default::default()
    };
    // SAFETY: the argument is the command's, and holds no address.
    unsafe { file.ioctl(cmd::H2T_DMA_ALLOC_QUEUES.word, wanted.as_mut_bytes()) }.unwrap();
    wanted.copy_queue_bmap | wanted.service_queue_bmap
}

pub(crate) fn release(file: &dyn DeviceFile, core: u32, queues: u32) {
    let mut given = arg::H2tDmaFreeQueues {
        sz: size_of::<arg::H2tDmaFreeQueues>() as u16,
        nc_id: core as u8,
        queue_bmap: queues,
        ..Default::default()
    };
    // SAFETY: as above.
    unsafe { file.ioctl(cmd::H2T_DMA_FREE_QUEUES.word, given.as_mut_bytes()) }.unwrap();
}

/// The client.
pub(crate) fn act() {
    let (index, seed): (u64, u64) = (variable(DEVICE).parse().unwrap(), variable(SEED).parse().unwrap());
    let rounds = std::env::var(ROUNDS).map_or(u64::MAX, |rounds| rounds.parse().unwrap());
    let remote = remote();
    let mut random = Random::new(seed);
    let core = (seed % 2) as u32;
    let index = index as u8;
    let device = Device::open(&remote, index).unwrap();
    report("opened");
    let keeper = allocate(&device, 1 << 20, false, core);
    let kept = random.bytes(1 << 20);
    device.buffer_copy_in(&keeper, 0, &kept).unwrap();
    let mut work = Work { device, keeper, kept, random, core };
    for round in 0..rounds {
        let file = remote.open(index, Lane::Full).unwrap();
        work.round(&*file);
        report(&format!("round {round}"));
    }
    report("done");
}

struct Work {
    device: Arc<Device>,
    /// What must never change.
    keeper: Memory,
    kept: Vec<u8>,
    random: Random,
    core: u32,
}

impl Work {
    fn round(&mut self, file: &dyn DeviceFile) {
        let Self { device, core, .. } = self;
        let queues = claim(file, *core);
        report("claimed");
        let size = (1 + self.random.below(64)) * 4096;
        let [first, second] = [(); 2].map(|()| allocate(device, size, false, *core));
        let host = allocate(device, size, true, *core);
        report("allocated");
        let sent = self.random.bytes(size as usize);
        device.buffer_copy_in(&first, 0, &sent).unwrap();
        report("staged");
        let copy = |source, destination| CopyRequest {
            source,
            destination,
            source_offset: 0,
            destination_offset: 0,
            bytes: size,
        };
        device.copy(copy(&first, &second)).unwrap();
        report("copied");
        match device.copy_async(copy(&second, &host), 0, WaitHandle::NONE) {
            Ok(handle) => {
                report("a copy runs");
                device.copy_wait(&second, handle).unwrap();
            }
            // Another process's copy has the place on this core's ring.
            Err(error) if error.errno == Errno::EBUSY => device.copy(copy(&second, &host)).unwrap(),
            Err(error) => panic!("{error}"),
        }
        let mapped = host.map().unwrap();
        let mut seen = vec![0; size as usize];
        mapped.slice().copy_to(&mut seen);
        assert!(seen == sent, "mapped host memory");
        report("mapped");
        if device.facts().generation != Generation::V2 {
            self.without_bounce(&first, &sent);
        }
        self.verify();
        report("verified");
        // What shows others waits for those that are dead, also if its caller dies of it.
        let own = std::process::id().cast_signed();
        assert!(self.device.processes().unwrap().iter().any(|app| app.pid == own));
        report("shown");
        drop((first, second, host));
        release(file, self.core, queues);
    }

    fn without_bounce(&mut self, memory: &Memory, there: &[u8]) {
        let Self { device, core, .. } = self;
        let mut back = vec![0; there.len()];
        let into = VolatileSlice::from(&mut back[..]);
        device.zero_copy(memory, 0, into, Direction::Out, ZeroCopyOptions::default()).unwrap();
        assert!(back == there, "zero copy");
        // Each core's default queue: cores share an H2T engine by twos.
        let queue = (*core % device.geometry().cores_per_h2t_engine) as u8;
        let mut reader = device.completion_queue(*core, queue).unwrap();
        let mut sent = self.random.bytes(there.len());
        let operations = [BatchOperation { offset: 0, buffer: VolatileSlice::from(&mut sent[..]) }];
        let batch = Batch { memory, offset: 0, operations: &operations, context: 7 };
        // SAFETY: the bytes stay until the end is told, or the process is killed.
        unsafe { device.request_zero_copy(&[batch], Direction::In, ZeroCopyOptions::default(), 1) }.unwrap();
        report("a request runs");
        while reader.poll().is_none() {
            std::thread::yield_now();
        }
        device.buffer_copy_out(memory, 0, &mut back).unwrap();
        assert!(back == sent, "requested zero copy");
    }

    fn verify(&self) {
        let mut back = vec![0; self.kept.len()];
        self.device.buffer_copy_out(&self.keeper, 0, &mut back).unwrap();
        assert!(back == self.kept, "what was written at the start has changed");
    }
}

/// Nothing of a dead process is left on a device; no waiting, no second try.
pub(crate) fn assert_gone(server: &Server, seen_by: &Device, pid: i32) {
    let shown = seen_by.processes().unwrap();
    assert!(shown.iter().all(|app| app.pid != pid), "{pid} has a slot: {shown:?}");
    assert!(server.clients().iter().all(|(other, _)| *other != pid));
    let driver = server.machine().driver(seen_by.facts().index).unwrap();
    assert_eq!(driver.held_by(pid), []);
    for view in driver.introspect() {
        assert!(view.held_by != Some(pid) && view.owner != pid, "{view:?}");
    }
}

/// What is in use of a server's machine.
#[derive(Debug, PartialEq)]
pub(crate) struct InUse {
    host: u64,
    devices: Vec<DeviceInUse>,
}

#[derive(Debug, PartialEq)]
struct DeviceInUse {
    /// Bytes, by HBM.
    hbms: Vec<u64>,
    /// Queues that are claimed: engine and number.
    claimed: BTreeSet<(u32, u32)>,
}

impl InUse {
    pub(crate) fn of(server: &Server) -> Self {
        // What has ended is over.
        let _settled = server.clients();
        let machine = server.machine();
        let devices = (0..machine.instance().devices).map(|index| {
            let driver = machine.driver(index).unwrap();
            let hbms = (0..4).map_while(|hbm| driver.pools().hbm(hbm)).map(|hbm| hbm.allocated);
            let claimed = driver.introspect().into_iter().filter(|view| view.is_allocated);
            let claimed = claimed.map(|view| (view.engine, view.queue));
            DeviceInUse { hbms: hbms.collect(), claimed: claimed.collect() }
        });
        let devices = devices.collect();
        Self { host: machine.host_memory().in_use(), devices }
    }
}
