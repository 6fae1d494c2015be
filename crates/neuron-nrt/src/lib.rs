#![deny(unsafe_code)]
//! `libnrt.so.1`: the part of the runtime's C interface (`spec/nrt-abi.md`) that is about tensors,
//! memory, information and status, over [`neuron_dmem`]. Models cannot be loaded: those calls are
//! there, and answer NRT_FAILURE.
//!
//! | module | what lives there |
//! |---|---|
//! | [`calls`] | the functions that the library exports |
//! | `pointers` | what C gives: where results go, texts, buffers |
//! | [`layout`] | the structures that go over the boundary |
//! | `guard` | no panic goes over it |
//! | `state` | before `nrt_init`, open, closed |
//! | `runtime` | what is open: devices, cores, allocators |
//! | `census` | which machine it is, told without opening anything for good |
//! | `instance` | family and size of an instance type |
//! | `tensor`, `storage` | a tensor, and the memory that tensors share |
//! | `transfer`, `batch` | reading, writing, filling, copying |
//! | `spans` | whose an address is |
//! | `sets` | tensor sets |
//! | `handles` | what the caller holds: numbers that look like pointers, never followed |
//! | `refusal` | why a call fails, and with which status |
//! | `logging` | the lines it prints |
//!
//! Environment variables are read in `nrt_init`; `docs/libnrt.md` has them, and how programs use the
//! library. `unsafe` is in [`calls`] and `pointers` only.

#[allow(unsafe_code, reason = "functions that C calls, with pointers that C gives")]
pub mod calls;
pub mod layout;
#[allow(unsafe_code, reason = "pointers that C gives")]
mod pointers;

mod batch;
mod census;
mod guard;
mod handles;
mod instance;
mod logging;
mod refusal;
mod runtime;
mod sets;
mod spans;
mod state;
mod storage;
mod tensor;
mod transfer;
