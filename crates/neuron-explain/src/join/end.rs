//! The end of the log: requests become failures, rows find theirs, the format is told.

use std::collections::{HashMap, HashSet};

use neuron_abi::memory::MemLocation;
use neuron_abi::status::NrtStatus;
use neuron_dmem::report::Time;

use super::Joiner;
use super::requests::{Request, align};
use super::usage::Gathered;
use crate::facts::{Facts, Failure, OtherRequest, Row};
use crate::lex::{DumpFile, files::DumpKind};
use crate::prefix::Stamp;

impl Joiner {
    /// All facts.
    pub(crate) fn end(mut self) -> Facts {
        self.requests.end();
        let mut gathered = std::mem::take(&mut self.gathered);
        let owners = self.rows(&mut gathered);
        let (mut failures, other_requests) = self.failures(&owners);
        let other_failures = self.statuses.end(&self.requests.all, &mut failures);
        let requests = &self.requests.all;
        let rows = row_of(&gathered.rows, &owners);
        for (request, failure) in &mut failures {
            failure.row = rows.get(request).copied();
            let table_hbm = failure.row.and_then(|row| gathered.rows.get(row)).and_then(|row| row.scope.hbm);
            let channel = requests.get(*request).and_then(|request| request.channel);
            failure.hbm = failure.hbm.or(table_hbm).or(channel);
            if failure.requested.is_some() && !failure.status_seen {
                let host = failure.location == Some("host");
                let status = if host { NrtStatus::FailHostMemAlloc } else { NrtStatus::Resource };
                failure.status_inferred = Some(status.raw());
            }
        }
        let format = self.format(&gathered, !failures.is_empty());
        let cut = gathered.cut || failures.iter().any(|(_, failure)| failure.cut);
        let seconds = self.files.iter().find_map(|file| file.seconds);
        Facts {
            format,
            complete: cut.then_some(false),
            failures: failures.into_iter().map(|(_, failure)| failure).collect(),
            other_requests,
            other_failures,
            usage: gathered.rows,
            neffs: gathered.neffs,
            memory_blocks: gathered.blocks,
            dump_files: self.files.iter().map(|file| file.path.clone()).collect(),
            dump_time_utc: seconds.map(utc),
            scratchpad_page: gathered.page,
            duplicates: self.requests.duplicates,
            table_cut: gathered.cut,
            left_out: self.facts.left_out + self.requests.left_out + gathered.left_out,
            ..self.facts
        }
    }

    /// Copies of rows go; what is left gets its request.
    fn rows(&self, gathered: &mut Gathered) -> Vec<Option<usize>> {
        let mut places = vec![Place::default(); gathered.tables.len()];
        for row in &gathered.rows {
            if let Some(place) = row.table.and_then(|table| places.get_mut(table)) {
                place.device = place.device.or(row.scope.device);
                place.cores.extend(row.scope.core);
            }
        }
        let places = places.iter().enumerate();
        let tables: Vec<Option<usize>> =
            places.map(|(table, place)| self.owner(table, place, gathered)).collect();
        let mut owners = std::mem::take(&mut gathered.owners);
        for (row, owner) in gathered.rows.iter().zip(&mut owners) {
            if let Some(table) = row.table {
                *owner = tables.get(table).copied().flatten();
            }
        }
        let mut seen: Vec<(Option<usize>, Row)> = Vec::new();
        let mut dropped = HashSet::new();
        let mut kept = Vec::new();
        for (mut row, owner) in std::mem::take(&mut gathered.rows).into_iter().zip(owners) {
            let device = owner.and_then(|owner| self.requests.all.get(owner)).and_then(device_told);
            row.scope.device = row.scope.device.or(device);
            let again = |(other, first): &(Option<usize>, Row)| {
                *other == owner
                    && first.table != row.table
                    && first.scope == row.scope
                    && first.total == row.total
                    && first.categories == row.categories
            };
            if owner.is_some() && seen.iter().rev().take(64).any(again) {
                dropped.extend(row.table);
                continue;
            }
            seen.push((owner, row.clone()));
            kept.push(owner);
            gathered.rows.push(row);
        }
        gathered.neffs.retain(|neff| !dropped.contains(&neff.table));
        // In the order of their tables, in which they are looked for.
        gathered.neffs.sort_by_key(|neff| neff.table);
        kept
    }

    /// The request a table is of: its title's if device and core agree, else one that they fit.
    fn owner(&self, table: usize, place: &Place, gathered: &Gathered) -> Option<usize> {
        let Place { device, cores } = place;
        let device = *device;
        let fits = |request: &Request, strictly: bool| {
            let told = device_told(request);
            let core = request.report.as_ref().and_then(|(.., refused)| refused.core);
            let agree = |one: Option<u32>, all: &dyn Fn(u32) -> bool| one.map_or(!strictly, all);
            !request.is_host()
                && (device.is_none() && !strictly || agree(told, &|it| device == Some(it)))
                && (cores.is_empty() || agree(core, &|it| cores.contains(&it)))
        };
        let titled = gathered.tables.get(table).copied().flatten();
        let titled = titled.filter(|index| self.requests.all.get(*index).is_some_and(|it| fits(it, false)));
        let taken = |index: usize| gathered.tables.iter().take(table).any(|title| *title == Some(index));
        let reported = || {
            self.requests
                .all
                .iter()
                .enumerate()
                .filter(|(_, it)| it.report.is_some() || self.requests.all.len() == 1)
        };
        let fitting = |strictly| {
            let mut all = reported()
                .filter(move |(index, it)| !taken(*index) && fits(it, strictly))
                .map(|(index, _)| index);
            let first = all.next();
            if strictly || all.next().is_none() { first } else { None }
        };
        titled.or_else(|| fitting(true)).or_else(|| fitting(false))
    }

    fn failures(&self, owners: &[Option<usize>]) -> (Vec<(usize, Failure)>, Vec<OtherRequest>) {
        let all = &self.requests.all;
        let owned: HashSet<usize> = owners.iter().copied().flatten().collect();
        let reported: Vec<(&Stamp, neuron_dmem::report::Size)> = all
            .iter()
            .filter_map(|request| request.report.as_ref())
            .filter(|(.., refused)| !refused.host)
            .map(|(_, stamp, refused)| (stamp, refused.requested))
            .collect();
        let mut failures = Vec::new();
        let mut others = Vec::new();
        for (index, request) in all.iter().enumerate().filter(|(_, request)| !request.is_copy()) {
            if let Some((_, stamp, MemLocation::Device, Some(bytes))) = &request.exact
                && request.report.is_none()
                && !owned.contains(&index)
                && reported.iter().any(|(other, size)| size.admits(*bytes) && !same_thread(other, stamp))
            {
                let Stamp { time, pid, tid } = stamp.clone();
                others.push(OtherRequest {
                    time,
                    pid,
                    tid,
                    requested: neuron_dmem::report::Size::exact(*bytes),
                });
                continue;
            }
            failures.push((index, self.failure(request)));
        }
        (failures, others)
    }

    fn failure(&self, request: &Request) -> Failure {
        let host = request.is_host();
        let stamp = request.stamp().cloned().unwrap_or_default();
        let refused = request.report.as_ref().map(|(.., refused)| refused);
        // Without files of its own the log's are its, as far as they agree.
        let own = |kind: Option<DumpKind>| move |file: &&DumpFile| kind.is_none_or(|kind| file.kind == kind);
        let one_request = self.requests.all.len() == 1;
        let files = if request.files.is_empty() || one_request { &self.files } else { &request.files };
        let agreed = |values: Vec<Option<u32>>| {
            let first = values.first().copied().flatten()?;
            values.iter().all(|value| *value == Some(first)).then_some(first)
        };
        let by_files = agreed(files.iter().filter(own(None)).map(|file| file.device).collect());
        let dumps: Vec<&DumpFile> = files.iter().filter(own(Some(DumpKind::Chunks))).collect();
        let told = refused.and_then(|refused| refused.device).or(request.device);
        let dumped = agreed(
            dumps.iter().filter(|file| told.is_none() || file.device == told).map(|file| file.hbm).collect(),
        );
        Failure {
            time: stamp.time,
            pid: stamp.pid,
            tid: stamp.tid,
            location: Some(if host { "host" } else { "device" }),
            device: told.or(by_files.filter(|_| !host)),
            core: refused.and_then(|refused| refused.core).or(request.core),
            hbm: dumped.filter(|_| !host && (one_request || !request.files.is_empty())),
            requested: request.requested(),
            alignment: refused.map(|refused| align(refused.alignment)).unwrap_or_default(),
            usage: refused.and_then(|refused| refused.usage.clone()),
            errno: request.errno,
            tensor: request.tensor.clone(),
            cut: matches!(request.exact, Some((.., None))) && request.report.is_none(),
            ..Failure::default()
        }
    }

    fn format(&self, gathered: &Gathered, failed: bool) -> &'static str {
        let seen = &self.seen;
        let tables = !gathered.tables.is_empty();
        let reported = self.requests.all.iter().any(|request| request.report.is_some());
        if tables {
            if gathered.has_xt_cc || gathered.has_overall { "R2a" } else { "R2b" }
        } else if seen.rtd {
            "R0"
        } else if seen.alignment || seen.new_words {
            "R2b"
        } else if gathered.has_lists || reported {
            if gathered.split_rings || seen.hbm_list { "R1b" } else { "R1" }
        } else if seen.old_words {
            if seen.old_year { "R0" } else { "R1" }
        } else if let [first, ..] = &gathered.blocks[..] {
            if first.tensors.is_some() { "N2" } else { "N1" }
        } else if seen.old_year && failed {
            "R0"
        } else if seen.infodump {
            "X"
        } else if !self.facts.kernel.is_empty() {
            "K"
        } else {
            "other"
        }
    }
}

/// Where a table's rows are.
#[derive(Clone, Debug, Default)]
struct Place {
    device: Option<u32>,
    cores: Vec<u32>,
}

/// Its device, by the report or the cascade.
fn device_told(request: &Request) -> Option<u32> {
    request.report.as_ref().and_then(|(.., refused)| refused.device).or(request.device)
}

fn same_thread(one: &Stamp, other: &Stamp) -> bool {
    one.tid.is_some() && (one.pid, one.tid) == (other.pid, other.tid)
}

/// Each request's row: the HBM's or the device's, else the core's own list.
fn row_of(rows: &[Row], owners: &[Option<usize>]) -> HashMap<usize, usize> {
    let mut whole = HashMap::new();
    let mut lists = HashMap::new();
    for (index, (row, owner)) in rows.iter().zip(owners).enumerate() {
        let Some(owner) = *owner else { continue };
        if row.scope.core.is_none() && row.scope.device.is_some() {
            whole.entry(owner).or_insert(index);
        } else if row.table.is_none() {
            lists.entry(owner).or_insert(index);
        }
    }
    lists.extend(whole);
    lists
}

/// `2026-05-21T15:02:21Z`.
fn utc(seconds: u64) -> String {
    let text = Time { seconds, micros: 0 }.to_string();
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut text = text.split('.').next().unwrap_or_default().replace(' ', "T");
    for (number, month) in (1..).zip(months) {
        text = text.replace(&format!("-{month}-"), &format!("-{number:02}-"));
    }
    text + "Z"
}
