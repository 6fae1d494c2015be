//! A process's buffer on pages that a device can be given: the memory behind zero-copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_abi::arch::PAGE_SIZE;
use neuron_abi::errno::Errno;
use neuron_driver::UserMemory;
use neuron_driver::user::{Access, PageRun, Pinned, UserBuffer};
use neuron_ndl::software::HostMemory;
use neuron_softdev::{DmaMapping, DmaTable};
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::client::Space;
use crate::vectors::Mismatch;

/// Where the buffer's first page is in the process.
const FIRST_PAGE: u64 = 0x5000_0000_0000;

/// Pages of a process, at physical addresses of the test's choice, beside other memory that
/// cannot be pinned.
pub struct UserPages {
    space: Space,
    pages: Arc<Pages>,
}

struct Pages {
    region: Arc<MmapRegion>,
    /// Physical address of each page.
    physical: Vec<u64>,
    pinned: AtomicUsize,
    most_pinned: AtomicUsize,
    pins: AtomicUsize,
    /// Pins until the one that fails.
    pins_to_failure: AtomicUsize,
}

impl UserPages {
    /// Pages that lie in `runs` of physical memory, (address, pages) each, in this order.
    ///
    /// # Errors
    /// If they cannot be mapped.
    pub fn new(runs: &[(u64, u64)]) -> Result<Self, Mismatch> {
        let physical: Vec<_> = runs
            .iter()
            .flat_map(|&(start, pages)| (0..pages).map(move |page| start + page * PAGE_SIZE))
            .collect();
        let region = MmapRegion::new(physical.len() * PAGE_SIZE as usize)
            .map_err(|error| Mismatch::new(format!("user pages: {error}")))?;
        let pages = Pages {
            region: Arc::new(region),
            physical,
            pinned: AtomicUsize::new(0),
            most_pinned: AtomicUsize::new(0),
            pins: AtomicUsize::new(0),
            pins_to_failure: AtomicUsize::new(usize::MAX),
        };
        Ok(Self { space: Space::default(), pages: Arc::new(pages) })
    }

    /// The process's other memory.
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// User address of the first byte.
    pub const fn address(&self) -> u64 {
        FIRST_PAGE
    }

    /// What a device needs to reach the machine's memory and these pages.
    ///
    /// # Errors
    /// If pages lie on each other or on the machine's memory.
    pub fn dma_table(&self, host: &HostMemory) -> Result<DmaTable, Mismatch> {
        let pages = self.pages.physical.iter().zip(0..).map(|(&address, page)| DmaMapping {
            address,
            len: PAGE_SIZE,
            region: Arc::clone(&self.pages.region),
            offset: page * PAGE_SIZE,
        });
        DmaTable::new(pages.chain([host.dma_mapping()])).map_err(|error| Mismatch::new(error.to_string()))
    }

    /// `len` bytes from `offset` on.
    ///
    /// # Errors
    /// If they are not all there.
    pub fn bytes(&self, offset: u64, len: u64) -> Result<VolatileSlice<'_>, Mismatch> {
        let slice = self.pages.region.get_slice(offset as usize, len as usize);
        slice.map_err(|error| Mismatch::new(error.to_string()))
    }

    /// Pages that are pinned now.
    pub fn pinned(&self) -> usize {
        self.pages.pinned.load(Ordering::SeqCst)
    }

    /// (how often pages were pinned, most pages that were pinned at a time).
    pub fn pins(&self) -> (usize, usize) {
        (self.pages.pins.load(Ordering::SeqCst), self.pages.most_pinned.load(Ordering::SeqCst))
    }

    /// Makes the pin after the next `pins` fail, and all behind it.
    pub fn fail_pin(&self, pins: usize) {
        self.pages.pins_to_failure.store(self.pages.pins.load(Ordering::SeqCst) + pins, Ordering::SeqCst);
    }

    /// The page offset of a user range, if these pages hold it.
    fn offset(&self, address: u64, len: u64) -> Option<u64> {
        let offset = address.checked_sub(FIRST_PAGE)?;
        (offset.checked_add(len)? <= self.pages.region.size() as u64).then_some(offset)
    }
}

impl UserMemory for UserPages {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), Errno> {
        let Some(offset) = self.offset(address, into.len() as u64) else {
            return self.space.read(address, into);
        };
        let from = self.bytes(offset, into.len() as u64).map_err(|_| Errno::EFAULT)?;
        from.copy_to_volatile_slice(into);
        Ok(())
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), Errno> {
        let Some(offset) = self.offset(address, from.len() as u64) else {
            return self.space.write(address, from);
        };
        let into = self.bytes(offset, from.len() as u64).map_err(|_| Errno::EFAULT)?;
        from.copy_to_volatile_slice(into);
        Ok(())
    }

    fn buffer(&self, address: u64, bytes: u64, _access: Access) -> Result<Arc<dyn UserBuffer>, Errno> {
        let start = self.offset(address, bytes).ok_or(Errno::EFAULT)?;
        Ok(Arc::new(Buffer { pages: Arc::clone(&self.pages), start }))
    }
}

struct Buffer {
    pages: Arc<Pages>,
    start: u64,
}

/// Counts pages out when it is dropped.
struct Hold {
    pages: Arc<Pages>,
    count: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.pages.pinned.fetch_sub(self.count, Ordering::SeqCst);
    }
}

impl UserBuffer for Buffer {
    fn pin(&self, offset: u64, bytes: u64) -> Result<Pinned, Errno> {
        let pages = &self.pages;
        if pages.pins.fetch_add(1, Ordering::SeqCst) >= pages.pins_to_failure.load(Ordering::SeqCst) {
            return Err(Errno::ENOMEM);
        }
        let start = self.start + offset;
        let touched = (start / PAGE_SIZE) as usize..(start + bytes).div_ceil(PAGE_SIZE) as usize;
        let physical = pages.physical.get(touched).ok_or(Errno::EFAULT)?;
        let count = physical.len();
        let pinned = pages.pinned.fetch_add(count, Ordering::SeqCst) + count;
        pages.most_pinned.fetch_max(pinned, Ordering::SeqCst);
        let runs = physical.iter().map(|&address| PageRun { address, pages: 1 }).collect();
        Ok(Pinned::new(runs, Arc::new(Hold { pages: Arc::clone(pages), count })))
    }
}
