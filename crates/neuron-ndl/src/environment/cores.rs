//! Which cores a process sees, by number over all devices, and where each is.

use std::fmt;
use std::ops::Range;

use neuron_abi::arch::Generation;

use super::error::EnvironmentError;
use super::value::{Held, digits_of, printable};

/// The variable that lists cores.
pub(super) const VISIBLE: &str = "NEURON_RT_VISIBLE_CORES";
/// What it may hold.
const ACCEPTED: &str =
    "a list of cores and ranges such as `0`, `0-3` or `4-5,6`, ascending and without a gap";

/// A list of logical cores of the machine: ascending and without a gap, so it is one range
/// in pieces (`spec/nrt-abi.md` 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreList {
    /// First and last core of each entry. At least one.
    entries: Vec<(u32, u32)>,
}

/// The cores of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreLayout {
    /// Devices, from number 0 on.
    pub devices: u32,
    /// Physical cores of each.
    pub cores_per_device: u32,
    /// Physical cores that make one logical core; not 0.
    pub logical_size: u32,
}

impl CoreLayout {
    /// Logical cores of a device.
    pub const fn logical_per_device(self) -> u32 {
        match self.cores_per_device.checked_div(self.logical_size) {
            Some(cores) => cores,
            None => 0,
        }
    }

    /// Logical cores of the machine.
    pub const fn logical_total(self) -> u32 {
        self.devices.saturating_mul(self.logical_per_device())
    }

    /// The physical cores of a device that are among these logical ones, as the device
    /// numbers them.
    pub fn of_device(self, logical: &Range<u32>, device: u32) -> Range<u32> {
        let per_device = self.logical_per_device();
        let first = device.saturating_mul(per_device);
        let on_device = |core: u32| core.clamp(first, first.saturating_add(per_device)) - first;
        on_device(logical.start) * self.logical_size..on_device(logical.end) * self.logical_size
    }

    /// The device of a logical core; `None` beyond the last.
    pub const fn device_of(self, logical: u32) -> Option<u32> {
        if logical < self.logical_total() { logical.checked_div(self.logical_per_device()) } else { None }
    }
}

/// Physical cores that make a logical one where nothing is set: 2, but one on V2, whatever is
/// set (`spec/ndl.md` 7, `spec/nrt-abi.md` 7).
pub(super) const fn logical_size(generation: Generation, set: Option<u32>) -> u32 {
    match (generation, set) {
        (Generation::V2, _) => 1,
        (_, Some(size)) => size,
        (_, None) => 2,
    }
}

impl CoreList {
    pub(super) fn from_held(held: Held<'_>) -> Result<Self, EnvironmentError> {
        let text = held.text(ACCEPTED)?;
        let wrong = |entry: &str, problem: String| EnvironmentError::Entry {
            variable: held.variable,
            value: held.shown(),
            entry: printable(entry),
            problem,
        };
        let mut entries: Vec<(u32, u32)> = Vec::new();
        for entry in text.split(',').map(str::trim) {
            let (first, last) = match entry.split_once('-') {
                Some((first, last)) => (core(first), core(last)),
                None => (core(entry), core(entry)),
            };
            let (Some(first), Some(last)) = (first, last) else {
                return Err(wrong(entry, format!("is no core; it has to be {ACCEPTED}")));
            };
            if last < first {
                return Err(wrong(entry, format!("is reversed; write {last}-{first}")));
            }
            if let Some(&(_, before)) = entries.last()
                && before.checked_add(1) != Some(first)
            {
                let next = u64::from(before) + 1;
                let problem = format!(
                    "does not go on where the entry before ends: cores are ascending and without a gap, so {next} \
                     has to be next"
                );
                return Err(wrong(entry, problem));
            }
            entries.push((first, last));
        }
        Ok(Self { entries })
    }

    /// The cores, if the machine has them all.
    ///
    /// # Errors
    /// The first entry with a core that is not there.
    pub fn resolve(&self, layout: CoreLayout) -> Result<Range<u32>, EnvironmentError> {
        let total = layout.logical_total();
        if let Some(&(first, last)) = self.entries.iter().find(|(_, last)| *last >= total) {
            return Err(EnvironmentError::Entry {
                variable: VISIBLE,
                value: printable(&self.to_string()),
                entry: entry(first, last),
                problem: format!("names a core that is not there: {}", present(layout)),
            });
        }
        // `from_held` makes no empty list; were there one, it would be no core.
        let first = self.entries.first().map_or(0, |(first, _)| *first);
        let end = self.entries.last().map_or(first, |(_, last)| last + 1);
        Ok(first..end)
    }
}

/// The cores of a machine in words.
pub(super) fn present(layout: CoreLayout) -> String {
    let (total, devices) = (layout.logical_total(), layout.devices);
    let s = if devices == 1 { "" } else { "s" };
    match total.checked_sub(1) {
        None => "no cores at all".to_owned(),
        Some(last) => format!("cores 0 to {last} on {devices} device{s}"),
    }
}

fn core(digits: &str) -> Option<u32> {
    digits_of(digits.trim(), 10).and_then(|core| u32::try_from(core).ok())
}

fn entry(first: u32, last: u32) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self.entries.iter().map(|&(first, last)| entry(first, last)).collect();
        f.write_str(&entries.join(","))
    }
}
