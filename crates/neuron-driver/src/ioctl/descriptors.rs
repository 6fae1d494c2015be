//! Descriptors that processes build: stored in a ring's memory after a look at every
//! address, and read back from it (`spec/abi.md` 6.7, 6.8; `spec/dma-op.md` 9).

use std::sync::Arc;

use neuron_abi::arg;
use neuron_abi::enums::QueueType;
use neuron_abi::errno::Errno;
use neuron_udma::{DESCRIPTOR_SIZE, MAX_DESCRIPTOR_BYTES};
use vm_memory::{Bytes, VolatileSlice};

use super::Call;
use crate::arch::{ENGINE_SLOTS, QUEUES};
use crate::device::Device;
use crate::dma::buffer::BufferCopy;
use crate::dma::copy::ChunkCopy;
use crate::pool::{Lifespan, Request};

/// Bytes that are checked and stored at a time.
const PIECE: u64 = 65536;
/// Offset of the address in a descriptor, both directions.
const ADDRESS: usize = 8;
/// Length bits of word 0, both directions; 0 is 64 KiB.
const LENGTH: u32 = 0xffff;

impl Call<'_> {
    pub(super) fn copy_descriptors(&self) -> Result<(), Errno> {
        let arg: arg::DmaCopyDescriptors = self.read()?;
        self.store_descriptors(&arg::DmaCopyDescriptors64 {
            mem_handle: arg.mem_handle,
            buffer: arg.buffer,
            num_descs: arg.num_descs,
            offset: arg.offset.into(),
            queue_type: arg.queue_type,
            ..Default::default()
        })
    }

    pub(super) fn copy_descriptors64(&self) -> Result<(), Errno> {
        self.store_descriptors(&self.read()?)
    }

    /// A piece with a refused descriptor is not stored; pieces before it stay.
    fn store_descriptors(&self, arg: &arg::DmaCopyDescriptors64) -> Result<(), Errno> {
        let bytes = u64::from(arg.num_descs) * DESCRIPTOR_SIZE as u64;
        let chunk = self.part(arg.mem_handle, arg.offset, bytes)?;
        let request = Request { core: chunk.core_id(), ..Request::driver_host(PIECE, 0, Lifespan::Local) };
        let bounce = self.device().pools().allocate(request)?;
        let memory = bounce.host_slice().ok_or(Errno::EINVAL)?;
        if bytes > 0 && !matches!(QueueType::from_raw(arg.queue_type), Some(QueueType::Tx | QueueType::Rx)) {
            return Err(Errno::EPERM);
        }
        let mut done = 0;
        while done < bytes {
            let len = (bytes - done).min(PIECE);
            let piece = memory.subslice(0, len as usize).map_err(|_| Errno::EINVAL)?;
            self.user.read(arg.buffer.checked_add(done).ok_or(Errno::EFAULT)?, piece)?;
            self.check_addresses(&piece)?;
            match chunk.host_slice() {
                Some(ring) => {
                    let at = (arg.offset + done) as usize;
                    let ring = ring.subslice(at, len as usize).map_err(|_| Errno::EINVAL)?;
                    piece.copy_to_volatile_slice(ring);
                }
                None => self.device().copy(&ChunkCopy {
                    source: bounce.clone(),
                    destination: chunk.clone(),
                    source_offset: 0,
                    destination_offset: arg.offset + done,
                    bytes: len,
                })?,
            }
            done += len;
        }
        Ok(())
    }

    /// What a descriptor reaches must be the process's to reach: on the host within
    /// chunks of devices that it is attached to, elsewhere within the device's address map, or a
    /// neighbour's. Both to the last byte.
    fn check_addresses(&self, descriptors: &VolatileSlice<'_>) -> Result<(), Errno> {
        let geometry = self.device().geometry();
        let mut attached = None;
        for at in (0..descriptors.len()).step_by(DESCRIPTOR_SIZE) {
            let word: u32 = descriptors.read_obj(at).map_err(|_| Errno::EINVAL)?;
            let address: u64 = descriptors.read_obj(at + ADDRESS).map_err(|_| Errno::EINVAL)?;
            let bytes = match u64::from(word & LENGTH) {
                0 => u64::from(MAX_DESCRIPTOR_BYTES),
                bytes => bytes,
            };
            let known = if geometry.is_host_address(address) {
                let devices = attached.get_or_insert_with(|| self.attached_devices());
                is_allocated(devices, address, bytes)
            } else {
                geometry.has_device_address(address, bytes)
            };
            if !known {
                return Err(Errno::EINVAL);
            }
        }
        Ok(())
    }

    /// Devices that the process has a slot on, the nearest first.
    fn attached_devices(&self) -> Vec<Arc<Device>> {
        let mut devices = self.device().system().devices_near(self.device().index());
        devices.retain(|device| device.slots().usage(self.pid).is_some());
        devices
    }

    pub(super) fn descriptor_copyout(&self) -> Result<(), Errno> {
        let arg: arg::DmaDescriptorCopyout = self.read()?;
        if arg.count == 0 || arg.eng_id >= ENGINE_SLOTS || arg.qid >= QUEUES {
            return Err(Errno::EINVAL);
        }
        // The engine is free again after the reads: the copy may need it.
        let (tx, rx) = self.device().queue_ring_registers(arg.eng_id, arg.qid)?;
        let ring = match QueueType::from_raw(arg.queue_type) {
            Some(QueueType::Tx) => tx,
            Some(QueueType::Rx) => rx,
            _ => return Err(Errno::EINVAL),
        };
        if u64::from(arg.count) + u64::from(arg.start_index) > u64::from(ring.length) {
            return Err(Errno::EFBIG);
        }
        let chunk = self.device().pools().at_address(ring.base).ok_or(Errno::EINVAL)?;
        let offset = ring.base - chunk.pa() + u64::from(arg.start_index) * DESCRIPTOR_SIZE as u64;
        let bytes = u64::from(arg.count) * DESCRIPTOR_SIZE as u64;
        if bytes > chunk.size() || offset > chunk.size() - bytes {
            return Err(Errno::EINVAL);
        }
        self.device().copy_buffer(self.user, arg.buffer, &chunk, offset, bytes, BufferCopy::FromChunk)
    }
}

/// Whether living chunks of these devices hold all the bytes. A range may go on from one
/// chunk to the next, as recordings do.
fn is_allocated(devices: &[Arc<Device>], address: u64, bytes: u64) -> bool {
    let Some(end) = address.checked_add(bytes) else { return false };
    let mut at = address;
    while at < end {
        let chunk = devices.iter().find_map(|device| device.pools().at_address(at));
        // What the driver has for one call, such as this call's bounce chunk, is gone before a
        // descriptor could run.
        let Some(chunk) = chunk.filter(|chunk| chunk.lifespan() != Lifespan::Local) else { return false };
        at = chunk.pa() + chunk.size();
    }
    true
}
