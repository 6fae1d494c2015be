//! A Neuron device in software: one whole PCI function whose DMA engines really fetch descriptors and move
//! bytes.
//!
//! The device answers as the hardware does to whoever drives it: configuration space with sizable BARs, 32-bit
//! registers, a reset that clears its own request, a firmware mailbox, semaphores, and up to 132 UDMA engines
//! of 16 queue pairs each, over HBM of the real size (a 96 GiB device costs nothing until it is touched). It
//! knows no driver. A driver in the same process and a kernel driver in a virtual machine come through the
//! same doors:
//!
//! | door | for |
//! |---|---|
//! | [`Device::config_read`], [`Device::config_write`] | PCI configuration space |
//! | [`Device::bar_read`], [`Device::bar_write`] | registers (BAR0; BAR2 on V2 in qemu mode), words of HBM (BAR4) |
//! | [`Device::bar4`] | mapping HBM: file and offset, or the device's own mapping |
//! | [`Device::on_chip_range`] | mapping on-chip memory: file and offset |
//! | [`Device::set_dma_table`] | the host memory the device may reach; replaceable while it runs |
//! | [`Device::faults`], [`FaultPlan`] | what shall go wrong, and how often it did |
//! | [`Device::counters`], [`Device::doorbells`], [`Device::queue_error`] | what happened, for the owner's eyes |
//!
//! Products are [`Product`]s (Trn1, Inf2, Trn2, Trn3), machines are in [`INSTANCES`]. The numbers behind them
//! are in [`geometry`].
//!
//! # How a copy runs
//!
//! Software puts a TX and an RX descriptor into two rings in memory (host or HBM), then adds to the tails by
//! two register writes, RX first. The write of the TX tail executes the queue before it returns
//! ([`Execution::Inline`]) or hands it to a worker ([`Execution::Threaded`]; small work is still done by the
//! writer). The engine checks each descriptor's phase and both whole ranges, copies, and retires in order.
//! Completion is told by data: a last descriptor pair that copies a 4-byte marker to where software polls. An
//! aligned write of 4 or 8 bytes is one atomic store with release ordering, so a poller that loads the marker
//! with acquire sees everything written before.
//!
//! An address that leads nowhere, or a descriptor of the wrong phase, stops its queue, shows as ABORT in the
//! engine's state, and touches no memory.
//!
//! # Example
//!
//! Five bytes from host memory to HBM and a marker back, on queue 0 of a Trn1's copy engine, by hand:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::Ordering;
//! use neuron_softdev::{Device, DeviceConfig, DmaMapping, DmaTable, Product};
//! use vm_memory::{Bytes, MmapRegion, VolatileMemory};
//!
//! let device = Device::new(DeviceConfig::new(Product::Trn1))?;
//! let tag = device.geometry().host_tag;
//!
//! // 64 KiB of host memory at physical address 0x100000.
//! let host = Arc::new(MmapRegion::new(0x10000)?);
//! let mapping = DmaMapping { address: 0x100000, len: 0x10000, region: host.clone(), offset: 0 };
//! device.set_dma_table(DmaTable::new([mapping])?);
//! let bus = |offset: u64| tag | (0x100000 + offset);
//! let memory = host.as_volatile_slice();
//! memory.write_slice(b"hello", 0x4000)?;
//! memory.write_obj(0xabcd_ef01u32, 0x5000)?;
//!
//! // Rings of 64 descriptors: RX at 0, TX at 0x1000. Two pairs, phase 1: the data, then the marker.
//! let descriptor = |word0: u64, word1: u64, address: u64| u128::from(word0 | word1 << 32) | u128::from(address) << 64;
//! let (tx, rx) = (0x0d00_0000, 0x0100_0000);
//! for (at, descriptor) in [
//!     (0x1000, descriptor(tx | 5, 0x0508_0003, bus(0x4000))), // write barrier
//!     (0x0000, descriptor(rx | 5, 0, 0x0200_0000)),           // HBM
//!     (0x1010, descriptor(tx | 4, 0x0108_0003, bus(0x5000))),
//!     (0x0010, descriptor(rx | 4, 0, bus(0x5008))),
//! ] {
//!     memory.write_slice(&descriptor.to_le_bytes(), at)?;
//! }
//!
//! // Program queue 0 of engine 32, enable it, and ring: RX, then TX.
//! let engine = device.geometry().engine_base(32).ok_or("no engine 32")?;
//! for (queue, ring) in [(engine + 0x2_1000, bus(0)), (engine + 0x1000, bus(0x1000))] {
//!     device.bar_write(0, queue + 0x28, ring as u32)?;
//!     device.bar_write(0, queue + 0x2c, (ring >> 32) as u32)?;
//!     device.bar_write(0, queue + 0x30, 64)?;
//!     device.bar_write(0, queue + 0x20, 0x0303_0000)?;
//!     device.bar_write(0, queue + 0x38, 2)?;
//! }
//!
//! assert_eq!(memory.load::<u32>(0x5008, Ordering::Acquire)?, 0xabcd_ef01);
//! let mut copied = [0; 5];
//! device.bar4().slice(0x0200_0000, 5)?.read_slice(&mut copied, 0)?;
//! assert_eq!(&copied, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not model
//!
//! Interrupts, completion rings and notification queue entries (software here uses none; the queues' base and
//! size are remembered), descriptor prefetch timing, and any computation: bytes move, nothing executes.

#![forbid(unsafe_code)]

pub mod fault;
pub mod geometry;

mod bus;
mod config;
mod counters;
mod crc32c;
mod device;
mod dma_table;
mod doorbells;
mod engine;
mod error;
mod firmware;
mod hbm;
mod instance;
mod mailbox;
mod memory;
mod onchip;
mod pages;
mod pci;
mod regs;
mod reset;
mod scheduler;
mod sync;
mod worker;

pub use config::{DeviceConfig, Execution};
pub use counters::Counters;
pub use device::Device;
pub use dma_table::{DmaMapping, DmaTable, DmaTableError};
pub use doorbells::{DOORBELLS_KEPT, Doorbell, DoorbellOutcome, Doorbells};
pub use engine::{Direction, QueueError};
pub use error::{AccessError, DeviceError};
pub use fault::{ArmedFault, Fault, FaultId, FaultPlan, FaultPlanError, Faults};
pub use geometry::{Generation, Geometry, GeometryError, Product};
pub use hbm::{Bar4, FileRange};
pub use instance::{INSTANCES, Instance};
pub use onchip::OnChipRange;
