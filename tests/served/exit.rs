//! A process ends although somebody still holds its file (`spec/driver.md` 7.3).

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_driver::{OpenFile, OpenMode};
use neuron_softdev::Product;
use neuron_tests::client::NONE;
use neuron_tests::rig::call_as;

use crate::{EACCES, EBUSY, device_bytes, lock, request, rig};

const PARENT: i32 = 100;
const CHILD: i32 = 101;

#[test]
fn all_that_a_process_had_is_given_back_while_its_file_is_held() {
    let rig = rig(Product::Trn2);
    let device = rig.device();
    let start = (device_bytes(device), device.introspect());
    let parent = rig.client(PARENT).unwrap();
    let (host, hbm) =
        (parent.allocate(None, 1 << 20, 2).unwrap(), parent.allocate(Some(1), 1 << 20, 2).unwrap());
    assert_eq!(parent.copy_async(host, hbm, 1 << 20, NONE), (0, 1));
    request(parent.file(), PARENT, 2, 1, 1);
    assert_eq!(lock(parent.file(), PARENT, 3, true), 0);
    let mut store = arg::NeuronDsInfo::default();
    assert_eq!(parent.call(&cmd::ACQUIRE_NEURON_DS, &mut store), 0);
    let other = rig.client(200).unwrap();
    assert_eq!(lock(other.file(), 200, 3, true), EBUSY);

    parent.file().exit();
    assert_eq!(device_bytes(device), start.0);
    assert!(device.introspect().iter().all(|queue| queue.held_by.is_none()));
    assert_eq!(lock(other.file(), 200, 3, true), 0);
    let argument = arg::NeuronDsInfo { pid: PARENT, ..Default::default() };
    assert_eq!(call_as(other.file(), 200, &cmd::ACQUIRE_NEURON_DS, argument).0, -2);
    // The copy's context is free for others.
    let [host, hbm] = [None, Some(1)].map(|hbm| other.allocate(hbm, 4096, 2).unwrap());
    assert_eq!((other.copy_async(host, hbm, 4096, NONE), other.wait(hbm, 1)), ((0, 1), 0));
}

#[test]
fn the_dead_process_is_refused_and_the_file_serves_others() {
    let rig = rig(Product::Trn1);
    let parent = rig.client(PARENT).unwrap();
    parent.file().exit();
    assert_eq!(parent.try_allocate(Some(0), 4096, 0), Err(EACCES));
    let start = arg::DmaQueueCopyStart { eng_id: 3, qid: 5, tx_desc_count: 1, rx_desc_count: 1 };
    for pid in [PARENT, CHILD] {
        assert_eq!(call_as(parent.file(), pid, &cmd::DMA_QUEUE_COPY_START, start).0, EACCES, "{pid}");
        assert_eq!(lock(parent.file(), pid, 0, false), EACCES, "{pid}");
        assert_eq!(call_as(parent.file(), pid, &cmd::DEVICE_INFO, arg::DeviceInfo::default()).0, 0, "{pid}");
    }
    let own = rig.client(CHILD).unwrap();
    let chunk = own.allocate(Some(0), 4096, 0).unwrap();
    let free = arg::MemFree { mem_handle: chunk.handle };
    assert_eq!(call_as(parent.file(), CHILD, &cmd::MEM_FREE, free).0, 0, "by its own slot");
}

#[test]
fn a_file_ends_its_process_once_whatever_follows() {
    let rig = rig(Product::Trn1);
    let (inherited, reused) = (rig.client(PARENT).unwrap(), rig.client(CHILD).unwrap());
    inherited.file().exit();
    inherited.file().exit();
    // A new process has the dead one's number.
    let again = rig.client(PARENT).unwrap();
    let before = device_bytes(rig.device());
    let chunk = again.allocate(Some(0), 1 << 20, 0).unwrap();
    inherited.file().exit();
    drop(inherited);
    assert_eq!(device_bytes(rig.device()), before + (1 << 20));
    assert_eq!(again.free(chunk), 0);
    drop(again);
    drop(reused);
    let slots: Vec<_> =
        (1..=16).map(|pid| OpenFile::open(rig.device(), pid, OpenMode::Full).unwrap()).collect();
    assert_eq!(slots.len(), 16, "no slot was lost");
}

#[test]
fn one_of_two_files_leaves_the_process_its_memory() {
    let rig = rig(Product::Trn1);
    let start = device_bytes(rig.device());
    let (first, second) = (rig.client(PARENT).unwrap(), rig.client(PARENT).unwrap());
    let chunk = first.allocate(Some(0), 1 << 20, 0).unwrap();
    first.file().exit();
    assert_eq!((first.memset(chunk, 1, 4096), second.memset(chunk, 2, 4096)), (0, 0));
    second.file().exit();
    assert_eq!(second.memset(chunk, 3, 4096), EACCES);
    assert_eq!(device_bytes(rig.device()), start);
    drop(first);
    assert_eq!(device_bytes(rig.device()), start);
}

#[test]
fn claimed_cores_go_with_the_process_and_what_the_child_claims_with_the_file() {
    let rig = rig(Product::Trn1);
    for mode in [OpenMode::Full, OpenMode::Misc] {
        let (file, other) = (OpenFile::open(rig.device(), PARENT, mode).unwrap(), rig.misc(200).unwrap());
        let claim = |file: &OpenFile, pid| {
            let argument = arg::CrwlNcMap { nc_count: 2, start: 0, end: 1, ..Default::default() };
            call_as(file, pid, &cmd::CRWL_NC_RANGE_MARK, argument).0
        };
        assert_eq!((claim(&file, PARENT), claim(&other, 200)), (0, EBUSY));
        file.exit();
        assert_eq!(claim(&other, 200), 0, "{mode:?}");
        drop(other);
        let other = rig.misc(200).unwrap();
        assert_eq!((claim(&file, CHILD), claim(&other, 200)), (0, EBUSY));
        drop(file);
        assert_eq!(claim(&other, 200), 0, "{mode:?}");
    }
}

/// What a mapping shows outlives its process; the record by which a dma-buf finds it does not.
#[test]
fn a_mapping_that_the_child_holds_keeps_its_memory_to_itself() {
    let rig = rig(Product::Trn1);
    let parent = rig.client(PARENT).unwrap();
    let start = device_bytes(rig.device());
    let chunk = parent.allocate(Some(0), 1 << 20, 0).unwrap();
    let mapped = parent.file().mmap(chunk.pa, 1 << 20).unwrap();
    parent.file().exit();
    let other = rig.client(200).unwrap();
    assert_ne!(other.allocate(Some(0), 1 << 20, 0).unwrap().pa, chunk.pa);
    assert_eq!(parent.file().mmap(chunk.pa, 4096).err(), Some(Errno::EPERM));
    drop(mapped);
    drop(other);
    assert_eq!(device_bytes(rig.device()), start);
}
