//! Buffers that a process hands to another driver, such as a network adapter's
//! (`spec/abi.md` 9.3): mapped memory as an object of its own, which one importer at a time
//! may take page by page.
//!
//! What a file descriptor of it is, is up to whoever calls the driver
//! ([`UserMemory::install`](crate::UserMemory::install)).

use std::sync::Arc;

use neuron_abi::arch::PAGE_SIZE;
use neuron_abi::errno::Errno;

use crate::mapping::{Mappings, Window};
use crate::pool::ChunkRef;
use crate::sync::atomic::{AtomicBool, Ordering};

/// An exported buffer. It holds its memory: a chunk that is freed, unmapped or left behind
/// by its process is used again only when the buffer is gone too.
#[derive(Debug)]
pub struct DmaBuf {
    window: Window,
    writable: bool,
    device: u8,
    attached: AtomicBool,
    _memory: Option<ChunkRef>,
}

impl DmaBuf {
    /// Exports the memory a process has mapped at `va`, on any device of the machine.
    ///
    /// # Errors
    /// EINVAL for an address in no mapping of the process, or off a page (our choice: the
    /// importer could not tell where its buffer begins), for no bytes, or for more than the
    /// mapping has.
    pub(crate) fn export(mappings: &Mappings, pid: i32, va: u64, bytes: u64) -> Result<Arc<Self>, Errno> {
        let (mapped, offset) = mappings.at(pid, va).ok_or(Errno::EINVAL)?;
        if bytes == 0 || !va.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let bytes = bytes.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
        let window = mapped.window.part(offset, bytes).ok_or(Errno::EINVAL)?;
        Ok(Arc::new(Self {
            window,
            writable: mapped.writable,
            device: mapped.device,
            attached: AtomicBool::new(false),
            _memory: mapped.chunk,
        }))
    }

    /// Where its bytes are: whole pages.
    pub const fn window(&self) -> &Window {
        &self.window
    }

    /// Number of the device whose window it is, or whose host memory.
    pub const fn device(&self) -> u8 {
        self.device
    }

    /// Whether the exporting process may write them.
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// Takes the buffer for an importer.
    ///
    /// # Errors
    /// EPERM while another one has it.
    pub fn attach(self: &Arc<Self>) -> Result<Attachment, Errno> {
        if self.attached.swap(true, Ordering::AcqRel) {
            return Err(Errno::EPERM);
        }
        Ok(Attachment { buffer: Arc::clone(self) })
    }
}

/// An importer's hold on a buffer; dropping it lets another one in.
#[derive(Debug)]
pub struct Attachment {
    buffer: Arc<DmaBuf>,
}

impl Attachment {
    /// The buffer as the importer maps it: one entry for each page, in order.
    pub fn pages(&self) -> impl Iterator<Item = Window> {
        let window = &self.buffer.window;
        (0..window.bytes() / PAGE_SIZE).filter_map(|page| window.part(page * PAGE_SIZE, PAGE_SIZE))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.buffer.attached.store(false, Ordering::Release);
    }
}
