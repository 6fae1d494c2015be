//! Which cores are used: logical ones, of one or two physical ones each, device by device.

use neuron_abi::arch::{Generation, Geometry, Product, VENDOR_ID};
use neuron_ndl::software::{INSTANCES, Instance, MachineError};

use crate::ask::{Ask, Placement};
use crate::error::PlanError;

/// A logical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogicalCore {
    pub(crate) device: u32,
    /// Its physical cores on that device; the first is the one that its tensors are allocated for.
    pub(crate) physical: Vec<u32>,
}

/// An instance type and what is used of it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) instance: &'static Instance,
    pub(crate) generation: Generation,
    /// Physical cores of a logical one.
    pub(crate) lnc: u32,
    pub(crate) cores: Vec<LogicalCore>,
}

impl Site {
    pub(crate) fn geometry(&self) -> &'static Geometry {
        self.generation.geometry()
    }

    /// Devices in use, ascending.
    pub(crate) fn devices(&self) -> Vec<u32> {
        let mut devices: Vec<u32> = self.cores.iter().map(|core| core.device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Positions of the logical cores that are on a device.
    pub(crate) fn on(&self, device: u32) -> impl Iterator<Item = (usize, &LogicalCore)> {
        self.cores.iter().enumerate().filter(move |(_, core)| core.device == device)
    }
}

/// The generation of an instance's devices.
pub(crate) fn generation(instance: &Instance) -> Result<Generation, PlanError> {
    Product::from_pci(VENDOR_ID, instance.product.device_id())
        .map(|product| product.generation)
        .ok_or_else(|| MachineError::UnknownInstance(instance.name.to_owned()).into())
}

/// Bytes of all HBMs of an instance.
pub(crate) fn hbm_bytes(instance: &Instance) -> Result<u64, PlanError> {
    let device: u64 = generation(instance)?.geometry().hbm.iter().map(|hbm| hbm.size).sum();
    Ok(device * u64::from(instance.devices))
}

/// Logical cores of an instance.
pub(crate) fn logical_total(instance: &Instance, generation: Generation, lnc: u32) -> u32 {
    u32::from(instance.devices) * (generation.geometry().cores / lnc.max(1))
}

/// Physical cores of a logical one.
pub(crate) fn logical_size(
    instance: &'static Instance,
    generation: Generation,
    ask: &Ask,
) -> Result<u32, PlanError> {
    match (generation, ask.lnc) {
        (_, Some(size)) if size != 1 && size != 2 => Err(PlanError::Lnc(size)),
        (Generation::V2, Some(2)) => Err(PlanError::NoPairs { instance: instance.name }),
        (_, Some(size)) => Ok(size),
        (Generation::V2, None) => Ok(1),
        (_, None) if ask.tp.is_none() && ask.placement() == Placement::RoundRobin => Ok(1),
        (_, None) => Ok(2),
    }
}

/// Holds what is asked against the instance.
pub(crate) fn choose(ask: &Ask) -> Result<Site, PlanError> {
    let unknown = || MachineError::UnknownInstance(ask.instance.clone());
    let instance = Instance::by_name(&ask.instance).ok_or_else(unknown)?;
    let generation = generation(instance)?;
    let lnc = logical_size(instance, generation, ask)?;
    if ask.tp == Some(0) {
        return Err(PlanError::NoCores);
    }
    let cores = match &ask.cores {
        Some(physical) => named(instance, generation, lnc, physical, ask.tp)?,
        None => first(instance, generation, lnc, ask)?,
    };
    Ok(Site { instance, generation, lnc, cores })
}

/// The first `tp` logical cores, device by device; without a `tp`, those of the first device.
fn first(
    instance: &'static Instance,
    generation: Generation,
    lnc: u32,
    ask: &Ask,
) -> Result<Vec<LogicalCore>, PlanError> {
    let each = generation.geometry().cores / lnc;
    let (has, asked) = (logical_total(instance, generation, lnc), ask.tp.unwrap_or(each));
    if asked > has {
        return Err(PlanError::TooManyCores {
            instance: instance.name,
            has,
            lnc,
            asked,
            enough: enough(ask),
        });
    }
    let logical = |core: u32| {
        let first = core % each * lnc;
        LogicalCore { device: core / each, physical: (first..first + lnc).collect() }
    };
    Ok((0..asked).map(logical).collect())
}

/// Instance types on which the same question has enough cores.
fn enough(ask: &Ask) -> Vec<&'static str> {
    let has = |instance: &&'static Instance| {
        let generation = generation(instance).ok()?;
        let lnc = logical_size(instance, generation, ask).ok()?;
        (logical_total(instance, generation, lnc) >= ask.tp?).then_some(())
    };
    INSTANCES.iter().filter(|instance| has(instance).is_some()).map(|instance| instance.name).collect()
}

/// Physical cores of the first device, put together to logical ones in the order of their first.
fn named(
    instance: &'static Instance,
    generation: Generation,
    lnc: u32,
    physical: &[u32],
    tp: Option<u32>,
) -> Result<Vec<LogicalCore>, PlanError> {
    let cores = generation.geometry().cores;
    let mut logical: Vec<LogicalCore> = Vec::new();
    for (position, &core) in physical.iter().enumerate() {
        if core >= cores {
            return Err(PlanError::NoCore { instance: instance.name, core, cores });
        }
        if physical.iter().take(position).any(|&before| before == core) {
            return Err(PlanError::Twice(core));
        }
        let first = core - core % lnc;
        let all: Vec<u32> = (first..first + lnc).collect();
        if let Some(&missing) = all.iter().find(|one| !physical.contains(one)) {
            return Err(PlanError::HalfCore { missing });
        }
        if !logical.iter().any(|known| known.physical == all) {
            logical.push(LogicalCore { device: 0, physical: all });
        }
    }
    let named = logical.len() as u32;
    match tp {
        _ if named == 0 => Err(PlanError::NoCores),
        Some(asked) if asked != named => Err(PlanError::Differ { named, lnc, asked }),
        _ => Ok(logical),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(ask: &Ask) -> Vec<(u32, Vec<u32>)> {
        choose(ask).unwrap().cores.into_iter().map(|core| (core.device, core.physical)).collect()
    }

    #[test]
    fn without_a_number_of_cores_the_first_devices_are_used_as_load_does() {
        assert_eq!(cores(&Ask::on("trn1.32xlarge")), [(0, vec![0]), (0, vec![1])]);
        assert_eq!(cores(&Ask::on("trn2.48xlarge")).len(), 8);
        let shard = Ask { placement: Some(Placement::Shard), ..Ask::on("trn2.48xlarge") };
        assert_eq!(cores(&shard), [(0, vec![0, 1]), (0, vec![2, 3]), (0, vec![4, 5]), (0, vec![6, 7])]);
    }

    #[test]
    fn more_cores_than_a_device_has_go_on_with_the_next() {
        let ask = Ask { tp: Some(3), ..Ask::on("trn1.32xlarge") };
        assert_eq!(cores(&ask), [(0, vec![0]), (0, vec![1]), (1, vec![0])]);
        let ask = Ask { tp: Some(5), ..Ask::on("trn2.48xlarge") };
        assert_eq!(cores(&ask).last(), Some(&(1, vec![0, 1])));
        let ask = Ask { lnc: Some(1), ..ask };
        assert_eq!(cores(&ask).last(), Some(&(0, vec![4])));
    }

    #[test]
    fn named_cores_keep_their_order_and_have_to_be_whole() {
        let ask = Ask { cores: Some(vec![3, 0]), ..Ask::on("trn2.3xlarge") };
        assert_eq!(cores(&ask), [(0, vec![3]), (0, vec![0])]);
        let pairs = |list: &[u32]| Ask { lnc: Some(2), cores: Some(list.to_vec()), ..ask.clone() };
        assert_eq!(cores(&pairs(&[5, 4, 0, 1])), [(0, vec![4, 5]), (0, vec![0, 1])]);
        assert!(matches!(choose(&pairs(&[4, 5, 7])), Err(PlanError::HalfCore { missing: 6 })));
        assert!(matches!(choose(&pairs(&[])), Err(PlanError::NoCores)));
        let differ = Ask { tp: Some(2), ..pairs(&[4, 5]) };
        assert!(matches!(choose(&differ), Err(PlanError::Differ { named: 1, lnc: 2, asked: 2 })));
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let fail = |ask: &Ask| choose(ask).unwrap_err().to_string();
        let ask = Ask { tp: Some(64), ..Ask::on("trn1.32xlarge") };
        assert_eq!(fail(&ask), "trn1.32xlarge has 32 logical cores of 1, not 64; as many has trn2.48xlarge");
        let ask = Ask { tp: Some(u32::MAX), ..ask };
        assert!(fail(&ask).ends_with("no instance has as many"), "{}", fail(&ask));
        assert!(matches!(choose(&Ask { tp: Some(0), ..ask }), Err(PlanError::NoCores)));
        let ask = Ask { cores: Some(vec![2]), ..Ask::on("trn1.2xlarge") };
        assert!(fail(&ask).ends_with("it has cores 0 to 1"));
        let ask = Ask { cores: Some(vec![1, 1]), ..ask };
        assert_eq!(fail(&ask), "core 1 is named twice");
        assert!(matches!(choose(&Ask { lnc: Some(3), ..Ask::on("trn2.3xlarge") }), Err(PlanError::Lnc(3))));
        assert!(fail(&Ask { lnc: Some(2), ..Ask::on("inf2.xlarge") }).contains("one physical core only"));
        assert!(fail(&Ask::on("trn9.huge")).contains("known: inf2.xlarge"));
    }
}
