//! Calls that return when the bytes are there.

use neuron_abi::arch::Generation;
use neuron_abi::{arg, cmd};
use neuron_driver::Params;
use neuron_softdev::fault::Fault;
use proptest::prelude::*;

use crate::rig::{
    EFAULT, EINVAL, ENOENT, ENOMEM, ETIMEDOUT, Move, Rig, argument, pattern, set_user_bytes, user_bytes,
};

#[test]
fn checks_come_in_the_documented_order_and_touch_no_engine() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(4);
    let chunk = rig.client.allocate(Some(0), 8192, 1).unwrap();
    let good = argument(&user, true, Move { chunk, offset: 0, at: 0, bytes: 4096 });
    let call = |change: fn(&mut arg::MemBufCopy64Zc)| {
        let mut argument = good;
        change(&mut argument);
        rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &argument)
    };
    assert_eq!(call(|arg| (arg.mem_handle, arg.size) = (99, u64::MAX)), EINVAL);
    assert_eq!(call(|arg| (arg.offset, arg.buffer) = (4097, 16)), EINVAL, "bounds before the buffer");
    assert_eq!(call(|arg| (arg.offset, arg.size) = (u64::MAX, 2)), EINVAL);
    assert_eq!(call(|arg| (arg.buffer, arg.h2t_qid) = (16, 99)), EFAULT, "buffer before the queue");
    for qid in [16, 99, i32::MAX, -2, i32::MIN] {
        let argument = arg::MemBufCopy64Zc { h2t_qid: qid, ..good };
        assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &argument), ENOENT, "{qid}");
    }
    assert_eq!(call(|arg| arg.h2t_qid = 0), ENOENT, "the other core's default queue");
    assert_eq!(call(|arg| arg.h2t_qid = 5), ENOENT, "nobody's queue");
    assert_eq!(rig.doorbells(), 0);
    assert_eq!(call(|arg| arg.h2t_qid = 1), 0, "the core's own default queue by number");
    rig.doorbells();
    assert_eq!(call(|arg| (arg.size, arg.h2t_qid) = (0, 5)), 0, "a write of nothing goes through the window");
    let mut back = arg::MemBufCopy64Zc { is_copy_to_device: 0, size: 0, h2t_qid: 5, ..good };
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &back), ENOENT, "a read of nothing is checked");
    back.h2t_qid = -1;
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &back), 0);
    assert_eq!((rig.doorbells(), user.pinned()), (0, 0));
}

#[test]
fn v2_refuses_it_unless_the_parameter_allows_it() {
    let refused = Rig::new(Generation::V2);
    let user = refused.pages(4);
    let chunk = refused.client.allocate(Some(0), 8192, 0).unwrap();
    let what = Move { chunk, offset: 0, at: 0, bytes: 4096 };
    assert_eq!(refused.zero_copy(&user, true, what), EINVAL);
    let bad_queue = arg::MemBufCopy64Zc { h2t_qid: 16, ..argument(&user, true, what) };
    assert_eq!(refused.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &bad_queue), ENOENT, "the number comes first");
    let no_ring = arg::MemBufCopy64Zc { h2t_qid: 5, ..argument(&user, true, what) };
    assert_eq!(refused.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &no_ring), EINVAL, "the ring after it");
    assert_eq!(refused.doorbells(), 0);

    let params = Params { zerocopy_trn1_override: true, ..Params::default() };
    let allowed = Rig::with(Generation::V2, params);
    let user = allowed.pages(4);
    let chunk = allowed.client.allocate(Some(0), 8192, 0).unwrap();
    assert_eq!(allowed.zero_copy(&user, true, Move { chunk, offset: 0, at: 0, bytes: 4096 }), 0);
}

#[test]
fn a_requested_ring_of_the_core_serves_and_a_service_ring_does_not() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(20);
    let chunk = rig.client.allocate(Some(0), 1 << 16, 0).unwrap();
    let mut queues =
        arg::H2tDmaAllocQueues { nc_id: 0, copy_queue_cnt: 1, service_queue_cnt: 1, ..Default::default() };
    assert_eq!(rig.client.call(&cmd::H2T_DMA_ALLOC_QUEUES, &mut queues), 0);
    let (copy, service) =
        (queues.copy_queue_bmap.trailing_zeros(), queues.service_queue_bmap.trailing_zeros());
    set_user_bytes(&user, 5, &pattern(1, 60_000));
    rig.doorbells();
    let what = Move { chunk, offset: 7, at: 5, bytes: 60_000 };
    let on = |qid: u32| arg::MemBufCopy64Zc { h2t_qid: qid as i32, ..argument(&user, true, what) };
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &on(service)), ENOENT);
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &on(copy)), 0);
    assert_eq!(rig.board.take().batches.iter().map(|batch| batch.qid).collect::<Vec<_>>(), [copy]);
    assert_eq!(rig.chunk_bytes(chunk, 7, 60_000), pattern(1, 60_000));
}

#[test]
fn a_long_copy_keeps_few_pages_pinned_and_goes_round_the_ring() {
    // Twice the ring's descriptors: no two of these pages lie side by side.
    const PAGES: u64 = 18_000;
    let rig = Rig::new(Generation::V3);
    let user = rig.runs(1, PAGES);
    let chunk = rig.client.allocate(Some(1), PAGES * 4096, 2).unwrap();
    let bytes = PAGES * 4096 - 100;
    set_user_bytes(&user, 50, &pattern(9, bytes));
    assert_eq!(rig.zero_copy(&user, true, Move { chunk, offset: 11, at: 50, bytes }), 0);
    assert!(rig.chunk_bytes(chunk, 11, bytes) == pattern(9, bytes));
    let (pins, most) = user.pins();
    assert_eq!((pins as u64, user.pinned()), (PAGES.div_ceil(64), 0));
    assert!(most as u64 <= 8192 + 64, "{most} pages were pinned at a time");
    assert!(rig.board.engines_found_no_error());
}

#[test]
fn a_pin_that_fails_ends_the_copy_and_leaves_nothing_pinned() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(500);
    let chunk = rig.client.allocate(Some(0), 500 * 4096, 0).unwrap();
    set_user_bytes(&user, 0, &pattern(3, 500 * 4096));
    let what = Move { chunk, offset: 0, at: 0, bytes: 500 * 4096 };
    user.fail_pin(3);
    assert_eq!(rig.zero_copy(&user, true, what), ENOMEM);
    assert_eq!(user.pinned(), 0);
    assert!(
        rig.chunk_bytes(chunk, 0, 3 * 64 * 4096) == pattern(3, 3 * 64 * 4096),
        "what came before is there"
    );
    assert!(rig.chunk_bytes(chunk, 3 * 64 * 4096, 4096).iter().all(|&byte| byte == 0));
    user.fail_pin(usize::MAX / 2);
    assert_eq!(rig.zero_copy(&user, true, what), 0);
    assert!(rig.chunk_bytes(chunk, 0, 500 * 4096) == pattern(3, 500 * 4096));
}

#[test]
fn an_engine_that_does_not_answer_is_let_go_of_with_all_pages() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(500);
    let chunk = rig.client.allocate(Some(0), 500 * 4096, 0).unwrap();
    let what = Move { chunk, offset: 0, at: 0, bytes: 500 * 4096 };
    let faults = rig.board.engines().unwrap().faults();
    let hang = faults.add(Fault::Hang { nth: 1, engine: None });
    assert_eq!(rig.zero_copy(&user, true, what), ETIMEDOUT);
    assert_eq!(user.pinned(), 0);
    faults.remove(hang);
    set_user_bytes(&user, 0, &pattern(4, 500 * 4096));
    assert_eq!(rig.zero_copy(&user, true, what), 0, "the ring was programmed anew");
    assert!(rig.chunk_bytes(chunk, 0, 500 * 4096) == pattern(4, 500 * 4096));
    assert_eq!(user.pinned(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_range_goes_there_and_back_and_its_neighbours_stay(
        offset in 0_u64..5000,
        at in 0_u64..5000,
        bytes in 1_u64..1_200_000,
        v4: bool,
        host: bool,
    ) {
        let rig = Rig::new(if v4 { Generation::V4 } else { Generation::V3 });
        let user = rig.pages((at + bytes).div_ceil(4096) + 1);
        let hbm = if host { None } else { Some(1) };
        let chunk = rig.client.allocate(hbm, offset + bytes + 1, 3).unwrap();
        let sent = pattern(at as u8, bytes);
        set_user_bytes(&user, at, &sent);
        rig.set_chunk_bytes(chunk, offset + bytes, &[0x77]);
        let what = Move { chunk, offset, at, bytes };
        prop_assert_eq!(rig.zero_copy(&user, true, what), 0);
        prop_assert!(rig.chunk_bytes(chunk, offset, bytes) == sent);
        prop_assert_eq!(rig.chunk_bytes(chunk, offset + bytes, 1), vec![0x77]);
        set_user_bytes(&user, at, &vec![0; bytes as usize]);
        set_user_bytes(&user, at + bytes, &[0x66]);
        prop_assert_eq!(rig.zero_copy(&user, false, what), 0);
        prop_assert!(user_bytes(&user, at, bytes) == sent);
        prop_assert_eq!(user_bytes(&user, at + bytes, 1), vec![0x66]);
        prop_assert_eq!(user.pinned(), 0);
    }
}
