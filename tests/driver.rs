//! The driver through its ioctls, on a software device: what the recorded cases do not
//! show.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;
use neuron_driver::hw::VirtualClock;
use neuron_driver::{Device, OpenFile, OpenMode, Params, ProbeError};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::fault::{Fault, Place, When};
use neuron_softdev::{DeviceConfig, Product};
use neuron_tests::client::{Chunk, Client, NONE, PID};
use neuron_tests::machine::Board;
use neuron_tests::machine::board::Cores;
use zerocopy::IntoBytes;

const EINVAL: i64 = -22;
/// User address of buffers in these tests.
const BUFFER: u64 = 0x10_0000;

fn board(generation: Generation) -> Board {
    Board::running(generation, &Arc::new(HostMemory::new().unwrap()), Cores::Up).unwrap()
}

fn device_bytes(device: &Device) -> u64 {
    (0..device.geometry().hbm.len() as u32).map(|hbm| device.pools().hbm(hbm).unwrap().allocated).sum()
}

#[test]
fn a_copy_belongs_to_the_process_that_started_it() {
    let board = board(Generation::V2);
    let (mine, theirs) =
        (Client::open(board.device()).unwrap(), Client::open_as(board.device(), 77).unwrap());
    let (host, device) =
        (mine.allocate(None, 1 << 20, 0).unwrap(), mine.allocate(Some(0), 1 << 20, 0).unwrap());
    assert_eq!(mine.copy_async(host, device, 1 << 20, NONE), (0, 1));
    assert_eq!(theirs.wait(device, 1), EINVAL);
    assert_eq!(theirs.copy_async(host, device, 64, 1), (EINVAL, 0));
    assert_eq!(mine.wait(device, 1), 0);
    assert_eq!(mine.wait(device, 1), EINVAL);
}

#[test]
fn an_exiting_process_ends_its_copies_and_frees_only_its_own_memory() {
    let board = board(Generation::V3);
    let start = device_bytes(board.device());
    let stays = Client::open(board.device()).unwrap();
    let kept = stays.allocate(Some(1), 8 << 20, 2).unwrap();
    let leaves = Client::open_as(board.device(), 77).unwrap();
    let (host, device) =
        (leaves.allocate(None, 1 << 20, 2).unwrap(), leaves.allocate(Some(1), 1 << 20, 2).unwrap());
    assert_eq!(leaves.copy_async(host, device, 1 << 20, NONE), (0, 1));
    drop(leaves);
    assert_eq!(device_bytes(board.device()), start + (8 << 20));
    // The context it left is free again.
    let host = stays.allocate(None, 4096, 2).unwrap();
    assert_eq!(stays.copy_async(host, kept, 4096, NONE), (0, 1));
    assert_eq!(stays.wait(kept, 1), 0);
    drop(stays);
    assert_eq!(device_bytes(board.device()), start);
}

#[test]
fn a_file_opened_twice_frees_the_memory_with_its_last_close() {
    let board = board(Generation::V2);
    let start = device_bytes(board.device());
    let (first, second) = (Client::open(board.device()).unwrap(), Client::open(board.device()).unwrap());
    first.allocate(Some(0), 1 << 20, 0).unwrap();
    drop(first);
    assert_eq!(device_bytes(board.device()), start + (1 << 20));
    drop(second);
    assert_eq!(device_bytes(board.device()), start);
}

#[test]
fn sixteen_processes_fit_and_the_seventeenth_is_told() {
    let board = board(Generation::V2);
    let open = |pid| OpenFile::open(board.device(), pid, OpenMode::Full);
    let files: Vec<_> = (1..=16).map(|pid| open(pid).unwrap()).collect();
    assert_eq!(open(17).err(), Some(Errno::EBUSY));
    assert!(OpenFile::open(board.device(), 17, OpenMode::Misc).is_ok());
    assert!(open(3).is_ok());
    drop(files);
    assert!(open(17).is_ok());
}

#[test]
fn a_forked_child_has_its_parents_file_but_no_process_slot() {
    const CHILD: i32 = PID + 1;
    let board = board(Generation::V2);
    let parent = Client::open(board.device()).unwrap();
    let chunk = parent.allocate(None, 4096, 0).unwrap();
    let free = arg::MemFree { mem_handle: chunk.handle };
    parent.space().map(BUFFER, free.as_bytes().to_vec());
    let child = |word| parent.file().ioctl_as(CHILD, word, BUFFER, parent.space());
    assert_eq!(child(cmd::MEM_FREE.word), Err(Errno::EACCES));
    let own = OpenFile::open(board.device(), CHILD, OpenMode::Full).unwrap();
    assert_eq!(child(cmd::MEM_FREE.word), Ok(()), "by its own slot, through either file");
    drop(own);
    assert_eq!(child(cmd::MEM_FREE.word), Err(Errno::EACCES));
    assert_eq!(child(cmd::DEVICE_BASIC_INFO.word), Ok(()), "discovery needs no slot");
}

#[test]
fn copies_of_nothing_succeed_and_touch_no_engine() {
    let board = board(Generation::V2);
    let client = Client::open(board.device()).unwrap();
    let (host, device) =
        (client.allocate(None, 4096, 0).unwrap(), client.allocate(Some(0), 4096, 0).unwrap());
    board.take();
    assert_eq!(client.copy(host, device, 0), 0);
    assert_eq!(client.memset(device, 0, 0), 0);
    assert_eq!(client.read(device, 0, 0), (0, vec![]));
    assert_eq!(client.copy_async(host, device, 0, NONE), (0, 1));
    assert_eq!(client.wait(device, 1), 0);
    assert!(board.take().accesses.is_empty());
}

#[test]
fn a_range_whose_end_wraps_is_refused_and_nothing_moves() {
    let board = board(Generation::V3);
    let client = Client::open(board.device()).unwrap();
    let (host, device) =
        (client.allocate(None, 4096, 0).unwrap(), client.allocate(Some(0), 4096, 0).unwrap());
    board.take();
    for (size, src_offset, dst_offset) in
        [(4096, 1, 0), (4096, 0, 1), (2, u64::MAX, 0), (u64::MAX, 1, 0), (1, 0, 4096), (u64::MAX, 0, 0)]
    {
        let mut copy = arg::MemCopy64 {
            src_mem_handle: host.handle,
            dst_mem_handle: device.handle,
            size,
            src_offset,
            dst_offset,
        };
        assert_eq!(client.call(&cmd::MEM_COPY64, &mut copy), EINVAL, "{size} {src_offset} {dst_offset}");
    }
    assert!(board.take().accesses.is_empty());
}

#[test]
fn buffers_pass_through_64_kib_pieces_and_come_back() {
    let board = board(Generation::V2);
    let client = Client::open(board.device()).unwrap();
    let bytes: Vec<u8> = (0..200_001u32).map(|index| (index % 251) as u8).collect();
    for hbm in [Some(1), None] {
        let chunk = client.allocate(hbm, 300_000, 1).unwrap();
        assert_eq!(client.write(chunk, 777, &bytes), 0);
        assert!(client.read(chunk, 777, 200_001) == (0, bytes.clone()));
        // A buffer that ends too early faults, and the bounce chunk is given back.
        client.space().map(BUFFER, vec![0; 100_000]);
        let mut argument = arg::MemBufCopy64 {
            mem_handle: chunk.handle,
            buffer: BUFFER,
            size: 200_001,
            copy_to_mem_handle: 1,
            ..Default::default()
        };
        assert_eq!(client.call(&cmd::MEM_BUF_COPY64, &mut argument), -14);
        assert_eq!(client.free(chunk), 0);
    }
}

#[test]
fn handles_are_used_again_last_in_first_out_and_stale_ones_are_refused() {
    let board = board(Generation::V2);
    let client = Client::open(board.device()).unwrap();
    let [a, b, c] = [0; 3].map(|_| client.allocate(Some(0), 4096, 0).unwrap());
    assert_eq!([a.handle, b.handle, c.handle], [1, 2, 3]);
    assert_eq!((client.free(a), client.free(c), client.free(c)), (0, 0, EINVAL));
    let again = [0; 3].map(|_| client.allocate(Some(0), 4096, 0).unwrap().handle);
    assert_eq!(again, [3, 1, 4]);
    for handle in [0, 5, u64::MAX] {
        assert_eq!(client.free(Chunk { handle, pa: 0 }), EINVAL);
    }
}

#[test]
fn mapped_memory_is_not_used_again_until_it_is_unmapped() {
    let board = board(Generation::V2);
    let client = Client::open(board.device()).unwrap();
    let chunk = client.allocate(Some(0), 1 << 20, 0).unwrap();
    let mapped = client.file().mmap(chunk.pa, 1 << 20).unwrap();
    assert_eq!(client.file().mmap(chunk.pa, 4096).err(), Some(Errno::EPERM));
    assert_eq!(client.free(chunk), 0);
    assert_eq!(client.free(chunk), EINVAL);
    assert_ne!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, chunk.pa);
    drop(mapped);
    assert_eq!(client.allocate(Some(0), 1 << 20, 0).unwrap().pa, chunk.pa);
}

/// A new handle would outlive every list, and with it the memory its process's exit.
#[test]
fn a_freed_chunk_that_a_ring_holds_gets_no_new_handle() {
    let board = board(Generation::V2);
    let start = device_bytes(board.device());
    let client = Client::open(board.device()).unwrap();
    let ring = client.allocate(Some(0), 4096, 0).unwrap();
    assert_eq!(client.bind((3, 5), 64, [Some(ring); 2]), 0);
    let locate = || {
        let mut info = arg::MemGetMcMmapInfoV2 { pa: ring.pa, ..Default::default() };
        (client.call(&cmd::MEM_MC_GET_INFO_V2, &mut info), info.mem_handle)
    };
    assert_eq!(locate(), (0, ring.handle));
    assert_eq!(client.free(ring), 0);
    assert_eq!(locate(), (-12, 0));
    drop(client);
    assert_eq!(device_bytes(board.device()), start);
}

#[test]
fn memory_of_the_driver_can_be_named_but_not_freed() {
    let board = board(Generation::V2);
    let start = device_bytes(board.device());
    let client = Client::open(board.device()).unwrap();
    let mut reserve = arg::MemGetMcMmapInfoV2 { pa: 0, ..Default::default() };
    assert_eq!(client.call(&cmd::MEM_MC_GET_INFO_V2, &mut reserve), 0);
    assert_eq!((reserve.mmap_offset, reserve.size), (0, 16 << 20));
    assert_eq!(client.free(Chunk { handle: reserve.mem_handle, pa: 0 }), -1);
    assert_eq!(device_bytes(board.device()), start);
}

#[test]
fn no_process_rings_or_acknowledges_the_rings_that_the_driver_copies_with() {
    let board = board(Generation::V3);
    let client = Client::open(board.device()).unwrap();
    let chunk = client.allocate(Some(0), 4096, 0).unwrap();
    board.take();
    for (eng_id, qid) in [(128, 0), (128, 1), (131, 1)] {
        let mut start = arg::DmaQueueCopyStart { eng_id, qid, tx_desc_count: 1, rx_desc_count: 1 };
        assert_eq!(client.call(&cmd::DMA_QUEUE_COPY_START, &mut start), -114);
        let mut acknowledge = arg::DmaAckCompleted { eng_id, qid, count: 8000 };
        assert_eq!(client.call(&cmd::DMA_ACK_COMPLETED, &mut acknowledge), -114);
    }
    assert!(board.take().accesses.is_empty());
    assert_eq!(client.memset(chunk, 1, 4096), 0);
}

/// On the second generation a copy that a reset may have hit is started again, and what ran
/// beside it. A copy that was given up before is not among that: its memory is its
/// process's again.
#[test]
fn a_lost_copy_is_not_started_again_with_others() {
    let board = board(Generation::V2);
    let client = Client::open(board.device()).unwrap();
    let [host, other] = [0; 2].map(|_| client.allocate(None, 4096, 0).unwrap());
    let device = client.allocate(Some(0), 4096, 0).unwrap();
    let faults = board.engines().unwrap().faults();
    let drop_kick = || {
        let place = Place { engine: Some(32), queue: None };
        faults.add(Fault::DroppedKick { when: When::nth(1), place })
    };
    assert_eq!(client.copy_async(host, device, 4096, NONE), (0, 1));
    drop_kick();
    assert_eq!(client.copy(other, other, 4096), -110);
    assert_eq!(client.memset(device, 7, 4096), 0);
    assert_eq!((client.reset(0b10), client.reset_outcome(PID)), (0, (0, 0)));
    drop_kick();
    assert_eq!(client.copy(other, other, 4096), 0, "tried again: a reset just ended");
    assert!(client.read(device, 0, 4096) == (0, vec![7; 4096]), "its memory was written");
    assert_eq!(client.wait(device, 1), -110);
}

#[test]
fn another_process_maps_read_only() {
    let board = board(Generation::V2);
    let (mine, theirs) =
        (Client::open(board.device()).unwrap(), Client::open_as(board.device(), 77).unwrap());
    let chunk = mine.allocate(None, 8192, 0).unwrap();
    assert!(mine.file().mmap(chunk.pa, 8192).unwrap().writable);
    assert!(!theirs.file().mmap(chunk.pa, 8192).unwrap().writable);
}

#[test]
fn a_chunk_dump_needs_room_for_all_and_tells_how_much() {
    let board = board(Generation::V2);
    let client = Client::open(board.device()).unwrap();
    client.allocate(Some(1), 1 << 20, 1).unwrap();
    let dump = |entries: u32| {
        client.space().map(BUFFER, vec![0; 24 * entries as usize]);
        let mut argument =
            arg::DumpMemChunks { hbm_index: 1, num_entries_in: entries, data: BUFFER, ..Default::default() };
        (client.call(&cmd::DUMP_MEM_CHUNKS, &mut argument), argument.num_entries_out)
    };
    assert_eq!(dump(1), (-11, 2));
    assert_eq!(dump(2), (0, 2));
    let words = client.space().bytes(BUFFER, 48).unwrap();
    let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().unwrap());
    assert_eq!((word(0), word(8), word(16)), (0x10_0000_0000, 16 << 20, Category::NcdevDevice as u64));
    assert_eq!((word(24), word(32), word(40)), (0x10_0100_0000, 1 << 20, Category::TensorsDevice as u64));
}

#[test]
fn unknown_words_and_unreadable_arguments_answer_an_errno() {
    let board = board(Generation::V2);
    let client = Client::open(board.device()).unwrap();
    for word in [0, u32::MAX, 0x0000_4eff, cmd::MEM_FREE.word ^ 1 << 30] {
        assert_eq!(client.ioctl(word, 0), EINVAL, "{word:#x}");
    }
    assert_eq!(client.ioctl(cmd::MEM_FREE.word, 8), -14);
    // The oldest allocation answers EACCES for an argument it cannot read.
    assert_eq!(client.ioctl(cmd::MEM_ALLOC.word, 8), -13);
    // A handle that cannot be told is taken back.
    let start = device_bytes(board.device());
    let mut wanted = arg::MemAlloc { size: 4096, mem_handle: 8, ..Default::default() };
    assert_eq!(client.call(&cmd::MEM_ALLOC, &mut wanted), -14);
    assert_eq!(device_bytes(board.device()), start);
}

fn probe(host: &Arc<HostMemory>, config: DeviceConfig) -> Result<Arc<Device>, ProbeError> {
    let hardware = SoftHardware::new(neuron_softdev::Device::new(config).unwrap(), Arc::clone(host));
    Device::probe(Arc::new(hardware), Arc::new(VirtualClock::default()), Params::default())
}

#[test]
fn a_late_routing_id_is_waited_for_and_a_bad_one_refused() {
    let host = Arc::new(HostMemory::new().unwrap());
    let config = |fault: &str, routing_id| DeviceConfig {
        faults: fault.parse().unwrap(),
        routing_id,
        ..DeviceConfig::new(Product::Trn2)
    };
    assert_eq!(probe(&host, config("late-id:reads=4000", 3)).unwrap().index(), 7);
    assert_eq!(probe(&host, config("", 64)).err(), Some(ProbeError::RoutingId(64)));
    let never = probe(&host, config("late-id:reads=400000", 3)).err();
    assert_eq!(never, Some(ProbeError::RoutingId(0xdead_beef)));
}

#[test]
fn a_reset_that_hangs_or_stays_busy_fails_the_probe_in_time() {
    let host = Arc::new(HostMemory::new().unwrap());
    let probe = |fault: &str| {
        let config = DeviceConfig { faults: fault.parse().unwrap(), ..DeviceConfig::new(Product::Trn1) };
        probe(&host, config)
    };
    let failed = Some(ProbeError::Step { step: "resetting the device", errno: Errno::ETIMEDOUT });
    assert_eq!(probe("stuck-reset").err(), failed);
    assert_eq!(probe("busy-reset:reads=100").err(), failed);
    assert!(probe("busy-reset:reads=4").is_ok());
}

/// The invariants of `spec/sysfs.md` 3, in the tree as it is written.
#[test]
fn the_sysfs_tree_adds_up() {
    let board = board(Generation::V3);
    let client = Client::open(board.device()).unwrap();
    client.allocate(Some(1), 5000, 3).unwrap();
    client.allocate(None, 70_000, 5).unwrap();
    let files = board.device().sysfs();
    let node = "sys/devices/virtual/neuron_device/neuron0";
    let value = |path: &str| -> u64 {
        let path = format!("{node}/{path}");
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path}"));
        file.content.trim().parse().unwrap()
    };
    let below = |folder: &str| -> u64 {
        let (folder, depth) = (format!("{node}/{folder}/"), folder.split('/').count() + 6);
        let inside = files.iter().filter(|file| {
            file.path.starts_with(&folder)
                && file.path.ends_with("/total")
                && file.path.split('/').count() == depth + 1
        });
        inside.map(|file| file.content.trim().parse::<u64>().unwrap()).sum()
    };
    for core in 0..8 {
        let memory = format!("neuron_core{core}/stats/memory_usage/device_mem");
        assert_eq!(value(&format!("{memory}/total")), below(&memory), "core {core}");
    }
    assert_eq!(value("neuron_core3/stats/memory_usage/device_mem/tensors/total"), 8192);
    let host: u64 =
        (0..8).map(|core| value(&format!("neuron_core{core}/stats/memory_usage/host_mem/total"))).sum();
    assert_eq!(host, below("stats/memory_usage/host_mem"));
    let content = |path: &str| {
        let path = format!("{node}/{path}");
        files.iter().find(|file| file.path == path).unwrap().content.clone()
    };
    assert_eq!(
        (content("core_count"), content("info/architecture/arch_type")),
        ("8".into(), "NDv3\n".into())
    );
}
