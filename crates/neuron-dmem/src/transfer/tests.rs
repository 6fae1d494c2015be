//! The offset that alignment by hand adds, on each way.

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use neuron_ndl::{AllocRequest, Device, HostBytes, Memory};
use vm_memory::VolatileSlice;

use super::{ChunkPolicy, Chunking, Path, Target, copy_in, copy_out};
use crate::trace::Tracer;

const ALIGN_OFFSET: u64 = 0x1230;
/// Four chunks of the table's largest, so that an offset added once too often shows.
const BYTES: usize = (3 << 20) + 5;

fn memory(device: &Arc<Device>, host: bool) -> Memory {
    let (usage, size) = (UsageType::Tensor, BYTES as u64 + ALIGN_OFFSET + 100);
    let category = match host {
        true => usage.host_category().unwrap(),
        false => usage.device_category(),
    };
    device.allocate(AllocRequest { size, align: 0, host, hbm: 0, core: 0, category }).unwrap()
}

/// `spec/dmem.md` 6.1: `align_offset` is added in all.
#[test]
fn every_way_adds_the_offset_of_alignment_once() {
    let options = MachineOptions { execution: Execution::Inline, ..MachineOptions::default() };
    let device = Device::open(&Machine::with_options("trn2.3xlarge", options).unwrap(), 0).unwrap();
    let sent: Vec<u8> = (0..BYTES).map(|index| (index % 251) as u8 + 1).collect();
    for host in [false, true] {
        for path in
            [Path::Staged, Path::ZeroCopy { direct_write: 0 }, Path::ZeroCopy { direct_write: 0x1000 }]
        {
            for len in [64, BYTES] {
                let memory = memory(&device, host);
                let mapping = memory.map().unwrap();
                let (chunking, tracer) = (Chunking::new(ChunkPolicy::Exact, None), Tracer::default());
                let target = Target {
                    device: &device,
                    memory: &memory,
                    align_offset: ALIGN_OFFSET,
                    hint: None,
                    path,
                    chunking: &chunking,
                    lanes: tracer.lanes(0),
                };
                mapping.slice().copy_from(&vec![0_u8; mapping.slice().len()]);
                copy_in(target, 8, HostBytes::Plain(&sent[..len])).unwrap();
                let mut seen = vec![0; mapping.slice().len()];
                mapping.slice().copy_to(&mut seen[..]);
                let start = ALIGN_OFFSET as usize + 8;
                assert!(seen[start..start + len] == sent[..len], "{path:?} host {host} {len}");
                assert!(seen[..start].iter().chain(&seen[start + len..]).all(|&byte| byte == 0));
                let mut back = vec![0; len];
                copy_out(target, 8, VolatileSlice::from(&mut back[..])).unwrap();
                assert!(back == sent[..len], "{path:?} host {host} {len}");
            }
        }
    }
}
