#![no_std]
#![forbid(unsafe_code)]
//! The ABI of the AWS Neuron (Trainium, Inferentia) kernel driver: everything that a driver and its clients
//! must agree on, and nothing that either does with it.
//!
//! Plain data, `no_std`, no unsafe code, no panics. The driver behind this interface is release 2.27.4;
//! where older releases differ in numbers or layouts, the item says so.
//!
//! # Where to look
//!
//! | looking for | module | main items |
//! |---|---|---|
//! | the ioctl words | [`cmd`] | one [`Command`](cmd::Command) constant each, [`lookup`](cmd::lookup) |
//! | what goes behind the ioctl's pointer | [`arg`] | `#[repr(C)]` structs, one per command and width |
//! | what comes back on failure | [`errno`] | [`Errno`](errno::Errno) |
//! | values of fields | [`enums`], [`memory`] | [`AsyncHandle`](enums::AsyncHandle), [`Category`](memory::Category), ... |
//! | what the driver can do | [`features`] | [`Features`](features::Features) |
//! | how much of it | [`limits`] | processes, devices, batch entries |
//! | the machine: cores, HBM, addresses, PCI ids | [`arch`] | [`Generation`](arch::Generation), [`Geometry`](arch::Geometry), [`Product`](arch::Product) |
//! | how the runtime counts memory | [`memory`] | [`UsageType`](memory::UsageType), [`Aggregate`](memory::Aggregate) |
//! | what the runtime answers | [`status`] | [`NrtStatus`](status::NrtStatus) |
//!
//! Facts are cited by page and section: `spec/abi.md 4.2` is section 4.2 of the interface description the
//! project was built from. What is not established there is marked "our choice" or left out.
//!
//! # A request, from fields to bytes and back
//!
//! A client fills a struct and sends the word and the bytes; a driver looks the word up and reads the same
//! struct from the same bytes.
//!
//! ```
//! use neuron_abi::{arg::MemCopyAsync64, cmd, enums::AsyncHandle};
//! use zerocopy::{FromBytes, IntoBytes};
//!
//! let request = MemCopyAsync64 {
//!     src_mem_handle: 3,
//!     dst_mem_handle: 8,
//!     size: 1 << 20,
//!     pwait_handle: AsyncHandle::None.word(),
//!     ..Default::default()
//! };
//! let (word, bytes) = (cmd::MEM_COPY_ASYNC64.word, request.as_bytes());
//! assert_eq!((word, bytes.len()), (0xC038_4E6C, 56));
//!
//! match cmd::lookup(word) {
//!     Some(&cmd::MEM_COPY_ASYNC64) => {
//!         let received = MemCopyAsync64::read_from_bytes(bytes).unwrap();
//!         assert_eq!(AsyncHandle::from_word(received.pwait_handle), Some(AsyncHandle::None));
//!     }
//!     other => unreachable!("{other:?}"),
//! }
//! ```
//!
//! # The machine of a generation
//!
//! ```
//! use neuron_abi::arch::{Product, VENDOR_ID};
//!
//! let product = Product::from_pci(VENDOR_ID, 0x7364).unwrap();
//! let trn2 = product.generation.geometry();
//! assert_eq!((product.instance, trn2.cores, trn2.hbm.len()), ("Trn2", 8, 4));
//! assert_eq!(trn2.hbm_of_core(5), Some(2));
//! assert_eq!(trn2.bar4_offset(0x8000_0000_1000, 4096), Some(0x20_0000_1000));
//! ```
//!
//! # Portability
//!
//! Layouts are those of x86-64 and every other little-endian LP64 platform; the driver has no entry for
//! 32-bit processes. The crate refuses to build for a big-endian target.

#[cfg(target_endian = "big")]
compile_error!("the argument structs are little-endian");

#[cfg(test)]
extern crate std;

pub mod arch;
pub mod arg;
pub mod cmd;
pub mod enums;
pub mod errno;
pub mod features;
pub mod limits;
pub mod memory;
pub mod status;

mod enumeration;
