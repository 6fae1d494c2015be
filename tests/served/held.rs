//! What a process holds, and when a server is told.

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::memory::{Category, MemLocation};
use neuron_driver::held::{HeldLock, HeldMemory, HeldQueue};
use neuron_driver::introspect::FlavourView;
use neuron_driver::pool::{Lifespan, Request};
use neuron_driver::{Held, OpenFile, OpenMode};
use neuron_softdev::Product;
use neuron_tests::client::{Chunk, Client};

use crate::{lock, request, rig};

const PID: i32 = 4711;
const RESULT: u64 = 0x10_0000;

/// Allocates with a category of any number.
fn allocate(client: &Client, hbm: Option<u32>, size: u64, core: u32, mem_type: u32) -> Chunk {
    client.space().map(RESULT, vec![0; 8]);
    let mut wanted = arg::MemAllocV2MemType {
        size,
        host_memory: hbm.is_none().into(),
        dram_channel: hbm.unwrap_or(0),
        nc_id: core,
        mem_type,
        mem_handle: RESULT,
        ..Default::default()
    };
    assert_eq!(client.call(&cmd::MEM_ALLOC_V2MT, &mut wanted), 0);
    let handle = u64::from_le_bytes(client.space().bytes(RESULT, 8).unwrap().try_into().unwrap());
    let mut info = arg::MemGetExtendedInfo { mem_handle: handle, ..Default::default() };
    assert_eq!(client.call(&cmd::MEM_GET_EXTENDED_INFO, &mut info), 0);
    Chunk { handle, pa: info.pa }
}

fn block(hbm: Option<u32>, chunk: Chunk, size: u64, core: u32, category: u32) -> Held {
    Held::Memory(HeldMemory {
        location: if hbm.is_some() { MemLocation::Device } else { MemLocation::Host },
        core,
        hbm,
        category,
        size,
        address: chunk.pa,
        lifespan: Lifespan::CurrentProcess,
    })
}

#[test]
fn blocks_rings_and_locks_are_listed_in_order_and_only_the_processes_own() {
    let rig = rig(Product::Trn2);
    let (device, client) = (rig.device(), rig.client(PID).unwrap());
    let other = rig.client(200).unwrap();
    other.allocate(Some(0), 1 << 20, 0).unwrap();
    request(other.file(), 200, 1, 1, 1);
    assert_eq!((device.held_by(PID), device.held_by(300)), (vec![], vec![]));

    let tensors = Category::TensorsDevice.raw();
    let host = allocate(&client, None, 5000, 0, Category::DmaRingsHost.raw());
    let high = allocate(&client, Some(2), 1 << 20, 1, tensors);
    let unknown = allocate(&client, Some(0), 4096, 1, 77);
    let first = allocate(&client, Some(0), 1 << 20, 0, tensors);
    let second = allocate(&client, Some(0), 2 << 20, 0, tensors);
    let freed = allocate(&client, Some(0), 1 << 20, 0, tensors);
    assert_eq!(client.free(freed), 0);
    let (copies, services) = request(client.file(), PID, 1, 1, 1);
    assert_eq!(client.bind((2, 7), 64, [Some(host); 2]), 0);
    assert_eq!((lock(client.file(), PID, 0, false), lock(client.file(), PID, 5, true)), (0, 0));

    let h2t = device.arch().h2t_engine(1);
    let queue = |engine, queue, flavour, core| Held::Queue(HeldQueue { engine, queue, flavour, core });
    let mut claimed = [
        queue(h2t, copies.trailing_zeros(), FlavourView::RequestedH2t, Some(1)),
        queue(h2t, services.trailing_zeros(), FlavourView::Service, Some(1)),
    ];
    if copies > services {
        claimed.reverse();
    }
    let expected = vec![
        block(Some(0), first, 1 << 20, 0, tensors),
        block(Some(0), second, 2 << 20, 0, tensors),
        block(Some(0), unknown, 4096, 1, 77),
        block(Some(2), high, 1 << 20, 1, tensors),
        block(None, host, 8192, 0, Category::DmaRingsHost.raw()),
        queue(2, 7, FlavourView::Model, None),
        claimed[0],
        claimed[1],
        Held::CoreLock(HeldLock { core: 0, alone: false }),
        Held::CoreLock(HeldLock { core: 5, alone: true }),
    ];
    assert_eq!(device.held_by(PID), expected);
    let categories: Vec<_> = expected
        .iter()
        .filter_map(|held| match held {
            Held::Memory(block) => Some(block.known_category()),
            _ => None,
        })
        .collect();
    let known = Some(Category::TensorsDevice);
    assert_eq!(categories, [known, known, None, known, Some(Category::DmaRingsHost)]);

    assert_eq!(client.file().leaving(), Some(expected));
    drop(client);
    assert_eq!(device.held_by(PID), vec![]);
    assert_eq!(device.held_by(200).len(), 3);
}

#[test]
fn memory_that_outlives_its_process_is_told_apart() {
    let rig = rig(Product::Trn1);
    let client = rig.client(PID).unwrap();
    let stays = rig.client(200).unwrap();
    let request = Request {
        lifespan: Lifespan::AllProcess,
        pid: PID,
        ..Request::driver_host(4096, 1, Lifespan::Device)
    };
    let chunk = rig.device().pools().allocate(request).unwrap();
    let told = client.file().leaving().unwrap();
    let [Held::Memory(block)] = told[..] else { panic!("{told:?}") };
    assert_eq!((block.lifespan, block.address, block.core), (Lifespan::AllProcess, chunk.pa(), 1));
    drop(client);
    assert_eq!(rig.device().held_by(PID).len(), 1, "it is still there");
    drop(stays);
    assert_eq!(rig.device().held_by(PID), vec![]);
}

#[test]
fn only_a_processes_last_file_leaves_and_only_once() {
    let rig = rig(Product::Trn1);
    let (first, second) = (rig.client(PID).unwrap(), rig.client(PID).unwrap());
    let misc = OpenFile::open(rig.device(), PID, OpenMode::Misc).unwrap();
    first.allocate(Some(0), 4096, 0).unwrap();
    assert_eq!((first.file().leaving(), second.file().leaving(), misc.leaving()), (None, None, None));
    drop(first);
    assert_eq!(second.file().leaving().map(|held| held.len()), Some(1));
    assert_eq!(misc.leaving(), None, "it ends nothing");
    second.file().exit();
    assert_eq!(second.file().leaving(), None);
    // A new process of the same number has nothing to do with the old file.
    let again = rig.client(PID).unwrap();
    assert_eq!((second.file().leaving(), again.file().leaving()), (None, Some(vec![])));
}

#[test]
fn what_a_process_holds_can_be_asked_while_it_works() {
    let rig = rig(Product::Trn1);
    let client = rig.client(PID).unwrap();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for _ in 0..200 {
                let chunk = client.allocate(Some(0), 1 << 20, 0).unwrap();
                let (copies, _) = request(client.file(), PID, 0, 1, 0);
                let mut free =
                    arg::H2tDmaFreeQueues { sz: 8, nc_id: 0, queue_bmap: copies, ..Default::default() };
                assert_eq!(client.call(&cmd::H2T_DMA_FREE_QUEUES, &mut free), 0);
                assert_eq!(client.free(chunk), 0);
            }
        });
        while !worker.is_finished() {
            assert!(rig.device().held_by(PID).len() <= 2);
        }
        worker.join().unwrap();
    });
    assert_eq!(rig.device().held_by(PID), vec![]);
}
