//! The calling process's memory, for a driver that runs in the same process.

use std::sync::{Arc, Mutex, PoisonError};

use neuron_abi::arch::PAGE_SIZE;
use neuron_abi::errno::Errno;
use neuron_driver::UserMemory;
use neuron_driver::user::{Access, Pinned, UserBuffer};
use vm_memory::{MmapRegion, VolatileSlice};

use super::iommu::{Iommu, IommuMapping};

/// Addresses below this are never mapped; a null pointer with an offset lands here.
pub(super) const LOWEST_USER_ADDRESS: u64 = 4096;
/// User addresses end here on the 64-bit systems this runs on.
pub(super) const USER_ADDRESS_END: u64 = 1 << 47;

/// User memory reached by plain addresses.
///
/// Only the backend's `ioctl` makes one, under whose contract every address that a
/// command reaches is valid; null and what is next to it faults instead.
#[derive(Debug)]
pub(super) struct CallerMemory {
    iommu: Arc<Iommu>,
}

impl CallerMemory {
    /// Access to this process's memory, also for the device behind `iommu`.
    ///
    /// # Safety
    /// Until it is dropped, every range that is read or written through it is valid for
    /// that, and no Rust reference that would forbid it is in use. The same holds for ranges
    /// that a buffer was made of, until the buffer and what was pinned of it are dropped.
    pub(super) const unsafe fn new(iommu: Arc<Iommu>) -> Self {
        Self { iommu }
    }

    fn range(address: u64, len: usize) -> Result<*mut u8, Errno> {
        if address < LOWEST_USER_ADDRESS || address.checked_add(len as u64).is_none() {
            return Err(Errno::EFAULT);
        }
        Ok(address as *mut u8)
    }
}

impl UserMemory for CallerMemory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        if into.is_empty() {
            return Ok(());
        }
        let start = Self::range(address, into.len())?;
        // SAFETY: valid for reads by the contract of `new`; only read from here.
        unsafe { VolatileSlice::new(start, into.len()) }.copy_to_volatile_slice(into);
        Ok(())
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        if from.is_empty() {
            return Ok(());
        }
        let start = Self::range(address, from.len())?;
        // SAFETY: valid for writes by the contract of `new`.
        from.copy_to_volatile_slice(unsafe { VolatileSlice::new(start, from.len()) });
        Ok(())
    }

    fn buffer(&self, address: u64, bytes: u64, access: Access) -> Result<Arc<dyn UserBuffer>, Errno> {
        let end = address.checked_add(bytes).ok_or(Errno::EFAULT)?;
        if bytes > 0 && (address < LOWEST_USER_ADDRESS || end > USER_ADDRESS_END) {
            return Err(Errno::EFAULT);
        }
        Ok(Arc::new(CallerBuffer {
            iommu: Arc::clone(&self.iommu),
            address,
            bytes,
            access,
            mapping: Mutex::default(),
        }))
    }
}

/// A range of this process's memory for a device. It appears to the device with its first
/// pin, whole.
struct CallerBuffer {
    iommu: Arc<Iommu>,
    address: u64,
    bytes: u64,
    access: Access,
    mapping: Mutex<Option<Arc<IommuMapping>>>,
}

impl CallerBuffer {
    fn map(&self) -> Result<Arc<IommuMapping>, Errno> {
        let start = self.address - self.address % PAGE_SIZE;
        let bytes = (self.address + self.bytes).next_multiple_of(PAGE_SIZE) - start;
        let protection = match self.access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: the range is valid until this buffer and its pins are gone, by the contract
        // of `CallerMemory::new`, and so are the pages that hold it. What else is on these
        // pages is not accessed: descriptors cover the range's bytes only.
        let region =
            unsafe { MmapRegion::build_raw(start as *mut u8, bytes as usize, protection, libc::MAP_PRIVATE) };
        self.iommu.map(region.map_err(|_| Errno::EFAULT)?).map(Arc::new)
    }
}

impl UserBuffer for CallerBuffer {
    fn pin(&self, offset: u64, bytes: u64) -> Result<Pinned, Errno> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Errno::EFAULT);
        }
        let mut mapping = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        let mapping = match &*mapping {
            Some(mapping) => Arc::clone(mapping),
            None => Arc::clone(mapping.insert(self.map()?)),
        };
        let run = mapping.pages(self.address % PAGE_SIZE + offset, bytes);
        Ok(Pinned::new(vec![run], mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::software::HostMemory;
    use neuron_softdev::{Device, DeviceConfig, Product};

    fn memory() -> CallerMemory {
        let device = Device::new(DeviceConfig::new(Product::Trn2)).unwrap();
        let host = HostMemory::new().unwrap();
        let iommu = Iommu::new(device, host.dma_mapping());
        // SAFETY: no test uses a range that is not valid.
        unsafe { CallerMemory::new(Arc::new(iommu)) }
    }

    #[test]
    fn null_and_wrapping_addresses_fault() {
        let memory = memory();
        let mut buffer = [0; 8];
        for address in [0, 8, 4095, u64::MAX - 3] {
            assert_eq!(memory.read(address, VolatileSlice::from(&mut buffer[..])), Err(Errno::EFAULT));
            assert_eq!(memory.write(address, VolatileSlice::from(&mut buffer[..])), Err(Errno::EFAULT));
            assert_eq!(memory.buffer(address, 8, Access::Read).err(), Some(Errno::EFAULT));
        }
        assert_eq!(memory.read(0, VolatileSlice::from(&mut [][..])), Ok(()));
        assert_eq!(memory.buffer(1 << 63, 8, Access::Read).err(), Some(Errno::EFAULT), "the kernel's half");
    }

    #[test]
    fn a_buffer_lies_side_by_side_for_the_device_and_only_while_it_is_pinned() {
        let memory = memory();
        let bytes = vec![0_u8; 5 * 4096];
        let address = bytes.as_ptr() as u64 + 100;
        let buffer = memory.buffer(address, 3 * 4096, Access::Read).unwrap();
        let first = buffer.pin(0, 10).unwrap().runs[0].address;
        let second = buffer.pin(4096, 4096).unwrap();
        assert_eq!(second.runs[0].address, first + (address % 4096 + 4096) / 4096 * 4096);
        assert!(buffer.pin(4096, 2 * 4096 + 1).is_err(), "past its end");
        let seen = |at: u64| memory.iommu.reaches(at);
        assert!(seen(first));
        drop(buffer);
        assert!(seen(first), "a pin keeps it");
        drop(second);
        assert!(!seen(first));
    }
}
