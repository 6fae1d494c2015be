//! The structures that go over the boundary (`spec/nrt-abi.md` 3). `include/neuron_mem/nrt.h` has them
//! for C; a test holds both against each other.

use std::ffi::{c_char, c_int, c_void};

use zerocopy::{Immutable, IntoBytes};

/// A tensor, as C sees it: a handle, of which nobody but the library knows what is behind.
#[repr(C)]
#[derive(Debug)]
pub struct Tensor {
    _opaque: [u8; 0],
}

/// A model, as C sees it. There is none.
#[repr(C)]
#[derive(Debug)]
pub struct Model {
    _opaque: [u8; 0],
}

/// `nrt_version_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
pub struct Version {
    /// Major version of the runtime.
    pub rt_major: u64,
    /// Minor version.
    pub rt_minor: u64,
    /// Patch version.
    pub rt_patch: u64,
    /// Maintenance version.
    pub rt_maintenance: u64,
    /// More about it, ends in NUL.
    pub rt_detail: [u8; 128],
    /// Revision that the library was built of, ends in NUL.
    pub git_hash: [u8; 64],
}

/// `nrt_instance_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
pub struct InstanceInfo {
    /// `NRT_INSTANCE_…`.
    pub family: u32,
    /// `NRT_INSTANCE_SIZE_…`.
    pub size: u32,
    /// What a core is called, ends in NUL.
    pub arch_name: [u8; 16],
    /// Revision of the devices, ends in NUL.
    pub device_revision: [u8; 8],
}

/// `nrt_vnc_memory_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
pub struct MemoryStats {
    /// Bytes that this process has in use.
    pub bytes_used: usize,
    /// Bytes there are.
    pub bytes_limit: usize,
}

/// `nrt_tensor_device_allocation_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationInfo {
    /// Address of the first byte in the device's memory.
    pub physical_address: u64,
    /// Bytes that are taken.
    pub size: usize,
    /// HBM.
    pub hbm_index: c_int,
}

/// `nrt_tensor_batch_op_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchOperation {
    /// Offset in the tensor, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The host's side.
    pub buffer: *mut c_void,
}

/// `nrt_tensor_batch_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorBatch {
    /// The tensor.
    pub tensor: *const Tensor,
    /// What is copied.
    pub ops: *const BatchOperation,
    /// How many.
    pub num_ops: u32,
}

/// `nrt_tensor_info_t`, of models only: nothing here makes one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorInfo {
    /// Name, ends in NUL.
    pub name: [c_char; 256],
    /// `nrt_tensor_usage_t`.
    pub usage: u32,
    /// Bytes.
    pub size: usize,
    /// `nrt_dtype_t`.
    pub dtype: u32,
    /// Lengths of the dimensions.
    pub shape: *mut u32,
    /// How many dimensions.
    pub ndim: u32,
}

/// `nrt_tensor_info_array_t`, whose entries follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorInfoArray {
    /// How many follow.
    pub tensor_count: u64,
    /// They.
    pub tensor_array: [TensorInfo; 0],
}

/// A text in so many bytes, the last one NUL.
pub(crate) fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *place = byte;
    }
    bytes
}
