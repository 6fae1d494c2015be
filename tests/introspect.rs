//! The driver's queues as [`Device::introspect`] shows them, held against what was done to
//! them through ioctls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_driver::Device;
use neuron_driver::introspect::{FlavourView, QueueView};
use neuron_ndl::software::HostMemory;
use neuron_tests::client::{Chunk, Client, PID};
use neuron_tests::machine::Board;
use neuron_tests::machine::board::Cores;
use neuron_udma::QueueStatus;
use proptest::prelude::*;

fn board(generation: Generation, cores: Cores) -> Board {
    Board::running(generation, &Arc::new(HostMemory::new().unwrap()), cores).unwrap()
}

fn view(device: &Device, engine: u32, queue: u32) -> QueueView {
    let views = device.introspect();
    let found = views.into_iter().find(|view| (view.engine, view.queue) == (engine, queue));
    found.unwrap_or_else(|| panic!("no queue {engine}/{queue}"))
}

/// (engine, queue, flavour) of all queues that something is on.
fn in_use(device: &Device) -> Vec<(u32, u32, FlavourView)> {
    let used = device.introspect().into_iter().filter(|view| view.flavour != FlavourView::Unused);
    used.map(|view| (view.engine, view.queue, view.flavour)).collect()
}

/// (is H2T, is allocated, core it is the owner of): the predicates of seed 003 §2.
fn predicates(view: &QueueView) -> (bool, bool, Option<u32>) {
    (view.is_h2t, view.is_allocated, view.is_owner_core)
}

fn request(client: &Client, core: u16, copies: u16, services: u16) -> (u32, u32) {
    let mut wanted = arg::H2tDmaAllocQueues {
        sz: 20,
        nc_id: core,
        copy_queue_cnt: copies,
        service_queue_cnt: services,
        ..Default::default()
    };
    assert_eq!(client.call(&cmd::H2T_DMA_ALLOC_QUEUES, &mut wanted), 0);
    (wanted.copy_queue_bmap, wanted.service_queue_bmap)
}

fn bind(client: &Client, engine: u32, queue: u32, tx: Chunk, rx: Chunk, count: u32) -> i64 {
    let mut wanted = arg::DmaQueueInit {
        eng_id: engine,
        qid: queue,
        tx_desc_count: count,
        rx_desc_count: count,
        tx_handle: tx.handle,
        rx_handle: rx.handle,
        ..Default::default()
    };
    client.call(&cmd::DMA_QUEUE_INIT, &mut wanted)
}

fn copy(client: &Client, source: Chunk, destination: Chunk, size: u64) -> i64 {
    let mut wanted = arg::MemCopy64 {
        src_mem_handle: source.handle,
        dst_mem_handle: destination.handle,
        size,
        ..Default::default()
    };
    client.call(&cmd::MEM_COPY64, &mut wanted)
}

#[test]
fn a_device_that_is_up_shows_the_default_ring_of_each_core_and_nothing_else_in_use() {
    for (generation, engines, expected) in [
        (Generation::V2, 34, vec![(32, 0), (33, 0)]),
        (
            Generation::V3,
            132,
            vec![(128, 0), (128, 1), (129, 0), (129, 1), (130, 0), (130, 1), (131, 0), (131, 1)],
        ),
    ] {
        let board = board(generation, Cores::Up);
        let views = board.device().introspect();
        let places: Vec<_> = views.iter().map(|view| (view.engine, view.queue)).collect();
        let all: Vec<_> = (0..engines).flat_map(|engine| (0..16).map(move |queue| (engine, queue))).collect();
        assert_eq!(places, all);
        let used: Vec<_> = views.iter().filter(|view| view.flavour != FlavourView::Unused).collect();
        assert_eq!(used.iter().map(|view| (view.engine, view.queue)).collect::<Vec<_>>(), expected);
        for (view, core) in used.iter().zip(0..) {
            assert_eq!(view.flavour, FlavourView::DefaultH2t);
            assert_eq!((view.core, view.owner, view.held_by), (Some(core), 0, None));
            assert_eq!(predicates(view), (true, false, Some(core)));
            for (ring, shown) in [(view.tx, view.shown.tx), (view.rx, view.shown.rx)] {
                assert_eq!((ring.size, ring.base, ring.driver_fills), (8192, shown, true));
                assert_eq!((ring.next, ring.completed, ring.ring_id), (0, 0, 1));
                assert_eq!((ring.available, ring.in_flight), (Some(8176), Some(0)));
                assert_eq!(ring.status, QueueStatus::Enabled);
            }
        }
        let unused = views.iter().find(|view| view.flavour == FlavourView::Unused).unwrap();
        assert_eq!(predicates(unused), (false, false, None));
        assert_eq!((unused.tx.size, unused.tx.in_flight, unused.markers), (0, Some(0), None));
        let nx: Vec<_> = views.iter().filter(|view| view.is_nx).collect();
        assert!(!nx.is_empty() && nx.iter().all(|view| view.queue == 14 && !view.is_h2t));
    }
}

#[test]
fn engines_that_were_never_initialised_show_nothing() {
    assert_eq!(board(Generation::V2, Cores::Down).device().introspect(), []);
}

#[test]
fn requested_service_and_model_rings_show_their_holder_until_it_exits() {
    let board = board(Generation::V2, Cores::Up);
    let device = board.device();
    let before = in_use(device);
    let client = Client::open(device).unwrap();
    let (copies, services) = request(&client, 1, 1, 1);
    let (copy_queue, service_queue) = (copies.trailing_zeros(), services.trailing_zeros());
    let [tx, rx] = [0, 1].map(|_| client.allocate(None, 4096, 0).unwrap());
    assert_eq!(bind(&client, 3, 5, tx, rx, 64), 0);

    let requested = view(device, 33, copy_queue);
    assert_eq!((requested.flavour, requested.core), (FlavourView::RequestedH2t, Some(1)));
    assert_eq!((requested.owner, requested.held_by), (0, Some(PID)));
    assert_eq!(predicates(&requested), (true, true, Some(1)));
    assert!(requested.markers.is_some());

    let service = view(device, 33, service_queue);
    assert_eq!((service.flavour, service.core), (FlavourView::Service, Some(1)));
    assert_eq!((service.owner, service.held_by), (PID, Some(PID)));
    assert_eq!(predicates(&service), (false, true, None), "claimed, but not the driver's");
    assert_eq!((service.tx.size, service.shown.tx), (0, 0), "nothing is bound yet");

    let model = view(device, 3, 5);
    assert_eq!((model.flavour, model.core, model.owner), (FlavourView::Model, None, PID));
    assert_eq!(predicates(&model), (false, false, None));
    assert_eq!((model.shown.tx, model.shown.rx), (tx.pa, rx.pa));
    assert_eq!((model.tx.size, model.tx.base, model.tx.driver_fills), (64, tx.pa, false));
    assert_eq!(model.markers, None);

    assert_eq!(bind(&client, 33, service_queue, rx, tx, 128), 0);
    let bound = view(device, 33, service_queue);
    assert_eq!((bound.flavour, bound.shown.tx, bound.tx.size), (FlavourView::Service, rx.pa, 128));

    drop(client);
    assert_eq!(in_use(device), before);
    assert_eq!(view(device, 3, 5).shown.tx, device.dummy_ring_address());
}

#[test]
fn a_ring_whose_size_is_no_power_of_two_tells_no_room() {
    let board = board(Generation::V2, Cores::Up);
    let client = Client::open(board.device()).unwrap();
    let [tx, rx] = [0, 1].map(|_| client.allocate(None, 4096, 0).unwrap());
    assert_eq!(bind(&client, 0, 0, tx, rx, 48), 0);
    let ring = view(board.device(), 0, 0).tx;
    assert_eq!((ring.size, ring.available, ring.in_flight), (48, None, None));
}

#[test]
fn acknowledging_moves_the_completion_cursor_and_nothing_else() {
    let board = board(Generation::V2, Cores::Up);
    let client = Client::open(board.device()).unwrap();
    let [tx, rx] = [0, 1].map(|_| client.allocate(None, 4096, 0).unwrap());
    assert_eq!(bind(&client, 0, 0, tx, rx, 64), 0);
    let before = view(board.device(), 0, 0);
    let mut acknowledge = arg::DmaAckCompleted { eng_id: 0, qid: 0, count: 7 };
    assert_eq!(client.call(&cmd::DMA_ACK_COMPLETED, &mut acknowledge), 0);
    let mut expected = before.clone();
    for ring in [&mut expected.tx, &mut expected.rx] {
        ring.completed = 7;
        // Unbounded, as in the shipped driver: 7 of nothing are on their way backwards.
        (ring.available, ring.in_flight) = (Some(55), Some(57));
    }
    assert_eq!(view(board.device(), 0, 0), expected);
}

#[test]
fn a_copy_leaves_its_markers_armed_and_the_look_waits_for_none() {
    let board = board(Generation::V2, Cores::Up);
    let client = Client::open(board.device()).unwrap();
    let host = client.allocate(None, 1 << 20, 0).unwrap();
    let hbm = client.allocate(Some(0), 1 << 20, 0).unwrap();
    assert_eq!(view(board.device(), 32, 0).markers.unwrap()[0].source, 0, "never armed");
    assert_eq!(copy(&client, host, hbm, 1 << 20), 0);
    let ring = board.device().engines().default_ring(0).unwrap();
    // A copy in progress holds this lock throughout.
    let _copying = ring.lock();
    let [sync, first, second] = view(board.device(), 32, 0).markers.unwrap();
    assert_eq!((sync.address, sync.source, sync.destination), (ring.marker_address(), 0xabcd_ef01, 0));
    for (marker, offset) in [(first, 8), (second, 16)] {
        assert_eq!((marker.address, marker.source), (ring.marker_address() + offset, 0));
    }
}

#[test]
fn a_copy_that_runs_is_in_flight_until_it_is_waited_for() {
    let board = board(Generation::V3, Cores::Up);
    let client = Client::open(board.device()).unwrap();
    let host = client.allocate(None, 1 << 20, 5).unwrap();
    let hbm = client.allocate(Some(2), 1 << 20, 5).unwrap();
    let mut start = arg::MemCopyAsync64 {
        src_mem_handle: host.handle,
        dst_mem_handle: hbm.handle,
        size: 1 << 20,
        pwait_handle: u32::MAX,
        ..Default::default()
    };
    assert_eq!(client.call(&cmd::MEM_COPY_ASYNC64, &mut start), 0);
    let running = view(board.device(), 130, 1);
    assert_eq!((running.tx.next, running.tx.completed), (17, 0));
    assert_eq!((running.tx.in_flight, running.rx.in_flight), (Some(17), Some(17)));
    assert_eq!(running.markers.unwrap()[1].destination, 0xabcd_ef01, "the engine has copied it");
    let mut wait = arg::MemCopyAsyncWait {
        src_mem_handle: host.handle,
        dst_mem_handle: hbm.handle,
        pwait_handle: 1,
        ..Default::default()
    };
    assert_eq!(client.call(&cmd::MEM_COPY_ASYNC_WAIT, &mut wait), 0);
    let done = view(board.device(), 130, 1);
    assert_eq!((done.tx.completed, done.tx.in_flight), (17, Some(0)));
    assert_eq!(done.markers.unwrap()[1].destination, 0, "armed again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However a ring is used: room and what is in flight fill it up to the gap, and an
    /// idle ring has nothing in flight.
    #[test]
    fn room_and_flight_fill_the_ring(sizes in prop::collection::vec(1u64..4 << 20, 1..8)) {
        let board = board(Generation::V2, Cores::Up);
        let client = Client::open(board.device()).unwrap();
        let host = client.allocate(None, 4 << 20, 0).unwrap();
        let hbm = client.allocate(Some(0), 4 << 20, 0).unwrap();
        let mut prepared = 0;
        for size in sizes {
            prop_assert_eq!(copy(&client, host, hbm, size), 0);
            prepared += size.div_ceil(65536) as u32 + 1;
            let view = view(board.device(), 32, 0);
            for ring in [view.tx, view.rx] {
                prop_assert_eq!((ring.next, ring.completed), (prepared % 8192, prepared % 8192));
                prop_assert_eq!(ring.available.unwrap() + ring.in_flight.unwrap() + 16, ring.size);
                prop_assert_eq!(ring.in_flight, Some(0));
            }
        }
    }
}
