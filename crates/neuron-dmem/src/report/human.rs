//! The report for people: cause first, then what the runtime's own form lacks (room by pool,
//! holes, owners by hint, growth), then usage by core.

use std::fmt::Write as _;

use neuron_abi::memory::MemLocation;

use super::figures::{bytes, quoted, retried, short, signed, thousands};
use super::files::Files;
use super::snapshot::{Asked, Growth, HbmState, Hints, Model, OomReport};
use crate::room::{PoolRoom, Room};

/// Columns of a section's name.
const NAME: usize = 10;

impl OomReport {
    /// The report for people, ending with a newline. Names in it are fit for a terminal.
    pub fn human(&self) -> String {
        let mut text = self.headline();
        text.push('\n');
        section(&mut text, "cause", [self.cause.sentence.clone()]);
        let Some(state) = &self.hbm else { return text };
        section(&mut text, "room", room(state, self.request.align));
        section(&mut text, "owners", owners(&state.hints));
        section(&mut text, "growth", state.growth.iter().map(growth));
        section(&mut text, "usage", usage(state));
        text
    }

    /// What was refused, on one line.
    fn headline(&self) -> String {
        let Self { device, request: Asked { location, core, size, align, usage, hint, .. }, .. } = self;
        let place = match (location, self.request.hbm) {
            (MemLocation::Device, Some(hbm)) => format!("neuron{device} HBM {hbm}"),
            _ => format!("the host, for neuron{device}"),
        };
        let aligned = if *align == 0 { String::new() } else { format!(" aligned to {}", bytes(*align)) };
        let name = hint.as_deref().map_or_else(String::new, |hint| format!(" {}", quoted(hint)));
        let (category, retries) = (usage.aggregate(), retried(self.retries));
        format!(
            "out of memory on {place}: core {core} asked for {}{aligned} of {category}{name}{retries}",
            bytes(*size)
        )
    }
}

impl Files {
    /// Which files were written and what could not be, as a section to follow the report.
    pub fn human(&self) -> String {
        let mut text = String::new();
        let written = [&self.report, &self.table, &self.events, &self.chunks].into_iter().flatten();
        let written = written.map(|path| path.display().to_string());
        section(&mut text, "files", written.chain(self.problems.iter().cloned()));
        text
    }
}

/// Lines below each other, the first behind the section's name.
fn section(text: &mut String, name: &str, lines: impl IntoIterator<Item = String>) {
    for (place, line) in lines.into_iter().enumerate() {
        let name = if place == 0 { name } else { "" };
        let _ = writeln!(text, "{name:NAME$} {line}");
    }
}

fn room(state: &HbmState, align: u64) -> Vec<String> {
    let Some(Room { main, small, .. }) = &state.room else {
        return vec!["holes are not known: this driver cannot list what lives".to_owned()];
    };
    let pool = |name, pool: &PoolRoom| {
        let aligned = match align {
            0 => String::new(),
            _ => format!(", aligned {}", short(pool.largest_aligned_hole)),
        };
        format!(
            "{name} pool {:>9} of {:>9} left, largest hole {}{aligned}",
            short(pool.left()),
            short(pool.size),
            short(pool.largest_hole),
        )
    };
    let others = state.others.filter(|others| *others > 0);
    let others = others.map(|others| format!("{} are not this process's, or rounding", short(others)));
    [pool("main ", main), pool("small", small)].into_iter().chain(others).collect()
}

fn owners(hints: &Hints) -> Vec<String> {
    let named = hints.biggest.iter().map(|owner| {
        let name = owner.hint.as_deref().map_or_else(|| "no hint".to_owned(), quoted);
        let count = match owner.allocations {
            1 => String::new(),
            count => format!(", {} allocations", thousands(count)),
        };
        format!("{:>9}  {name} ({}{count})", short(owner.bytes), owner.usage.aggregate())
    });
    let others = (hints.other_allocations > 0)
        .then(|| format!("{:>9}  {} others", short(hints.other_bytes), thousands(hints.other_allocations)));
    let unlisted = (hints.unlisted_bytes > 0).then(|| {
        format!("{:>9}  of allocators that are gone: handles that still live", short(hints.unlisted_bytes))
    });
    named.chain(others).chain(unlisted).collect()
}

fn growth(growth: &Growth) -> String {
    let parts: Vec<_> = growth
        .categories
        .iter()
        .map(|change| format!("{} {}", change.category, signed(change.bytes)))
        .collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("{} since the load of {} began{parts}", signed(growth.bytes), model(&growth.since))
}

fn usage(state: &HbmState) -> Vec<String> {
    let core = |core: &super::snapshot::CoreUsage| {
        let parts: Vec<_> = core
            .bytes
            .biggest()
            .iter()
            .map(|(category, count)| format!("{category} {}", short(*count)))
            .collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let line = format!("core {} {:>9}{parts}", core.core, short(core.bytes.total()));
        let models = core
            .models
            .iter()
            .map(|it| format!("       {:>9} by {}", short(it.bytes.total()), model(&it.model)));
        std::iter::once(line).chain(models).collect::<Vec<_>>()
    };
    state.cores.iter().flat_map(core).collect()
}

fn model(model: &Model) -> String {
    if model.name.is_empty() { format!("model {}", model.id) } else { quoted(&model.name) }
}
