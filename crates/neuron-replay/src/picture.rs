//! Where every block is behind one line of a trace, and how memory was used on the whole way: what a
//! picture shows. A run of its own, for which line it is, a run tells.

use std::io::BufRead;

use neuron_abi::arch::HbmRange;
use neuron_abi::memory::Aggregate;

use crate::ledger::Slot;
use crate::pools::Block;
use crate::replay::{Options, Replay};
use crate::samples::Samples;
use crate::scenario::Scenario;
use crate::trace::{Event, Reader, TraceError};

/// A trace and a scenario, at one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The line; the last one if the trace ends before it.
    pub line: u64,
    /// HBMs on which there is something, or was before.
    pub hbms: Vec<HbmPicture>,
    /// Categories that were ever in use.
    pub categories: Vec<&'static str>,
    /// Device memory in use over the whole trace: evenly sampled, and behind the line and the peak.
    pub steps: Vec<Step>,
}

/// An HBM.
#[derive(Clone, Debug, PartialEq)]
pub struct HbmPicture {
    /// Index of the device.
    pub device: u8,
    /// Index of the HBM in the device.
    pub hbm: u32,
    /// Its addresses.
    pub range: HbmRange,
    /// What is there, but for the firmware's reserve at its start.
    pub blocks: Vec<Held>,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Physical address.
    pub pa: u64,
    /// Bytes, whole pages.
    pub bytes: u64,
    /// Category of reports.
    pub category: &'static str,
    /// Who has it.
    pub owner: String,
    /// What it is called.
    pub hint: String,
}

/// Memory in use behind a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line.
    pub line: u64,
    /// Bytes of each of the picture's categories.
    pub bytes: Vec<u64>,
}

/// Runs a trace and keeps what is there behind a line. `peak` is the line on which most is in use.
///
/// # Errors
/// [`TraceError`] with line and column.
pub fn picture<R: BufRead>(
    reader: &mut Reader<R>,
    scenario: &Scenario,
    line: u64,
    peak: u64,
) -> Result<Picture, TraceError> {
    let mut replay = Replay::new(std::slice::from_ref(scenario), Options::default());
    let (mut samples, mut marked, mut hbms, mut last) = (Samples::new(), Vec::new(), None, 0);
    loop {
        let at = reader.line() + 1;
        let Some(event) = reader.next_event()? else { break };
        let moves = matches!(event, Event::Alloc(_) | Event::Free { .. } | Event::Exit { .. });
        let applied = replay.apply(at, &event);
        applied.map_err(|wrong| reader.wrong(&wrong))?;
        last = at;
        if let Some(column) = replay.first().filter(|_| moves) {
            let now = || (at, column.meters.categories.map(|meter| meter.now));
            samples.offer(now);
            if [line, peak].contains(&at) {
                marked.push(now());
            }
        }
        if at == line {
            hbms = Some(taken(&replay, scenario));
        }
    }
    let (line, hbms) = hbms.map_or_else(|| (last, taken(&replay, scenario)), |hbms| (line, hbms));
    let used = |category: &&Aggregate| {
        replay.first().is_some_and(|column| column.meters.categories[category.index()].peak > 0)
    };
    let categories: Vec<Aggregate> = Aggregate::ALL.iter().filter(used).copied().collect();
    let step = |(line, bytes): (u64, [u64; Aggregate::COUNT])| Step {
        line,
        bytes: categories.iter().map(|category| bytes[category.index()]).collect(),
    };
    let mut steps: Vec<Step> = samples.into_kept().into_iter().chain(marked).map(step).collect();
    steps.sort_by_key(|step| step.line);
    steps.dedup();
    Ok(Picture { line, hbms, categories: categories.iter().map(|it| it.name()).collect(), steps })
}

fn taken(replay: &Replay, scenario: &Scenario) -> Vec<HbmPicture> {
    let Some(column) = replay.first() else { return Vec::new() };
    let held = |(block, slot): (Block, &Slot)| Held {
        pa: block.pa(),
        bytes: block.bytes(),
        category: slot.usage.aggregate().name(),
        owner: replay.ledger().owners.text(slot.owner).to_owned(),
        hint: slot.hint.clone().unwrap_or_default(),
    };
    let devices = 0..scenario.instance().devices;
    let all = devices.flat_map(|device| (0..).zip(scenario.geometry().hbm).map(move |hbm| (device, hbm)));
    let touched = all.filter(|&(device, (hbm, _))| column.was_used(device, hbm));
    touched
        .map(|(device, (hbm, range))| HbmPicture {
            device,
            hbm,
            range: *range,
            blocks: column.blocks(replay.ledger(), device, hbm).map(held).collect(),
        })
        .collect()
}
