//! Host memory for DMA: a block from the system, else from the reserve pools that were
//! set aside when the device came up (`spec/mempool.md` 3.2).

use std::sync::Arc;

use super::GRANULE;
use super::space::Space;
use crate::hw::{DmaMemory, Hardware};

/// Page sizes of the reserve pools, smallest first.
const PAGE_SIZES: [u64; 4] = [256 << 10, 512 << 10, 1 << 20, 2 << 20];

/// A block of host memory and where it goes back to.
#[derive(Debug)]
pub struct HostBlock {
    /// The bytes.
    pub memory: DmaMemory,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    System,
    Reserve { pool: usize, page: usize },
}

/// The machine's memory and the four reserve pools.
pub struct HostMemory {
    hardware: Arc<dyn Hardware>,
    reserve: [Vec<Page>; 4],
}

struct Page {
    memory: DmaMemory,
    space: Space,
}

impl HostMemory {
    /// Sets the reserve aside: `bytes` for each pool, largest pages first; the first
    /// page that cannot be had ends its pool.
    pub fn new(hardware: Arc<dyn Hardware>, bytes: u64) -> Self {
        let mut reserve = [const { Vec::new() }; 4];
        for (pages, size) in reserve.iter_mut().zip(PAGE_SIZES).rev() {
            for _ in 0..bytes / size {
                let Some(memory) = hardware.dma_alloc(size) else { break };
                pages.push(Page { memory, space: Space::new(0, size / GRANULE) });
            }
        }
        Self { hardware, reserve }
    }

    /// `size` bytes, a multiple of the page.
    pub fn allocate(&mut self, size: u64) -> Option<HostBlock> {
        if size == 0 {
            return None;
        }
        if let Some(memory) = self.hardware.dma_alloc(size) {
            return Some(HostBlock { memory, source: Source::System });
        }
        self.reserve.iter_mut().zip(PAGE_SIZES).enumerate().filter(|(_, (_, page))| *page >= size).find_map(
            |(pool, (pages, _))| {
                // The page added last is tried first.
                pages.iter_mut().enumerate().rev().find_map(|(index, page)| {
                    let at = page.space.first_fit(size / GRANULE)? * GRANULE;
                    let memory = page.memory.part(at as usize, size as usize)?;
                    Some(HostBlock { memory, source: Source::Reserve { pool, page: index } })
                })
            },
        )
    }

    /// Takes a block back to where it came from.
    pub fn free(&mut self, block: &HostBlock) {
        match block.source {
            Source::System => self.hardware.dma_free(&block.memory),
            Source::Reserve { pool, page } => {
                if let Some(page) = self.reserve.get_mut(pool).and_then(|pages| pages.get_mut(page)) {
                    let at = block.memory.address() - page.memory.address();
                    page.space.give(at / GRANULE, block.memory.len() as u64 / GRANULE);
                }
            }
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        for page in self.reserve.iter().flatten() {
            self.hardware.dma_free(&page.memory);
        }
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostMemory").field("reserve_pages", &self.reserve.each_ref().map(Vec::len)).finish()
    }
}
