//! The completion marker: a 4-byte copy, host to host, behind each batch. Queues
//! complete in order, so when the destination word shows it, the batch is done.

use std::sync::atomic::Ordering;

use neuron_abi::errno::Errno;
use neuron_udma::{Barrier, Copy};
use vm_memory::{Bytes, VolatileSlice};

use super::context::CONTEXTS;

/// The value that is copied.
pub const VALUE: u32 = 0xabcd_ef01;
/// Bytes of a marker: source word and destination word.
pub const MARKER_BYTES: usize = 8;
/// Bytes of a ring's marker buffer, before rounding.
pub const BUFFER_BYTES: u64 = (CONTEXTS * MARKER_BYTES) as u64;

/// The marker of one context.
#[derive(Clone, Copy, Debug)]
pub struct Marker<'a> {
    words: VolatileSlice<'a>,
    address: u64,
}

const SOURCE: usize = 0;
const DESTINATION: usize = 4;

impl<'a> Marker<'a> {
    /// Marker `index` of a marker buffer at bus address `base`.
    ///
    /// # Errors
    /// EINVAL if they are not inside.
    pub fn new(buffer: VolatileSlice<'a>, base: u64, index: usize) -> Result<Self, Errno> {
        let offset = index * MARKER_BYTES;
        let words = buffer.subslice(offset, MARKER_BYTES).map_err(|_| Errno::EINVAL)?;
        Ok(Self { words, address: base + offset as u64 })
    }

    /// Makes it ready for a batch, or ready again: source set, destination clear.
    pub fn arm(&self) {
        self.store(DESTINATION, 0);
        self.store(SOURCE, VALUE);
    }

    /// Whether the engine has copied it. All data of the batch is visible then.
    #[inline]
    pub fn landed(&self) -> bool {
        self.words.load::<u32>(DESTINATION, Ordering::Acquire).is_ok_and(|word| word == VALUE)
    }

    /// (source word, destination word) as they are now; `None` never, for a buffer that
    /// [`new`](Self::new) checked.
    pub fn words(&self) -> Option<(u32, u32)> {
        let load = |offset| self.words.load::<u32>(offset, Ordering::Acquire).ok();
        Some((load(SOURCE)?, load(DESTINATION)?))
    }

    /// The copy that makes it land.
    pub const fn copy(&self) -> Copy {
        Copy {
            source: self.address + SOURCE as u64,
            destination: self.address + DESTINATION as u64,
            bytes: 4,
            barrier: Barrier::None,
            interrupt: false,
        }
    }

    /// A failing store would need a buffer shorter than `new` checked.
    fn store(&self, offset: usize, value: u32) {
        let _stored = self.words.store(value, offset, Ordering::Release);
    }
}
