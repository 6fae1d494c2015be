//! Taking a report on the allocator's error path: from the driver's list of chunks, this
//! process's counters, and the handles that live. Nothing here fails; what cannot be had is
//! missing from the report.

use neuron_abi::arch::HbmRange;

use super::bytes::UsageBytes;
use super::column::PRINTED_ORDER;
use super::hints::by_hint;
use super::records::Chunk;
use super::snapshot::{
    Asked, CategoryGrowth, Cause, CoreUsage, Growth, HbmState, Hints, ModelUsage, OomReport,
};
use super::time::Time;
use crate::device::DeviceMemory;
use crate::owners::{Load, Owner};
use crate::room::Room;
use crate::usage::Usage;

impl OomReport {
    /// The report of a refused request for device memory if `asked` names an HBM, else for
    /// host memory.
    pub(crate) fn capture(memory: &DeviceMemory, asked: Asked) -> Self {
        let hbm = asked.hbm.map(|hbm| state(memory, hbm, asked.align));
        let cause = hbm.as_ref().map_or_else(|| Cause::host(&asked), |state| Cause::device(&asked, state));
        Self {
            time: Time::now(),
            device: memory.device().facts().index,
            request: asked,
            cause,
            hbm,
            retries: 0,
        }
    }
}

fn state(memory: &DeviceMemory, hbm: u32, align: u64) -> HbmState {
    let device = memory.device();
    let geometry = device.geometry();
    // First of all: it shows why the driver refused, while other threads go on freeing.
    let chunks = geometry.hbm(hbm).and_then(|range| Some((range, device.chunks(hbm).ok()?)));
    let usage = memory.usage();
    let owners = memory.owners().living();
    let room = chunks.as_ref().map(|(range, chunks)| Room::from_chunks(hbm, range, chunks, align));
    let cores: Vec<u32> =
        (0..geometry.cores).filter(|core| geometry.hbm_of_core(*core) == Some(hbm)).collect();
    HbmState {
        hbm,
        lnc_size: 1,
        growth: memory.owners().last_load(&cores).map(|load| growth(&load, &cores, &usage)),
        cores: cores.iter().map(|&core| core_usage(core, &usage, &owners)).collect(),
        others: room.zip(chunks.as_ref()).map(|(room, (range, _))| others(&room, range, usage.channel(hbm))),
        hints: hints(hbm, usage.channel(hbm), &owners),
        chunks: chunks.map(|(_, chunks)| chunks).unwrap_or_default().into_iter().map(chunk).collect(),
        room,
    }
}

fn chunk(entry: neuron_abi::arg::MemChunkEntry) -> Chunk {
    Chunk { pa: entry.pa, size: entry.size, category: entry.mem_type }
}

fn others(room: &Room, range: &HbmRange, own: u64) -> u64 {
    let reserve = range.firmware_reserve();
    let used = room.main.used.saturating_add(room.small.used);
    used.saturating_sub(reserve.end - reserve.start).saturating_sub(own)
}

pub(crate) fn core_bytes(usage: &Usage, core: u32) -> UsageBytes {
    UsageBytes::of(|usage_type| usage.core_usage(core, usage_type))
}

fn core_usage(core: u32, usage: &Usage, owners: &[Owner]) -> CoreUsage {
    let of_core = owners.iter().filter(|owner| owner.core == core);
    let models = of_core.filter_map(|owner| {
        let mut bytes = UsageBytes::default();
        owner.live.iter().filter(|held| !held.host).for_each(|held| bytes.add(held.usage, held.bytes));
        Some(ModelUsage { model: owner.model.clone()?, bytes })
    });
    CoreUsage { core, bytes: core_bytes(usage, core), models: models.collect() }
}

fn hints(hbm: u32, counted: u64, owners: &[Owner]) -> Hints {
    let held = owners.iter().flat_map(|owner| &owner.live).filter(|held| !held.host && held.hbm == hbm);
    let mut hints = by_hint(held);
    let named = hints.biggest.iter().fold(hints.other_bytes, |sum, hint| sum.saturating_add(hint.bytes));
    hints.unlisted_bytes = counted.saturating_sub(named);
    hints
}

fn growth(load: &Load, cores: &[u32], usage: &Usage) -> Growth {
    let (mut before, mut after) = (UsageBytes::default(), UsageBytes::default());
    for &core in cores {
        before.add_all(&load.before(core));
        after.add_all(&core_bytes(usage, core));
    }
    let categories = PRINTED_ORDER.into_iter().map(|category| CategoryGrowth {
        category,
        bytes: change(before.category(category), after.category(category)),
    });
    Growth {
        since: load.model.clone(),
        bytes: change(before.total(), after.total()),
        categories: categories.filter(|change| change.bytes != 0).collect(),
    }
}

/// An HBM's bytes fit into 63 bits; what does not saturates.
fn change(before: u64, after: u64) -> i64 {
    let size = i64::try_from(before.abs_diff(after)).unwrap_or(i64::MAX);
    if after >= before { size } else { -size }
}
