//! The script: what a process does between open and close, step by step. Each step answers
//! as its ioctl did.

use std::sync::Arc;

use neuron_abi::{arg, cmd};
use neuron_driver::Device;
use neuron_tests::client::{Chunk, Client, NONE};
use neuron_udma::descriptor::{Barrier, Copy};
use zerocopy::IntoBytes;

/// What a step answers whose bytes did not arrive, or are wrong.
pub(crate) const NOT_DONE: i64 = i64::MIN;
/// What a step answers whose reset went wrong: the ioctl itself succeeds.
pub(crate) const RESET_FAILED: i64 = i64::MIN + 1;

/// Bytes that copies move, more than two descriptors' worth.
const BYTES: u64 = 150_000;
/// Queue of the core's own engines, bound by the process.
const MODEL: (u32, u32) = (3, 5);
const DESCRIPTORS: u32 = 64;
const CORE: u32 = 0;
/// User address of arguments' buffers.
const BUFFER: u64 = 0x10_0000;

/// A process on its way.
pub(crate) struct Life {
    client: Client,
    host: Chunk,
    other_host: Chunk,
    device: Chunk,
    other_device: Chunk,
    rings: [Chunk; 2],
    /// Queues of the core's H2T engine that it claimed.
    claimed: u32,
    /// Wait handle of the copy that runs.
    running: u32,
}

/// One step: its name, and what it does.
pub(crate) type Step = (&'static str, fn(&mut Life) -> i64);

/// A life from its first allocation to the last step before it exits.
pub(crate) const SCRIPT: &[Step] = &[
    ("host memory", |life| life.allocate(|life| &mut life.host, None, BYTES)),
    ("more host memory", |life| life.allocate(|life| &mut life.other_host, None, BYTES)),
    ("device memory", |life| life.allocate(|life| &mut life.device, Some(0), BYTES)),
    ("more device memory", |life| life.allocate(|life| &mut life.other_device, Some(0), BYTES)),
    ("memory of a TX ring", |life| life.allocate(|life| &mut life.rings[0], Some(0), 4096)),
    ("memory of an RX ring", |life| life.allocate(|life| &mut life.rings[1], None, 4096)),
    ("queues", Life::request),
    ("binding a queue", Life::bind),
    ("bytes into host memory", |life| life.client.write(life.host, 0, &pattern(1))),
    ("host to device", |life| life.client.copy(life.host, life.device, BYTES)),
    ("device to device", |life| life.client.copy(life.device, life.other_device, BYTES)),
    ("device to host", |life| life.client.copy(life.other_device, life.other_host, BYTES)),
    ("those bytes", |life| life.expect(life.other_host, 1)),
    ("bytes into device memory", |life| life.client.write(life.device, 0, &pattern(2))),
    ("those bytes back", |life| life.expect(life.device, 2)),
    ("a fill", |life| life.client.memset(life.other_device, 3, BYTES)),
    ("a copy that runs", |life| life.copy_async(life.device, life.other_device, NONE)),
    ("a copy behind it", |life| life.copy_async(life.other_device, life.other_host, life.running)),
    ("waiting for it", |life| life.client.wait(life.device, life.running)),
    ("the bytes of both", |life| life.expect(life.other_host, 2)),
    ("descriptors", Life::describe),
    ("the doorbell", Life::ring),
    ("what the ring moved", |life| life.expect_start(life.other_host, 4096)),
    ("its state", Life::look),
    ("its descriptors", Life::copy_out),
    ("descriptors back", Life::acknowledge),
    ("a queue let go", Life::release),
    ("a reset of the core", |life| life.reset()),
    ("a binding after the reset", Life::bind),
    ("host to device after the reset", |life| life.client.copy(life.host, life.device, BYTES)),
    ("those bytes after the reset", |life| life.expect(life.device, 1)),
    ("queues after the reset", Life::request),
    ("a copy that is not waited for", |life| life.copy_async(life.host, life.other_device, NONE)),
    ("a chunk freed", |life| life.client.free(life.other_host)),
];

/// The step that resets the core.
pub(crate) const RESET: usize = 27;

/// Bytes that tell whose they are and where they belong.
fn pattern(seed: u8) -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8 ^ seed.wrapping_mul(59)).collect()
}

impl Life {
    pub(crate) fn begin(device: &Arc<Device>, pid: i32) -> Self {
        const NOTHING: Chunk = Chunk { handle: 0, pa: 0 };
        Self {
            client: Client::open_as(device, pid).unwrap(),
            host: NOTHING,
            other_host: NOTHING,
            device: NOTHING,
            other_device: NOTHING,
            rings: [NOTHING; 2],
            claimed: 0,
            running: 0,
        }
    }

    fn allocate(&mut self, place: fn(&mut Self) -> &mut Chunk, hbm: Option<u32>, bytes: u64) -> i64 {
        match self.client.try_allocate(hbm, bytes, CORE) {
            Ok(chunk) => {
                *place(self) = chunk;
                0
            }
            Err(ret) => ret,
        }
    }

    fn request(&mut self) -> i64 {
        let mut queues = arg::H2tDmaAllocQueues {
            nc_id: CORE as u16,
            copy_queue_cnt: 2,
            service_queue_cnt: 1,
            ..Default::default()
        };
        let ret = self.client.call(&cmd::H2T_DMA_ALLOC_QUEUES, &mut queues);
        self.claimed = queues.copy_queue_bmap | queues.service_queue_bmap;
        ret
    }

    fn release(&mut self) -> i64 {
        let lowest = 1 << self.claimed.trailing_zeros();
        let mut queues =
            arg::H2tDmaFreeQueues { nc_id: CORE as u8, queue_bmap: lowest, ..Default::default() };
        self.client.call(&cmd::H2T_DMA_FREE_QUEUES, &mut queues)
    }

    fn bind(&mut self) -> i64 {
        self.client.bind(MODEL, DESCRIPTORS, self.rings.map(Some))
    }

    fn copy_async(&mut self, source: Chunk, destination: Chunk, previous: u32) -> i64 {
        let (ret, handle) = self.client.copy_async(source, destination, BYTES, previous);
        self.running = handle;
        ret
    }

    fn expect(&self, chunk: Chunk, seed: u8) -> i64 {
        match self.client.read(chunk, 0, BYTES as usize) {
            (0, bytes) if bytes == pattern(seed) => 0,
            (0, _) => NOT_DONE,
            (ret, _) => ret,
        }
    }

    /// The first bytes of host memory are those of `host`.
    fn expect_start(&self, chunk: Chunk, bytes: usize) -> i64 {
        match self.client.read(chunk, 0, bytes) {
            (0, read) if read == pattern(1)[..bytes] => 0,
            (0, _) => NOT_DONE,
            (ret, _) => ret,
        }
    }

    /// One copy from `host` to `other_host`, for the bound ring.
    fn describe(&mut self) -> i64 {
        let copy = Copy {
            source: self.host.pa,
            destination: self.other_host.pa,
            bytes: 4096,
            barrier: Barrier::None,
            interrupt: false,
        };
        let halves = [copy.tx(1).unwrap(), copy.rx(1).unwrap()];
        for (ring, (descriptor, queue_type)) in self.rings.into_iter().zip(halves.into_iter().zip(0..)) {
            self.client.space().map(BUFFER, descriptor.to_vec());
            let mut store = arg::DmaCopyDescriptors64 {
                mem_handle: ring.handle,
                buffer: BUFFER,
                num_descs: 1,
                queue_type,
                ..Default::default()
            };
            let ret = self.client.call(&cmd::DMA_COPY_DESCRIPTORS64, &mut store);
            if ret != 0 {
                return ret;
            }
        }
        0
    }

    fn ring(&mut self) -> i64 {
        let (eng_id, qid) = MODEL;
        let mut start = arg::DmaQueueCopyStart { eng_id, qid, tx_desc_count: 1, rx_desc_count: 1 };
        self.client.call(&cmd::DMA_QUEUE_COPY_START, &mut start)
    }

    fn look(&mut self) -> i64 {
        let (eng_id, qid) = MODEL;
        self.client.space().map(BUFFER, vec![0; 2 * size_of::<arg::DmaQueueState>()]);
        let rx = BUFFER + size_of::<arg::DmaQueueState>() as u64;
        let mut state = arg::DmaQueueGetState { eng_id, qid, tx: BUFFER, rx };
        match self.client.call(&cmd::DMA_QUEUE_GET_STATE, &mut state) {
            0 => {}
            ret => return ret,
        }
        let mut engine = arg::DmaEngGetState { eng_id, state: BUFFER, ..Default::default() };
        self.client.call(&cmd::DMA_ENG_GET_STATE, &mut engine)
    }

    fn copy_out(&mut self) -> i64 {
        let (eng_id, qid) = MODEL;
        self.client.space().map(BUFFER, vec![0; 16]);
        let mut copyout =
            arg::DmaDescriptorCopyout { eng_id, qid, count: 1, buffer: BUFFER, ..Default::default() };
        let ret = self.client.call(&cmd::DMA_DESCRIPTOR_COPYOUT, &mut copyout);
        let stored = self.client.space().bytes(BUFFER + 8, 8).unwrap();
        if ret == 0 && stored != self.host.pa.as_bytes() { NOT_DONE } else { ret }
    }

    fn acknowledge(&mut self) -> i64 {
        let (eng_id, qid) = MODEL;
        self.client.call(&cmd::DMA_ACK_COMPLETED, &mut arg::DmaAckCompleted { eng_id, qid, count: 1 })
    }

    /// Resets the core and collects the outcome.
    pub(crate) fn reset(&self) -> i64 {
        let pid = self.client.file().pid();
        match self.client.reset(1 << CORE) {
            0 => match self.client.reset_outcome(pid) {
                (0, 0) => 0,
                (0, _) => RESET_FAILED,
                (ret, _) => ret,
            },
            ret => ret,
        }
    }
}
