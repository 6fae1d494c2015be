//! The defects of the shipped driver (`spec/driver.md` 10), by number: each test shows
//! what a correct driver does, and would fail with the defect in it. Which defects have
//! no test, and why, is in `docs/defects.md`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod defects {
    use std::sync::Arc;

    use neuron_abi::arch::Generation;
    use neuron_abi::arg;
    use neuron_abi::cmd;
    use neuron_abi::errno::Errno;
    use neuron_abi::memory::{Category, MemLocation};
    use neuron_driver::hw::{Hardware, Identity, VirtualClock};
    use neuron_driver::pool::{ChunkRef, Lifespan, Request};
    use neuron_driver::queues::Binding;
    use neuron_driver::requests::Wanted;
    use neuron_driver::ring::Flavour;
    use neuron_driver::{Device, Params};
    use neuron_ndl::software::{HostMemory, SoftHardware};
    use neuron_softdev::{DeviceConfig, Product};
    use neuron_tests::client::{Chunk, Client};
    use neuron_udma::MmioError;

    const EINVAL: i64 = -22;
    const NONE: u32 = u32::MAX;

    /// A device whose engines work in the doorbell, with faults and a clock of its own.
    struct Rig {
        device: Arc<Device>,
        hardware: Arc<Counting>,
        host: Arc<HostMemory>,
    }

    /// Counts register writes and fails a read on demand.
    struct Counting {
        inner: SoftHardware,
        writes: std::sync::atomic::AtomicU64,
        fail_read: std::sync::atomic::AtomicI64,
        refuse_memory: std::sync::atomic::AtomicBool,
    }

    impl Hardware for Counting {
        fn identity(&self) -> Identity {
            self.inner.identity()
        }
        fn read(&self, offset: u64) -> Result<u32, MmioError> {
            use std::sync::atomic::Ordering::Relaxed;
            match self.fail_read.fetch_sub(1, Relaxed) {
                1 => Err(MmioError { offset }),
                _ => self.inner.read(offset),
            }
        }
        fn write(&self, offset: u64, value: u32) -> Result<(), MmioError> {
            self.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.inner.write(offset, value)
        }
        fn bar_size(&self, bar: u8) -> u64 {
            self.inner.bar_size(bar)
        }
        fn dma_alloc(&self, bytes: u64) -> Option<neuron_driver::hw::DmaMemory> {
            let refused = self.refuse_memory.load(std::sync::atomic::Ordering::Relaxed);
            if refused { None } else { self.inner.dma_alloc(bytes) }
        }
        fn dma_free(&self, memory: &neuron_driver::hw::DmaMemory) {
            self.inner.dma_free(memory);
        }
    }

    impl Rig {
        fn with(product: Product, fault: &str) -> Self {
            let host = Arc::new(HostMemory::new().unwrap());
            let config = DeviceConfig { faults: fault.parse().unwrap(), ..DeviceConfig::new(product) };
            let inner = SoftHardware::new(neuron_softdev::Device::new(config).unwrap(), Arc::clone(&host));
            let hardware = Arc::new(Counting {
                inner,
                writes: 0.into(),
                fail_read: 0.into(),
                refuse_memory: false.into(),
            });
            let shared: Arc<dyn Hardware> = Arc::clone(&hardware) as _;
            let device = Device::probe(shared, Arc::new(VirtualClock::default()), Params::default()).unwrap();
            Self { device, hardware, host }
        }

        fn new() -> Self {
            Self::with(Product::Trn1, "")
        }

        /// Register writes since the last call.
        fn writes(&self) -> u64 {
            self.hardware.writes.swap(0, std::sync::atomic::Ordering::Relaxed)
        }

        fn client(&self, pid: i32) -> Client {
            Client::open_as(&self.device, pid).unwrap()
        }

        fn chunk(&self, bytes: u64, pid: i32) -> ChunkRef {
            let request = Request {
                lifespan: Lifespan::CurrentProcess,
                pid,
                ..Request::driver_host(bytes, 0, Lifespan::Device)
            };
            self.device.pools().allocate(request).unwrap()
        }

        fn bind(&self, engine: u32, qid: u32, count: u32, pid: i32) -> Result<(), Errno> {
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

        fn owner(&self, engine: u32, qid: u32) -> i32 {
            self.device.engines().lock(engine).unwrap().queues[qid as usize].owner()
        }
    }

    fn copy(client: &Client, source: Chunk, destination: Chunk, size: u64) -> i64 {
        let mut argument = arg::MemCopy64 {
            src_mem_handle: source.handle,
            dst_mem_handle: destination.handle,
            size,
            ..Default::default()
        };
        client.call(&cmd::MEM_COPY64, &mut argument)
    }

    fn copy_async(
        client: &Client,
        source: Chunk,
        destination: Chunk,
        size: u64,
        previous: u32,
    ) -> (i64, u32) {
        let mut argument = arg::MemCopyAsync64 {
            src_mem_handle: source.handle,
            dst_mem_handle: destination.handle,
            size,
            pwait_handle: previous,
            ..Default::default()
        };
        (client.call(&cmd::MEM_COPY_ASYNC64, &mut argument), argument.wait_handle)
    }

    fn wait(client: &Client, memory: Chunk, handle: u32) -> i64 {
        let mut argument = arg::MemCopyAsyncWait {
            src_mem_handle: memory.handle,
            dst_mem_handle: memory.handle,
            pwait_handle: handle,
            ..Default::default()
        };
        client.call(&cmd::MEM_COPY_ASYNC_WAIT, &mut argument)
    }

    #[test]
    fn d01_a_failed_register_read_leaves_the_engine_free() {
        let rig = Rig::new();
        rig.bind(3, 5, 64, 1000).unwrap();
        for read in 1..=6 {
            rig.hardware.fail_read.store(read, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(rig.device.queue_ring_registers(3, 5).err(), Some(Errno::EIO), "read {read}");
            // Would block for ever with the lock left held.
            assert!(rig.device.queue_ring_registers(3, 5).is_ok());
        }
    }

    #[test]
    fn d02_counts_are_held_against_their_chunks() {
        let rig = Rig::new();
        for (tx_count, rx_count) in [(512, 256), (256, 512)] {
            let binding = Binding {
                tx_count,
                rx_count,
                tx: Some(rig.chunk(4096, 1000)),
                rx: Some(rig.chunk(4096, 1000)),
                ..Binding::default()
            };
            rig.writes();
            assert_eq!(rig.device.queue_init(3, 5, binding, 1000), Err(Errno::EINVAL));
            assert_eq!((rig.writes(), rig.owner(3, 5)), (0, 0));
        }
    }

    #[test]
    fn d03_closing_and_opening_a_core_leaks_no_ring() {
        let rig = Rig::new();
        let before = rig.host.in_use();
        for _ in 0..20 {
            rig.device.close_cores(0b01);
            rig.device.init_cores(0b01).unwrap();
            assert_eq!(rig.host.in_use(), before);
        }
    }

    #[test]
    fn d04_queue_state_checks_engine_and_queue() {
        let rig = Rig::new();
        for (engine, qid) in [(132, 0), (u32::MAX, 0), (0, 16), (0, u32::MAX), (100, 0)] {
            assert_eq!(rig.device.queue_state(engine, qid).err(), Some(Errno::EINVAL), "{engine} {qid}");
        }
    }

    #[test]
    fn d05_descriptor_copyout_uses_full_indices_and_applies_the_start() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let ring = client.allocate(Some(0), 4096, 0).unwrap();
        let mut init = arg::DmaQueueInit {
            eng_id: 3,
            qid: 5,
            tx_desc_count: 256,
            rx_desc_count: 256,
            tx_handle: ring.handle,
            rx_handle: ring.handle,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::DMA_QUEUE_INIT, &mut init), 0);
        let descriptors: Vec<u8> =
            (0..256_u32).flat_map(|index| [[index as u8; 8], 0x1000_u64.to_le_bytes()].concat()).collect();
        client.space().map(0x10_0000, descriptors);
        let mut store = arg::DmaCopyDescriptors64 {
            mem_handle: ring.handle,
            buffer: 0x10_0000,
            num_descs: 256,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::DMA_COPY_DESCRIPTORS64, &mut store), 0);
        let copyout = |eng_id, qid, start_index, count| {
            client.space().map(0x20_0000, vec![0; 16]);
            let mut argument = arg::DmaDescriptorCopyout {
                eng_id,
                qid,
                start_index,
                count,
                buffer: 0x20_0000,
                ..Default::default()
            };
            client.call(&cmd::DMA_DESCRIPTOR_COPYOUT, &mut argument)
        };
        assert_eq!(copyout(3, 5, 77, 1), 0);
        assert_eq!(client.space().bytes(0x20_0000, 1).unwrap(), [77]);
        for (engine, queue) in [(256 + 3, 5), (3, 256 + 5)] {
            assert_eq!(copyout(engine, queue, 0, 1), EINVAL);
        }
        for (start, count) in [(256, 1), (1, 256), (u32::MAX, 2), (2, u32::MAX)] {
            assert_eq!(copyout(3, 5, start, count), -27, "{start} {count}");
        }
    }

    #[test]
    fn d06_d09_no_doorbell_on_a_queue_whose_memory_nobody_holds() {
        let rig = Rig::new();
        let tx_only =
            Binding { tx_count: 64, rx_count: 64, tx: Some(rig.chunk(4096, 1000)), ..Binding::default() };
        rig.device.queue_init(3, 5, tx_only, 1000).unwrap();
        rig.writes();
        assert_eq!(rig.device.queue_copy_start(3, 5, 1, 1), Err(Errno::EINVAL));
        // An exited process leaves registers that point at freed memory on NX queues.
        rig.bind(3, 14, 64, 1001).unwrap();
        rig.writes();
        rig.device.release_process_queues(1001);
        assert_eq!(rig.device.queue_copy_start(3, 14, 1, 1), Err(Errno::EINVAL));
        assert_eq!(rig.writes(), 0);
    }

    #[test]
    fn d07_a_refused_queue_init_changes_nothing() {
        let rig = Rig::new();
        rig.bind(3, 5, 64, 1000).unwrap();
        let before = rig.device.engines().lock(3).unwrap().queues[5].shown;
        rig.writes();
        // RX fails after TX would have been programmed.
        let binding = Binding {
            tx_count: 64,
            rx_count: 16,
            tx: Some(rig.chunk(4096, 2000)),
            rx: Some(rig.chunk(4096, 2000)),
            ..Binding::default()
        };
        assert_eq!(rig.device.queue_init(3, 5, binding, 2000), Err(Errno::EINVAL));
        assert_eq!((rig.writes(), rig.owner(3, 5)), (0, 1000));
        assert_eq!(rig.device.engines().lock(3).unwrap().queues[5].shown, before);
    }

    #[test]
    fn d08_binding_nothing_lets_the_old_chunks_go() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let ring = client.allocate(Some(0), 1 << 20, 0).unwrap();
        let mut init = arg::DmaQueueInit {
            eng_id: 3,
            qid: 5,
            tx_desc_count: 64,
            rx_desc_count: 64,
            tx_handle: ring.handle,
            rx_handle: ring.handle,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::DMA_QUEUE_INIT, &mut init), 0);
        let mut nothing = arg::DmaQueueInit { tx_handle: 0, rx_handle: 0, ..init };
        assert_eq!(client.call(&cmd::DMA_QUEUE_INIT, &mut nothing), 0);
        assert_eq!(client.call(&cmd::MEM_FREE, &mut arg::MemFree { mem_handle: ring.handle }), 0);
        assert_eq!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, ring.pa, "memory was used again");
        let engine = rig.device.engines().lock(3).unwrap();
        assert_eq!((engine.queues[5].shown.tx, engine.queues[5].has_rx()), (0, false));
    }

    #[test]
    fn d09_a_bound_chunk_is_not_used_again_before_the_queue_lets_it_go() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let ring = client.allocate(Some(0), 1 << 20, 0).unwrap();
        let mut init = arg::DmaQueueInit {
            eng_id: 3,
            qid: 5,
            tx_desc_count: 64,
            rx_desc_count: 64,
            tx_handle: ring.handle,
            rx_handle: ring.handle,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::DMA_QUEUE_INIT, &mut init), 0);
        assert_eq!(client.call(&cmd::MEM_FREE, &mut arg::MemFree { mem_handle: ring.handle }), 0);
        assert_ne!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, ring.pa);
        rig.device.release_process_queues(1000);
        assert_eq!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, ring.pa);
    }

    #[test]
    fn d10_an_unknown_handle_is_not_taken_for_no_ring() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let mut init = arg::DmaQueueInit {
            eng_id: 3,
            qid: 5,
            tx_desc_count: 64,
            rx_desc_count: 64,
            tx_handle: 99,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::DMA_QUEUE_INIT, &mut init), EINVAL);
    }

    #[test]
    fn d11_bad_states_and_uninitialised_engines_are_refused() {
        let rig = Rig::new();
        rig.writes();
        for state in [1, 4, 5, u32::MAX] {
            assert_eq!(rig.device.engine_set_state(3, state), Err(Errno::EINVAL));
        }
        for engine in [34, 100, 131, 132, u32::MAX] {
            assert_eq!(rig.device.engine_set_state(engine, 2), Err(Errno::EINVAL), "{engine}");
            assert_eq!(rig.device.engine_state(engine).err(), Some(Errno::EINVAL));
            assert_eq!(rig.device.queue_acknowledge(engine, 0, 1), Err(Errno::EINVAL));
            assert_eq!(rig.device.queue_copy_start(engine, 0, 1, 1), Err(Errno::EINVAL));
        }
        assert_eq!(rig.writes(), 0);
    }

    #[test]
    fn d12_a_failed_request_leaves_the_slot_as_it_was() {
        let rig = Rig::new();
        for nth in 1..=3 {
            let before = rig.host.in_use();
            rig.device.pools().fault().arm(nth);
            assert_eq!(rig.device.request_queue(1, Wanted::H2t, 1000), Err(Errno::ENOMEM));
            assert_eq!(rig.host.in_use(), before);
            let engine = rig.device.engines().lock(33).unwrap();
            assert!(matches!(engine.queues[1].flavour, Flavour::Unused));
        }
        rig.device.pools().fault().arm(0);
        assert_eq!(rig.device.request_queue(1, Wanted::H2t, 1000), Ok(1));
    }

    #[test]
    fn d13_a_request_passes_over_a_queue_that_somebody_bound() {
        let rig = Rig::new();
        rig.bind(33, 1, 64, 2000).unwrap();
        assert_eq!(rig.device.request_queue(1, Wanted::H2t, 1000), Ok(2));
        assert_eq!(rig.owner(33, 1), 2000);
    }

    #[test]
    fn d14_a_service_ring_of_another_process_cannot_be_bound() {
        let rig = Rig::new();
        let qid = rig.device.request_queue(1, Wanted::Service, 1000).unwrap();
        rig.writes();
        assert_eq!(rig.bind(33, qid, 64, 2000), Err(Errno::EBUSY));
        assert_eq!(rig.writes(), 0);
        rig.bind(33, qid, 64, 1000).unwrap();
        assert!(rig.device.engines().lock(33).unwrap().queues[qid as usize].is_claimed());
    }

    #[test]
    fn d16_a_freed_ring_is_no_h2t_ring() {
        let rig = Rig::new();
        let qid = rig.device.request_queue(1, Wanted::H2t, 1000).unwrap();
        rig.device.release_queue(1, qid).unwrap();
        let engine = rig.device.engines().lock(33).unwrap();
        let queue = &engine.queues[qid as usize];
        assert!(queue.h2t().is_none() && !queue.is_claimed() && queue.core().is_none());
    }

    /// Visible, so it stays: release of a queue does nothing.
    #[test]
    fn d17_queue_release_does_nothing_and_says_so_with_success() {
        let rig = Rig::new();
        let client = rig.client(1000);
        rig.bind(3, 5, 64, 1000).unwrap();
        rig.writes();
        let mut release = arg::DmaQueueRelease { eng_id: 3, qid: 5 };
        assert_eq!(client.call(&cmd::DMA_QUEUE_RELEASE, &mut release), 0);
        assert_eq!((rig.writes(), rig.owner(3, 5)), (0, 1000));
    }

    #[test]
    fn d18_an_exit_leaves_no_owner_and_reaches_the_h2t_engines() {
        let rig = Rig::new();
        rig.bind(3, 5, 64, 1000).unwrap();
        rig.bind(3, 6, 64, 2000).unwrap();
        let service = rig.device.request_queue(1, Wanted::Service, 1000).unwrap();
        rig.bind(33, service, 64, 1000).unwrap();
        rig.device.release_process_queues(1000);
        assert_eq!([rig.owner(3, 5), rig.owner(33, service), rig.owner(3, 6)], [0, 0, 2000]);
        let dummy = rig.device.dummy_ring_address();
        for (engine, qid) in [(3, 5), (33, service)] {
            let (tx, rx) = rig.device.queue_ring_registers(engine, qid).unwrap();
            assert_eq!((tx.base, rx.base, tx.length), (dummy, dummy, 64));
        }
    }

    #[test]
    fn d19_requested_rings_end_with_their_process() {
        let rig = Rig::new();
        let before = rig.host.in_use();
        let client = rig.client(1000);
        for _ in 0..3 {
            rig.device.request_queue(1, Wanted::H2t, 1000).unwrap();
        }
        let other = rig.device.request_queue(1, Wanted::H2t, 2000).unwrap();
        drop(client);
        assert!(rig.device.engines().lock(33).unwrap().queues[other as usize].is_claimed());
        rig.device.release_queue(1, other).unwrap();
        assert_eq!(rig.host.in_use(), before);
    }

    #[test]
    fn d20_a_ring_of_an_odd_size_is_an_error_not_an_assertion() {
        let rig = Rig::new();
        rig.bind(3, 5, 48, 1000).unwrap();
        assert_eq!(rig.device.queue_acknowledge(3, 5, 1), Err(Errno::EINVAL));
    }

    #[test]
    fn d23_ring_memory_is_zeroed() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let dirty = client.allocate(None, 131_072, 0).unwrap();
        let mut memset =
            arg::Memset64 { mem_handle: dirty.handle, value: 0xff, size: 131_072, ..Default::default() };
        assert_eq!(client.call(&cmd::MEMSET64, &mut memset), 0);
        assert_eq!(client.call(&cmd::MEM_FREE, &mut arg::MemFree { mem_handle: dirty.handle }), 0);
        let qid = rig.device.request_queue(0, Wanted::H2t, 1000).unwrap();
        let ring = rig.device.engines().lock(32).unwrap().queues[qid as usize].h2t().cloned().unwrap();
        let (tx, rx) = ring.memory().unwrap();
        assert!(tx.address() | 1 << 44 == dirty.pa || rx.address() | 1 << 44 == dirty.pa);
        for memory in [tx, rx] {
            let mut bytes = vec![1_u8; memory.len()];
            memory.slice().copy_to(&mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn d25_a_batch_whose_argument_faults_leaks_nothing_and_answers_eacces() {
        let rig = Rig::new();
        let client = rig.client(1000);
        assert_eq!(client.ioctl(cmd::DMA_QUEUE_INIT_BATCH.word, 8), -13);
        let mut batch = Box::new(arg::DmaQueueInitBatch::default());
        batch.count = 256;
        assert_eq!(client.call(&cmd::DMA_QUEUE_INIT_BATCH, &mut *batch), -7);
    }

    #[test]
    fn d26_copies_of_nothing_run_no_descriptor() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let (host, device) =
            (client.allocate(None, 4096, 0).unwrap(), client.allocate(Some(0), 4096, 0).unwrap());
        rig.writes();
        assert_eq!(copy(&client, host, device, 0), 0);
        let mut memset = arg::Memset64 { mem_handle: device.handle, value: 7, ..Default::default() };
        assert_eq!(client.call(&cmd::MEMSET64, &mut memset), 0);
        assert_eq!(rig.writes(), 0);
    }

    #[test]
    fn d27_contexts_are_neither_taken_over_nor_shared() {
        let rig = Rig::new();
        let (mine, theirs) = (rig.client(1000), rig.client(2000));
        let (host, device) =
            (mine.allocate(None, 1 << 20, 0).unwrap(), mine.allocate(Some(0), 1 << 20, 0).unwrap());
        let big = mine.allocate(Some(0), 134_000_000, 0).unwrap();
        let big_host = mine.allocate(None, 134_000_000, 0).unwrap();
        assert_eq!(copy_async(&mine, host, device, 1 << 20, NONE), (0, 1));
        assert_eq!(copy_async(&mine, host, device, 1 << 20, NONE).0, -16, "own context in use");
        rig.writes();
        assert_eq!(copy_async(&mine, big_host, big, 133_169_153, 1).0, EINVAL, "refused before it starts");
        assert_eq!(rig.writes(), 0);
        assert_eq!(wait(&theirs, device, 1), EINVAL);
        assert_eq!(wait(&mine, device, 1), 0);
    }

    #[test]
    fn d28_d30_a_timed_out_ring_is_reset_before_its_memory_is_used_again() {
        let rig = Rig::with(Product::Trn1, "drop-kick:nth=1,engine=32");
        let client = rig.client(1000);
        let (host, device) =
            (client.allocate(None, 4096, 0).unwrap(), client.allocate(Some(0), 4096, 0).unwrap());
        rig.writes();
        assert_eq!(copy(&client, host, device, 4096), -110);
        assert_eq!(rig.writes(), 2 + 15, "two doorbells, then the ring programmed anew");
        // The dropped descriptors do not run with the next kick: their memory is somebody's.
        assert_eq!(client.call(&cmd::MEM_FREE, &mut arg::MemFree { mem_handle: device.handle }), 0);
        let other = client.allocate(Some(0), 4096, 0).unwrap();
        let mut memset =
            arg::Memset64 { mem_handle: other.handle, value: 0x5a, size: 4096, ..Default::default() };
        assert_eq!(client.call(&cmd::MEMSET64, &mut memset), 0);
        client.space().map(0x10_0000, vec![0; 4096]);
        let mut read = arg::MemBufCopy64 {
            mem_handle: other.handle,
            buffer: 0x10_0000,
            size: 4096,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::MEM_BUF_COPY64, &mut read), 0);
        assert_eq!(client.space().bytes(0x10_0000, 4096).unwrap(), vec![0x5a; 4096]);
    }

    #[test]
    fn d29_the_wait_budget_survives_a_lone_descriptor() {
        let wait = neuron_driver::arch::Arch::of(Generation::V2).wait;
        assert_eq!(wait.budget(1, false), wait.budget(2, false));
        assert_eq!(wait.budget(0, true), wait.budget(2, true));
    }

    #[test]
    fn d31_buffer_copies_count_in_64_bits() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let device = client.allocate(Some(0), (4 << 30) + 8192, 0).unwrap();
        // 2^32 + 1 bytes: in 32 bits one byte would be copied and success reported. The
        // user's memory ends after 64 KiB, so all 64-bit counting shows as a fault.
        client.space().map(0x10_0000, vec![1; 65536]);
        let mut write = arg::MemBufCopy64 {
            mem_handle: device.handle,
            buffer: 0x10_0000,
            size: (1 << 32) + 1,
            copy_to_mem_handle: 1,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::MEM_BUF_COPY64, &mut write), -14);
    }

    #[test]
    fn d34_counts_from_user_space_are_capped() {
        let rig = Rig::new();
        let client = rig.client(1000);
        client.space().map(0x10_0000, vec![0; 8]);
        let mut read =
            arg::BarRw { address: 0x10_0000, data: 0x10_0000, count: u32::MAX, ..Default::default() };
        assert_eq!(client.call(&cmd::BAR_READ, &mut read), EINVAL);
    }

    #[test]
    fn d35_the_last_bytes_of_an_hbm_are_in_the_window() {
        for generation in [Generation::V2, Generation::V3] {
            let geometry = generation.geometry();
            for hbm in geometry.hbm {
                assert!(geometry.bar4_offset(hbm.base + hbm.size - 4096, 4096).is_some());
                assert!(geometry.bar4_offset(hbm.base + hbm.size - 4096, 4097).is_none());
            }
        }
    }

    #[test]
    fn d38_program_engine_checks_without_wrapping() {
        let rig = Rig::new();
        let client = rig.client(1000);
        client.space().map(0x10_0000, vec![0; 4096]);
        for (dst, size, offset) in [
            (u64::MAX, 16, 2),
            (0xfff_c000_0000, u64::MAX, 0),
            (0xfff_c000_0000 - 16, 16, u64::MAX),
            (0xfff_c7ff_fff0, 32, 0),
            (0x100_0000, 16, 0),
        ] {
            let mut program =
                arg::ProgramEngineNc64 { dst, size, offset, buffer: 0x10_0000, ..Default::default() };
            assert_eq!(client.call(&cmd::PROGRAM_ENGINE_NC64, &mut program), -12, "{dst:#x} {size} {offset}");
        }
        let mut program = arg::ProgramEngineNc64 {
            dst: 0xfff_c000_0000,
            size: 16,
            buffer: 0x10_0000,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::PROGRAM_ENGINE_NC64, &mut program), 0);
    }

    #[test]
    fn d40_contiguous_scratchpad_on_the_host_is_refused() {
        let rig = Rig::new();
        let request = Request {
            category: Category::ContiguousScratchpadDevice as u32,
            ..Request::driver_host(4096, 0, Lifespan::Local)
        };
        assert_eq!(rig.device.pools().allocate(request).err(), Some(Errno::EINVAL));
    }

    #[test]
    fn d41_scratchpad_freed_out_of_order_does_not_move_the_next_page() {
        let rig = Rig::new();
        let page = || {
            let request = Request {
                location: MemLocation::Device,
                category: Category::ContiguousScratchpadDevice as u32,
                ..Request::driver_host(1 << 20, 0, Lifespan::Local)
            };
            rig.device.pools().allocate(request).unwrap()
        };
        let (first, second) = (page(), page());
        drop(first);
        let third = page();
        assert_eq!(third.pa() + (1 << 20), second.pa(), "directly under the lowest living page");
    }

    /// The system refuses, so the reserve serves: more than it has must not be possible,
    /// and all of it again after it was given back.
    #[test]
    fn d42_reserve_memory_is_counted_in_and_out() {
        let rig = Rig::new();
        rig.hardware.refuse_memory.store(true, std::sync::atomic::Ordering::Relaxed);
        let total = || rig.device.pools().host_counter(Category::NcdevHost).total;
        let before = total();
        for _ in 0..2 {
            let pages: Vec<_> = std::iter::from_fn(|| {
                rig.device.pools().allocate(Request::driver_host(2 << 20, 0, Lifespan::Local)).ok()
            })
            .collect();
            assert_eq!((pages.len(), total()), (16, before + (32 << 20)));
            drop(pages);
            assert_eq!(total(), before);
        }
    }

    #[test]
    fn d44_memory_is_charged_to_who_allocated_it() {
        let rig = Rig::new();
        let (mine, theirs) = (rig.client(1000), rig.client(2000));
        let chunk = mine.allocate(Some(0), 1 << 20, 0).unwrap();
        let device_bytes = |client: &Client, pid: i32| {
            let header = arg::GetAppsInfo { apps_info_flags: 2, capacity: 16, ..Default::default() };
            let mut bytes = zerocopy::IntoBytes::as_bytes(&header).to_vec();
            bytes.resize(16 + 16 * 152, 0);
            client.space().map(0x30_0000, bytes);
            assert_eq!(client.ioctl(cmd::DEVICE_GET_ALL_APPS_INFO.word, 0x30_0000), 0);
            let bytes = client.space().bytes(0x30_0000, 16 + 16 * 152).unwrap();
            let entry = bytes[16..].chunks(152).find(|entry| entry[..4] == pid.to_le_bytes()).unwrap();
            u64::from_le_bytes(entry[144..152].try_into().unwrap())
        };
        assert_eq!(device_bytes(&theirs, 1000), 1 << 20);
        assert_eq!(theirs.call(&cmd::MEM_FREE, &mut arg::MemFree { mem_handle: chunk.handle }), 0);
        assert_eq!((device_bytes(&mine, 1000), device_bytes(&mine, 2000)), (0, 0));
    }

    #[test]
    fn d47_bounds_do_not_wrap() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let chunk = client.allocate(Some(0), 4096, 0).unwrap();
        let mut memset =
            arg::Memset64 { mem_handle: chunk.handle, offset: u64::MAX - 1, size: 4, ..Default::default() };
        assert_eq!(client.call(&cmd::MEMSET64, &mut memset), EINVAL);
    }

    #[test]
    fn d49_extended_info_gives_away_no_kernel_pointer() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let chunk = client.allocate(Some(0), 5000, 0).unwrap();
        let mut info = arg::MemGetExtendedInfo { mem_handle: chunk.handle, version: 7, ..Default::default() };
        assert_eq!(client.call(&cmd::MEM_GET_EXTENDED_INFO, &mut info), 0);
        assert_eq!((info.mem_handle, info.version, info.pid, info.size), (chunk.handle, 0, 1000, 8192));
        info.mem_handle = 99;
        assert_eq!(client.call(&cmd::MEM_GET_EXTENDED_INFO, &mut info), EINVAL);
    }

    #[test]
    fn d52_freed_memory_that_is_mapped_is_not_given_away() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let chunk = client.allocate(None, 8192, 0).unwrap();
        let mapped = client.file().mmap(chunk.pa, 8192).unwrap();
        assert_eq!(client.call(&cmd::MEM_FREE, &mut arg::MemFree { mem_handle: chunk.handle }), 0);
        assert_ne!(client.allocate(None, 8192, 0).unwrap().pa, chunk.pa);
        drop(mapped);
    }

    #[test]
    fn d53_a_mapping_of_somebody_elses_memory_is_read_only() {
        let rig = Rig::new();
        let (mine, theirs) = (rig.client(1000), rig.client(2000));
        let chunk = mine.allocate(None, 8192, 0).unwrap();
        assert!(!theirs.file().mmap(chunk.pa, 8192).unwrap().writable);
    }

    #[test]
    fn d57_a_new_process_in_an_old_slot_starts_from_zero() {
        let rig = Rig::new();
        let client = rig.client(1000);
        client.allocate(Some(0), 1 << 20, 0).unwrap();
        drop(client);
        let client = rig.client(2000);
        let mut info = arg::GetAppsInfo { apps_info_flags: 2, capacity: 0, ..Default::default() };
        assert_eq!(client.call(&cmd::DEVICE_GET_ALL_APPS_INFO, &mut info), 0);
        assert_eq!(rig.device.pools().core_counters(0).1.total, 16 << 20);
    }

    #[test]
    fn d58_closing_one_of_two_files_keeps_the_memory() {
        let rig = Rig::new();
        let (first, second) = (rig.client(1000), rig.client(1000));
        let chunk = first.allocate(Some(0), 1 << 20, 0).unwrap();
        drop(first);
        let mut pa = arg::MemGetExtendedInfo { mem_handle: chunk.handle, ..Default::default() };
        assert_eq!(second.call(&cmd::MEM_GET_EXTENDED_INFO, &mut pa), 0);
        assert_eq!(pa.pa, chunk.pa);
    }

    #[test]
    fn d59_d61_a_second_reset_is_refused_before_it_closes_anything() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let mut reset = arg::DeviceReset { nc_map: 1, request_id: 0 };
        assert_eq!((client.call(&cmd::NC_RESET, &mut reset), reset.request_id), (0, 1000));
        let qid = rig.device.request_queue(0, Wanted::H2t, 1000).unwrap();
        assert_eq!(client.call(&cmd::NC_RESET, &mut reset), -16);
        assert!(rig.device.engines().lock(32).unwrap().queues[qid as usize].is_claimed());
        let mut ready = arg::DeviceReady { request_id: 1000, result: 9 };
        assert_eq!((client.call(&cmd::NC_RESET_READY, &mut ready), ready.result), (0, 0));
        assert_eq!((client.call(&cmd::NC_RESET_READY, &mut ready), ready.result), (0, 1), "collected once");
    }

    #[test]
    fn d64_faults_are_efault_not_a_count() {
        let rig = Rig::new();
        let client = rig.client(1000);
        for command in [&cmd::MEM_FREE, &cmd::MEM_COPY64, &cmd::MEM_GET_EXTENDED_INFO, &cmd::MEMSET64] {
            assert_eq!(client.ioctl(command.word, 8), -14, "{}", command.name);
        }
    }

    #[test]
    fn d67_device_info_shows_no_kernel_address() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let mut info = arg::DeviceInfo { connected_devices: [9; 8], ..Default::default() };
        assert_eq!(client.call(&cmd::DEVICE_INFO, &mut info), 0);
        assert_eq!((info.connected_device_count, info.connected_devices), (0, [0; 8]));
        assert_eq!(info.bar_address[0], 1 << 60, "a cookie, not an address");
    }

    #[test]
    fn d70_any_overlap_with_a_blocked_register_is_refused() {
        let rig = Rig::new();
        let client = rig.client(1000);
        let write = |offset: u64| {
            client.space().map(0x10_0000, ((1_u64 << 60) + offset).to_le_bytes().to_vec());
            client.space().map(0x20_0000, vec![0; 4]);
            let mut argument =
                arg::BarRw { address: 0x10_0000, data: 0x20_0000, count: 1, ..Default::default() };
            client.call(&cmd::BAR_WRITE, &mut argument)
        };
        let doorbell = 0x3000_1038;
        for offset in doorbell - 3..=doorbell + 3 {
            assert_eq!(write(offset), EINVAL, "{offset:#x}");
        }
        assert_eq!(write((1 << 30) - 3), EINVAL, "the last word ends with the BAR");
        assert_eq!(write(0x270_0000), 0);
    }
}
