//! Statuses, and which failure each is of (`spec/report.md` 6.1).

use std::collections::{BTreeMap, HashMap};

use super::requests::Request;
use crate::facts::{Failure, OtherFailure};
use crate::prefix::Stamp;

/// Statuses and threads that are kept, each.
const MOST: usize = 10_000;

/// A status as it was printed.
#[derive(Clone, Debug)]
struct Status {
    at: u64,
    stamp: Stamp,
    status: Option<u32>,
    name: Option<String>,
    place: Option<String>,
    enclosing: bool,
}

/// All statuses of a log.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    all: Vec<Status>,
    /// First line of each thread's cascade.
    first: HashMap<(Option<u64>, Option<u64>), Stamp>,
    /// The status whose message goes on.
    enclosing: Option<usize>,
}

impl Statuses {
    /// A line of ERROR level.
    pub(super) fn line(&mut self, stamp: &Stamp) {
        if self.first.len() < MOST {
            self.first.entry((stamp.pid, stamp.tid)).or_insert_with(|| stamp.clone());
        }
    }

    pub(super) fn add(
        &mut self,
        at: u64,
        stamp: &Stamp,
        status: Option<u32>,
        name: Option<String>,
        place: Option<String>,
        enclosing: bool,
    ) {
        if enclosing {
            self.enclosing = (self.all.len() < MOST).then_some(self.all.len());
        }
        if self.all.len() < MOST {
            self.all.push(Status { at, stamp: stamp.clone(), status, name, place, enclosing });
        }
    }

    /// The status of the message that encloses a bracketed line.
    pub(super) const fn enclosing(&self, bracketed: bool) -> Option<usize> {
        if bracketed { self.enclosing } else { None }
    }

    /// Gives each status to its failure. `failures` are those of `requests`, in order, each with
    /// its place in `requests`.
    pub(super) fn end(
        &self,
        requests: &[Request],
        failures: &mut Vec<(usize, Failure)>,
    ) -> Vec<OtherFailure> {
        for (request, failure) in failures.iter_mut() {
            let enclosed = requests.get(*request).and_then(|request| request.enclosed);
            if let Some(status) = enclosed.and_then(|index| self.all.get(index)) {
                status.give(failure);
            }
        }
        let mut others: BTreeMap<(Option<u64>, Option<u64>), OtherFailure> = BTreeMap::new();
        // Failures of one process are asked for again and again: by process, their last lines.
        let mut without: Option<usize> = None;
        let had_requests = !failures.is_empty();
        for status in &self.all {
            let enclosed = |(request, _): &(usize, Failure)| {
                requests.get(*request).is_some_and(|it| it.enclosed.is_some())
            };
            if status.enclosing && failures.iter().any(enclosed) {
                continue;
            }
            if !had_requests {
                self.alone(status, &mut without, failures, &mut others);
                continue;
            }
            let of_process =
                failures.iter_mut().filter(|(_, failure)| same_process(failure.pid, status.stamp.pid));
            let printed = of_process.filter_map(|(request, failure)| {
                Some((requests.get(*request)?.printed_before(status.at)?, failure))
            });
            match printed.max_by_key(|(at, _)| *at) {
                Some((_, failure)) => status.give(failure),
                None => status.other(&mut others),
            }
        }
        others.into_values().collect()
    }

    /// Without any refused request the first status makes the one failure; those of other
    /// processes stand beside it.
    fn alone(
        &self,
        status: &Status,
        first: &mut Option<usize>,
        failures: &mut Vec<(usize, Failure)>,
        others: &mut BTreeMap<(Option<u64>, Option<u64>), OtherFailure>,
    ) {
        let of_first = first.and_then(|index| failures.get(index)).map(|(_, failure)| failure.pid);
        match of_first {
            Some(pid) if !same_process(pid, status.stamp.pid) => status.other(others),
            Some(_) => failures.iter_mut().for_each(|(_, failure)| status.give(failure)),
            None => {
                let stamp = self.first.get(&(status.stamp.pid, status.stamp.tid)).unwrap_or(&status.stamp);
                let Stamp { time, pid, tid } = stamp.clone();
                let mut failure = Failure { time, pid, tid, ..Failure::default() };
                status.give(&mut failure);
                *first = Some(failures.len());
                failures.push((usize::MAX, failure));
            }
        }
    }
}

/// A line without a process may be of any.
fn same_process(one: Option<u64>, other: Option<u64>) -> bool {
    one.is_none() || other.is_none() || one == other
}

impl Status {
    /// Further mentions are the same status.
    fn give(&self, failure: &mut Failure) {
        if !failure.status_seen {
            failure.status = self.status;
            failure.status_seen = true;
            failure.status_name.clone_from(&self.name);
        }
    }

    fn other(&self, others: &mut BTreeMap<(Option<u64>, Option<u64>), OtherFailure>) {
        let Stamp { pid, tid, .. } = self.stamp;
        let entry = OtherFailure { pid, tid, status: self.status, status_seen: true, place: None };
        let entry = others.entry((pid, tid)).or_insert(entry);
        if entry.place.is_none() {
            entry.place.clone_from(&self.place);
        }
    }
}
