//! The session: every typed command, with real bytes, on whatever driver there is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use neuron_abi::enums::{Block, QueueType, Resource};
use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;
use neuron_ndl::testing::{Age, Tape};
use neuron_ndl::{
    AllocRequest, Backend, Batch, BatchOperation, CopyRequest, Device, Direction, FallbackHook, Memory,
    NdlError, OpenOptions, WaitHandle, ZeroCopyOptions,
};
use vm_memory::VolatileSlice;

const MIB: u64 = 1 << 20;
/// How long an end may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it. What was answered, and each fallback, is noted on the tape.
pub(crate) fn run(backend: &dyn Backend, tape: &Tape, age: Age) {
    tape.note("open");
    let heard = tape.clone();
    let hook = FallbackHook::new(move |device, fallback| heard.note(&format!("neuron{device}: {fallback}")));
    // The windows are looked up by a command that the oldest drivers lack.
    let options = OpenOptions { map_hbm: age < Age::BeforeAsync, on_fallback: Some(hook) };
    let device = Device::open_with(backend, 0, &options).unwrap();
    let session = Session { device, tape, age };
    let [host, hbm] = session.memory();
    session.copies(&host, &hbm);
    session.records(&hbm);
    session.zero_copies(&hbm);
    session.queues();
    tape.note("close");
}

struct Session<'a> {
    device: Arc<Device>,
    tape: &'a Tape,
    age: Age,
}

fn pattern(len: u64, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8 ^ (index >> 12) as u8 ^ seed).collect()
}

impl Session<'_> {
    /// Notes what came of a step, and whether that is what the driver's age makes of it.
    fn step<T>(&self, name: &str, works: bool, run: impl FnOnce() -> Result<T, NdlError>) -> Option<T> {
        self.tape.note(name);
        let result = run();
        if let Err(error) = &result {
            self.tape.note(&error.to_string());
            assert_eq!(error.errno, Errno::EINVAL, "{name}");
        }
        assert_eq!(result.is_ok(), works, "{name} on {:?}: {:?}", self.age, result.err());
        result.ok()
    }

    fn request(size: u64, align: u64, host: bool, hbm: u32, core: u32) -> AllocRequest {
        let category = if host { Category::TensorsHost } else { Category::TensorsDevice };
        AllocRequest { size, align, host, hbm, core, category }
    }

    fn memory(&self) -> [Memory; 2] {
        let Self { device, age, .. } = self;
        self.step("aligned", *age < Age::BeforeAlignment, || {
            let memory = device.allocate(Self::request(3 * MIB, 0x10000, false, 2, 5))?;
            assert!(memory.pa().is_multiple_of(0x10000));
            Ok(())
        });
        self.step("5 GiB", *age < Age::Before64Bit, || {
            device.allocate(Self::request(5 << 30, 0, false, 0, 0)).map(drop)
        });
        let host =
            self.step("host memory", true, || device.allocate(Self::request(MIB, 0, true, 0, 1))).unwrap();
        let hbm = self
            .step("device memory, mapped", true, || {
                let memory = device.allocate(Self::request(2 * MIB, 0, false, 0, 1))?;
                let mapping = memory.map()?;
                mapping.slice().copy_from(&pattern(4096, 9));
                Ok(memory)
            })
            .unwrap();
        let mut seen = [0; 4096];
        device.buffer_copy_out(&hbm, 0, &mut seen).unwrap();
        assert!(seen[..] == pattern(4096, 9), "the mapping is of the memory");
        [host, hbm]
    }

    fn copies(&self, host: &Memory, hbm: &Memory) {
        let Self { device, .. } = self;
        let sent = pattern(MIB, 1);
        self.step("buffer copy, copy", true, || {
            device.buffer_copy_in(host, 0, &sent)?;
            device.copy(CopyRequest {
                source: host,
                destination: hbm,
                source_offset: 0x1000,
                destination_offset: 0x2000,
                bytes: MIB - 0x1000,
            })
        });
        self.expect(hbm, 0x2000, &sent[0x1000..]);
        self.step("three asynchronous copies", true, || {
            let mut previous = WaitHandle::NONE;
            for part in 0..3 {
                let copy = CopyRequest {
                    source: host,
                    destination: hbm,
                    source_offset: part * 0x10000,
                    destination_offset: MIB + part * 0x10000,
                    bytes: 0x10000,
                };
                previous = device.copy_async(copy, 0, previous)?;
            }
            if previous.is_pending() { device.copy_wait(hbm, previous) } else { Ok(()) }
        });
        self.expect(hbm, MIB, &sent[..0x30000]);
        self.step("fill", true, || device.memset(hbm, 0x3000, 0x5000, 0xA7));
        self.expect(hbm, 0x3000, &[0xA7; 0x5000]);
    }

    fn expect(&self, memory: &Memory, offset: u64, bytes: &[u8]) {
        let mut back = vec![0; bytes.len()];
        self.device.buffer_copy_out(memory, offset, &mut back).unwrap();
        assert!(back == bytes, "{:?}: {} bytes at {offset:#x}", self.age, bytes.len());
    }

    fn records(&self, hbm: &Memory) {
        let Self { device, age, .. } = self;
        self.step("versions", *age < Age::BeforeAlignment, || device.compatible_versions());
        self.step("extended info", true, || {
            let info = device.memory_info(hbm)?;
            assert_eq!((info.host, info.pa, info.size), (false, hbm.pa(), 2 * MIB));
            assert_eq!(info.pid, u64::from(std::process::id()));
            Ok(())
        });
        self.step("chunk by address", *age < Age::BeforeAsync, || {
            let chunk = device.chunk_at(hbm.pa() + 5000)?;
            assert_eq!((chunk.start, chunk.size), (hbm.pa(), 2 * MIB));
            assert_eq!(chunk.handle, (*age < Age::BeforeCategories).then_some(hbm.handle()));
            Ok(())
        });
        self.step("chunks", *age < Age::BeforeChunkList, || {
            let chunks = device.chunks(0)?;
            assert!(chunks.iter().any(|chunk| chunk.pa == hbm.pa() && chunk.size == 2 * MIB));
            Ok(())
        });
        self.step("processes", true, || {
            let processes = device.processes()?;
            assert_eq!(processes.len(), 1);
            assert!(processes[0].host_mem_size >= 17 * MIB && processes[0].device_mem_size == 2 * MIB);
            Ok(())
        });
        self.step("a part of the device", *age < Age::BeforeAsync, || {
            let mapping = device.map_part(Block::TopSp, 3, Resource::All)?;
            assert!(!mapping.is_writable());
            Ok(())
        });
        self.step("HBM scrub", true, || {
            assert_eq!(device.scrub_hbm(6, 3, 0x5A5A_5A5A)?, *age < Age::BeforeChunkList);
            Ok(())
        });
        if let Some(window) = device.hbm_window(0) {
            let base = device.geometry().hbm(0).unwrap().base;
            let mut seen = [0_u8; 0x1000];
            window.slice().subslice((hbm.pa() - base + 0x3000) as usize, 0x1000).unwrap().copy_to(&mut seen);
            assert!(seen == [0xA7; 0x1000], "the window shows what was filled");
        }
        self.step("export", true, || {
            let mapping = hbm.map()?;
            device.export(&mapping, 4096, 8192).map(drop)
        });
    }

    fn zero_copies(&self, hbm: &Memory) {
        let Self { device, age, .. } = self;
        let options = ZeroCopyOptions { queue: None, direct_write: 4096 };
        assert_eq!(device.offers_zero_copy(), *age < Age::V2_24_7);
        let sent = pattern(300_001, 3);
        let there = self.step("zero-copy, by name", *age < Age::Before64Bit, || {
            device.zero_copy_in(hbm, 7, &sent, options)?;
            let mut back = vec![0; sent.len()];
            device.zero_copy(hbm, 7, VolatileSlice::from(&mut back[..]), Direction::Out, options)?;
            assert!(back == sent);
            Ok(())
        });
        if there.is_some() {
            self.expect(hbm, 7, &sent);
        }
        let (mut first, mut second) = (pattern(5000, 4), pattern(70_000, 5));
        let (sent, mut batch) = ([first.clone(), second.clone()], Vec::new());
        batch.push(BatchOperation { offset: 0x100, buffer: VolatileSlice::from(&mut first[..]) });
        batch.push(BatchOperation { offset: 0x10000, buffer: VolatileSlice::from(&mut second[..]) });
        let batches = [Batch { memory: hbm, offset: 0x200, operations: &batch, context: 77 }];
        assert_eq!(device.offers_batches(), *age < Age::V2_24_7);
        let there = self.step("batches", *age < Age::V2_24_7, || {
            device.zero_copy_batches(&batches, Direction::In, options)
        });
        if there.is_some() {
            self.expect(hbm, 0x300, &sent[0]);
            self.expect(hbm, 0x10200, &sent[1]);
        }
        self.step("completion queue, a request", *age < Age::V2_25_4, || {
            let mut reader = device.completion_queue(1, 1)?;
            // SAFETY: the buffers live until the end was read below.
            unsafe { device.request_zero_copy(&batches, Direction::In, options, 42) }?;
            let start = Instant::now();
            let end = loop {
                match reader.poll() {
                    Some(end) => break end,
                    None => assert!(start.elapsed() < PATIENCE, "no end was told"),
                }
                std::thread::yield_now();
            };
            assert_eq!((end.result, end.context, end.sequence), (Ok(()), 77, 42));
            Ok(())
        });
    }

    fn queues(&self) {
        let Self { device, .. } = self;
        let engine = device.geometry().h2t_engines[0];
        self.step("engine, queue, descriptors", true, || {
            device.engine_state(engine)?;
            device.queue_state(engine, 0)?;
            assert_eq!(device.descriptors(engine, 0, QueueType::Tx, 2, 3)?.len(), 3);
            Ok(())
        });
    }
}
