//! The blocks of a device, made: allocated in the pools of a device in software, through all that
//! an allocation goes through, and given back. Its HBM takes host memory only where bytes are
//! written, and none are.

use std::sync::Arc;

use neuron_abi::arch::PAGE_SIZE;
use neuron_dmem::log::LogOptions;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, DmemError, Room, Setup};
use neuron_ndl::Device;
use neuron_ndl::software::{Execution, Machine, MachineOptions};

use crate::demand::{Block, Demand};
use crate::error::PlanError;

/// A block that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Device; of devices alike, the first.
    pub device: u32,
    /// HBM.
    pub hbm: u32,
    /// Physical address.
    pub pa: u64,
    /// What was asked for.
    pub block: Block,
}

/// What became of an HBM.
#[derive(Clone, Debug)]
pub(crate) struct MadeHbm {
    pub(crate) hbm: u32,
    /// As the driver left it.
    pub(crate) before: Room,
    /// With everything on it that found room.
    pub(crate) after: Room,
    /// Bytes of all blocks wanted of it, in pages.
    pub(crate) asked: u64,
    /// Bytes of those that were allocated, in pages.
    pub(crate) placed: u64,
    /// The first that found no room, and what was left then.
    pub(crate) refused: Option<(Block, Room)>,
}

/// What became of a device.
pub(crate) struct Made {
    pub(crate) hbms: Vec<MadeHbm>,
    pub(crate) placed: Vec<Placed>,
}

/// Bytes that the driver takes for a block.
pub(crate) const fn pages(bytes: u64) -> u64 {
    match bytes.checked_next_multiple_of(PAGE_SIZE) {
        Some(pages) => pages,
        None => u64::MAX,
    }
}

/// Room of one pool and the other.
pub(crate) const fn left(room: &Room) -> u64 {
    room.main.left() + room.small.left()
}

/// Largest hole of both pools: each falls back to the other.
pub(crate) fn largest_hole(room: &Room) -> u64 {
    room.main.largest_hole.max(room.small.largest_hole)
}

/// Allocates what is wanted of a device. An HBM that has refused a block is asked for no other.
pub(crate) fn make(demand: &Demand<'_>, device: u32) -> Result<Made, PlanError> {
    let options = MachineOptions { execution: Execution::Inline, ..MachineOptions::default() };
    let machine = Machine::with_options(demand.site.instance.name, options)?;
    // The instance has devices up to 255, and the site was held against it.
    let index = device as u8;
    machine.boot(index)?;
    // Nobody reads the events of it.
    let setup = Setup::default().log(LogOptions::default().events(0).names(1));
    let memory = DeviceMemory::with(Device::open(&machine, index)?, setup)?;
    let mut owners = Owners { memory: &memory, demand, owners: Vec::new() };
    let align = demand.ask().align;
    let room = |hbm| Room::aligned(memory.device(), hbm, align).map(Option::unwrap_or_default);

    let geometry = demand.site.geometry();
    let mut hbms = Vec::new();
    for hbm in (0..).take(geometry.hbm.len()) {
        let before = room(hbm)?;
        hbms.push(MadeHbm { hbm, before, after: before, asked: 0, placed: 0, refused: None });
    }
    let (mut handles, mut placed) = (Vec::new(), Vec::new());
    for block in demand.blocks(device) {
        let hbm = geometry.hbm_of_core(block.core).unwrap_or(0);
        let Some(made) = hbms.get_mut(hbm as usize) else { continue };
        made.asked = made.asked.saturating_add(pages(block.bytes));
        if made.refused.is_some() {
            continue;
        }
        match owners.allocate(device, &block)? {
            Some(dmem) => {
                made.placed += pages(block.bytes);
                placed.push(Placed { device, hbm, pa: dmem.pa(), block });
                handles.push(dmem);
            }
            None => made.refused = Some((block, room(hbm)?)),
        }
    }
    for made in &mut hbms {
        made.after = room(made.hbm)?;
    }
    // Before their allocators, and those before the device.
    drop(handles);
    Ok(Made { hbms, placed })
}

/// The allocators of a device: one for each model and core, and one for each core's own.
struct Owners<'a> {
    memory: &'a Arc<DeviceMemory>,
    demand: &'a Demand<'a>,
    owners: Vec<(Option<usize>, u32, Allocator)>,
}

impl Owners<'_> {
    /// `None` if there is no room.
    fn allocate(&mut self, device: u32, block: &Block) -> Result<Option<Dmem>, PlanError> {
        // More than a driver takes a request for (`spec/dmem.md` 5.3).
        if i64::try_from(block.bytes).is_err() {
            return Ok(None);
        }
        let model = block.tensor.and_then(|(m, t)| {
            let model = self.demand.models().get(m)?;
            Some((m, model, model.tensors.get(t)?))
        });
        let hint = model.map_or_else(|| block.term.name(), |(_, _, tensor)| tensor.name.as_str());
        let request =
            AllocRequest::device(block.bytes, block.term.usage()).aligned(block.term.align()).hint(hint);
        let owner = self.owner(model.map(|(m, model, _)| (m, model.name.as_str())), block.core)?;
        match owner.allocate(&request) {
            Ok(dmem) => Ok(Some(dmem)),
            Err(DmemError::OutOfDeviceMemory(_)) => Ok(None),
            Err(source) => Err(PlanError::Refused {
                what: self.demand.name(block),
                bytes: block.bytes,
                device,
                core: block.core,
                source: Box::new(source),
            }),
        }
    }

    fn owner(&mut self, model: Option<(usize, &str)>, core: u32) -> Result<&Allocator, PlanError> {
        let key = model.map(|(m, _)| m);
        let known = self.owners.iter().position(|(m, of, _)| (*m, *of) == (key, core));
        let position = match known {
            Some(position) => position,
            None => {
                let allocator = match model {
                    Some((_, name)) => Allocator::labelled(self.memory, AllocatorKind::Model, core, name)?,
                    None => Allocator::new(self.memory, AllocatorKind::Global, core)?,
                };
                self.owners.push((key, core, allocator));
                self.owners.len() - 1
            }
        };
        // It was found or pushed above.
        self.owners.get(position).map(|(_, _, allocator)| allocator).ok_or(PlanError::NoCores)
    }
}
