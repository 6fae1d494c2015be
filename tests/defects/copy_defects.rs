//! Copies, descriptors and PROGRAM_ENGINE: defects 26 to 38.

use neuron_abi::arch::Generation;
use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_softdev::Product;
use neuron_tests::client::NONE;

use crate::rig::{EINVAL, Rig};

#[test]
fn d26_copies_of_nothing_run_no_descriptor() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let (host, device) =
        (client.allocate(None, 4096, 0).unwrap(), client.allocate(Some(0), 4096, 0).unwrap());
    rig.writes();
    assert_eq!(client.copy(host, device, 0), 0);
    assert_eq!(client.memset(device, 7, 0), 0);
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
    assert_eq!(mine.copy_async(host, device, 1 << 20, NONE), (0, 1));
    assert_eq!(mine.copy_async(host, device, 1 << 20, NONE).0, -16, "own context in use");
    rig.writes();
    assert_eq!(mine.copy_async(big_host, big, 133_169_153, 1).0, EINVAL, "refused before it starts");
    assert_eq!(rig.writes(), 0);
    assert_eq!(theirs.wait(device, 1), EINVAL);
    assert_eq!(mine.wait(device, 1), 0);
}

#[test]
fn d28_d30_a_timed_out_ring_is_reset_before_its_memory_is_used_again() {
    let rig = Rig::with(Product::Trn1, "drop-kick:nth=1,engine=32");
    let client = rig.client(1000);
    let (host, device) =
        (client.allocate(None, 4096, 0).unwrap(), client.allocate(Some(0), 4096, 0).unwrap());
    rig.writes();
    assert_eq!(client.copy(host, device, 4096), -110);
    assert_eq!(rig.writes(), 2 + 15, "two doorbells, then the ring programmed anew");
    // The dropped descriptors do not run with the next kick: their memory is somebody's.
    assert_eq!(client.free(device), 0);
    let other = client.allocate(Some(0), 4096, 0).unwrap();
    assert_eq!(client.memset(other, 0x5a, 4096), 0);
    assert_eq!(client.read(other, 0, 4096), (0, vec![0x5a; 4096]));
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
    let mut read = arg::BarRw { address: 0x10_0000, data: 0x10_0000, count: u32::MAX, ..Default::default() };
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
    let mut program =
        arg::ProgramEngineNc64 { dst: 0xfff_c000_0000, size: 16, buffer: 0x10_0000, ..Default::default() };
    assert_eq!(client.call(&cmd::PROGRAM_ENGINE_NC64, &mut program), 0);
}
