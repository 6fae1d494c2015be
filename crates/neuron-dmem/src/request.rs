//! What to allocate, and what can be said against it before a driver is asked (seed 000 §1, §2).

use neuron_abi::memory::{Category, UsageType};

use crate::error::DmemError;

/// What to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocRequest<'a> {
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) host: bool,
    pub(crate) hbm: Option<u32>,
    pub(crate) usage: UsageType,
    pub(crate) hint: Option<&'a str>,
}

impl<'a> AllocRequest<'a> {
    /// `size` bytes of device memory on the core's own HBM.
    pub const fn device(size: u64, usage: UsageType) -> Self {
        Self { size, align: 0, host: false, hbm: None, usage, hint: None }
    }

    /// `size` bytes of host memory that the device can reach.
    pub const fn host(size: u64, usage: UsageType) -> Self {
        Self { size, align: 0, host: true, hbm: None, usage, hint: None }
    }

    /// On another HBM than the core's own.
    #[must_use]
    pub const fn on_hbm(self, hbm: u32) -> Self {
        Self { hbm: Some(hbm), ..self }
    }

    /// Aligned to this many bytes, a power of two; 0 for none. Where the driver cannot align,
    /// and for host memory, which it never aligns, so many bytes more are allocated and the
    /// memory begins inside (`spec/dmem.md` 5.1).
    #[must_use]
    pub const fn aligned(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// With a name for reports.
    #[must_use]
    pub const fn hint(self, hint: &'a str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// What can be told before the driver is asked; the category it is to count under.
    pub(crate) fn check(&self) -> Result<Category, DmemError> {
        let usage = self.usage;
        let category = match self.host {
            true => usage.host_category().ok_or(DmemError::UsageLocation { usage })?,
            false => usage.device_category(),
        };
        let (size, align) = (self.size, self.align);
        if size == 0 {
            return Err(DmemError::ZeroSize);
        }
        if align != 0 && !align.is_power_of_two() {
            return Err(DmemError::Alignment { align });
        }
        if size.checked_add(align).is_none() {
            return Err(DmemError::AlignedSize { size, align });
        }
        Ok(category)
    }
}
