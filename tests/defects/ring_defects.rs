//! Rings and queues: defects 1 to 25.

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_driver::queues::Binding;
use neuron_driver::requests::Wanted;
use neuron_driver::ring::Flavour;
use neuron_tests::client::Chunk;
use neuron_tests::machine::Call;

use crate::rig::{EINVAL, Rig};

#[test]
fn d01_a_failed_register_read_leaves_the_engine_free() {
    let rig = Rig::new();
    rig.bind(3, 5, 64, 1000).unwrap();
    for read in 1..=6 {
        rig.hardware.fail(Call::Read, read);
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
    assert_eq!(client.bind((3, 5), 256, [Some(ring); 2]), 0);
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
    assert_eq!(client.bind((3, 5), 64, [Some(ring); 2]), 0);
    assert_eq!(client.bind((3, 5), 64, [None; 2]), 0);
    assert_eq!(client.free(ring), 0);
    assert_eq!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, ring.pa, "memory was used again");
    let engine = rig.device.engines().lock(3).unwrap();
    assert_eq!((engine.queues[5].shown.tx, engine.queues[5].has_rx()), (0, false));
}

#[test]
fn d09_a_bound_chunk_is_not_used_again_before_the_queue_lets_it_go() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let ring = client.allocate(Some(0), 1 << 20, 0).unwrap();
    assert_eq!(client.bind((3, 5), 64, [Some(ring); 2]), 0);
    assert_eq!(client.free(ring), 0);
    assert_ne!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, ring.pa);
    rig.device.release_process_queues(1000);
    assert_eq!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, ring.pa);
}

#[test]
fn d10_an_unknown_handle_is_not_taken_for_no_ring() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let unknown = Chunk { handle: 99, pa: 0 };
    assert_eq!(client.bind((3, 5), 64, [Some(unknown), None]), EINVAL);
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
    assert_eq!(client.memset(dirty, 0xff, 131_072), 0);
    assert_eq!(client.free(dirty), 0);
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
