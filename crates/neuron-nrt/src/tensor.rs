//! A tensor: a part of memory that it may share, and a name for logs.

use std::sync::{Arc, PoisonError, RwLock};

use crate::layout::AllocationInfo;
use crate::pointers::Foreign;
use crate::refusal::Refusal;
use crate::runtime::Runtime;
use crate::storage::{Placement, Storage};

/// Most characters of a name that are kept (our choice): it is for logs.
const NAME_MOST: usize = 128;

/// A tensor (`nrt_tensor_t`).
#[derive(Debug)]
pub(crate) struct Tensor {
    /// Changes when a buffer is attached. Work under way keeps what it began with.
    view: RwLock<View>,
}

/// A part of memory.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) storage: Arc<Storage>,
    /// Where in the memory it begins, bytes.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) size: u64,
}

impl Tensor {
    fn of(view: View) -> Self {
        Self { view: RwLock::new(view) }
    }

    /// One with memory of its own.
    pub(crate) fn allocate(
        runtime: &Runtime,
        placement: i32,
        vnc: i32,
        size: usize,
        name: Option<&str>,
    ) -> Result<Self, Refusal> {
        let (placement, size) = (Placement::from_raw(placement)?, size as u64);
        // For memory of the host -1 is any core.
        let any = placement != Placement::Device && vnc == -1;
        let allocator = &runtime.core(if any { 0 } else { vnc.into() })?.allocator;
        let storage = Storage::allocate(allocator, placement, size, &shown(name.unwrap_or_default()))?;
        Ok(Self::of(View { storage, offset: 0, size }))
    }

    /// One without memory.
    pub(crate) fn empty() -> Self {
        Self::of(View { storage: Storage::empty(), offset: 0, size: 0 })
    }

    /// A part of this one, which shares its memory.
    pub(crate) fn slice(&self, offset: usize, size: usize) -> Result<Self, Refusal> {
        let view = self.view();
        let (offset, size) = (offset as u64, size as u64);
        if size == 0 {
            return Err(Refusal::invalid("a slice needs at least one byte"));
        }
        view.check(offset, size)?;
        Ok(Self::of(View { offset: view.offset + offset, size, storage: view.storage }))
    }

    /// Makes a buffer of the caller its memory. Slices keep what they had.
    pub(crate) fn attach(&self, buffer: Foreign) {
        let size = buffer.len() as u64;
        let attached = View { storage: Storage::attached(buffer), offset: 0, size };
        let former =
            std::mem::replace(&mut *self.view.write().unwrap_or_else(PoisonError::into_inner), attached);
        drop(former);
    }

    /// What it is now.
    pub(crate) fn view(&self) -> View {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl View {
    /// The range has to be inside.
    pub(crate) fn check(&self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        let size = self.size;
        if bytes <= size && offset <= size - bytes {
            return Ok(());
        }
        let end = u128::from(offset) + u128::from(bytes);
        Err(Refusal::invalid(format!("bytes {offset}..{end} are outside a tensor of {size} bytes")))
    }

    /// Its first address in this process.
    pub(crate) fn address(&self, runtime: &Runtime) -> Result<usize, Refusal> {
        if self.storage.on_device().is_some() && !runtime.maps() {
            return Err(Refusal::failure("device memory has no address, as NEURON_RT_MAP_HBM says"));
        }
        Ok(self.storage.address(runtime.spans())? + self.offset as usize)
    }

    /// Where in the device's memory it is. A slice begins where it begins, and what is taken is counted
    /// from there on (our choice).
    pub(crate) fn allocation(&self) -> Result<AllocationInfo, Refusal> {
        let dmem = self.storage.on_device().ok_or_else(|| {
            Refusal::invalid("the tensor is not in device memory, so it has no place there")
        })?;
        Ok(AllocationInfo {
            physical_address: dmem.pa() + self.offset,
            size: dmem.allocated_size().saturating_sub(self.offset) as usize,
            hbm_index: dmem.hbm().cast_signed(),
        })
    }
}

/// A name as logs and reports can show it: bounded, nothing that moves a terminal's cursor.
fn shown(name: &str) -> String {
    name.chars().take(NAME_MOST).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_fit_for_a_log() {
        assert_eq!(shown("k\u{1b}[2J\nv"), "k?[2J?v");
        assert_eq!(shown(&"n".repeat(1000)).len(), NAME_MOST);
    }

    #[test]
    fn an_empty_tensor_has_no_bytes() {
        let empty = Tensor::empty();
        assert!(empty.view().check(0, 0).is_ok() && empty.view().check(0, 1).is_err());
        assert!(empty.slice(0, 1).is_err());
    }
}
