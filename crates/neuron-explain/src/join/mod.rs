//! Messages of many threads joined to facts.
//!
//! | module | what it joins |
//! |---|---|
//! | here | which message goes where, record by record |
//! | `requests` | exact lines, reports, repeats, files: refused requests |
//! | `usage`, `table` | rows of tables, lists, blocks |
//! | `statuses` | statuses with the failures they are of |
//! | `end` | what can be told only at the end of the log |

mod end;
mod requests;
mod statuses;
mod table;
mod usage;

use std::collections::HashMap;

use neuron_dmem::report::Alignment;

use crate::facts::{Compat, Facts, Kernel, KernelLine, Scope};
use crate::lex::{Message, lex};
use crate::prefix::{Record, Stamp};

use requests::Requests;
use statuses::Statuses;
use usage::{Gathered, ListHead, Usage};

/// Streams, kernel lines, files, variables that are kept, each.
const MOST: usize = 10_000;

/// What decides the format.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) rtd: bool,
    pub(crate) infodump: bool,
    pub(crate) old_year: bool,
    pub(crate) new_words: bool,
    pub(crate) old_words: bool,
    pub(crate) alignment: bool,
    pub(crate) hbm_list: bool,
}

/// Takes records, gives facts.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    at: u64,
    requests: Requests,
    statuses: Statuses,
    streams: HashMap<Option<u64>, Usage>,
    gathered: Gathered,
    facts: Facts,
    files: Vec<crate::lex::DumpFile>,
    usage_device: Option<u32>,
    seen: Seen,
    attentive: bool,
}

impl Joiner {
    /// Whether lines that say nothing known by themselves may matter now.
    pub(crate) const fn attentive(&self) -> bool {
        self.attentive
    }

    /// Takes a record; `cut`: the input ends in it, without a newline.
    pub(crate) fn record(&mut self, raw: &str, cut: bool) {
        self.at += 1;
        let record = Record::split(raw);
        let messages = lex(&record, raw, cut);
        self.year(&record.stamp);
        if record.is_error && record.module.is_some() {
            self.statuses.line(&record.stamp);
        }
        let mut known = false;
        for message in messages {
            known |= self.message(&record, raw, message, cut);
        }
        if !known && let Some(stream) = self.streams.get_mut(&record.tag) {
            stream.other(raw.trim().is_empty());
        }
        self.attentive = self.streams.values().any(Usage::attentive);
    }

    /// Whether the message belongs to a list, block or table.
    fn message(&mut self, record: &Record<'_>, raw: &str, message: Message, cut: bool) -> bool {
        let (at, stamp) = (self.at, &record.stamp);
        match message {
            Message::Exact { location, bytes } => {
                let old = record.message.contains("Failed to alloc ");
                self.seen.old_words |= old;
                self.seen.new_words |= !old;
                self.seen.rtd |= record.bracketed;
                if let Some(index) = self.requests.exact(at, stamp, location, bytes) {
                    let status = self.statuses.enclosing(record.bracketed);
                    self.requests
                        .all
                        .get_mut(index)
                        .into_iter()
                        .for_each(|it| it.enclosed = it.enclosed.or(status));
                }
            }
            Message::Refused(refused) => {
                self.seen.alignment |= refused.alignment != Alignment::NotPrinted;
                let Some((request, first)) = self.requests.report(at, stamp, &refused) else { return false };
                if refused.list && !refused.host {
                    let scope = Scope { device: refused.device, hbm: None, core: refused.core };
                    self.stream(record.tag).list(ListHead { scope, request: Some(request), discard: !first });
                    return true;
                }
            }
            Message::Repeat(bytes) => self.requests.repeat(bytes),
            Message::Tensor(name) => {
                self.requests.cascade(stamp, |it| it.tensor = it.tensor.take().or(Some(name)))
            }
            Message::File { file, announced } => {
                if self.files.len() < MOST && !self.files.iter().any(|it| it.path == file.path) {
                    self.files.push(file.clone());
                }
                self.requests.file(stamp, file, announced);
            }
            Message::Sharing { lnc_size, cores } => {
                if self.facts.lnc_size.is_none() {
                    (self.facts.lnc_size, self.facts.cores_on_hbm) = (Some(lnc_size), cores);
                }
            }
            Message::Device(device) => {
                self.requests.cascade(stamp, |it| it.device = it.device.or(Some(device)))
            }
            Message::Core(core) => self.requests.cascade(stamp, |it| it.core = it.core.or(Some(core))),
            Message::Channel(channel) => {
                self.requests.cascade(stamp, |it| it.channel = it.channel.or(Some(channel)));
            }
            Message::Errno(errno) => self.requests.cascade(stamp, |it| it.errno = it.errno.or(Some(errno))),
            Message::Status { status, name, place, enclosing } => {
                self.statuses.add(at, stamp, status, name, place, enclosing);
                self.seen.rtd |= enclosing;
            }
            Message::RingLimit(text) => {
                if self.facts.ring_limits.len() < MOST {
                    self.facts.ring_limits.push(text);
                }
            }
            Message::Mismatch { runtime_id, driver } => {
                self.facts.mismatch = true;
                let compat = Compat {
                    runtime_id,
                    driver_min: driver.map(|it| it.0),
                    driver_max: driver.map(|it| it.1),
                };
                self.facts.compat.get_or_insert(compat);
            }
            Message::Runtime(version) => {
                self.facts.versions.runtime.get_or_insert(version);
            }
            Message::Driver(version) => {
                self.facts.versions.driver.get_or_insert(version);
            }
            Message::Env { name, value } => {
                if self.facts.env.len() < MOST {
                    self.facts.env.entry(name).or_insert(value);
                }
            }
            Message::Infodump => self.seen.infodump = true,
            Message::Kernel { uptime, kernel } => self.kernel(uptime, kernel),
            Message::KernelUsage(device) => self.usage_device = Some(device),
            of_usage => return self.of_usage(record, raw, of_usage, cut),
        }
        false
    }

    fn of_usage(&mut self, record: &Record<'_>, raw: &str, message: Message, cut: bool) -> bool {
        let mut all = std::mem::take(&mut self.gathered);
        let title = self.requests.current(&record.stamp);
        let stream = self.stream(record.tag);
        let known = match message {
            Message::TableTitle => {
                stream.title(title);
                true
            }
            Message::Bars => stream.bars(raw, cut, &mut all),
            Message::NamesTitle => {
                stream.names_follow();
                true
            }
            Message::Name { id, name } => stream.name(id, &name, &mut all),
            Message::Page(size) => {
                all.page = all.page.or(Some(size));
                true
            }
            Message::BlockFollows => {
                stream.block_follows(&record.stamp);
                true
            }
            Message::Block { device, core, total } => {
                stream.block(record.module.is_some(), device, core, total, &mut all);
                true
            }
            Message::BlockNeff(name) => {
                stream.block_neff(name, &mut all);
                true
            }
            Message::HbmList { device, hbm } => {
                let head = stream.last_head().cloned();
                let device = device.or(head.as_ref().and_then(|head| head.scope.device));
                let discard = head.as_ref().is_some_and(|head| head.discard);
                let request = head.and_then(|head| head.request).or(title);
                stream.list(ListHead { scope: Scope { device, hbm, core: None }, request, discard });
                self.seen.hbm_list = true;
                true
            }
            Message::Bullet { key, size } => stream.bullet(key, size, &mut all),
            _ => false,
        };
        self.gathered = all;
        known
    }

    fn stream(&mut self, tag: Option<u64>) -> &mut Usage {
        // Too many streams are one: what they mix up is no worse than without a tag.
        let tag = if self.streams.len() < 1000 || self.streams.contains_key(&tag) { tag } else { None };
        self.streams.entry(tag).or_default()
    }

    fn kernel(&mut self, uptime: Option<f64>, mut kernel: Kernel) {
        if let Kernel::OpenCount { device, .. } = &mut kernel {
            *device = self.usage_device.map(u64::from);
        }
        if self.facts.kernel.len() < MOST {
            self.facts.kernel.push(KernelLine { uptime, kernel });
        } else {
            self.facts.left_out += 1;
        }
    }

    fn year(&mut self, stamp: &Stamp) {
        let year = stamp.time.as_deref().and_then(|time| time.get(..4)?.parse::<u32>().ok());
        self.seen.old_year |= year.is_some_and(|year| year < 2023);
    }
}
