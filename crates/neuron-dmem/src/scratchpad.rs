//! Pages of a core's shared scratchpad: in one piece at the end of the HBM where the driver can
//! (`dmem_alloc_contiguous_scratchpad_page`, seed 000 §2), else page by page
//! (`spec/dmem.md` 5.2).

use std::ops::Range;

use neuron_abi::arch::{Generation, PAGE_SIZE};
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::memory::{Category, UsageType};
use neuron_ndl::environment::Environment;
use neuron_ndl::{AllocRequest as DriverRequest, NdlError};

use crate::allocator::Allocator;
use crate::device::DeviceMemory;
use crate::dmem::Dmem;
use crate::error::DmemError;
use crate::kind::AllocatorKind;
use crate::place::Placed;
use crate::request::AllocRequest;

const MIB: u64 = 1 << 20;
/// Bytes of a contiguous page.
const CONTIGUOUS_PAGE: u64 = 64 * MIB;
/// What a page of a paged scratchpad is asked to be aligned to. What it must be is [`PAGE_SIZE`].
const PAGED_ALIGN: u64 = 4 * MIB;
/// Most pages of a paged scratchpad.
const PAGED_MOST: u64 = 1024;

/// Bytes of a page of a paged scratchpad (`NEURON_SCRATCHPAD_PAGE_SIZE`, `spec/ndl.md` 7):
/// 512 MiB, or a multiple up to 3584.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchpadPageSize(u64);

impl ScratchpadPageSize {
    const STEP: u64 = 512 * MIB;
    const MOST: u64 = 3584 * MIB;

    /// So many bytes.
    ///
    /// # Errors
    /// NRT_INVALID unless it is a multiple of 512 MiB up to 3584.
    pub fn new(bytes: u64) -> Result<Self, DmemError> {
        if bytes == 0 || bytes > Self::MOST || !bytes.is_multiple_of(Self::STEP) {
            return Err(DmemError::ScratchpadPageSize { bytes });
        }
        Ok(Self(bytes))
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Default for ScratchpadPageSize {
    fn default() -> Self {
        Self(Self::STEP)
    }
}

/// How a scratchpad is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchpadOptions {
    contiguous: bool,
    page_size: ScratchpadPageSize,
}

impl Default for ScratchpadOptions {
    /// In one piece where that can be (as runtimes from 2.33 on, `spec/ndl.md` 7), else in pages
    /// of 512 MiB.
    fn default() -> Self {
        Self { contiguous: true, page_size: ScratchpadPageSize::default() }
    }
}

impl ScratchpadOptions {
    /// As the environment says (`NEURON_RT_CONTIGUOUS_SCRATCHPAD`, `NEURON_SCRATCHPAD_PAGE_SIZE`),
    /// where it says something.
    ///
    /// # Errors
    /// As [`ScratchpadPageSize::new`].
    pub fn of(environment: &Environment) -> Result<Self, DmemError> {
        let default = Self::default();
        Ok(Self {
            contiguous: environment.contiguous_scratchpad.unwrap_or(default.contiguous),
            page_size: match environment.scratchpad_page {
                Some(bytes) => ScratchpadPageSize::new(bytes)?,
                None => default.page_size,
            },
        })
    }

    /// In pages, also where it could be in one piece (`NEURON_RT_CONTIGUOUS_SCRATCHPAD=0`).
    #[must_use]
    pub const fn paged(self) -> Self {
        Self { contiguous: false, ..self }
    }

    /// Bytes of a page of a paged one; no effect on a contiguous one.
    #[must_use]
    pub const fn page_size(self, page_size: ScratchpadPageSize) -> Self {
        Self { page_size, ..self }
    }
}

/// Why a scratchpad is paged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagedBecause {
    /// It was asked for.
    Asked,
    /// The driver has no contiguous scratchpad (feature bit 0x80).
    DriverCannot,
    /// From Trainium2 on a contiguous one needs logical cores of more than one physical core.
    OneCorePerLogical,
}

impl std::fmt::Display for PagedBecause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Asked => "paged as asked",
            Self::DriverCannot => "paged: the driver has no contiguous scratchpad; upgrade it for one",
            Self::OneCorePerLogical => {
                "paged: a contiguous scratchpad needs logical cores of more than one physical core; set NEURON_LOGICAL_NC_CONFIG"
            }
        })
    }
}

impl DeviceMemory {
    /// Why scratchpads of this device have to be paged; `None` where they can be contiguous.
    pub fn paged_scratchpad(&self) -> Option<PagedBecause> {
        let facts = self.device().facts();
        if !facts.features.contains(Features::CONTIGUOUS_SCRATCHPAD) {
            return Some(PagedBecause::DriverCannot);
        }
        let alone = facts.generation != Generation::V2 && self.cores_per_logical() <= 1;
        alone.then_some(PagedBecause::OneCorePerLogical)
    }
}

/// The pages of a core's scratchpad, freed in the reverse order of their allocation, however
/// this ends. A contiguous page also keeps the page above it, so that a clone of a page, or the
/// pages of another core on the same HBM, cannot upset the order.
#[derive(Debug)]
pub struct ScratchpadPages {
    pages: Vec<Dmem>,
    page_bytes: u64,
    paged: Option<PagedBecause>,
}

impl Drop for ScratchpadPages {
    fn drop(&mut self) {
        while self.pages.pop().is_some() {}
    }
}

impl ScratchpadPages {
    /// The pages in order of allocation; contiguous ones lie downwards.
    pub fn pages(&self) -> &[Dmem] {
        &self.pages
    }

    /// Bytes of each page.
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Why it is paged; `None` for a contiguous one.
    pub const fn paged(&self) -> Option<PagedBecause> {
        self.paged
    }

    /// The addresses of a contiguous one. `None` for a paged one, and where another process or
    /// core has placed a page in between.
    pub fn region(&self) -> Option<Range<u64>> {
        let adjoin = self.pages.iter().zip(self.pages.iter().skip(1));
        let adjoin = adjoin.into_iter().all(|(above, below)| below.pa() + self.page_bytes == above.pa());
        let (first, last) = (self.pages.first()?, self.pages.last()?);
        (self.paged.is_none() && adjoin).then(|| last.pa()..first.pa() + self.page_bytes)
    }
}

impl Allocator {
    /// Pages of at least `bytes` bytes for the core's shared scratchpad, on the core's own HBM,
    /// as usage SCRATCHPAD.
    ///
    /// # Errors
    /// NRT_INVALID for a MODEL allocator, since the pages outlive every model, for 0 bytes, and
    /// for more than 1024 pages of a paged one. NRT_RESOURCE when a page finds no room: of a
    /// paged scratchpad with a report, of a contiguous one without, because there is just one
    /// place where it could be. NRT_FAILURE for anything else. Pages had by then are freed.
    pub fn scratchpad(&self, bytes: u64, options: &ScratchpadOptions) -> Result<ScratchpadPages, DmemError> {
        if self.kind() != AllocatorKind::Global {
            return Err(DmemError::ScratchpadOwner { core: self.core() });
        }
        if bytes == 0 {
            return Err(DmemError::ZeroSize);
        }
        let paged = match options.contiguous {
            true => self.memory().paged_scratchpad(),
            false => Some(PagedBecause::Asked),
        };
        let page_bytes = if paged.is_some() { options.page_size.bytes() } else { CONTIGUOUS_PAGE };
        let count = bytes.div_ceil(page_bytes);
        if paged.is_some() && count > PAGED_MOST {
            return Err(DmemError::ScratchpadSize {
                bytes,
                page: page_bytes,
                pages: count,
                most: PAGED_MOST,
            });
        }
        let mut scratchpad = ScratchpadPages { pages: Vec::new(), page_bytes, paged };
        for number in 0..count {
            scratchpad.pages.push(match paged {
                None => self.contiguous_page(number)?,
                Some(_) => self.paged_page(page_bytes)?,
            });
        }
        Ok(scratchpad)
    }

    fn paged_page(&self, bytes: u64) -> Result<Dmem, DmemError> {
        let page = self.allocate(&AllocRequest::device(bytes, UsageType::Scratchpad).aligned(PAGED_ALIGN))?;
        usable(page.pa()).map(|()| page)
    }

    /// Past the ordinary path: under a category of its own, at the one place where it can be. In
    /// budgets and the trace it is an allocation as any other (our choice).
    fn contiguous_page(&self, number: u64) -> Result<Dmem, DmemError> {
        let request = AllocRequest::device(CONTIGUOUS_PAGE, UsageType::Scratchpad);
        let hbm = self.memory().device().geometry().hbm_of_core(self.core()).unwrap_or(0);
        let attempt = || {
            let event = self.traced(&request, hbm);
            let outcome = self.page_at_floor(&request, hbm, number);
            self.note(&request, hbm, &outcome);
            event.close(outcome)
        };
        self.memory().failures().handle(attempt)
    }

    fn page_at_floor(&self, request: &AllocRequest<'_>, hbm: u32, number: u64) -> Result<Dmem, DmemError> {
        let device = self.memory().device();
        let no_room = || DmemError::NoScratchpadRoom {
            device: device.facts().index,
            hbm,
            number,
            page: CONTIGUOUS_PAGE,
        };
        let asked = DriverRequest {
            size: CONTIGUOUS_PAGE,
            align: 0,
            host: false,
            hbm,
            core: self.core(),
            category: Category::ContiguousScratchpadDevice,
        };
        // In front of the floor's lock: a refusal looks at handles, and may be the last to do so.
        let reserved = self.reserve(request, &asked)?;
        let place = || {
            let memory = device.allocate(asked).map_err(|why| match why.errno {
                _ if why.operation == NdlError::PHYSICAL_ADDRESS => DmemError::NoPhysicalAddress(why),
                Errno::ENOMEM => no_room(),
                _ => DmemError::Driver(why),
            })?;
            self.with_copy_buffer(Placed::whole(memory, reserved))
        };
        let floor = self.memory().floor(hbm).ok_or_else(no_room)?;
        floor.grow(place, |placed, place| Dmem::page(&self.owned(), placed, UsageType::Scratchpad, place))
    }
}

/// A page of a paged scratchpad was asked to be aligned to 4 MiB; that much it must be.
fn usable(pa: u64) -> Result<(), DmemError> {
    let align = PAGE_SIZE;
    if pa.is_multiple_of(align) { Ok(()) } else { Err(DmemError::ScratchpadUnaligned { pa, align }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_000_a_page_off_its_alignment_is_refused() {
        assert_eq!(usable(0x10_0000_1000), Ok(()));
        let error = usable(0x10_0000_0800).unwrap_err();
        assert_eq!(error, DmemError::ScratchpadUnaligned { pa: 0x10_0000_0800, align: 4096 });
        assert_eq!(error.status(), neuron_abi::status::NrtStatus::Failure);
    }

    #[test]
    fn page_sizes_are_multiples_of_512_mib_up_to_3584() {
        for mib in [512, 1024, 3584] {
            assert_eq!(ScratchpadPageSize::new(mib * MIB).unwrap().bytes(), mib * MIB);
        }
        for bytes in [0, 511 * MIB, 512 * MIB + 1, 768 * MIB, 4096 * MIB, u64::MAX] {
            let error = ScratchpadPageSize::new(bytes).unwrap_err();
            assert_eq!(error.status(), neuron_abi::status::NrtStatus::Invalid);
            assert!(error.to_string().starts_with(&bytes.to_string()), "{error}");
        }
    }

    #[test]
    fn options_are_the_environments_where_it_says_something() {
        let options = |page: &'static str, contiguous: &'static str| {
            let environment = Environment::from_variables(|name| match name {
                "NEURON_SCRATCHPAD_PAGE_SIZE" => Some(page.into()),
                "NEURON_RT_CONTIGUOUS_SCRATCHPAD" => Some(contiguous.into()),
                _ => None,
            });
            ScratchpadOptions::of(&environment.unwrap()).unwrap()
        };
        let gib = ScratchpadPageSize::new(1024 * MIB).unwrap();
        assert_eq!(options("", ""), ScratchpadOptions::default());
        assert_eq!(options("1024", "0"), ScratchpadOptions::default().paged().page_size(gib));
        assert_eq!(options("", "1"), ScratchpadOptions::default());
        assert_eq!(ScratchpadOptions::default().page_size.bytes(), 512 * MIB);
    }
}
