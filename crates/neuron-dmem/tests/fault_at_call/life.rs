//! The script of a life, and what must hold after each of its steps.

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::batch::{self, Batch, Operation};
use neuron_dmem::{
    AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, DmemError, GcList, ScratchpadOptions,
    ScratchpadPages,
};
use neuron_ndl::HostBytes;
use vm_memory::VolatileSlice;

use crate::strike::Ended;

/// Two chunks and a bit, so that a copy waits for one before the last.
const LARGE: usize = (2 << 20) + 4097;
const ALIGN: u64 = 1 << 16;
const CORE: u32 = 1;

/// What a step does, as far as the status of its failure depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Host,
    Aligned,
    TooMuch,
    Other,
}

/// A step: what it is called, and how it ends unless it is struck.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) ends: Ended,
    pub(crate) run: fn(&mut Life) -> Ended,
}

const fn step(name: &'static str, run: fn(&mut Life) -> Ended) -> Step {
    Step { name, kind: Kind::Other, ends: Ok(()), run }
}

const fn of(kind: Kind, name: &'static str, run: fn(&mut Life) -> Ended) -> Step {
    Step { kind, ..step(name, run) }
}

/// From the first allocation to an allocator that goes before its handles. A step whose memory
/// could not be allocated does nothing.
pub(crate) const SCRIPT: &[Step] = &[
    of(Kind::Host, "host memory", |life| {
        life.allocate(HOST, &AllocRequest::host(9000, UsageType::Tensor).hint("host"))
    }),
    step("a weight", |life| {
        life.allocate(WEIGHT, &AllocRequest::device(LARGE as u64, UsageType::Weight).hint("weight"))
    }),
    step("a small tensor", |life| {
        life.allocate(SMALL, &AllocRequest::device(5000, UsageType::Tensor).hint("small"))
    }),
    of(Kind::Aligned, "aligned memory", |life| {
        let request = AllocRequest::device(70_000, UsageType::Tensor).aligned(ALIGN);
        life.allocate(ALIGNED, &request.hint("aligned"))
    }),
    of(Kind::Host, "aligned host memory", |life| {
        life.allocate(ALIGNED_HOST, &AllocRequest::host(3000, UsageType::Tensor).aligned(4096))
    }),
    step("a listed ring", |life| {
        let request = AllocRequest::device(8192, UsageType::DmaRing).hint("ring");
        let model = life.model.as_ref().ok_or(NrtStatus::InvalidHandle)?;
        model.allocate_listed(&request, &mut life.list).map(drop).map_err(status)
    }),
    step("scratchpad pages", |life| {
        let pages = life.global.scratchpad(2 * (64 << 20), &ScratchpadOptions::default());
        life.scratchpad = Some(pages.map_err(status)?);
        Ok(())
    }),
    Step {
        ends: Err(NrtStatus::Resource),
        ..of(Kind::TooMuch, "more than there is", |life| {
            let refused = life.model()?.allocate(&AllocRequest::device(1 << 40, UsageType::Tensor));
            let error = refused.unwrap_err();
            assert_eq!(error.report().is_some(), error.status() == NrtStatus::Resource);
            Err(error.status())
        })
    },
    step("bytes into host memory", |life| life.write(HOST, 3)),
    step("bytes into the weight", |life| life.write(WEIGHT, 5)),
    step("bytes into the small tensor", |life| life.write(SMALL, 7)),
    step("bytes into aligned memory", |life| life.write(ALIGNED, 11)),
    step("bytes into aligned host memory", |life| life.write(ALIGNED_HOST, 13)),
    step("those of the host", |life| life.read(HOST)),
    step("those of the weight", |life| life.read(WEIGHT)),
    step("those of the small tensor", |life| life.read(SMALL)),
    step("those of aligned memory", |life| life.read(ALIGNED)),
    step("those of aligned host memory", |life| life.read(ALIGNED_HOST)),
    step("batches in", Life::batches_in),
    step("batches out", Life::batches_out),
    step("a mapping", |life| life.map(ALIGNED)),
    step("the mapping again", |life| life.map(ALIGNED)),
    step("a reference of another model", |life| {
        life.shared = life.held[WEIGHT].as_ref().map(|held| held.dmem.clone());
        Ok(())
    }),
    step("the weight let go by its own", |life| {
        life.shared_bytes = life.held[WEIGHT].take().and_then(|held| held.bytes);
        Ok(())
    }),
    step("the weight, by the other", |life| {
        life.shared.as_ref().map_or(Ok(()), |dmem| reads(dmem, life.shared_bytes.as_deref()))
    }),
    step("the small tensor freed", |life| life.free(SMALL)),
    step("the mapped one freed", |life| life.free(ALIGNED)),
    step("the list freed", |life| {
        life.list.free();
        Ok(())
    }),
    step("the scratchpad freed", |life| {
        life.scratchpad = None;
        Ok(())
    }),
    step("the model's end", |life| {
        let alive = life.shared.iter().count() + life.held.iter().flatten().count();
        let left = life.model.take().map(|model| model.destroy().handles);
        assert_eq!(left, Some(alive));
        Ok(())
    }),
];

const HOST: usize = 0;
const WEIGHT: usize = 1;
const SMALL: usize = 2;
const ALIGNED: usize = 3;
const ALIGNED_HOST: usize = 4;

/// A handle, and its bytes as far as they are known.
struct Held {
    dmem: Dmem,
    align: u64,
    bytes: Option<Vec<u8>>,
}

/// A process on its way.
pub(crate) struct Life {
    global: Allocator,
    model: Option<Allocator>,
    held: [Option<Held>; 5],
    list: GcList,
    scratchpad: Option<ScratchpadPages>,
    /// The weight, as another model has it, and what is in it.
    shared: Option<Dmem>,
    shared_bytes: Option<Vec<u8>>,
}

fn status(error: DmemError) -> NrtStatus {
    error.status()
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8) ^ seed).collect()
}

/// Reads all of it; what it must be is not known if a copy to it failed.
fn reads(dmem: &Dmem, expected: Option<&[u8]>) -> Ended {
    let mut bytes = vec![0; dmem.size() as usize];
    dmem.read(0, &mut bytes).map_err(status)?;
    assert!(expected.is_none_or(|expected| *expected == bytes[..]), "{:?} has other bytes", dmem.hint());
    Ok(())
}

impl Life {
    pub(crate) fn new(memory: &Arc<DeviceMemory>) -> Self {
        Self {
            global: Allocator::labelled(memory, AllocatorKind::Global, CORE, "core").unwrap(),
            model: Some(Allocator::labelled(memory, AllocatorKind::Model, CORE, "model").unwrap()),
            held: Default::default(),
            list: GcList::new(),
            scratchpad: None,
            shared: None,
            shared_bytes: None,
        }
    }

    fn model(&self) -> Result<&Allocator, NrtStatus> {
        self.model.as_ref().ok_or(NrtStatus::InvalidHandle)
    }

    fn allocate(&mut self, place: usize, request: &AllocRequest<'_>) -> Ended {
        let dmem = self.model()?.allocate(request).map_err(status)?;
        let align = if place == ALIGNED { ALIGN } else { 4096 };
        assert_eq!(dmem.pa() % align, 0);
        self.held[place] = Some(Held { dmem, align, bytes: None });
        Ok(())
    }

    fn write(&mut self, place: usize, seed: u8) -> Ended {
        let Some(held) = &mut self.held[place] else { return Ok(()) };
        let bytes = pattern(held.dmem.size() as usize, seed);
        // Whatever a failed copy did is not known.
        held.bytes = None;
        held.dmem.write(0, &bytes).map_err(status)?;
        held.bytes = Some(bytes);
        Ok(())
    }

    fn read(&self, place: usize) -> Ended {
        self.held[place].as_ref().map_or(Ok(()), |held| reads(&held.dmem, held.bytes.as_deref()))
    }

    /// Two pieces into each of two dmems.
    fn batches_in(&mut self) -> Ended {
        let (head, tail) = (pattern(100, 17), pattern(3000, 19));
        let piece = |offset, bytes| Operation { offset, buffer: HostBytes::Plain(bytes) };
        let operations = [piece(0, &head[..]), piece(1000, &tail[..])];
        let places = [WEIGHT, SMALL];
        let before = places.map(|place| self.held[place].as_mut().and_then(|held| held.bytes.take()));
        let held = places.iter().filter_map(|&place| self.held[place].as_ref());
        let batches: Vec<_> =
            held.map(|held| Batch { dmem: &held.dmem, offset: 8, operations: &operations }).collect();
        batch::copy_in(&batches).map_err(status)?;
        for (place, bytes) in places.into_iter().zip(before) {
            if let (Some(held), Some(mut bytes)) = (self.held[place].as_mut(), bytes) {
                bytes[8..108].copy_from_slice(&head);
                bytes[1008..4008].copy_from_slice(&tail);
                held.bytes = Some(bytes);
            }
        }
        Ok(())
    }

    fn batches_out(&mut self) -> Ended {
        let Some(held) = &self.held[WEIGHT] else { return Ok(()) };
        let (mut head, mut tail) = (vec![0; 200], vec![0; 5000]);
        let operations = [
            Operation { offset: 0, buffer: VolatileSlice::from(&mut head[..]) },
            Operation { offset: LARGE as u64 - 5000, buffer: VolatileSlice::from(&mut tail[..]) },
        ];
        batch::copy_out(&[Batch { dmem: &held.dmem, offset: 0, operations: &operations }]).map_err(status)?;
        if let Some(bytes) = &held.bytes {
            assert!(head == bytes[..200] && tail == bytes[LARGE - 5000..]);
        }
        Ok(())
    }

    fn map(&self, place: usize) -> Ended {
        let Some(held) = &self.held[place] else { return Ok(()) };
        let mapped = held.dmem.map().map_err(status)?;
        let mut seen = vec![0; held.dmem.size() as usize];
        mapped.copy_to(&mut seen[..]);
        assert!(held.bytes.as_ref().is_none_or(|bytes| *bytes == seen));
        Ok(())
    }

    fn free(&mut self, place: usize) -> Ended {
        self.held[place] = None;
        Ok(())
    }

    /// Counters are the sums of what lives, by HBM, core, usage and owner.
    pub(crate) fn check(&self, memory: &DeviceMemory, when: &str) {
        let held = self.held.iter().flatten().filter(|held| !held.dmem.is_host()).map(|held| {
            let padding = if held.dmem.align_offset() > 0 { held.align } else { 0 };
            (held.dmem.usage(), held.dmem.size() + padding)
        });
        // The weight once, whoever has it.
        let shared = self.shared.iter().filter(|_| self.held[WEIGHT].is_none());
        let shared = shared.map(|dmem| (dmem.usage(), dmem.size()));
        let rings = (0..self.list.len()).map(|_| (UsageType::DmaRing, 8192));
        let model: Vec<_> = held.chain(shared).chain(rings).collect();
        let pages =
            self.scratchpad.as_ref().map_or(0, |pages| pages.pages().len() as u64 * pages.page_bytes());
        let charged = model.iter().map(|(_, bytes)| bytes).sum::<u64>();

        let usage = memory.usage();
        let hbm = memory.device().geometry().hbm_of_core(CORE).unwrap();
        assert_eq!(
            (usage.channel(hbm), usage.core_total(CORE)),
            (charged + pages, charged + pages),
            "{when}"
        );
        for &usage_type in UsageType::ALL {
            let of_type = model.iter().filter(|(held, _)| *held == usage_type).map(|(_, bytes)| bytes);
            let pages = if usage_type == UsageType::Scratchpad { pages } else { 0 };
            assert_eq!(usage.core_usage(CORE, usage_type), of_type.sum::<u64>() + pages, "{when}");
        }
        let statistics = memory.statistics();
        let owned = |label: &str| {
            let mut owners = statistics.owners.iter().filter(|owner| &*owner.owner.label == label);
            owners.next().map(|owner| owner.amount.current)
        };
        assert_eq!((owned("model"), owned("core")), (Some(charged), Some(pages)), "{when}");
    }
}
