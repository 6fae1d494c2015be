//! Lines of threads joined into refused requests (`spec/report.md` 6.1): which exact line and
//! which report are one, what only repeats them, whose a file or a place is.

use std::collections::HashMap;

use neuron_abi::memory::MemLocation;
use neuron_dmem::report::{Alignment, Size};

use crate::lex::{DumpFile, Refused};
use crate::prefix::Stamp;

/// Requests and threads that are kept.
const MOST: usize = 10_000;
/// Requests looked at for one that a line belongs to, the newest first.
const REACH: usize = 256;

/// A refused request as it comes together.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) exact: Option<(u64, Stamp, MemLocation, Option<u64>)>,
    pub(super) report: Option<(u64, Stamp, Refused)>,
    pub(super) errno: Option<i64>,
    pub(super) files: Vec<DumpFile>,
    pub(super) device: Option<u32>,
    pub(super) core: Option<u32>,
    pub(super) channel: Option<u32>,
    pub(super) tensor: Option<String>,
    /// A request whose exact line has the same text, without a time.
    pub(super) copy_of: Option<usize>,
    /// Status of the message that encloses it.
    pub(super) enclosed: Option<usize>,
}

/// Who writes: process and thread.
type Thread = (Option<u64>, Option<u64>);

#[derive(Debug, Default)]
struct ThreadState {
    /// Its newest request.
    current: Option<usize>,
    /// Files announced for a report to come.
    files: Vec<DumpFile>,
}

/// All requests of a log.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) all: Vec<Request>,
    threads: HashMap<Thread, ThreadState>,
    pub(super) duplicates: u64,
    pub(super) left_out: u64,
    /// The request that lines without a thread belong to.
    newest: Option<usize>,
}

impl Request {
    /// How much, as exactly as it is told.
    pub(super) fn requested(&self) -> Option<Size> {
        let exact = self.exact.as_ref().and_then(|(.., bytes)| bytes.map(Size::exact));
        exact.or_else(|| self.report.as_ref().map(|(.., refused)| refused.requested))
    }

    pub(super) fn is_host(&self) -> bool {
        match (&self.exact, &self.report) {
            (Some((_, _, location, _)), _) => *location == MemLocation::Host,
            (_, Some((.., refused))) => refused.host,
            _ => false,
        }
    }

    /// When and who: of the report, else of the exact line.
    pub(super) fn stamp(&self) -> Option<&Stamp> {
        let exact = self.exact.as_ref().map(|(_, stamp, ..)| stamp);
        self.report.as_ref().map(|(_, stamp, _)| stamp).or(exact)
    }

    /// Its last line before a place in the log.
    pub(super) fn printed_before(&self, place: u64) -> Option<u64> {
        let exact = self.exact.as_ref().map(|(at, ..)| *at);
        let report = self.report.as_ref().map(|(at, ..)| *at);
        [exact, report].into_iter().flatten().filter(|at| *at < place).max()
    }

    /// Whether it only repeats another's exact line.
    pub(super) const fn is_copy(&self) -> bool {
        self.copy_of.is_some() && self.report.is_none()
    }

    fn names(&self, bytes: u64) -> bool {
        self.requested().is_some_and(|requested| requested.admits(bytes))
    }

    /// Whether a report is of the request that this exact line told.
    fn awaits(&self, refused: &Refused) -> bool {
        let Some((_, _, location, bytes)) = &self.exact else { return false };
        self.report.is_none()
            && (*location == MemLocation::Host) == refused.host
            && bytes.is_none_or(|bytes| refused.requested.admits(bytes))
    }
}

fn thread(stamp: &Stamp) -> Thread {
    (stamp.pid, stamp.tid)
}

/// Whether two lines can be of one thread: what is not told may be anything.
fn may_be(one: Option<&Stamp>, other: &Stamp) -> bool {
    let agree = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
    one.is_none_or(|one| agree(one.pid, other.pid) && agree(one.tid, other.tid))
}

impl Requests {
    /// An exact line.
    pub(super) fn exact(
        &mut self,
        at: u64,
        stamp: &Stamp,
        location: MemLocation,
        bytes: Option<u64>,
    ) -> Option<usize> {
        let again = |request: &Request| {
            request.exact.as_ref().is_some_and(|(_, other, place, count)| {
                other == stamp && *place == location && *count == bytes
            })
        };
        let copy_of = self.find(again);
        if let Some(found) = copy_of.filter(|_| stamp.time.is_some()) {
            self.duplicates += 1;
            self.make_current(stamp, found);
            return Some(found);
        }
        // Without a time it may be another thread's: a report will tell.
        let exact = Some((at, stamp.clone(), location, bytes));
        self.add(stamp, Request { exact, copy_of, ..Request::default() })
    }

    /// A report line. The request, and whether this is the first of its reports.
    pub(super) fn report(&mut self, at: u64, stamp: &Stamp, refused: &Refused) -> Option<(usize, bool)> {
        // A copy of the line, or the same failure as another thread announces it.
        let again = |request: &Request| {
            request.report.as_ref().is_some_and(|(_, other, first)| {
                let same = first.requested == refused.requested
                    && first.host == refused.host
                    && first.usage == refused.usage
                    && first.alignment == refused.alignment
                    && (first.device, first.core) == (refused.device, refused.core);
                let untold = stamp.time.is_none() && other.time.is_none();
                let other_thread = stamp.tid.is_some() && other.tid.is_some() && stamp.tid != other.tid;
                same && (other == stamp || untold && may_be(Some(other), stamp) || other_thread)
            })
        };
        let untimed = if stamp.time.is_none() { self.find(again) } else { None };
        if untimed.is_none() {
            let own = |request: &Request| {
                request.awaits(refused) && request.stamp().is_some_and(|other| thread(other) == thread(stamp))
            };
            let perhaps = |request: &Request| request.awaits(refused) && may_be(request.stamp(), stamp);
            if let Some(mut found) = self.find(own).or_else(|| self.find(perhaps)) {
                // Of equal lines the first is the one, the others are copies until claimed too.
                let original = |index: usize| self.all.get(index).and_then(|it| it.copy_of);
                while let Some(first) = original(found).filter(|it| self.all.get(*it).is_some_and(perhaps)) {
                    found = first;
                }
                self.duplicates +=
                    u64::from(self.all.get(found).is_some_and(|it| matches!(it.exact, Some((.., Some(_))))));
                self.take_report(at, stamp, refused, found);
                return Some((found, true));
            }
        }
        if let Some(found) = untimed.or_else(|| self.find(again)) {
            self.duplicates += 1;
            self.make_current(stamp, found);
            return Some((found, false));
        }
        let found = self.add(stamp, Request::default())?;
        self.take_report(at, stamp, refused, found);
        Some((found, true))
    }

    fn take_report(&mut self, at: u64, stamp: &Stamp, refused: &Refused, index: usize) {
        let state = self.threads.entry(thread(stamp)).or_default();
        state.current = Some(index);
        let files = std::mem::take(&mut state.files);
        self.newest = Some(index);
        let Some(request) = self.all.get_mut(index) else { return };
        request.report = Some((at, stamp.clone(), refused.clone()));
        request.files.extend(files);
    }

    /// A line that repeats a size.
    pub(super) fn repeat(&mut self, bytes: u64) {
        self.duplicates += u64::from(self.find(|request| request.names(bytes)).is_some());
    }

    /// A dump file: of the report to come if it was announced and the thread has no request that
    /// still awaits one, else of the newest.
    pub(super) fn file(&mut self, stamp: &Stamp, file: DumpFile, announced: bool) {
        let current = self.current(stamp);
        let open =
            current.and_then(|index| self.all.get(index)).is_some_and(|request| request.report.is_none());
        match current.filter(|_| open || !announced) {
            Some(index) => {
                self.all.get_mut(index).into_iter().for_each(|request| request.files.push(file.clone()))
            }
            None => self.state(stamp).into_iter().for_each(|state| state.files.push(file.clone())),
        }
    }

    /// What the cascade of a thread's newest request says.
    pub(super) fn cascade(&mut self, stamp: &Stamp, take: impl FnOnce(&mut Request)) {
        if let Some(index) = self.current(stamp)
            && let Some(request) = self.all.get_mut(index)
        {
            take(request);
        }
    }

    /// The newest request of a thread; of any where the line has none.
    pub(super) fn current(&self, stamp: &Stamp) -> Option<usize> {
        let own = self.threads.get(&thread(stamp)).and_then(|state| state.current);
        let newest = self.newest.filter(|index| may_be(self.all.get(*index).and_then(Request::stamp), stamp));
        own.or(newest)
    }

    /// Files announced for reports that never came are their thread's newest request's. Copies
    /// without a report of their own were copies.
    pub(super) fn end(&mut self) {
        for index in 0..self.all.len() {
            let Some(copy) = self.all.get_mut(index).filter(|request| request.is_copy()) else { continue };
            let (original, copy) = (copy.copy_of, copy.clone());
            self.duplicates += 1;
            if let Some(original) = original.and_then(|index| self.all.get_mut(index)) {
                original.files.extend(copy.files);
                original.device = original.device.or(copy.device);
                original.core = original.core.or(copy.core);
                original.channel = original.channel.or(copy.channel);
                original.tensor = original.tensor.take().or(copy.tensor);
            }
        }
        for state in self.threads.values_mut() {
            let Some(request) = state.current.and_then(|index| self.all.get_mut(index)) else { continue };
            if request.files.is_empty() {
                request.files.append(&mut state.files);
            }
        }
    }

    fn find(&self, is: impl Fn(&Request) -> bool) -> Option<usize> {
        let newest = self.all.iter().enumerate().rev().take(REACH);
        newest.filter(|(_, request)| is(request)).map(|(index, _)| index).next()
    }

    fn add(&mut self, stamp: &Stamp, request: Request) -> Option<usize> {
        if self.all.len() >= MOST {
            self.left_out += 1;
            return None;
        }
        let index = self.all.len();
        self.all.push(request);
        self.make_current(stamp, index);
        Some(index)
    }

    fn make_current(&mut self, stamp: &Stamp, index: usize) {
        self.newest = Some(index);
        if let Some(state) = self.state(stamp) {
            state.current = Some(index);
        }
    }

    fn state(&mut self, stamp: &Stamp) -> Option<&mut ThreadState> {
        let thread = thread(stamp);
        if self.threads.len() >= MOST && !self.threads.contains_key(&thread) {
            return None;
        }
        Some(self.threads.entry(thread).or_default())
    }
}

/// An alignment as the schema has it.
pub(super) fn align(alignment: Alignment) -> crate::facts::Align {
    match alignment {
        Alignment::NotPrinted => crate::facts::Align::NotPrinted,
        Alignment::None => crate::facts::Align::None,
        Alignment::Bytes(size) => crate::facts::Align::Bytes(size),
    }
}
