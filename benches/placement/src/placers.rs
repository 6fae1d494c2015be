//! Who is measured, behind one trait: granules and masks in, a block to free out.

use neuron_driver::pool::space::Space;
use vk_mem::{VirtualAllocation, VirtualAllocationCreateInfo, VirtualBlock};

use crate::bitmap::Bitmap;

/// Granules to place, and their alignment in granules less one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) len: u32,
    pub(crate) mask: u32,
}

/// One way to place blocks.
pub(crate) trait Placer {
    /// What is needed to free a block, eight bytes for each of them.
    type Block;

    fn place(&mut self, request: Request) -> Self::Block;
    fn free(&mut self, block: Self::Block);
}

/// A block of those who only say where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) at: u32,
    pub(crate) len: u32,
}

impl Placer for Space {
    type Block = Run;

    fn place(&mut self, Request { len, mask }: Request) -> Run {
        let at = if mask == 0 {
            self.first_fit(u64::from(len))
        } else {
            self.aligned_fit(u64::from(len), u64::from(mask))
        };
        Run { at: at.unwrap() as u32, len }
    }

    fn free(&mut self, block: Run) {
        assert!(self.give(u64::from(block.at), u64::from(block.len)));
    }
}

impl Placer for Bitmap {
    type Block = Run;

    fn place(&mut self, Request { len, mask }: Request) -> Run {
        Run { at: self.fit(len as usize, mask as usize).unwrap() as u32, len }
    }

    fn free(&mut self, block: Run) {
        self.fill::<false>(block.at as usize, block.len as usize);
    }
}

/// Knows no alignment: for plain requests only.
impl Placer for offset_allocator::Allocator {
    type Block = offset_allocator::Allocation;

    fn place(&mut self, request: Request) -> Self::Block {
        assert_eq!(request.mask, 0);
        self.allocate(request.len).unwrap()
    }

    fn free(&mut self, block: Self::Block) {
        Self::free(self, block);
    }
}

/// VMA's virtual allocator: TLSF, granules for bytes, its own book-keeping only.
pub(crate) struct Vma(VirtualBlock);

impl Vma {
    pub(crate) fn new(len: u64) -> Self {
        let info = vk_mem::VirtualBlockCreateInfo {
            size: len,
            flags: vk_mem::VirtualBlockCreateFlags::empty(),
            allocation_callbacks: None,
        };
        Self(VirtualBlock::new(info).unwrap())
    }
}

impl Placer for Vma {
    type Block = VirtualAllocation;

    fn place(&mut self, Request { len, mask }: Request) -> VirtualAllocation {
        let info = VirtualAllocationCreateInfo {
            size: u64::from(len),
            alignment: u64::from(mask) + 1,
            flags: vk_mem::VirtualAllocationCreateFlags::empty(),
            user_data: 0,
        };
        // SAFETY: size is not 0 and alignment a power of two, all that VMA asks.
        unsafe { self.0.allocate(info) }.unwrap().0
    }

    fn free(&mut self, mut block: VirtualAllocation) {
        // SAFETY: it came from this block, and being moved in here is freed once.
        unsafe { self.0.free(&mut block) };
    }
}

impl Drop for Vma {
    fn drop(&mut self) {
        // SAFETY: whoever drops this uses none of its blocks again.
        unsafe { self.0.clear() };
    }
}
