//! What a server of the driver needs beyond its ioctls: a process that ends while its file is
//! held, what it leaves, writes to sysfs, HBMs of any size.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod exit;
mod hbm;
mod held;
mod sysfs;

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_driver::{Device, OpenFile};
use neuron_softdev::Product;
use neuron_tests::rig::{Rig, call_as};

const EACCES: i64 = -13;
const EBUSY: i64 = -16;
const ENOMEM: i64 = -12;

fn rig(product: Product) -> Rig {
    Rig::new(product).unwrap()
}

/// Bytes in use in all HBMs.
fn device_bytes(device: &Device) -> u64 {
    (0..device.geometry().hbm.len() as u32).map(|hbm| device.pools().hbm(hbm).unwrap().allocated).sum()
}

/// Asks for rings of a core; returns the maps of H2T and of service queues.
fn request(file: &OpenFile, pid: i32, nc_id: u16, copies: u16, services: u16) -> (u32, u32) {
    let argument = arg::H2tDmaAllocQueues {
        sz: 20,
        nc_id,
        copy_queue_cnt: copies,
        service_queue_cnt: services,
        ..Default::default()
    };
    let (ret, after) = call_as(file, pid, &cmd::H2T_DMA_ALLOC_QUEUES, argument);
    assert_eq!(ret, 0);
    (after.copy_queue_bmap, after.service_queue_bmap)
}

/// Enters a core as the writer of a model, or as a reader.
fn lock(file: &OpenFile, pid: i32, nc_id: u32, alone: bool) -> i64 {
    let command = if alone { cmd::CRWL_WRITER_ENTER } else { cmd::CRWL_READER_ENTER };
    call_as(file, pid, &command, arg::Crwl { nc_id, uuid: [7; 32] }).0
}
