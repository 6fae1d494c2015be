//! HBM scrubs through their ioctls, with real bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_driver::Params;
use neuron_driver::arch::Arch;
use neuron_driver::ring::Flavour;
use neuron_ndl::software::{HostMemory, Machine, MachineOptions};
use neuron_softdev::Product;
use neuron_tests::client::Client;
use neuron_tests::machine::{Board, Op, board::Cores};
use neuron_tests::rig::{Rig, call_as};

const EPERM: i64 = -1;
const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const RESERVE: u64 = 16 << 20;
const BLOCK: u64 = 65536;

fn start(client: &Client, hbm_index: u32, value: u32) -> i64 {
    let mut argument = arg::HbmScrubStart { nc_id: 0, hbm_index, axi_port: 0, init_val: value };
    client.call(&cmd::HBM_SCRUB_START, &mut argument)
}

fn wait(client: &Client, hbm_index: u32) -> i64 {
    client.call(&cmd::HBM_SCRUB_WAIT, &mut arg::HbmScrubWait { nc_id: 0, hbm_index })
}

/// A machine whose scrubs cover `bytes` behind the firmware's reserve.
fn rig(product: Product, bytes: u64, faults: &str) -> Rig {
    let params = Params { scrub_bytes: Some(RESERVE + bytes), ..Params::default() };
    Rig::with(product, params, faults).unwrap()
}

fn free_queues(rig: &Rig, hbm: u32) -> bool {
    let engines = rig.device().arch().host_connected_engines(hbm);
    engines.iter().all(|engine| {
        let engine = rig.device().engines().lock(*engine).unwrap();
        matches!(engine.queues[0].flavour, Flavour::Unused)
    })
}

/// Bytes of HBM around what was scrubbed.
fn bytes(rig: &Rig, hbm: u32, offset: u64, len: u64) -> Vec<u8> {
    let base = rig.geometry().hbm(hbm).unwrap().base;
    let at = rig.geometry().bar4_offset(base + offset, len).unwrap();
    let mut bytes = vec![0; len as usize];
    rig.hardware().bar4().slice(at, len).unwrap().copy_to(&mut bytes);
    bytes
}

#[test]
fn every_byte_behind_the_firmwares_reserve_is_the_value_and_no_other_changes() {
    // An uneven number of blocks and bytes, so that engines have different shares.
    let len = 75 * BLOCK + 4096;
    for (product, hbm) in [(Product::Trn1, 1), (Product::Trn2, 2), (Product::Trn3, 3)] {
        let rig = rig(product, len, "");
        let client = rig.client(1000).unwrap();
        let in_use = rig.host().in_use();
        assert_eq!((start(&client, hbm, 0xffff_ff5a), wait(&client, hbm)), (0, 0));
        assert!(bytes(&rig, hbm, RESERVE, len).iter().all(|byte| *byte == 0x5a));
        for offset in [RESERVE - BLOCK, RESERVE + len] {
            assert!(bytes(&rig, hbm, offset, BLOCK).iter().all(|byte| *byte == 0), "{offset:#x}");
        }
        assert_eq!(rig.host().in_use(), in_use);
        assert!(free_queues(&rig, hbm));
        // Once more over what is there.
        assert_eq!((start(&client, hbm, 0), wait(&client, hbm)), (0, 0));
        assert!(bytes(&rig, hbm, RESERVE, len).iter().all(|byte| *byte == 0));
    }
}

/// All of a real HBM, on registers with no engines behind: what would be done is told by the
/// doorbells.
#[test]
fn a_whole_hbm_is_shared_evenly_and_each_engine_is_told_its_own_count() {
    for (generation, hbm, gib) in [(Generation::V2, 0, 16), (Generation::V3, 3, 24), (Generation::V4, 1, 36)]
    {
        let host = Arc::new(HostMemory::new().unwrap());
        let board = Board::still(generation, &host, Cores::Up).unwrap();
        let client = Client::open(board.device()).unwrap();
        let in_use = host.in_use();
        board.take();
        assert_eq!(start(&client, hbm, 0), 0);
        let arch = Arch::of(generation);
        let accesses = board.take().accesses;
        let blocks = ((gib << 30) - RESERVE) / BLOCK / 16;
        for engine in arch.host_connected_engines(hbm) {
            let base = arch.engine_base(engine).unwrap();
            // RX first, then TX: blocks, the last read, the marker.
            let doorbells: Vec<_> = accesses
                .iter()
                .filter(|access| [base + 0x2_1038, base + 0x1038].contains(&access.offset))
                .map(|access| (access.op, access.offset - base, u64::from(access.value)))
                .collect();
            assert_eq!(doorbells, [(Op::Write, 0x2_1038, blocks + 2), (Op::Write, 0x1038, blocks + 2)]);
        }
        assert_eq!(wait(&client, hbm), -110);
        assert_eq!(host.in_use(), in_use, "freed although no engine ended");
    }
}

#[test]
fn scrubs_of_two_hbms_run_side_by_side() {
    let rig = rig(Product::Trn2, 40 * BLOCK, "");
    let (first, second) = (rig.client(1).unwrap(), rig.client(2).unwrap());
    assert_eq!((start(&first, 0, 1), start(&second, 3, 2), start(&first, 1, 3)), (0, 0, 0));
    assert_eq!((wait(&second, 3), wait(&first, 1), wait(&first, 0)), (0, 0, 0));
    for (hbm, value) in [(0, 1), (1, 3), (3, 2), (2, 0)] {
        assert!(bytes(&rig, hbm, RESERVE, 40 * BLOCK).iter().all(|byte| *byte == value), "HBM {hbm}");
    }
}

#[test]
fn bad_numbers_and_scrubs_of_others_are_refused() {
    let rig = rig(Product::Trn1, 20 * BLOCK, "");
    let (first, second) = (rig.client(1).unwrap(), rig.client(2).unwrap());
    assert_eq!((start(&first, 2, 0), wait(&first, 2), wait(&first, 0)), (EPERM, EPERM, EINVAL));
    let bad_core = arg::HbmScrubStart { nc_id: 2, ..Default::default() };
    assert_eq!(call_as(first.file(), 1, &cmd::HBM_SCRUB_START, bad_core).0, -7);
    let stranger = call_as(first.file(), 99, &cmd::HBM_SCRUB_START, arg::HbmScrubStart::default());
    assert_eq!(stranger.0, -13, "nothing would end it");
    assert_eq!((start(&first, 0, 0), start(&second, 0, 0), start(&first, 0, 0)), (0, EBUSY, EBUSY));
    assert_eq!((wait(&second, 0), wait(&first, 0), wait(&first, 0)), (EINVAL, 0, EINVAL));
}

#[test]
fn a_process_that_ends_takes_its_scrub_along() {
    let rig = rig(Product::Trn1, 20 * BLOCK, "hang:nth=1,engine=3");
    let in_use = rig.host().in_use();
    let (first, second) = (rig.client(1).unwrap(), rig.client(2).unwrap());
    assert_eq!(start(&first, 0, 0), 0);
    drop(first);
    assert_eq!(rig.host().in_use(), in_use);
    assert!(free_queues(&rig, 0));
    assert_eq!(start(&second, 0, 0), 0);
}

/// Engines on a thread of their own, and the machine's clock.
#[test]
fn a_scrub_runs_while_its_process_does_something_else() {
    // A budget that no busy machine uses up.
    let scrub_bytes = Some(RESERVE + 256 * BLOCK);
    let params = Params { scrub_bytes, wait_factor: Some(1_000_000), ..Params::default() };
    let options = MachineOptions { params, ..MachineOptions::default() };
    let machine = Machine::with_options("trn1.2xlarge", options).unwrap();
    let client = Client::open_as(&machine.driver(0).unwrap(), 1).unwrap();
    assert_eq!((start(&client, 0, 0xc3), start(&client, 1, 0x3c)), (0, 0));
    client.allocate(None, 1 << 20, 0).unwrap();
    assert_eq!((wait(&client, 1), wait(&client, 0)), (0, 0));
    let hbm = machine.device(0).unwrap();
    for (offset, value) in [(0, 0xc3), (16 << 30, 0x3c)] {
        let mut bytes = vec![0_u8; (256 * BLOCK) as usize];
        hbm.bar4().slice(offset + RESERVE, 256 * BLOCK).unwrap().copy_to(&mut bytes);
        assert!(bytes.iter().all(|byte| *byte == value));
    }
}

mod defects {
    use super::*;

    #[test]
    fn d37_queues_in_use_are_not_taken() {
        let rig = rig(Product::Trn2, 40 * BLOCK, "");
        let (first, second) = (rig.client(1).unwrap(), rig.client(2).unwrap());
        let [.., last] = rig.device().arch().host_connected_engines(1);
        let ring = second.allocate(None, 1024, 0).unwrap();
        let mut init = arg::DmaQueueInit {
            eng_id: last,
            tx_desc_count: 64,
            rx_desc_count: 64,
            tx_handle: ring.handle,
            rx_handle: ring.handle,
            ..Default::default()
        };
        assert_eq!(second.call(&cmd::DMA_QUEUE_INIT, &mut init), 0);
        let in_use = rig.host().in_use();
        assert_eq!(start(&first, 1, 0xff), EBUSY);
        assert!(bytes(&rig, 1, RESERVE, BLOCK).iter().all(|byte| *byte == 0), "nothing was written");
        assert_eq!(rig.host().in_use(), in_use);
        assert_eq!(rig.device().engines().lock(last).unwrap().queues[0].owner(), 2);
        drop(second);
        assert_eq!((start(&first, 1, 0xff), wait(&first, 1)), (0, 0));
    }

    #[test]
    fn d37_memory_of_others_is_not_wiped() {
        let rig = rig(Product::Trn1, 40 * BLOCK, "");
        let (first, second) = (rig.client(1).unwrap(), rig.client(2).unwrap());
        first.allocate(Some(0), 4096, 0).unwrap();
        second.allocate(Some(0), 4096, 0).unwrap();
        assert_eq!((start(&first, 0, 0), start(&first, 1, 0), wait(&first, 1)), (EBUSY, 0, 0));
        drop(second);
        assert_eq!((start(&first, 0, 0), wait(&first, 0)), (0, 0));
    }

    #[test]
    fn d37_a_start_that_fails_anywhere_gives_everything_back() {
        let rig = rig(Product::Trn1, 40 * BLOCK, "");
        let client = rig.client(1).unwrap();
        let in_use = rig.host().in_use();
        // Four allocations for each of sixteen engines.
        for allocation in 1..=64 {
            rig.device().pools().fault().arm(allocation);
            assert_eq!(start(&client, 0, 0), -12, "allocation {allocation}");
            assert_eq!((rig.host().in_use(), free_queues(&rig, 0)), (in_use, true));
        }
        rig.device().pools().fault().arm(0);
        assert_eq!((start(&client, 0, 7), wait(&client, 0)), (0, 0));
    }

    #[test]
    fn d37_an_engine_that_hangs_is_told_and_everything_is_freed() {
        let rig = rig(Product::Trn1, 40 * BLOCK, "hang:nth=1,engine=20");
        let client = rig.client(1).unwrap();
        let in_use = rig.host().in_use();
        assert_eq!((start(&client, 1, 7), wait(&client, 1), wait(&client, 1)), (0, -110, EINVAL));
        assert_eq!((rig.host().in_use(), free_queues(&rig, 1)), (in_use, true));
        assert_eq!((start(&client, 0, 7), wait(&client, 0)), (0, 0), "engines of the other HBM");
    }
}
