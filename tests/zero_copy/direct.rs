//! Small writes through the HBM window, and what must go by DMA.

use neuron_abi::arch::Generation;
use neuron_abi::{arg, cmd};

use crate::rig::{EFAULT, EINVAL, Move, Rig, argument, batch, operation, pattern, set_user_bytes};

pub(crate) fn with_threshold(argument: arg::MemBufCopy64Zc, bar4_wr_threshold: u32) -> arg::MemBufCopy64Zc {
    arg::MemBufCopy64Zc { bar4_wr_threshold, ..argument }
}

#[test]
fn small_writes_ring_no_doorbell_on_any_generation_and_look_at_no_queue() {
    for generation in [Generation::V2, Generation::V3] {
        let rig = Rig::new(generation);
        let user = rig.pages(4);
        let chunk = rig.client.allocate(Some(1), 16384, 1).unwrap();
        set_user_bytes(&user, 3, &pattern(5, 8192));
        let what = Move { chunk, offset: 8, at: 3, bytes: 8192 };
        let mut call = with_threshold(argument(&user, true, what), 8192);
        call.h2t_qid = 77;
        assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &call), 0);
        assert_eq!((rig.doorbells(), user.pins().0), (0, 0));
        assert_eq!(rig.chunk_bytes(chunk, 8, 8192), pattern(5, 8192));
    }
}

#[test]
fn what_does_not_qualify_goes_by_dma() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(8);
    let chunk = rig.client.allocate(Some(0), 65536, 0).unwrap();
    let host = rig.client.allocate(None, 65536, 0).unwrap();
    set_user_bytes(&user, 0, &pattern(6, 20_000));
    for (why, chunk, offset, bytes, threshold) in [
        ("above the caller's limit", chunk, 0, 4100, 4096),
        ("above two pages, whatever the caller says", chunk, 0, 8196, u32::MAX),
        ("size", chunk, 0, 4095, 4096),
        ("offset", chunk, 2, 4096, 4096),
        ("host memory", host, 0, 4096, 4096),
    ] {
        let call = argument(&user, true, Move { chunk, offset, at: 0, bytes });
        assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &with_threshold(call, threshold)), 0);
        assert_eq!(rig.doorbells(), 2, "{why}");
        assert_eq!(rig.chunk_bytes(chunk, offset, bytes), pattern(6, bytes), "{why}");
    }
    let back = argument(&user, false, Move { chunk, offset: 0, at: 0, bytes: 64 });
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &with_threshold(back, 8192)), 0);
    assert_eq!(rig.doorbells(), 2, "reads never do");
}

#[test]
fn a_batch_goes_through_the_window_whole_or_not_at_all() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(8);
    let chunk = rig.client.allocate(Some(0), 65536, 0).unwrap();
    set_user_bytes(&user, 0, &pattern(7, 20_000));
    let small = arg::MemcpyBatch { bar4_wr_threshold: 4096, ..batch(chunk) };
    let both = [operation(&user, 0, 0, 4096), operation(&user, 8192, 4096, 64)];
    assert_eq!(rig.batches(&user, true, 0, &[(small, both.to_vec())]), 0);
    assert_eq!((rig.doorbells(), user.pins().0), (0, 0));
    assert_eq!(rig.chunk_bytes(chunk, 8192, 64), pattern(7, 20_000)[4096..4160]);

    let odd = [both[0], operation(&user, 12_000, 4096, 63)];
    assert_eq!(rig.batches(&user, true, 0, &[(small, odd.to_vec())]), 0);
    assert_eq!(user.pins().0, 2, "one that does not qualify takes the other along");
    assert_eq!(rig.chunk_bytes(chunk, 12_000, 63), pattern(7, 20_000)[4096..4159]);
}

#[test]
fn a_bad_buffer_faults_before_anything_is_written() {
    let rig = Rig::new(Generation::V3);
    let user = rig.pages(1);
    let chunk = rig.client.allocate(Some(0), 8192, 0).unwrap();
    let call = argument(&user, true, Move { chunk, offset: 0, at: 4000, bytes: 200 });
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &with_threshold(call, 4096)), EFAULT);
    assert_eq!(rig.chunk_bytes(chunk, 0, 200), vec![0; 200]);
    let outside = argument(&user, true, Move { chunk, offset: 8192, at: 0, bytes: 4 });
    assert_eq!(rig.call(&user, &cmd::MEM_BUF_ZEROCOPY64, &with_threshold(outside, 4096)), EINVAL);
}
