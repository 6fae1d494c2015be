//! One scenario: its pools, where each living allocation is in them, and what it counts.

use neuron_abi::memory::{Aggregate, MemLocation};

use crate::ledger::{Ledger, Slot};
use crate::meters::{CORES, Meter, Meters};
use crate::outcome::{Cause, ColumnOutcome, CorePeak, HbmPeak, Holder, Peak, Refusal, Sample};
use crate::pools::{Block, Hbm};
use crate::samples::Samples;
use crate::scenario::{Order, Scenario};

/// Refusals that are told in full; the rest is counted (our choice).
const TOLD: usize = 10;
/// Holders that a refusal names.
const HOLDERS: usize = 5;
/// Largest alignment of device memory (`spec/mempool.md` 3.1).
const MAX_ALIGN: u64 = (1 << 31) - 1;
/// Allocations that are put in order at a time (our choice).
const RUN: usize = 1 << 16;

/// A scenario that runs.
#[derive(Debug)]
pub(crate) struct Column {
    scenario: Scenario,
    /// HBM h of device d at d x (HBMs of a device) + h.
    hbms: Vec<Hbm>,
    taken: Vec<Meter>,
    /// By slot.
    places: Vec<Place>,
    pub(crate) meters: Meters,
    /// A run of allocations that waits to be put in order.
    run: Vec<u32>,
    refused: u64,
    refused_bytes: u64,
    told: Vec<Refusal>,
    would_be_served: u64,
    same_address: u64,
    other_address: u64,
    worst: (u64, u64),
    /// Where most device memory was in use first.
    peak_line: u64,
    samples: Samples<Sample>,
}

/// Where an allocation is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Nowhere,
    Host,
    Device { hbm: u32, block: Block },
}

/// What a refusal tells of the time when it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) loading: Option<String>,
    pub(crate) mark: Option<String>,
}

/// Fragmentation in millionths.
const WHOLE: u64 = 1_000_000;

fn fragmentation(hbm: &Hbm) -> u64 {
    let [(free, largest), _] = hbm.room();
    // Below 2^44 bytes, so that nothing overflows.
    (largest * WHOLE).checked_div(free).map_or(0, |whole| WHOLE - whole)
}

fn hint_of(slot: &Slot) -> &str {
    slot.hint.as_deref().unwrap_or("-")
}

fn share(millionths: u64) -> f64 {
    millionths as f64 / WHOLE as f64
}

impl Column {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let devices = scenario.instance().devices;
        let of_device = || scenario.geometry().hbm.iter();
        let hbms: Vec<Hbm> = (0..devices)
            .flat_map(|_| of_device())
            .map(|&range| Hbm::new(range, scenario.params(), scenario.fit(), scenario.page()))
            .collect();
        Self {
            scenario: scenario.clone(),
            taken: vec![Meter::default(); hbms.len()],
            hbms,
            places: Vec::new(),
            meters: Meters::new(devices),
            run: Vec::new(),
            refused: 0,
            refused_bytes: 0,
            told: Vec::new(),
            would_be_served: 0,
            same_address: 0,
            other_address: 0,
            worst: (0, 0),
            peak_line: 0,
            samples: Samples::new(),
        }
    }

    /// Allocations that were refused.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes taken on an HBM of a device, whole pages.
    pub(crate) fn taken_on(&self, device: u8, hbm: u32) -> u64 {
        let taken = self.hbm_index(device, hbm).ok().and_then(|index| self.taken.get(index));
        taken.map_or(0, |meter| meter.now)
    }

    /// Whether anything was on an HBM of a device, ever.
    pub(crate) fn was_used(&self, device: u8, hbm: u32) -> bool {
        let taken = self.hbm_index(device, hbm).ok().and_then(|index| self.taken.get(index));
        taken.is_some_and(|meter| meter.peak > 0)
    }

    /// What is on an HBM of a device, with its slot.
    pub(crate) fn blocks<'a>(
        &'a self,
        ledger: &'a Ledger,
        device: u8,
        hbm: u32,
    ) -> impl Iterator<Item = (Block, &'a Slot)> {
        let here = self.hbm_index(device, hbm).ok();
        ledger.living().filter_map(move |(index, slot)| match self.places.get(index as usize)? {
            Place::Device { hbm, block } if Some(*hbm as usize) == here => Some((*block, slot)),
            _ => None,
        })
    }

    /// Serves what has just been put in the ledger, now or with its run.
    pub(crate) fn allocate(&mut self, ledger: &Ledger, index: u32, context: &Context) {
        if self.places.len() <= index as usize {
            self.places.resize(index as usize + 1, Place::Nowhere);
        }
        match self.scenario.order() {
            Order::Trace => self.serve(ledger, index, context),
            Order::LargestFirst | Order::SmallestFirst => {
                self.run.push(index);
                if self.run.len() == RUN {
                    self.end_run(ledger, context);
                }
            }
        }
    }

    /// Serves what waits: something that is no allocation comes.
    pub(crate) fn end_run(&mut self, ledger: &Ledger, context: &Context) {
        if self.run.is_empty() {
            return;
        }
        let mut run = std::mem::take(&mut self.run);
        let size = |index: &u32| ledger.slot(*index).map_or(0, |slot| slot.size);
        match self.scenario.order() {
            Order::LargestFirst => run.sort_by_key(|index| std::cmp::Reverse(size(index))),
            Order::SmallestFirst => run.sort_by_key(size),
            Order::Trace => {}
        }
        for index in run.drain(..) {
            self.serve(ledger, index, context);
        }
        self.run = run;
    }

    fn serve(&mut self, ledger: &Ledger, index: u32, context: &Context) {
        let Some(slot) = ledger.slot(index) else { return };
        let place = match self.place(slot) {
            Ok(place) => place,
            Err(cause) => {
                self.refuse(ledger, slot, cause, context, false);
                Place::Nowhere
            }
        };
        match place {
            Place::Nowhere => {}
            Place::Host => self.meters.each(slot, Meter::add),
            Place::Device { hbm, block } => {
                let before = self.meters.device.peak;
                self.meters.each(slot, Meter::add);
                if self.meters.device.peak > before {
                    self.peak_line = slot.line;
                }
                if let Some(taken) = self.taken.get_mut(hbm as usize) {
                    taken.add(block.bytes());
                }
                match slot.pa {
                    Some(pa) if pa == block.pa() => self.same_address += 1,
                    Some(_) => self.other_address += 1,
                    None => {}
                }
                self.fragmented(hbm, slot.line);
            }
        }
        if let Some(known) = self.places.get_mut(index as usize) {
            *known = place;
        }
        self.sample(slot.line);
    }

    /// Tries what was refused when it was recorded: it is given back at once.
    pub(crate) fn attempt(&mut self, ledger: &Ledger, slot: &Slot, context: &Context) {
        self.end_run(ledger, context);
        match self.place(slot) {
            Ok(place) => {
                self.would_be_served += 1;
                self.give(place);
            }
            Err(cause) => self.refuse(ledger, slot, cause, context, true),
        }
    }

    /// Frees what is in a slot, on this line.
    pub(crate) fn free(&mut self, ledger: &Ledger, index: u32, line: u64) {
        let Some(known) = self.places.get_mut(index as usize) else { return };
        let place = std::mem::replace(known, Place::Nowhere);
        let Some(slot) = ledger.slot(index) else { return };
        if !matches!(place, Place::Nowhere) {
            self.meters.each(slot, Meter::sub);
        }
        if let Place::Device { hbm, block } = place {
            if let Some(taken) = self.taken.get_mut(hbm as usize) {
                taken.sub(block.bytes());
            }
            self.give(place);
            self.fragmented(hbm, line);
        }
        self.sample(line);
    }

    fn give(&mut self, place: Place) {
        if let Place::Device { hbm, block } = place
            && let Some(hbm) = self.hbms.get_mut(hbm as usize)
        {
            hbm.free(block);
        }
    }

    fn hbm_index(&self, device: u8, hbm: u32) -> Result<usize, Cause> {
        if device >= self.scenario.instance().devices {
            return Err(Cause::NoDevice);
        }
        let of_device = self.scenario.geometry().hbm.len();
        let hbm = usize::try_from(hbm).ok().filter(|&hbm| hbm < of_device).ok_or(Cause::NoHbm)?;
        Ok(usize::from(device) * of_device + hbm)
    }

    /// As the driver: checks in its order, then the pools (`spec/mempool.md` 3).
    fn place(&mut self, slot: &Slot) -> Result<Place, Cause> {
        if slot.size > i64::MAX as u64 {
            return Err(Cause::TooLarge);
        }
        let index = self.hbm_index(slot.device, slot.hbm)?;
        if slot.core >= CORES {
            return Err(Cause::NoCore);
        }
        if slot.location == MemLocation::Host {
            return match slot {
                Slot { align: 0, size: 0, .. } => Err(Cause::ZeroBytes),
                Slot { align: 0, .. } => Ok(Place::Host),
                _ => Err(Cause::BadAlignment),
            };
        }
        let align = self.scenario.align(slot.align);
        if align > MAX_ALIGN {
            return Err(Cause::BadAlignment);
        }
        if slot.size == 0 {
            return Err(Cause::ZeroBytes);
        }
        let hbm = self.hbms.get_mut(index).ok_or(Cause::NoHbm)?;
        if let Some(block) = hbm.allocate(slot.size, align) {
            return Ok(Place::Device { hbm: index as u32, block });
        }
        let room = hbm.room();
        let (free, largest) = (room[0].0 + room[1].0, room[0].1.max(room[1].1));
        let taken = hbm.taken(slot.size);
        Err(if taken > free {
            Cause::Full
        } else if taken > largest {
            Cause::Fragmented
        } else {
            Cause::Alignment
        })
    }

    fn refuse(&mut self, ledger: &Ledger, slot: &Slot, cause: Cause, context: &Context, recorded: bool) {
        self.refused += 1;
        self.refused_bytes = self.refused_bytes.saturating_add(slot.size);
        if self.told.len() == TOLD {
            return;
        }
        let align = match slot.location {
            MemLocation::Host => slot.align,
            _ => self.scenario.align(slot.align),
        };
        let index = self.hbm_index(slot.device, slot.hbm).ok();
        let hbm = index.and_then(|index| self.hbms.get(index)).filter(|_| slot.location != MemLocation::Host);
        let (mut free, mut largest_hole, mut largest_aligned, mut missing) = (0, 0, 0, 0);
        if let Some(hbm) = hbm {
            let [main, small] = hbm.room();
            (free, largest_hole) = (main.0 + small.0, main.1.max(small.1));
            if matches!(cause, Cause::Full | Cause::Fragmented | Cause::Alignment) {
                largest_aligned = hbm.largest_at(align);
                missing = hbm.taken(slot.size).saturating_sub(largest_aligned);
            }
        }
        let holders = |by: &dyn Fn(&Slot) -> String| {
            let mut holders: std::collections::BTreeMap<String, (u64, u64)> = Default::default();
            for (at, slot) in ledger.living() {
                let here = match self.places.get(at as usize) {
                    Some(Place::Device { hbm, .. }) => Some(*hbm as usize) == index,
                    _ => false,
                };
                if here {
                    let (bytes, count) = holders.entry(by(slot)).or_default();
                    *bytes += slot.size;
                    *count += 1;
                }
            }
            let mut holders: Vec<Holder> =
                holders.into_iter().map(|(name, (bytes, count))| Holder { name, bytes, count }).collect();
            holders.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
            holders.truncate(HOLDERS);
            holders
        };
        let refusal = Refusal {
            line: slot.line,
            id: slot.id,
            recorded,
            cause,
            size: slot.size,
            align,
            device: slot.device,
            hbm: slot.hbm,
            core: slot.core,
            usage: slot.usage.name(),
            owner: ledger.owners.text(slot.owner).to_owned(),
            hint: hint_of(slot).to_owned(),
            free,
            largest_hole,
            largest_aligned,
            missing,
            top_owners: holders(&|slot| ledger.owners.text(slot.owner).to_owned()),
            top_hints: holders(&|slot| hint_of(slot).to_owned()),
            loading: context.loading.clone(),
            after_mark: context.mark.clone(),
        };
        self.told.push(refusal);
    }

    fn fragmented(&mut self, hbm: u32, line: u64) {
        let now = self.hbms.get(hbm as usize).map_or(0, fragmentation);
        if now > self.worst.0 {
            self.worst = (now, line);
        }
    }

    fn sample(&mut self, line: u64) {
        let (hbms, device_bytes) = (&self.hbms, self.meters.device.now);
        self.samples.offer(|| {
            let worst = hbms.iter().map(fragmentation).max().unwrap_or(0);
            Sample { line, device_bytes, fragmentation: share(worst) }
        });
    }

    pub(crate) fn finish(self, ledger: &Ledger) -> ColumnOutcome {
        let peak = |(name, meter): (String, &Meter)| Peak { name, bytes: meter.peak };
        let of_device = self.scenario.geometry().hbm.len().max(1);
        let mut owners: Vec<Peak> = (0..)
            .zip(&self.meters.owners)
            .map(|(symbol, meter)| peak((ledger.owners.text(symbol).to_owned(), meter)))
            .collect();
        owners.retain(|peak| peak.bytes > 0);
        owners.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        let mut categories: Vec<Peak> = Aggregate::ALL
            .iter()
            .zip(&self.meters.categories)
            .map(|(category, meter)| peak((category.name().to_owned(), meter)))
            .collect();
        categories.retain(|peak| peak.bytes > 0);
        let cores = self.meters.cores.iter().enumerate().filter(|(_, meter)| meter.peak > 0);
        let per_device = CORES as usize;
        let cores = cores.map(|(at, meter)| CorePeak {
            device: (at / per_device) as u8,
            core: (at % per_device) as u32,
            bytes: meter.peak,
        });
        let hbms =
            self.taken.iter().enumerate().filter(|(_, meter)| meter.peak > 0).filter_map(|(at, meter)| {
                let size = self.scenario.geometry().hbm.get(at % of_device)?.size;
                let (device, hbm) = ((at / of_device) as u8, (at % of_device) as u32);
                Some(HbmPeak { device, hbm, bytes: meter.peak, size })
            });
        ColumnOutcome {
            refused: self.refused,
            refused_bytes: self.refused_bytes,
            would_be_served: self.would_be_served,
            same_address: self.same_address,
            other_address: self.other_address,
            peak_device_bytes: self.meters.device.peak,
            peak_line: self.peak_line,
            peak_host_bytes: self.meters.host.peak,
            categories,
            cores: cores.collect(),
            hbms: hbms.collect(),
            owners,
            worst_fragmentation: share(self.worst.0),
            worst_line: self.worst.1,
            end_fragmentation: share(self.hbms.iter().map(fragmentation).max().unwrap_or(0)),
            instance: self.scenario.instance().name.to_owned(),
            scenario: self.scenario.name,
            refusals: self.told,
            samples: self.samples.into_kept(),
        }
    }
}
