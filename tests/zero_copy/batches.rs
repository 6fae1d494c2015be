//! Batches that are waited for.

use neuron_abi::arch::Generation;
use neuron_abi::{arg, cmd};

use crate::rig::{EFAULT, EINVAL, Rig, batch, operation, pattern, set_user_bytes, user_bytes};

const E2BIG: i64 = -7;

#[test]
fn batches_on_chunks_of_different_cores_move_both_ways() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(300);
    let (one, two) = (
        rig.client.allocate(Some(0), 1 << 20, 0).unwrap(),
        rig.client.allocate(Some(3), 1 << 20, 7).unwrap(),
    );
    let sent = pattern(1, 1_000_000);
    set_user_bytes(&user, 100, &sent);
    let first = vec![operation(&user, 0, 100, 400_001), operation(&user, 500_000, 400_101, 99_999)];
    let second = vec![operation(&user, 5, 500_100, 500_000)];
    let shifted = arg::MemcpyBatch { mem_handle_offset: 1000, ..batch(two) };
    let batches = [(batch(one), first), (shifted, second)];
    assert_eq!(rig.batches(&user, true, 0, &batches), 0);
    assert!(rig.chunk_bytes(one, 0, 400_001) == sent[..400_001]);
    assert!(rig.chunk_bytes(one, 500_000, 99_999) == sent[400_001..500_000]);
    assert!(rig.chunk_bytes(two, 1005, 500_000) == sent[500_000..]);
    set_user_bytes(&user, 100, &vec![0; 1_000_000]);
    assert_eq!(rig.batches(&user, false, 0, &batches), 0);
    assert!(user_bytes(&user, 100, 1_000_000) == sent);
    assert_eq!(user.pinned(), 0);
}

#[test]
fn batches_before_one_that_fails_stay_copied() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(10);
    let chunk = rig.client.allocate(Some(0), 65536, 0).unwrap();
    set_user_bytes(&user, 0, &pattern(2, 8192));
    let good = (batch(chunk), vec![operation(&user, 0, 0, 8192)]);
    let bad = (batch(chunk), vec![operation(&user, 9000, 0, 10), operation(&user, 65536, 0, 1)]);
    assert_eq!(rig.batches(&user, true, 0, &[good.clone(), bad, good]), EINVAL);
    assert_eq!(rig.chunk_bytes(chunk, 0, 8192), pattern(2, 8192));
    assert_eq!(rig.chunk_bytes(chunk, 9000, 10), [0; 10], "a batch is checked whole before it runs");
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
