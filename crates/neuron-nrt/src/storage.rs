//! The memory that a tensor and its slices share. It lives as long as one of them.

use std::sync::{Arc, OnceLock};

use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::report::DumpOptions;
use neuron_dmem::{AllocRequest, Allocator, Dmem, DmemError};
use vm_memory::{MmapRegion, VolatileMemory as _, VolatileSlice};

use crate::logging::{self, Level};
use crate::pointers::Foreign;
use crate::refusal::Refusal;
use crate::spans::{Span, Spans};

/// Most bytes of a HOST tensor: less than 4 MiB (`spec/nrt-abi.md` 2).
const HOST_MOST: u64 = (4 << 20) - 1;

/// Where a tensor is asked to be (`nrt_tensor_placement_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Memory of the device.
    Device,
    /// Memory of the host that the device reaches.
    Host,
    /// Any memory of the host.
    Virtual,
}

impl Placement {
    pub(crate) fn from_raw(raw: i32) -> Result<Self, Refusal> {
        match raw {
            0 => Ok(Self::Device),
            1 => Ok(Self::Host),
            2 => Ok(Self::Virtual),
            _ => Err(Refusal::invalid(format!(
                "{raw} is no placement; there are DEVICE (0), HOST (1) and VIRTUAL (2)"
            ))),
        }
    }
}

/// Memory of tensors. Fields drop in order: nobody finds it by address when it is unmapped.
#[derive(Debug)]
pub(crate) struct Storage {
    span: OnceLock<Span<Self>>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// None yet.
    Empty,
    Device(Dmem),
    Host(Dmem),
    Virtual(MmapRegion),
    Attached(Foreign),
}

/// How its bytes are reached.
pub(crate) enum Bytes<'a> {
    /// By copies of the device.
    Device(&'a Dmem),
    /// Directly.
    Host(VolatileSlice<'a>),
}

impl Storage {
    fn of(kind: Kind) -> Arc<Self> {
        Arc::new(Self { span: OnceLock::new(), kind })
    }

    /// None yet.
    pub(crate) fn empty() -> Arc<Self> {
        Self::of(Kind::Empty)
    }

    /// The caller's buffer.
    pub(crate) fn attached(buffer: Foreign) -> Arc<Self> {
        Self::of(Kind::Attached(buffer))
    }

    /// New memory of a core's.
    pub(crate) fn allocate(
        allocator: &Allocator,
        placement: Placement,
        size: u64,
        name: &str,
    ) -> Result<Arc<Self>, Refusal> {
        if size == 0 {
            return Err(Refusal::invalid("a tensor needs at least one byte"));
        }
        let kind = match placement {
            Placement::Device => {
                Kind::Device(allocated(allocator, AllocRequest::device(size, UsageType::Tensor), name)?)
            }
            Placement::Host => {
                if size > HOST_MOST {
                    let why =
                        format!("{size} bytes are too many for a HOST tensor, which has at most {HOST_MOST}");
                    return Err(Refusal::invalid(why));
                }
                if !allocator.memory().device().facts().generation.has_host_tensors() {
                    // The runtime's own words (`spec/dmem.md` 8).
                    let why =
                        format!("Can not allocate tensor (name:{name}) on Host for NC:{}", allocator.core());
                    return Err(Refusal::new(NrtStatus::Resource, why));
                }
                Kind::Host(allocated(allocator, AllocRequest::host(size, UsageType::Tensor), name)?)
            }
            Placement::Virtual => {
                let bytes = usize::try_from(size).ok();
                let region = bytes.and_then(|bytes| MmapRegion::new(bytes).ok());
                let why = || format!("the host has no room for {size} bytes of a VIRTUAL tensor");
                Kind::Virtual(region.ok_or_else(|| Refusal::new(NrtStatus::FailHostMemAlloc, why()))?)
            }
        };
        Ok(Self::of(kind))
    }

    /// How its bytes are reached; all there are.
    pub(crate) fn bytes(&self) -> Result<Bytes<'_>, Refusal> {
        Ok(match &self.kind {
            Kind::Empty => return Err(Refusal::invalid("the tensor has no buffer; attach one first")),
            Kind::Device(dmem) => Bytes::Device(dmem),
            Kind::Host(dmem) => Bytes::Host(dmem.map()?),
            Kind::Virtual(region) => Bytes::Host(region.as_volatile_slice()),
            Kind::Attached(buffer) => Bytes::Host(buffer.slice()),
        })
    }

    /// Its memory on the device, or that the device reaches.
    pub(crate) const fn dmem(&self) -> Option<&Dmem> {
        match &self.kind {
            Kind::Device(dmem) | Kind::Host(dmem) => Some(dmem),
            Kind::Empty | Kind::Virtual(_) | Kind::Attached(_) => None,
        }
    }

    /// Its memory on the device.
    pub(crate) const fn on_device(&self) -> Option<&Dmem> {
        match &self.kind {
            Kind::Device(dmem) => Some(dmem),
            _ => None,
        }
    }

    /// Its first address in this process. Device memory, and memory that the device reaches, is found
    /// by it from then on.
    pub(crate) fn address(self: &Arc<Self>, spans: &Arc<Spans<Self>>) -> Result<usize, Refusal> {
        match (self.dmem(), self.span.get()) {
            (_, Some(span)) => Ok(span.start()),
            (Some(dmem), None) => {
                let mapped = dmem.map()?;
                let start = mapped.ptr_guard_mut().as_ptr() as usize;
                let enter = || spans.enter(start, mapped.len(), self);
                Ok(self.span.get_or_init(enter).start())
            }
            (None, None) => match self.bytes()? {
                Bytes::Host(slice) => Ok(slice.ptr_guard_mut().as_ptr() as usize),
                Bytes::Device(_) => Err(Refusal::failure("device memory without a handle")),
            },
        }
    }
}

/// Allocates, and reports as the runtime does if there is no room (`spec/report.md` 3.2).
fn allocated(allocator: &Allocator, request: AllocRequest<'_>, name: &str) -> Result<Dmem, Refusal> {
    // Reports repeat the hint; without a name it is what the call is called.
    let hint = if name.is_empty() { "nrt_tensor_allocate" } else { name };
    let error = match allocator.allocate(&request.hint(hint)) {
        Ok(dmem) => return Ok(dmem),
        Err(error) => error,
    };
    report(allocator, &error);
    Err(error.into())
}

fn report(allocator: &Allocator, error: &DmemError) {
    if let Some(report) = error.report() {
        let files = report.write_files(&allocator.memory().events(), &DumpOptions::from_env());
        logging::line(Level::Error, "nrt_tensor_allocate", (report.human() + &files.human()).trim_end());
    }
}
