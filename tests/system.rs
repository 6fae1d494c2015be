//! Several devices of one machine: how they find each other, and whose memory a descriptor
//! may name.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_driver::Params;
use neuron_softdev::Product;
use neuron_tests::client::{Chunk, Client};
use neuron_tests::rig::{Rig, call_as};

const EINVAL: i64 = -22;
const BUFFER: u64 = 0x10_0000;
/// Length in word 0 of a descriptor: 0 means 64 KiB.
const BYTES: u32 = 0x1000;

/// Stores one descriptor of `len` bytes at `address`.
fn store(client: &Client, ring: Chunk, address: u64, len: u32) -> i64 {
    let descriptor = u128::from(len & 0xffff | 0x0d00_0000) | u128::from(address) << 64;
    client.space().map(BUFFER, descriptor.to_le_bytes().to_vec());
    let mut argument = arg::DmaCopyDescriptors64 {
        mem_handle: ring.handle,
        buffer: BUFFER,
        num_descs: 1,
        ..Default::default()
    };
    client.call(&cmd::DMA_COPY_DESCRIPTORS64, &mut argument)
}

fn inf2(devices: u8) -> Vec<Rig> {
    let params = Params { device_count: devices, ..Params::default() };
    let first = Rig::with(Product::Inf2, params, "").unwrap();
    let others: Vec<_> = (1..devices).map(|id| first.beside(id.into()).unwrap()).collect();
    std::iter::once(first).chain(others).collect()
}

#[test]
fn a_number_is_one_devices_as_long_as_it_lives() {
    let machine = inf2(2);
    let error = machine[0].beside(1).err().unwrap();
    assert!(error.to_string().contains("ENODEV"), "{error}");
    let [first, second] = <[Rig; 2]>::try_from(machine).ok().unwrap();
    assert!(first.device().system().device(1).is_some());
    drop(second);
    assert!(first.device().system().device(1).is_none());
    assert_eq!(first.beside(1).unwrap().device().index(), 1);
}

#[test]
fn descriptors_may_name_host_memory_of_devices_that_the_process_has_open() {
    let machine = inf2(4);
    let opened = |index: usize| machine[index].client(7).unwrap();
    // Device 0 has none before it, 3 none behind: index arithmetic meets both ends.
    for (own, other) in [(0, 1), (0, 3), (3, 2), (3, 0), (1, 2), (2, 1)] {
        let here = opened(own);
        let ring = here.allocate(None, 4096, 0).unwrap();
        let theirs = machine[other].client(8).unwrap();
        let chunk = theirs.allocate(None, 8192, 0).unwrap();
        assert_eq!(store(&here, ring, ring.pa, BYTES), 0);
        assert_eq!(store(&here, ring, chunk.pa, BYTES), EINVAL, "{own} {other}: not attached there");
        let there = opened(other);
        assert_eq!(store(&here, ring, chunk.pa + 4096, BYTES), 0, "{own} {other}");
        drop(there);
        assert_eq!(store(&here, ring, chunk.pa, BYTES), EINVAL);
    }
}

mod defects {
    use super::*;

    #[test]
    fn d36_descriptors_stay_in_the_address_map_to_their_last_byte() {
        for product in [Product::Trn1, Product::Trn2] {
            let rig = Rig::new(product).unwrap();
            let client = rig.client(7).unwrap();
            let ring = client.allocate(None, 4096, 0).unwrap();
            let store = |address: u64, len| store(&client, ring, address, len);
            let hbm = rig.geometry().hbm(1).unwrap();
            let end = hbm.base + hbm.size;
            assert_eq!((store(hbm.base, 0), store(end - 0x1000, BYTES), store(end - 1, 1)), (0, 0, 0));
            assert_eq!(
                (store(end - 0xfff, BYTES), store(end - 0x1000, 0), store(end, 1)),
                (EINVAL, EINVAL, EINVAL)
            );
            let chip = rig.geometry().on_chip[0];
            assert_eq!((store(chip.base, BYTES), store(chip.base + chip.size - 1, 2)), (0, EINVAL));
            // A chunk with another one behind it, which is gone later.
            let [low, high] = [0; 2].map(|_| client.allocate(None, 2 << 20, 0).unwrap());
            assert_eq!(low.pa + (2 << 20), high.pa);
            assert_eq!((store(high.pa - 1, 2), store(high.pa - 0x1000, BYTES)), (0, 0));
            let mut free = arg::MemFree { mem_handle: high.handle };
            assert_eq!(client.call(&cmd::MEM_FREE, &mut free), 0);
            assert_eq!((store(high.pa - 1, 2), store(high.pa - 0x1000, BYTES)), (EINVAL, 0));
            for nowhere in [hbm.base - 4096, u64::MAX, u64::MAX - 65535] {
                assert_eq!(store(nowhere, 1), EINVAL, "{nowhere:#x}");
            }
        }
        // A neighbour's HBM and cores show in windows; V2 has none.
        let (v2, v3) = (Rig::new(Product::Trn1).unwrap(), Rig::new(Product::Trn2).unwrap());
        let through_window = |rig: &Rig, address: u64| {
            let client = rig.client(7).unwrap();
            let ring = client.allocate(None, 4096, 0).unwrap();
            super::store(&client, ring, address, BYTES)
        };
        for window in [0x10_0000_0000_0000, 0x14_0000_0000_0000, 0x1c_0000_0000_0000] {
            assert_eq!(through_window(&v3, window + 0x40_0000_0000), 0);
            assert_eq!(
                through_window(&v3, window + 0x802_0000_0000_u64),
                EINVAL,
                "a gap of the neighbour's map"
            );
            assert_eq!(through_window(&v2, window), EINVAL);
        }
        assert_eq!(through_window(&v3, 0x20_0000_0000_0000), EINVAL);
    }

    #[test]
    fn d69_a_device_number_past_the_table_is_refused() {
        let machine = inf2(4);
        let ask = |own: usize, nd_index| {
            let file = machine[own].misc(7).unwrap();
            let argument = arg::DeviceBdfExt { nd_index, ..Default::default() };
            let (ret, after) = call_as(&file, 7, &cmd::DEVICE_BDF_EXT, argument);
            (ret, after.slot)
        };
        assert_eq!((ask(0, 0), ask(0, 3), ask(2, 1)), ((0, 0), (0, 3), (0, 3)));
        for (own, nd_index) in [(0, 4), (2, 2), (0, 63), (0, 64), (1, 63), (3, u32::MAX), (0, u32::MAX)] {
            assert_eq!(ask(own, nd_index).0, EINVAL, "{own} {nd_index}");
        }
        let own = machine[3].client(7).unwrap();
        let mut bdf = arg::DeviceBdf::default();
        assert_eq!((own.call(&cmd::DEVICE_BDF, &mut bdf), bdf.slot), (0, 3), "the same as by distance 0");
    }
}
