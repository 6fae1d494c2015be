//! The step from a request to the driver's memory, aligned by the driver or by hand
//! (`dmem_alloc_aligned`, seed 000 §2, `spec/dmem.md` 5.1).

use std::sync::atomic::{AtomicBool, Ordering};

use neuron_abi::errno::Errno;
use neuron_ndl::{AllocRequest as DriverRequest, Device, Memory, NdlError};

use crate::budget::Reservation;
use crate::error::DmemError;

/// Whether the driver aligns: it does until it refuses once. One for each device, not for the
/// process (our choice): devices of one process may be behind different drivers.
#[derive(Debug)]
pub(crate) struct AlignLatch(AtomicBool);

impl Default for AlignLatch {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl AlignLatch {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The driver refused. Warns the first time.
    fn turn_off(&self, device: u8) {
        if self.0.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                device,
                "(Non-FATAL) aligned memory allocation API not available in driver. Please consider \
                 upgrading driver for more efficient memory allocation."
            );
        }
    }
}

/// The driver's memory, and where in it the caller's begins.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) memory: Memory,
    /// Offset of the caller's first byte.
    pub(crate) align_offset: u64,
    /// Bytes that were asked for on top of the caller's.
    pub(crate) padding: u64,
    /// What the budgets gave for all of it.
    pub(crate) reserved: Option<Reservation>,
}

impl Placed {
    /// Memory that is the caller's from its first byte on.
    pub(crate) const fn whole(memory: Memory, reserved: Option<Reservation>) -> Self {
        Self { memory, align_offset: 0, padding: 0, reserved }
    }
}

/// Why there is no memory.
#[derive(Debug)]
pub(crate) enum NotPlaced {
    /// The driver was not asked.
    Unasked(DmemError),
    /// The driver refused.
    Refused(Refused),
}

/// A request that the driver refused, as it was asked last.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) asked: DriverRequest,
    pub(crate) why: NdlError,
}

impl Refused {
    /// Whether there was no room (`NRT_RESOURCE`, `NRT_FAIL_HOST_MEM_ALLOC`).
    pub(crate) fn is_no_room(&self) -> bool {
        self.why.errno == Errno::ENOMEM && !self.has_no_address()
    }

    /// Whether there was memory, and no address to it (`spec/dmem.md` 9.10).
    pub(crate) fn has_no_address(&self) -> bool {
        self.why.operation == NdlError::PHYSICAL_ADDRESS
    }
}

/// Offset of the first aligned byte *behind* `pa`: a whole `align` where `pa` is aligned
/// already, which fits too, because as much was asked for on top. 0 for no alignment.
/// `align` is a power of two.
pub(crate) const fn align_offset(pa: u64, align: u64) -> u64 {
    if align == 0 {
        return 0;
    }
    (pa.wrapping_add(align) & align.wrapping_neg()).wrapping_sub(pa)
}

/// Asks the driver for the request. An alignment it cannot make is made here: by so many bytes
/// more, and an offset. Before the driver is asked, `reserve` gets from the budgets what it is
/// asked for.
///
/// Host memory is padded at once, for drivers never align it, and says nothing about the
/// driver (our choice: the runtime asks, and gives up aligning device memory for good).
pub(crate) fn place(
    device: &Device,
    latch: &AlignLatch,
    request: DriverRequest,
    reserve: impl Fn(&DriverRequest) -> Result<Option<Reservation>, DmemError>,
) -> Result<Placed, NotPlaced> {
    let ask = |asked: DriverRequest| {
        let reserved = reserve(&asked).map_err(NotPlaced::Unasked)?;
        let memory = device.allocate(asked).map_err(|why| NotPlaced::Refused(Refused { asked, why }))?;
        Ok(Placed::whole(memory, reserved))
    };
    if request.align == 0 {
        return ask(request);
    }
    if !request.host && latch.is_on() {
        match ask(request) {
            // NRT_FAILURE; with any other status the driver understood.
            Err(NotPlaced::Refused(refused)) if !refused.is_no_room() && !refused.has_no_address() => {
                latch.turn_off(device.facts().index);
            }
            outcome => return outcome,
        }
    }
    let padding = request.align;
    let placed = ask(DriverRequest { size: request.size.saturating_add(padding), align: 0, ..request })?;
    Ok(Placed { align_offset: align_offset(placed.memory.pa(), padding), padding, ..placed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_aligned_address_is_moved_by_the_whole_alignment() {
        assert_eq!(align_offset(0x10_0000, 0x1_0000), 0x1_0000);
        assert_eq!(align_offset(0x10_1000, 0x1_0000), 0xf000);
        assert_eq!(align_offset(0x10_ffff, 0x1_0000), 1);
        assert_eq!(align_offset(0x10_1000, 0), 0);
    }

    proptest! {
        #[test]
        fn the_offset_is_aligned_and_fits_in_the_padding(pa in 0u64..1 << 48, shift in 0u32..40) {
            let align = 1_u64 << shift;
            let offset = align_offset(pa, align);
            prop_assert_eq!((pa + offset) % align, 0);
            prop_assert!(0 < offset && offset <= align);
            prop_assert_eq!(offset == align, pa % align == 0);
        }
    }
}
