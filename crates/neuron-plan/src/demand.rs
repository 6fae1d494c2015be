//! Every block that is wanted of a device, in the order in which they are allocated: first all
//! tensors, in the order of `load`, so that they get the addresses that `load` gives them, then
//! what is beside them (our choice: the order of a runtime is not known, and what does not move is
//! whether they fit).

use crate::ask::{Ask, Placement};
use crate::cores::{LogicalCore, Site};
use crate::model::Model;
use crate::spread::spread;
use crate::term::Term;

/// One allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What for.
    pub term: Term,
    /// Positions of model and tensor, if it is (part of) one.
    pub tensor: Option<(usize, usize)>,
    /// Physical core of its device.
    pub core: u32,
    /// Bytes asked for.
    pub bytes: u64,
}

/// What is wanted of all devices.
pub(crate) struct Demand<'a> {
    models: &'a [Model],
    ask: &'a Ask,
    pub(crate) site: Site,
    /// Where each tensor of each model goes, if each goes to one core.
    places: Vec<Vec<usize>>,
}

impl<'a> Demand<'a> {
    pub(crate) fn new(models: &'a [Model], ask: &'a Ask, site: Site) -> Self {
        let places = match ask.placement() {
            Placement::RoundRobin => models
                .iter()
                .map(|model| {
                    let sizes: Vec<u64> = model.tensors.iter().map(|tensor| tensor.bytes).collect();
                    spread(&sizes, site.cores.len())
                })
                .collect(),
            Placement::Shard | Placement::Replicate => Vec::new(),
        };
        Self { models, ask, site, places }
    }

    /// Devices, those together of which the same is wanted.
    pub(crate) fn alike(&self) -> Vec<Vec<u32>> {
        let cores = |device| self.site.on(device).map(|(_, core)| core.physical.clone()).collect::<Vec<_>>();
        let mut groups: Vec<(Vec<Vec<u32>>, Vec<u32>)> = Vec::new();
        for device in self.site.devices() {
            let wanted = cores(device);
            match groups.last_mut() {
                Some((known, group)) if self.places.is_empty() && *known == wanted => group.push(device),
                _ => groups.push((wanted, vec![device])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// What is wanted of a device. Nothing of 0 bytes is.
    pub(crate) fn blocks(&self, device: u32) -> Vec<Block> {
        let mut blocks = Vec::new();
        let logical: Vec<(usize, &LogicalCore)> = self.site.on(device).collect();
        let mut want = |term, tensor, core, bytes| {
            if bytes > 0 {
                blocks.push(Block { term, tensor, core, bytes });
            }
        };
        for (m, model) in self.models.iter().enumerate() {
            for (t, tensor) in model.tensors.iter().enumerate() {
                let only = self.places.get(m).and_then(|places| places.get(t));
                let bytes = match self.ask.placement() {
                    Placement::Shard => tensor.shard(self.site.cores.len() as u64),
                    Placement::Replicate | Placement::RoundRobin => tensor.bytes,
                };
                for (position, core) in &logical {
                    if only.is_none_or(|only| only == position) {
                        want(Term::Weights, Some((m, t)), core.first(), bytes);
                    }
                }
            }
        }
        let mut pairs = Vec::new();
        for (_, core) in &logical {
            want(Term::KvCache, None, core.first(), self.kv());
            want(Term::SharedScratchpad, None, core.first(), self.ask.scratchpad_page);
            want(Term::PrivateScratchpad, None, core.first(), self.ask.scratchpad_private);
            want(Term::Code, None, core.first(), self.ask.code.unwrap_or(0));
            for &physical in &core.physical {
                let costs = self.ask.costs;
                want(Term::Microcode, None, physical, costs.microcode);
                want(Term::Runtime, None, physical, costs.runtime);
                want(Term::Rings, None, physical, costs.rings);
                if self.together() && !pairs.contains(&(physical / 2)) {
                    pairs.push(physical / 2);
                    want(Term::Collectives, None, physical, costs.collectives);
                }
            }
        }
        blocks
    }

    /// KV cache of each logical core.
    fn kv(&self) -> u64 {
        match self.ask.placement() {
            Placement::Replicate => self.ask.kv,
            Placement::Shard | Placement::RoundRobin => {
                self.ask.kv.div_ceil(self.site.cores.len().max(1) as u64)
            }
        }
    }

    /// Whether cores work together, and so need collectives: where they share tensors (our choice).
    pub(crate) fn together(&self) -> bool {
        self.ask.placement() == Placement::Shard && self.site.cores.len() > 1
    }

    /// What a block is, for people.
    pub(crate) fn name(&self, block: &Block) -> String {
        let tensor = block.tensor.and_then(|(m, t)| self.models.get(m)?.tensors.get(t));
        tensor.map_or_else(|| block.term.name().to_owned(), |tensor| format!("tensor {}", tensor.name))
    }

    pub(crate) fn models(&self) -> &'a [Model] {
        self.models
    }

    pub(crate) fn ask(&self) -> &'a Ask {
        self.ask
    }
}

impl LogicalCore {
    /// The physical core that its memory is allocated for.
    pub(crate) fn first(&self) -> u32 {
        self.physical.first().copied().unwrap_or(0)
    }
}
