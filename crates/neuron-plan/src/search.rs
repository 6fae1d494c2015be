//! What would fit instead: the smallest number of cores on the instance, and the smallest instance.

use neuron_ndl::software::{INSTANCES, Instance};

use crate::answer::Suggestion;
use crate::ask::{Ask, Placement};
use crate::cores::{choose, generation, hbm_bytes, logical_total};
use crate::demand::Demand;
use crate::device::{make, pages};
use crate::error::PlanError;
use crate::model::Model;

/// The smallest number of logical cores of the asked instance on which the models, sharded, fit.
pub(crate) fn smallest_tp(models: &[Model], ask: &Ask) -> Result<Option<u32>, PlanError> {
    let Some(instance) = Instance::by_name(&ask.instance) else { return Ok(None) };
    for ask in sharded(instance, ask)? {
        if fits(models, &ask)? {
            return Ok(ask.tp);
        }
    }
    Ok(None)
}

/// The instance with least HBM on which the models fit: as they were asked for, or sharded over the
/// fewest cores. Of instances of one size, the first in the catalogue.
pub(crate) fn smallest_instance(models: &[Model], ask: &Ask) -> Result<Option<Suggestion>, PlanError> {
    let mut instances =
        INSTANCES.iter().map(|one| Ok((hbm_bytes(one)?, one))).collect::<Result<Vec<_>, PlanError>>()?;
    instances.sort_by_key(|(bytes, _)| *bytes);
    let weights = models.iter().fold(0u64, |sum, model| sum.saturating_add(model.bytes()));
    for (bytes, instance) in instances.into_iter().filter(|(bytes, _)| weights <= *bytes) {
        let as_asked = on(instance, ask, ask.tp, ask.placement())?;
        for ask in std::iter::once(as_asked).chain(sharded(instance, ask)?) {
            if fits(models, &ask)? {
                return Ok(Some(Suggestion {
                    instance: instance.name.to_owned(),
                    hbm_bytes: bytes,
                    placement: ask.placement(),
                    tp: ask.tp,
                    lnc: ask.lnc,
                }));
            }
        }
    }
    Ok(None)
}

/// The same sharded over 1, 2, 4 ... logical cores, as far as the instance has them. Powers of two are
/// what the dimensions of models divide by (our choice).
fn sharded(instance: &'static Instance, ask: &Ask) -> Result<Vec<Ask>, PlanError> {
    let of = |tp| on(instance, &Ask { cores: None, ..ask.clone() }, Some(tp), Placement::Shard);
    let lnc = crate::cores::logical_size(instance, generation(instance)?, &of(1)?)?;
    let most = logical_total(instance, generation(instance)?, lnc);
    (0..u32::BITS).map(|power| 1 << power).take_while(|&tp| tp <= most).map(of).collect()
}

/// The same question on another instance, whose logical cores may be of one size only.
fn on(
    instance: &'static Instance,
    ask: &Ask,
    tp: Option<u32>,
    placement: Placement,
) -> Result<Ask, PlanError> {
    let pairs = generation(instance)? != neuron_abi::arch::Generation::V2;
    let lnc = ask.lnc.filter(|&lnc| pairs || lnc == 1);
    Ok(Ask { instance: instance.name.to_owned(), tp, lnc, placement: Some(placement), ..ask.clone() })
}

/// Whether the models fit. On what the instance does not have they do not.
fn fits(models: &[Model], ask: &Ask) -> Result<bool, PlanError> {
    let Ok(site) = choose(ask) else { return Ok(false) };
    let demand = Demand::new(models, ask, site);
    let alike = demand.alike();
    let first = || alike.iter().filter_map(|group| group.first().copied());
    // No device need be there to see that a sum is larger than an HBM.
    if first().any(|device| exceeds(&demand, device)) {
        return Ok(false);
    }
    for device in first() {
        if make(&demand, device)?.hbms.iter().any(|hbm| hbm.refused.is_some()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn exceeds(demand: &Demand<'_>, device: u32) -> bool {
    let geometry = demand.site.geometry();
    let mut wanted = vec![0u64; geometry.hbm.len()];
    for block in demand.blocks(device) {
        let hbm = geometry.hbm_of_core(block.core).unwrap_or(0) as usize;
        if let (Some(wanted), Some(hbm)) = (wanted.get_mut(hbm), geometry.hbm.get(hbm)) {
            *wanted = wanted.saturating_add(pages(block.bytes));
            if *wanted > hbm.size {
                return true;
            }
        }
    }
    false
}
