//! Lists that hold references, so that many handles are let go with one call
//! (`dmem_list_t`, seed 000 §4, `spec/dmem.md` 1.3).

use crate::dmem::Dmem;

/// References to handles, in the order in which they were added.
///
/// This is the second way of sharing, apart from the allocator that lists a handle: a handle
/// is on at most one allocator's list and on any number of these, or several times on one.
/// Each place holds a reference of its own. Freeing the list, or dropping it, drops them in
/// order; a handle's memory goes when that was the last.
///
/// ```
/// use neuron_abi::memory::UsageType;
/// use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, GcList};
/// use neuron_ndl::{Device, software::Machine};
///
/// let machine = Machine::new("trn1.2xlarge")?;
/// let memory = DeviceMemory::new(Device::open(&machine, 0)?);
/// let model = Allocator::new(&memory, AllocatorKind::Model, 0)?;
/// let mut load = GcList::new();
/// for ring in ["tx", "rx"] {
///     model.allocate_listed(&AllocRequest::device(4096, UsageType::DmaRing).hint(ring), &mut load)?;
/// }
/// assert_eq!((load.len(), memory.usage().channel(0)), (2, 8192));
///
/// load.free();
/// assert_eq!((load.len(), memory.usage().channel(0)), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct GcList(Vec<Dmem>);

impl GcList {
    /// An empty one.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a handle, with a reference of its own (`dmem_acquire_reference` and
    /// `dmem_list_add`).
    pub fn add(&mut self, dmem: &Dmem) {
        self.0.push(dmem.clone());
    }

    /// Drops the references, first added first, and is empty and as good as new
    /// (`dmem_list_free`).
    pub fn free(&mut self) {
        self.0.drain(..).for_each(drop);
    }

    /// References held.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The handles, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Dmem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a GcList {
    type Item = &'a Dmem;
    type IntoIter = std::slice::Iter<'a, Dmem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
