//! Parts of a device that can be mapped as they are, and the whole HBMs among them
//! (`spec/ndl.md` 6, `spec/abi.md` 9.2).

use neuron_abi::arch::Geometry;
use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::enums::{Block, Resource};

use crate::backend::Mapping;
use crate::error::{Detail, NdlError};
use crate::open::OpenDevice;

const OPERATION: &str = "mapping a part of the device";

/// Maps a part of the device: to read, and to write unless it is
/// [`All`](Resource::All) of a block.
///
/// # Errors
/// EINVAL for a part that the device does not have, or the errno of `mmap(2)`.
pub(crate) fn map(
    open: &OpenDevice,
    block: Block,
    block_id: u32,
    resource: Resource,
) -> Result<Mapping, NdlError> {
    let argument = arg::ResourceMmapInfo {
        block: block.raw(),
        block_id,
        resource: resource.raw(),
        ..Default::default()
    };
    // SAFETY: the argument holds no user address.
    let window = unsafe { open.call(OPERATION, cmd::RESOURCE_MMAP_INFO, argument) }?;
    open.map_as(OPERATION, window.offset, window.size, resource != Resource::All)
}

/// Maps every HBM (`NEURON_RT_MAP_HBM`). V2 has no such windows: EINVAL.
pub(crate) fn map_hbms(open: &OpenDevice, geometry: &Geometry) -> Result<Vec<Mapping>, NdlError> {
    (0..geometry.hbm.len() as u32)
        .map(|hbm| {
            map(open, Block::Hbm, hbm, Resource::Dmem).map_err(|error| error.with(Detail::HbmWindow { hbm }))
        })
        .collect()
}
