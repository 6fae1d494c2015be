//! Memory and mappings: defects 40 to 53.

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::{Category, MemLocation};
use neuron_driver::pool::{Lifespan, Request};
use neuron_tests::client::Client;

use crate::rig::{EINVAL, Rig};

#[test]
fn d40_contiguous_scratchpad_on_the_host_is_refused() {
    let rig = Rig::new();
    let request = Request {
        category: Category::ContiguousScratchpadDevice as u32,
        ..Request::driver_host(4096, 0, Lifespan::Local)
    };
    assert_eq!(rig.device.pools().allocate(request).err(), Some(Errno::EINVAL));
}

#[test]
fn d41_scratchpad_freed_out_of_order_does_not_move_the_next_page() {
    let rig = Rig::new();
    let page = || {
        let request = Request {
            location: MemLocation::Device,
            category: Category::ContiguousScratchpadDevice as u32,
            ..Request::driver_host(1 << 20, 0, Lifespan::Local)
        };
        rig.device.pools().allocate(request).unwrap()
    };
    let (first, second) = (page(), page());
    drop(first);
    let third = page();
    assert_eq!(third.pa() + (1 << 20), second.pa(), "directly under the lowest living page");
}

/// The system refuses, so the reserve serves: more than it has must not be possible,
/// and all of it again after it was given back.
#[test]
fn d42_reserve_memory_is_counted_in_and_out() {
    let rig = Rig::new();
    rig.hardware.refuse_memory(true);
    let total = || rig.device.pools().host_counter(Category::NcdevHost).total;
    let before = total();
    for _ in 0..2 {
        let pages: Vec<_> = std::iter::from_fn(|| {
            rig.device.pools().allocate(Request::driver_host(2 << 20, 0, Lifespan::Local)).ok()
        })
        .collect();
        assert_eq!((pages.len(), total()), (16, before + (32 << 20)));
        drop(pages);
        assert_eq!(total(), before);
    }
}

#[test]
fn d44_memory_is_charged_to_who_allocated_it() {
    let rig = Rig::new();
    let (mine, theirs) = (rig.client(1000), rig.client(2000));
    let chunk = mine.allocate(Some(0), 1 << 20, 0).unwrap();
    let device_bytes = |client: &Client, pid: i32| {
        let header = arg::GetAppsInfo { apps_info_flags: 2, capacity: 16, ..Default::default() };
        let mut bytes = zerocopy::IntoBytes::as_bytes(&header).to_vec();
        bytes.resize(16 + 16 * 152, 0);
        client.space().map(0x30_0000, bytes);
        assert_eq!(client.ioctl(cmd::DEVICE_GET_ALL_APPS_INFO.word, 0x30_0000), 0);
        let bytes = client.space().bytes(0x30_0000, 16 + 16 * 152).unwrap();
        let entry = bytes[16..].chunks(152).find(|entry| entry[..4] == pid.to_le_bytes()).unwrap();
        u64::from_le_bytes(entry[144..152].try_into().unwrap())
    };
    assert_eq!(device_bytes(&theirs, 1000), 1 << 20);
    assert_eq!(theirs.free(chunk), 0);
    assert_eq!((device_bytes(&mine, 1000), device_bytes(&mine, 2000)), (0, 0));
}

#[test]
fn d47_bounds_do_not_wrap() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let chunk = client.allocate(Some(0), 4096, 0).unwrap();
    let mut memset =
        arg::Memset64 { mem_handle: chunk.handle, offset: u64::MAX - 1, size: 4, ..Default::default() };
    assert_eq!(client.call(&cmd::MEMSET64, &mut memset), EINVAL);
}

#[test]
fn d49_extended_info_gives_away_no_kernel_pointer() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let chunk = client.allocate(Some(0), 5000, 0).unwrap();
    let mut info = arg::MemGetExtendedInfo { mem_handle: chunk.handle, version: 7, ..Default::default() };
    assert_eq!(client.call(&cmd::MEM_GET_EXTENDED_INFO, &mut info), 0);
    assert_eq!((info.mem_handle, info.version, info.pid, info.size), (chunk.handle, 0, 1000, 8192));
    info.mem_handle = 99;
    assert_eq!(client.call(&cmd::MEM_GET_EXTENDED_INFO, &mut info), EINVAL);
}

#[test]
fn d52_freed_memory_that_is_mapped_is_not_given_away() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let chunk = client.allocate(None, 8192, 0).unwrap();
    let mapped = client.file().mmap(chunk.pa, 8192).unwrap();
    assert_eq!(client.free(chunk), 0);
    assert_ne!(client.allocate(None, 8192, 0).unwrap().pa, chunk.pa);
    drop(mapped);
}

#[test]
fn d53_a_mapping_of_somebody_elses_memory_is_read_only() {
    let rig = Rig::new();
    let (mine, theirs) = (rig.client(1000), rig.client(2000));
    let chunk = mine.allocate(None, 8192, 0).unwrap();
    assert!(!theirs.file().mmap(chunk.pa, 8192).unwrap().writable);
}
