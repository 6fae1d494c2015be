//! Batches that are waited for.

use neuron_abi::arch::Generation;
use neuron_abi::arg;

use crate::rig::{EINVAL, Rig, batch, operation, pattern, set_user_bytes, user_bytes};

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
