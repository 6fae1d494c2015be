//! The one door to a Neuron device (the runtime's "driver layer", NDL): ioctl argument
//! bytes in, result out, and mmap.
//!
//! [`Device`] is what layers above use: it fills argument structs, keeps the bounce
//! buffers, and owns what it allocates. Behind it a [`Backend`] takes the bytes. The
//! same bytes go to every backend, so what is tested on one runs on the other.
//!
//! | you look for | go to |
//! |---|---|
//! | opening a device, allocating, copying | [`Device`] |
//! | memory that frees itself | [`Memory`] |
//! | the bounce buffer of a core | [`CopyBuffer`] |
//! | copies without a bounce | [`Device::zero_copy`], [`CompletionReader`] |
//! | state of engines and queues, descriptors in a ring | [`Device::queue_state`] and its neighbours |
//! | cores that no other process may take | [`CoreClaim`] |
//! | mappable parts, chunks by address, HBM scrub | [`Device::map_part`] and its neighbours |
//! | what no ioctl shows | [`introspect`] |
//! | the devices of the running kernel | [`kernel`] |
//! | a machine with no hardware in it | [`software`] |
//! | the devices of another process | [`remote`] |
//! | older drivers: what is done instead, who is told | [`Fallback`], [`OpenOptions`] |
//! | drivers that are too old or too new | [`version`] |
//! | an older driver, a record of all calls, for tests | [`testing`] |
//! | writing a backend | [`backend`] |
//! | watching calls, and refusing some | [`intercept`] |
//! | environment variables | [`environment`] |
//! | what stands between a program and a device | [`diagnosis`] |
//!
//! `unsafe` lives in these places: [`backend`]'s contract that pointers inside argument
//! bytes are valid and descriptors are the caller's, which [`Device`] fulfils; the kernel
//! backend's system calls; the software backend's access to the caller's memory and
//! descriptors, its reach into other processes, and its advice to the kernel about the devices';
//! the remote backend's word about a descriptor; and [`testing`], which passes the contract on and looks at batches.

pub mod backend;
mod claim;
mod compat;
mod device;
pub mod diagnosis;
mod engine;
pub mod environment;
mod error;
mod export;
mod facts;
mod host_bytes;
pub mod intercept;
pub mod introspect;
pub mod kernel;
mod memory;
mod open;
mod records;
pub mod remote;
pub mod software;
pub mod testing;
pub mod version;
mod widths;
mod windows;
mod zero_copy;

pub use backend::{Backend, DeviceFile, Lane, Mapping};
pub use claim::{ClaimError, CoreClaim};
pub use compat::{Fallback, FallbackHook};
pub use device::{CopyRequest, Device, OpenOptions, WaitHandle};
pub use engine::QueueState;
pub use error::{Detail, NdlError};
pub use facts::DeviceFacts;
pub use host_bytes::HostBytes;
pub use memory::{AllocRequest, COPY_BUFFER_BYTES, CopyBuffer, Memory};
pub use neuron_udma::descriptor::{self, DecodedRx, DecodedTx, Descriptor};
pub use records::{ChunkAt, MemoryInfo};
pub use zero_copy::{
    Batch, BatchOperation, Completion, CompletionReader, Direction, Operation, ZeroCopyOptions,
};
