//! What the compile-time asserts on sizes and offsets do not say: that the bytes of a struct are the
//! fields' bytes, at any alignment, and nothing else.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn a_copy_request_is_its_fields_bytes_in_little_endian() {
    let request = MemCopyAsync64 {
        src_mem_handle: 1,
        dst_mem_handle: 2,
        size: 0x1_0000_0000,
        src_offset: 0x10,
        dst_offset: 0x20,
        host_prefetch_addr: 0,
        pwait_handle: u32::MAX,
        wait_handle: 0,
    };
    let mut expected = Vec::new();
    for word in [1, 2, 0x1_0000_0000, 0x10, 0x20, 0u64] {
        expected.extend(word.to_le_bytes());
    }
    expected.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(request.as_bytes(), expected);
}

#[test]
fn the_default_is_all_zeroes_padding_included() {
    assert!(DmaQueueInitBatch::default().as_bytes().iter().all(|&byte| byte == 0));
    assert!(PodStatusV2::default().as_bytes().iter().all(|&byte| byte == 0));
}

#[test]
fn an_allocation_fills_the_fields_it_means() {
    let request = MemAllocV2MemType64 {
        size: 1 << 20,
        dram_channel: 1,
        nc_id: 3,
        mem_type: crate::memory::Category::TensorsDevice.raw(),
        mem_handle: 0x7fff_0000_1000,
        ..Default::default()
    };
    let bytes = request.as_bytes();
    assert_eq!(bytes[20], 1);
    assert_eq!(bytes[28], 3);
    assert_eq!(bytes[32], 9);
    assert_eq!(bytes[40..48], 0x7fff_0000_1000u64.to_le_bytes());
    assert_eq!(bytes[36..40], [0; 4]);
    assert_eq!(bytes[48..], [0; 8]);
}

#[test]
fn the_forms_of_an_allocation_agree_where_they_overlap() {
    let long = MemAllocV2MemType64 {
        size: 5,
        align: 6,
        host_memory: 7,
        dram_channel: 8,
        dram_region: 9,
        nc_id: 10,
        mem_type: 11,
        mem_handle: 12,
        ..Default::default()
    };
    let (middle, _) = MemAllocV2MemType::read_from_prefix(long.as_bytes()).unwrap();
    assert_eq!((middle.size, middle.align, middle.mem_type, middle.mem_handle), (5, 6, 11, 12));
    let (short, _) = MemAllocV2::read_from_prefix(long.as_bytes()).unwrap();
    assert_eq!((short.size, short.align, short.host_memory, short.nc_id), (5, 6, 7, 10));
}

#[test]
fn the_old_zero_copy_argument_is_a_prefix_of_the_new_one() {
    let new = MemBufCopy64Zc {
        mem_handle: 1,
        buffer: 2,
        size: 3,
        offset: 4,
        is_copy_to_device: 1,
        bar4_wr_threshold: 4096,
        h2t_qid: crate::limits::DEFAULT_H2T_QUEUE,
        dummy: 0,
    };
    let (old, _) = MemBufCopy64::read_from_prefix(new.as_bytes()).unwrap();
    assert_eq!((old.mem_handle, old.buffer, old.size, old.offset), (1, 2, 3, 4));
    assert_eq!(old.copy_to_mem_handle, 1);
}

#[test]
fn arguments_are_read_at_any_alignment() {
    let request = MemCopy64 { src_mem_handle: 1, dst_mem_handle: 2, size: 3, src_offset: 4, dst_offset: 5 };
    let mut buffer = [0xAAu8; 48];
    for shift in 0..8 {
        buffer[shift..shift + 40].copy_from_slice(request.as_bytes());
        assert_eq!(MemCopy64::read_from_bytes(&buffer[shift..shift + 40]), Ok(request));
    }
    assert!(MemCopy64::read_from_bytes(&buffer[..39]).is_err());
}

#[test]
fn limits_size_the_arrays() {
    use crate::limits;
    assert_eq!(DmaQueueInitBatch::default().entries.len(), limits::QUEUE_BATCH_ENTRIES);
    assert_eq!(HostDeviceIdToRidMap::default().map.len(), limits::MAX_DEVICES);
    assert_eq!(DeviceInfo::default().connected_devices.len(), limits::MAX_CONNECTED_DEVICES);
    assert_eq!(GetAsyncH2tDmaComplQueues::default().queues.len(), crate::arch::QUEUES_PER_ENGINE as usize,);
}

proptest! {
    #[test]
    fn any_bytes_are_a_value_and_come_back(bytes: [u8; 32], long in prop::collection::vec(any::<u8>(), 152)) {
        let batches = MemBufCopy64ZcBatches::read_from_bytes(&bytes).unwrap();
        prop_assert_eq!(batches.as_bytes(), bytes);
        let copyout = DmaDescriptorCopyout::read_from_bytes(&bytes).unwrap();
        prop_assert_eq!(copyout.as_bytes(), bytes);
        let app = AppInfo::read_from_bytes(&long).unwrap();
        prop_assert_eq!(app.as_bytes(), long);
    }
}
