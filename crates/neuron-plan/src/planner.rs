//! A question becomes an answer.

use neuron_abi::arch::PAGE_SIZE;

use crate::answer::{Answer, CostFacts, Hbm, ModelFacts, Refused, TensorFacts, TermFacts};
use crate::ask::Ask;
use crate::cores::choose;
use crate::demand::Demand;
use crate::device::{MadeHbm, Placed, largest_hole, left, make, pages};
use crate::error::PlanError;
use crate::model::Model;
use crate::search;
use crate::term::Term;

/// An answer, and where everything was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The answer.
    pub answer: Answer,
    /// Every block that found room, in order. Of devices of which the same is wanted, and which
    /// therefore look the same, only the first is here.
    pub placed: Vec<Placed>,
}

/// Plans models that are loaded together.
///
/// # Errors
/// An instance, a core or a number of cores that is not there, or a software device that does not do
/// its part. Models that do not fit are an answer, not an error.
pub fn plan(models: &[Model], ask: &Ask) -> Result<Planned, PlanError> {
    if !ask.align.is_power_of_two() {
        return Err(PlanError::Align(ask.align));
    }
    let demand = Demand::new(models, ask, choose(ask)?);
    let (mut hbms, mut placed, mut terms) = (Vec::new(), Vec::new(), Terms::default());
    for group in demand.alike() {
        let Some(&first) = group.first() else { continue };
        let mut made = make(&demand, first)?;
        terms.add(&demand, first, group.len() as u64);
        placed.append(&mut made.placed);
        for device in group {
            hbms.extend(made.hbms.iter().map(|made| hbm(&demand, device, made)));
        }
    }
    let fits = hbms.iter().all(|hbm| hbm.refused.is_none());
    let used = || hbms.iter().filter(|hbm| !hbm.cores.is_empty());
    let spare = used().map(|hbm| hbm.main.left + hbm.small.left).min().unwrap_or(0);
    let site = &demand.site;
    let answer = Answer {
        fits,
        instance: site.instance.name.to_owned(),
        generation: site.generation.name().to_owned(),
        placement: ask.placement(),
        tp: ask.tp,
        lnc: site.lnc,
        cores: site.cores.len() as u32,
        devices: site.devices().len() as u32,
        short_bytes: hbms.iter().fold(0, |sum, hbm| hbm.short.saturating_add(sum)),
        spare_bytes: if fits { spare } else { 0 },
        models: models.iter().map(model).collect(),
        terms: terms.sorted(),
        costs: CostFacts {
            microcode: ask.costs.microcode,
            runtime: ask.costs.runtime,
            rings: ask.costs.rings,
            collectives: if demand.together() { ask.costs.collectives } else { 0 },
        },
        code_counted: ask.code.is_some(),
        align: ask.align,
        hbms,
        smallest_tp: search::smallest_tp(models, ask)?,
        smallest_instance: search::smallest_instance(models, ask)?,
    };
    Ok(Planned { answer, placed })
}

#[derive(Default)]
struct Terms(Vec<TermFacts>);

impl Terms {
    /// Adds what so many devices like this one want.
    fn add(&mut self, demand: &Demand<'_>, device: u32, devices: u64) {
        for block in demand.blocks(device) {
            let known = self.0.iter().position(|facts| facts.term == block.term);
            let position = known.unwrap_or(self.0.len());
            if known.is_none() {
                self.0.push(TermFacts { term: block.term, blocks: 0, bytes: 0 });
            }
            if let Some(facts) = self.0.get_mut(position) {
                facts.blocks += devices;
                facts.bytes = facts.bytes.saturating_add(block.bytes.saturating_mul(devices));
            }
        }
    }

    /// Largest first, else in the order of terms.
    fn sorted(mut self) -> Vec<TermFacts> {
        let order = |term| Term::ALL.iter().position(|one| *one == term);
        self.0.sort_by_key(|facts| (std::cmp::Reverse(facts.bytes), order(facts.term)));
        self.0
    }
}

fn hbm(demand: &Demand<'_>, device: u32, made: &MadeHbm) -> Hbm {
    let geometry = demand.site.geometry();
    let mut cores: Vec<u32> = demand.site.on(device).flat_map(|(_, core)| core.physical.clone()).collect();
    cores.retain(|&core| geometry.hbm_of_core(core) == Some(made.hbm));
    cores.sort_unstable();
    let refused = made.refused.as_ref().map(|(block, room)| Refused {
        term: block.term,
        name: demand.name(block),
        bytes: block.bytes,
        largest_hole: largest_hole(room),
    });
    // What is over in all, or what the refused block is over the hole it would have needed.
    let short = refused.as_ref().map_or(0, |refused| {
        let over = made.asked.saturating_sub(left(&made.before));
        over.max(pages(refused.bytes).saturating_sub(refused.largest_hole)).max(PAGE_SIZE)
    });
    Hbm {
        device,
        hbm: made.hbm,
        cores,
        size: geometry.hbm(made.hbm).map_or(0, |range| range.size),
        before: made.before.main.used + made.before.small.used,
        asked: made.asked,
        placed: made.placed,
        short,
        main: made.after.main.into(),
        small: made.after.small.into(),
        refused,
    }
}

fn model(model: &Model) -> ModelFacts {
    // `max_by_key` keeps the last of equals.
    let largest = model.tensors.iter().rev().max_by_key(|tensor| tensor.bytes).map(|tensor| TensorFacts {
        name: tensor.name.clone(),
        dtype: tensor.dtype.clone(),
        shape: tensor.shape.clone(),
        bytes: tensor.bytes,
    });
    ModelFacts {
        name: model.name.clone(),
        tensors: model.tensors.len() as u64,
        bytes: model.bytes(),
        largest,
    }
}
