//! Defects of the shipped driver that concern zero-copy, by their number in
//! `spec/driver.md` 10.

use neuron_abi::arch::Generation;
use neuron_abi::{arg, cmd};

use crate::direct::with_threshold;
use crate::rig::{EFAULT, EINVAL, Move, Rig, argument, batch, operation, pattern, set_user_bytes};

const E2BIG: i64 = -7;

/// Runs of pages stop at two pages, and a copy that fails keeps pages pinned.
#[test]
fn defect_32_neighbours_share_descriptors_and_a_failed_copy_keeps_no_page() {
    let rig = Rig::new(Generation::V3);
    let user = rig.runs(64, 64);
    let chunk = rig.client.allocate(Some(0), 64 * 4096, 0).unwrap();
    let what = Move { chunk, offset: 0, at: 0, bytes: 64 * 4096 };
    assert_eq!(rig.zero_copy(&user, true, what), 0);
    assert_eq!(rig.board.take().batches[0].counts, (5, 5), "four of 64 KiB, and the marker");
    let halves = Move { bytes: 32 * 4096, ..what };
    user.fail_pin(0);
    assert_eq!(rig.zero_copy(&user, true, halves), -12);
    assert_eq!(user.pinned(), 0);
}

#[test]
fn defect_33_each_bad_batch_is_refused_and_nothing_is_kept() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(10);
    let chunk = rig.client.allocate(Some(0), 65536, 0).unwrap();
    let run = |batch, operations| rig.batches(&user, true, 0, &[(batch, operations)]);
    let wrapping = arg::MemcpyBatch { mem_handle_offset: u64::MAX, ..batch(chunk) };
    assert_eq!(run(wrapping, vec![operation(&user, 1, 0, 8)]), EINVAL, "the sum of offsets wraps to 0");
    assert_eq!(run(batch(chunk), vec![]), EINVAL, "no operation");
    assert_eq!(run(batch(chunk), vec![operation(&user, 0, 0, 0)]), EINVAL, "no bytes");
    assert_eq!(
        run(batch(chunk), vec![arg::BatchOp { size: 8, ..Default::default() }]),
        EINVAL,
        "null buffer"
    );
    assert_eq!(run(batch(chunk), vec![operation(&user, 65535, 0, 2)]), EINVAL, "bounds");
    let unmapped = arg::BatchOp { buffer: 0x99, size: 8, offset: 0 };
    assert_eq!(run(batch(chunk), vec![unmapped]), EFAULT);
    let handle = arg::MemcpyBatch { mem_handle: 12345, ..Default::default() };
    assert_eq!(run(handle, vec![operation(&user, 0, 0, 0)]), EINVAL);
    assert_eq!(rig.batches(&user, true, 0, &[]), EINVAL, "no batch");
    for (batches_ptr, num_batches, errno) in
        [(0, 1, EINVAL), (0x99, 1, EFAULT), (0x99, 0, EINVAL), (0x99, u32::MAX, E2BIG)]
    {
        let argument =
            arg::MemBufCopy64ZcBatches { batches_ptr, num_batches, h2t_qid: -1, ..Default::default() };
        assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64_BATCHES, &argument), errno);
    }
    assert_eq!((rig.doorbells(), user.pinned()), (0, 0));
}

/// What a caller's counts make the driver allocate is bounded.
#[test]
fn defect_34_counts_above_the_limits_are_too_big() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(1);
    let chunk = rig.client.allocate(Some(0), 4096, 0).unwrap();
    let operations = vec![operation(&user, 0, 0, 4); (1 << 16) + 1];
    assert_eq!(rig.batches(&user, true, 0, &[(batch(chunk), operations)]), E2BIG);
    let many = vec![(batch(chunk), vec![operation(&user, 0, 0, 4)]); 4097];
    assert_eq!(rig.batches(&user, true, 0, &many), E2BIG);
    assert_eq!(rig.doorbells(), 0);
}

/// The shipped driver ignores a window that could not be mapped and writes to offset zero.
#[test]
fn defect_35_the_last_bytes_of_a_channel_are_in_the_window() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(1);
    let geometry = rig.board.device().geometry();
    let end = geometry.hbm[0].base + geometry.hbm[0].size;
    // The small pool ends with its channel, and is filled from its start.
    let chunk = std::iter::repeat_with(|| rig.client.allocate(Some(0), 512 << 10, 0).unwrap())
        .find(|chunk| chunk.pa + (512 << 10) == end)
        .unwrap();
    set_user_bytes(&user, 0, &pattern(8, 4096));
    let call = argument(&user, true, Move { chunk, offset: (512 << 10) - 4096, at: 0, bytes: 4096 });
    rig.doorbells();
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &with_threshold(call, 4096)), 0);
    assert_eq!(rig.doorbells(), 0);
    assert_eq!(rig.chunk_bytes(chunk, (512 << 10) - 4096, 4096), pattern(8, 4096));
}
