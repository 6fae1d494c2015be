//! A plan as a trace of events (`docs/trace-format.md`): all that is wanted, in order, so that a
//! replay runs it against these pools again, or others.

use neuron_abi::memory::MemLocation;
use neuron_dmem::trace::events::{Alloc, Event, Header};

use crate::ask::Ask;
use crate::cores::choose;
use crate::demand::Demand;
use crate::error::PlanError;
use crate::model::Model;
use crate::planner::Planned;

/// The header of the trace of a question.
pub fn header(ask: &Ask) -> Header<'_> {
    Header::of("neuron-mem plan", Some(&ask.instance))
}

/// Gives each block that `planned` wanted of each device to `take`, in order, with the address that
/// it got. What found no room is an allocation without an address, and so is what was not asked for
/// after it (our choice): elsewhere it may find room. Nothing is freed.
///
/// # Errors
/// As [`plan`](crate::plan), where the question is not the one of `planned`.
pub fn events(
    models: &[Model],
    ask: &Ask,
    planned: &Planned,
    take: &mut dyn FnMut(&Event<'_>),
) -> Result<(), PlanError> {
    let demand = Demand::new(models, ask, choose(ask)?);
    let mut id = 0;
    for group in demand.alike() {
        let Some(&first) = group.first() else { continue };
        let blocks = demand.blocks(first);
        for device in group {
            // Those of the first device: the others look the same.
            let mut placed = planned.placed.iter().filter(|placed| placed.device == first).peekable();
            let mut loading = None;
            for block in &blocks {
                let at = block.tensor.and_then(|(m, t)| Some((m, models.get(m)?, t)));
                if let Some((m, model, _)) = at
                    && loading != Some(m)
                {
                    loading = Some(m);
                    take(&Event::Load { graph: model.name.as_str().into(), time: None });
                }
                id += 1;
                let tensor = at.and_then(|(_, model, t)| model.tensors.get(t));
                take(&Event::Alloc(Alloc {
                    id,
                    size: block.bytes,
                    align: block.term.align(),
                    location: MemLocation::Device,
                    // The instance has devices up to 255.
                    device: device as u8,
                    hbm: demand.site.geometry().hbm_of_core(block.core).unwrap_or(0),
                    core: block.core,
                    usage: block.term.usage(),
                    owner: at.map(|(_, model, _)| model.name.as_str().into()),
                    hint: Some(
                        tensor.map_or_else(|| block.term.name(), |tensor| tensor.name.as_str()).into(),
                    ),
                    pa: placed.next_if(|placed| placed.block == *block).map(|placed| placed.pa),
                    refused: false,
                    pid: 0,
                    time: None,
                }));
            }
        }
    }
    Ok(())
}
