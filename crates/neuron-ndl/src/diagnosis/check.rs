//! One finding: what was looked at, how it is, and what to do.

use serde::Serialize;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// A device can be used all the same.
    Warning,
    /// It stands between every program and every device.
    Failed,
    /// Does not matter here, or cannot be told.
    NotApplicable,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at: one word, the same in every run. More than one check has the same
    /// name where devices differ.
    pub name: &'static str,
    /// How it is.
    pub status: Status,
    /// What was found, a sentence without its full stop, fit for a terminal.
    pub found: String,
    /// What to do; `None` where there is nothing to be done.
    pub advice: Option<String>,
}

impl Check {
    pub(super) fn new(name: &'static str, status: Status, found: impl Into<String>) -> Self {
        Self { name, status, found: found.into(), advice: None }
    }

    pub(super) fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// All findings, in the order in which things depend on each other: the first that failed is
/// the one to see to first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The findings.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// Whether a program can use a device: nothing failed.
    pub fn usable(&self) -> bool {
        self.checks.iter().all(|check| check.status != Status::Failed)
    }
}

/// Devices in words: `neuron0, neuron2 to neuron5`.
pub(super) fn devices(indices: &[u8]) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for &index in indices {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let run = |&(first, last): &(u8, u8)| match last - first {
        0 => format!("neuron{first}"),
        1 => format!("neuron{first}, neuron{last}"),
        _ => format!("neuron{first} to neuron{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

/// What was found of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) status: Status,
    pub(super) found: String,
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(found: impl Into<String>) -> Self {
        Self { status: Status::Ok, found: found.into(), advice: None }
    }

    pub(super) fn failed(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Status::Failed, found: found.into(), advice: Some(advice.into()) }
    }
}

/// One check for each finding, with the devices it is true of; in the order of their first.
pub(super) fn grouped(name: &'static str, findings: &[(u8, Finding)]) -> Vec<Check> {
    let mut groups: Vec<(&Finding, Vec<u8>)> = Vec::new();
    for (index, finding) in findings {
        match groups.iter_mut().find(|(known, _)| *known == finding) {
            Some((_, indices)) => indices.push(*index),
            None => groups.push((finding, vec![*index])),
        }
    }
    let check = |(finding, indices): (&Finding, Vec<u8>)| Check {
        name,
        status: finding.status,
        found: format!("{}: {}", devices(&indices), finding.found),
        advice: finding.advice.clone(),
    };
    groups.into_iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_as_runs() {
        assert_eq!(devices(&[]), "");
        assert_eq!(devices(&[3]), "neuron3");
        assert_eq!(devices(&[0, 1]), "neuron0, neuron1");
        assert_eq!(devices(&[0, 2, 3, 4, 63]), "neuron0, neuron2 to neuron4, neuron63");
        assert_eq!(devices(&[255, 0]), "neuron255, neuron0");
    }

    #[test]
    fn devices_with_the_same_finding_share_a_check() {
        let (good, bad) = (Finding::ok("opens"), Finding::failed("does not", "do"));
        let checks = grouped("open", &[(0, good.clone()), (1, bad), (2, good)]);
        let lines: Vec<_> = checks.iter().map(|check| (check.status, check.found.as_str())).collect();
        assert_eq!(lines, [(Status::Ok, "neuron0, neuron2: opens"), (Status::Failed, "neuron1: does not")]);
    }
}
