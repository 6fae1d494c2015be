//! HBMs that have less to give than the part (our choice: `PoolParams::hbm_bytes`).

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::memory::Category;
use neuron_driver::pool::PoolParams;
use neuron_driver::{Params, ProbeError};
use neuron_ndl::software::{HostMemory, SoftHardware};
use neuron_softdev::{DeviceConfig, Product};
use neuron_tests::client::PID;
use neuron_tests::rig::Rig;

use crate::ENOMEM;

const MIB: u64 = 1 << 20;
const RESULT: u64 = 0x10_0000;

fn params(hbm_bytes: u64, small_pool_size: u64) -> Params {
    let pools = PoolParams { hbm_bytes: Some(hbm_bytes), small_pool_size, ..PoolParams::default() };
    Params { pools, ..Params::default() }
}

fn rig(product: Product, hbm_bytes: u64, small_pool_size: u64) -> Rig {
    Rig::with(product, params(hbm_bytes, small_pool_size), "").unwrap()
}

#[test]
fn memory_is_exhausted_where_the_smaller_part_ends() {
    for (product, hbm) in [(Product::Trn1, 1), (Product::Trn2, 3)] {
        let rig = rig(product, 256 * MIB, 64 * MIB);
        let client = rig.client(PID).unwrap();
        let base = rig.geometry().hbm(hbm).unwrap().base;
        let room = || rig.device().pools().hbm(hbm).unwrap();
        assert_eq!((room().main, room().small), ((176 * MIB, 176 * MIB), (64 * MIB, 64 * MIB)));
        assert_eq!(client.try_allocate(Some(hbm), 176 * MIB + 4096, 0), Err(ENOMEM));
        let large = client.allocate(Some(hbm), 176 * MIB, 0).unwrap();
        assert_eq!(large.pa, base + 16 * MIB);
        let small = client.allocate(Some(hbm), 4096, 0).unwrap();
        assert_eq!(small.pa, base + 192 * MIB, "behind the main pool's end");
        client.allocate(Some(hbm), 63 * MIB, 0).unwrap();
        assert_eq!(client.try_allocate(Some(hbm), MIB, 0), Err(ENOMEM));
        assert_eq!(room().allocated, (16 + 176 + 63) * MIB + 4096);
        // The last page is memory, and so is the other HBM.
        let last = client.allocate(Some(hbm), MIB - 4096, 0).unwrap();
        assert_eq!(last.pa + MIB - 4096, base + 256 * MIB);
        assert_eq!(room().allocated, 256 * MIB);
        assert_eq!(client.memset(last, 0x5a, MIB - 4096), 0);
        assert_eq!(client.read(last, MIB - 4097, 1), (0, vec![0x5a]));
        assert_eq!(client.try_allocate(Some(hbm), 4096, 0), Err(ENOMEM));
        assert!(client.allocate(Some(0), 100 * MIB, 0).is_ok());
        // The dump has these chunks, and what the part has beyond them as the driver's.
        let part = &rig.device().geometry().hbm[hbm as usize];
        let chunks = rig.device().pools().device_chunks(hbm);
        assert_eq!(chunks.iter().map(|(_, bytes, _)| bytes).sum::<u64>(), part.size);
        let kept = (base + 256 * MIB, part.size - 256 * MIB, Category::NcdevDevice as u32);
        assert_eq!((chunks.len(), chunks.last()), (6, Some(&kept)));
    }
}

#[test]
fn the_scratchpad_grows_down_from_the_main_pools_new_end() {
    let rig = rig(Product::Trn2, 256 * MIB, 64 * MIB);
    let client = rig.client(PID).unwrap();
    let page = |bytes| {
        client.space().map(RESULT, vec![0; 8]);
        let mut wanted = arg::MemAllocV2MemType64 {
            size: bytes,
            mem_type: Category::ContiguousScratchpadDevice.raw(),
            mem_handle: RESULT,
            ..Default::default()
        };
        let ret = client.call(&cmd::MEM_ALLOC_V2MT64, &mut wanted);
        let handle = u64::from_le_bytes(client.space().bytes(RESULT, 8).unwrap().try_into().unwrap());
        let mut info = arg::MemGetExtendedInfo { mem_handle: handle, ..Default::default() };
        client.call(&cmd::MEM_GET_EXTENDED_INFO, &mut info);
        (ret, info.pa)
    };
    assert_eq!((page(16 * MIB), page(MIB)), ((0, 176 * MIB), (0, 175 * MIB)));
    assert_eq!(rig.device().pools().hbm(0).unwrap().scratchpad, 17 * MIB);
    assert_eq!(page(160 * MIB).0, ENOMEM, "it would meet the firmware's reserve");
}

#[test]
fn a_part_is_never_larger_than_it_is_nor_cut_within_a_page() {
    let whole = Rig::new(Product::Trn1).unwrap();
    let more = rig(Product::Trn1, u64::MAX, PoolParams::default().small_pool_size);
    assert_eq!(more.device().pools().hbm(0), whole.device().pools().hbm(0));
    let odd = rig(Product::Trn1, 256 * MIB + 4095, 64 * MIB);
    assert_eq!(odd.device().pools().hbm(1).unwrap().main.0, 176 * MIB);
    // A small pool that does not fit is none.
    let no_small = rig(Product::Trn1, 256 * MIB, 256 * MIB).device().pools().hbm(0).unwrap();
    assert_eq!((no_small.main.0, no_small.small), (240 * MIB, (0, 0)));
}

#[test]
fn what_the_firmware_does_not_fit_in_does_not_come_up_and_says_why() {
    use std::sync::Arc;
    let probe = |hbm_bytes| {
        let host = Arc::new(HostMemory::new().unwrap());
        let hardware = neuron_softdev::Device::new(DeviceConfig::new(Product::Trn1)).unwrap();
        let hardware = Arc::new(SoftHardware::new(hardware, host));
        let clock = Arc::new(neuron_driver::hw::VirtualClock::default());
        neuron_driver::Device::probe(hardware, clock, params(hbm_bytes, 0))
    };
    for (asked, bytes) in [(0, 0), (4095, 0), (16 * MIB - 1, 16 * MIB - 4096)] {
        let error = probe(asked).err().unwrap();
        assert_eq!(error, ProbeError::HbmTooSmall { bytes });
        let text = error.to_string();
        assert!(text.contains("16777216") && text.contains(&bytes.to_string()), "{text}");
    }
    let least = probe(16 * MIB).unwrap();
    assert_eq!(least.pools().hbm(0).unwrap().main, (0, 0), "up, and nothing to give");
    let file = neuron_driver::OpenFile::open(&least, PID, neuron_driver::OpenMode::Full);
    assert!(file.is_ok());
}

#[test]
fn a_scrub_covers_what_there_is_to_give() {
    let rig = rig(Product::Trn1, 20 * MIB, 0);
    let client = rig.client(PID).unwrap();
    let chunk = client.allocate(Some(0), 4 * MIB, 0).unwrap();
    assert_eq!(client.memset(chunk, 1, 4 * MIB), 0);
    let mut start = arg::HbmScrubStart { init_val: 9, ..Default::default() };
    assert_eq!(client.call(&cmd::HBM_SCRUB_START, &mut start), 0);
    assert_eq!(client.call(&cmd::HBM_SCRUB_WAIT, &mut arg::HbmScrubWait::default()), 0);
    assert_eq!(client.read(chunk, 4 * MIB - 1, 1), (0, vec![9]));
    let at = rig.geometry().bar4_offset(20 * MIB, 1).unwrap();
    let mut beyond = [2_u8];
    rig.hardware().bar4().slice(at, 1).unwrap().copy_to(&mut beyond);
    assert_eq!(beyond, [0]);
}
