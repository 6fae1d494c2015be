//! A usage log, as JSON and as text for people.

use std::fmt::{self, Write as _};
use std::path::Path;

use neuron_abi::memory::{Aggregate, MemLocation, UsageType};
use neuron_dmem::AllocatorKind;
use neuron_dmem::log::{Amount, CHANNELS, CORES, Event, LogFile, Owner, OwnerUse, Statistics};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::table;
use crate::bytes::{exact_and_human, human, plural, thousands};
use crate::shown::{Shown, ShownPath, bounded};

/// Hints and events that the text shows; the JSON has all.
const FEW: usize = 10;

/// The result of `log`.
#[derive(Debug)]
pub struct LogReport<'a> {
    /// The file, as given.
    pub file: &'a Path,
    /// What was read from it.
    pub log: &'a LogFile,
    /// Whether the events are part of it: they are not after they were shown one by one.
    pub with_events: bool,
}

/// One event: a line of text, or an object of JSON.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EventReport {
    /// Number since the log began.
    pub event: u64,
    /// `ALLOC` or `FREE`.
    pub action: &'static str,
    /// `DEVICE` or `HOST`.
    pub location: &'static str,
    /// HBM; `None` (JSON `null`) for host memory.
    pub hbm: Option<u32>,
    /// Core.
    pub core: u32,
    /// Usage type.
    pub usage: &'static str,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes counted.
    pub charged: u64,
    /// Physical address.
    pub pa: u64,
    /// Offset of the first byte.
    pub align_offset: u64,
    /// Bytes on the HBM after it; `None` for host memory.
    pub hbm_total: Option<u64>,
    /// The allocator.
    pub owner: Option<OwnerReport>,
    /// The hint.
    pub hint: Option<String>,
}

/// An allocator.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OwnerReport {
    /// `global` or `model`.
    pub kind: &'static str,
    /// Its core.
    pub core: u32,
    /// What it was called.
    pub label: String,
}

/// Events that were overwritten before they could be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Missed {
    /// How many.
    pub missed: u64,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} overwritten before they were seen", plural(self.missed, "event"))
    }
}

impl From<&Owner> for OwnerReport {
    fn from(owner: &Owner) -> Self {
        let kind = match owner.kind {
            AllocatorKind::Global => "global",
            AllocatorKind::Model => "model",
        };
        Self { kind, core: owner.core, label: owner.label.to_string() }
    }
}

impl From<&Event> for EventReport {
    fn from(event: &Event) -> Self {
        let on_device = event.location == MemLocation::Device;
        Self {
            event: event.number,
            action: event.action.name(),
            location: event.location.name(),
            hbm: on_device.then_some(event.hbm),
            core: event.core,
            usage: event.usage.name(),
            size: event.size,
            charged: event.charged,
            pa: event.pa,
            align_offset: event.align_offset,
            hbm_total: on_device.then_some(event.hbm_total),
            owner: event.owner.as_ref().map(OwnerReport::from),
            hint: event.hint.as_deref().map(str::to_owned),
        }
    }
}

impl EventReport {
    fn place(&self) -> String {
        self.hbm.map_or_else(|| "host".to_owned(), |hbm| format!("HBM {hbm}"))
    }

    fn shown_hint(&self) -> String {
        self.hint.as_ref().map_or_else(String::new, |hint| Shown(hint).to_string())
    }
}

impl fmt::Display for EventReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, action, core, usage, size, pa, .. } = self;
        write!(
            f,
            "{event:>7} {action:<5} {} core {core} {usage} {} B at {pa:#x}",
            self.place(),
            thousands(*size)
        )?;
        if let Some(total) = self.hbm_total {
            write!(f, ", then {} in use", human(total))?;
        }
        if self.hint.is_some() {
            write!(f, " {}", self.shown_hint())?;
        }
        Ok(())
    }
}

/// `{"current","peak"}`, behind keys that say whose.
#[derive(serde::Serialize)]
struct Of<K> {
    #[serde(flatten)]
    of: K,
    current: u64,
    peak: u64,
}

impl<K> Of<K> {
    fn new(of: K, Amount { current, peak }: Amount) -> Self {
        Self { of, current, peak }
    }
}

/// No key: the amount alone.
#[derive(serde::Serialize)]
struct All {}
#[derive(serde::Serialize)]
struct HbmKey {
    hbm: u32,
}
#[derive(serde::Serialize)]
struct CoreKey {
    core: u32,
    usages: Vec<Of<UsageKey>>,
}
#[derive(serde::Serialize)]
struct UsageKey {
    usage: &'static str,
}
#[derive(serde::Serialize)]
struct CategoryKey {
    category: &'static str,
}
#[derive(serde::Serialize)]
struct OwnerKey {
    #[serde(flatten)]
    owner: OwnerReport,
    left: bool,
}
#[derive(serde::Serialize)]
struct HintKey {
    hint: String,
}

/// The log's events, made as they are written.
struct Events<'a>(&'a LogFile);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.events_from(0).map(|event| EventReport::from(&event)))
    }
}

impl Serialize for LogReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (log, statistics) = (self.log, self.log.statistics());
        let all = |amount| Of::new(All {}, amount);
        let hbms = hbms(&statistics).map(|(hbm, amount)| Of::new(HbmKey { hbm }, amount));
        let cores = cores(&statistics).map(|(core, amount)| {
            let usages = UsageType::ALL.iter().map(|&usage| (usage, statistics.core_usage(core, usage)));
            let usages = usages.filter(|(_, amount)| amount.peak > 0);
            let usages = usages.map(|(usage, amount)| Of::new(UsageKey { usage: usage.name() }, amount));
            Of::new(CoreKey { core, usages: usages.collect() }, amount)
        });
        let categories = categories(&statistics)
            .map(|(category, amount)| Of::new(CategoryKey { category: category.name() }, amount));
        let owners = statistics.owners.iter().map(|OwnerUse { owner, left, amount }| {
            Of::new(OwnerKey { owner: owner.into(), left: *left }, *amount)
        });
        let hints =
            statistics.hints.iter().map(|hint| Of::new(HintKey { hint: hint.hint.to_string() }, hint.amount));
        let repairs: Vec<String> = log.repairs().iter().map(ToString::to_string).collect();

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("file", &self.file.to_string_lossy())?;
        map.serialize_entry("device", &log.device())?;
        map.serialize_entry("pid", &log.pid())?;
        map.serialize_entry("writer", log.writer().name())?;
        map.serialize_entry("capacity", &log.capacity())?;
        map.serialize_entry("written", &log.written())?;
        map.serialize_entry("overwritten", &log.dropped())?;
        map.serialize_entry("repairs", &repairs)?;
        map.serialize_entry("device_memory", &all(statistics.device()))?;
        map.serialize_entry("host_memory", &all(statistics.host()))?;
        map.serialize_entry("hbms", &hbms.collect::<Vec<_>>())?;
        map.serialize_entry("cores", &cores.collect::<Vec<_>>())?;
        map.serialize_entry("categories", &categories.collect::<Vec<_>>())?;
        map.serialize_entry("owners", &owners.collect::<Vec<_>>())?;
        map.serialize_entry("other_owners", &all(statistics.other_owners))?;
        map.serialize_entry("hints", &hints.collect::<Vec<_>>())?;
        map.serialize_entry("other_hints", &all(statistics.other_hints))?;
        if self.with_events {
            map.serialize_entry("events", &Events(log))?;
        }
        map.end()
    }
}

/// HBMs that were ever used.
fn hbms(statistics: &Statistics) -> impl Iterator<Item = (u32, Amount)> {
    used((0..CHANNELS as u32).map(|hbm| (hbm, statistics.hbm(hbm))))
}

/// Cores that ever had memory.
fn cores(statistics: &Statistics) -> impl Iterator<Item = (u32, Amount)> {
    used((0..CORES as u32).map(|core| (core, statistics.core(core))))
}

/// Categories that there ever was memory of.
fn categories(statistics: &Statistics) -> impl Iterator<Item = (Aggregate, Amount)> {
    used(Aggregate::ALL.iter().map(|&category| (category, statistics.category(category))))
}

fn used<K>(of: impl Iterator<Item = (K, Amount)>) -> impl Iterator<Item = (K, Amount)> {
    of.filter(|(_, amount)| amount.peak > 0)
}

impl LogReport<'_> {
    /// The report for people. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> fmt::Result {
        let (log, statistics) = (self.log, self.log.statistics());
        let writer = log.writer().name();
        let (device, pid) = (log.device(), log.pid());
        writeln!(text, "usage log {}, device {device}, process {pid}: {writer}", ShownPath(self.file))?;
        let (written, room) = (plural(log.written(), "event"), thousands(log.capacity()));
        writeln!(text, "{written}, {} overwritten, room for {room}", thousands(log.dropped()))?;
        for repair in log.repairs() {
            writeln!(text, "note: {repair}")?;
        }
        writeln!(text, "\n{}", counters(&statistics))?;

        if let Some(hints) = hints(&statistics) {
            writeln!(text, "\n{hints}")?;
        }
        if self.with_events && log.written() > log.first() {
            let from = log.written().saturating_sub(FEW as u64);
            writeln!(text, "\n{}", events(log.events_from(from)))?;
        }
        Ok(())
    }
}

fn counters(statistics: &Statistics) -> String {
    let mut table = table(["memory of", "", "in use", "peak"], 2);
    let mut row = |of: &str, which: String, Amount { current, peak }: Amount| {
        table.add_row([of.to_owned(), which, exact_and_human(current), exact_and_human(peak)]);
    };
    row("device", String::new(), statistics.device());
    hbms(statistics).for_each(|(hbm, amount)| row("HBM", hbm.to_string(), amount));
    cores(statistics).for_each(|(core, amount)| row("core", core.to_string(), amount));
    categories(statistics).for_each(|(category, amount)| row("category", category.name().to_owned(), amount));
    for OwnerUse { owner, left, amount } in &statistics.owners {
        let OwnerReport { kind, core, label } = owner.into();
        let label = if label.is_empty() { label } else { format!(": {}", bounded(&label)) };
        let left = if *left { "gone " } else { "" };
        row("owner", format!("{left}{kind}, core {core}{label}"), *amount);
    }
    if statistics.other_owners.peak > 0 {
        row("owner", "(other)".to_owned(), statistics.other_owners);
    }
    if statistics.host().peak > 0 {
        row("host", String::new(), statistics.host());
    }
    table.trim_fmt()
}

/// The largest, by what is in use, then by what was.
fn hints(statistics: &Statistics) -> Option<String> {
    let mut hints: Vec<_> = statistics.hints.iter().filter(|hint| hint.amount.peak > 0).collect();
    hints.sort_by_key(|hint| std::cmp::Reverse((hint.amount.current, hint.amount.peak)));
    if hints.is_empty() {
        return None;
    }
    let mut table = table(["hint", "in use", "peak"], 1);
    for hint in hints.iter().take(FEW) {
        let Amount { current, peak } = hint.amount;
        table.add_row([Shown(&hint.hint).to_string(), thousands(current), thousands(peak)]);
    }
    let more = hints.len().saturating_sub(FEW);
    let rest = if more > 0 {
        format!("\n... and {}; --json has all", plural(more as u64, "more hint"))
    } else {
        String::new()
    };
    Some(table.trim_fmt() + &rest)
}

fn events(events: impl Iterator<Item = Event>) -> String {
    let mut table = table(["event", "", "where", "core", "usage", "hint", "size", "address"], 6);
    for event in events.map(|event| EventReport::from(&event)) {
        table.add_row([
            event.event.to_string(),
            event.action.to_owned(),
            event.place(),
            event.core.to_string(),
            event.usage.to_owned(),
            event.shown_hint(),
            thousands(event.size),
            format!("{:#x}", event.pa),
        ]);
    }
    table.trim_fmt()
}
