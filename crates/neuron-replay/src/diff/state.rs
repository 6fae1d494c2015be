//! What a trace or usage log holds when it holds most, and what it never frees. The file is read
//! twice: to find that moment, and to stop there. What a report of memory in use holds is given.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use neuron_abi::memory::MemLocation;
use neuron_dmem::log::{LogError, LogFile};
use neuron_dmem::trace::events;
use serde::Serialize;

use crate::ledger::{Ledger, Slot};
use crate::trace::{Event, Format, Reader, TraceError, Wrong};

/// Why a file cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// It cannot be read.
    #[error("cannot read it")]
    Io(#[from] std::io::Error),
    /// It is a trace with something wrong.
    #[error(transparent)]
    Trace(TraceError),
    /// It is no trace, and as a usage log there is something wrong with it. Reports are read elsewhere.
    #[error("no trace (its first byte is not `{{`), no report of memory in use, and no usage log")]
    Log(#[source] LogError),
}

/// What a state was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A trace, at its peak.
    #[default]
    Trace,
    /// A usage log, at its peak.
    UsageLog,
    /// A report of memory in use: sums by category, and no names.
    Report,
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(super) source: Source,
    pub(super) held: Vec<Held>,
    pub(super) never_freed: Vec<Held>,
}

/// Memory that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) category: &'static str,
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) is_named: bool,
    pub(super) place: Place,
    pub(super) bytes: u64,
    /// How far from the truth that may be.
    pub(super) tol: u64,
}

/// A sum of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Category, as traces call it.
    pub category: &'static str,
    /// Whose it is, if that is told.
    pub owner: Option<String>,
    /// Where, as far as that is told.
    pub place: Place,
    /// Bytes.
    pub bytes: u64,
    /// How far from the truth that may be, bytes: figures are printed rounded.
    pub tol: u64,
}

/// Where memory is. A report may not tell all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Device.
    pub device: Option<u32>,
    /// Host memory for the device.
    pub host: bool,
    /// HBM; `None` for host memory.
    pub hbm: Option<u32>,
    /// Core.
    pub core: Option<u32>,
}

impl Place {
    pub(super) fn core(self) -> Option<String> {
        let core = self.core.filter(|_| !self.host);
        core.map(|core| Self { device: self.device, core: Some(core), ..Self::default() }.to_string())
    }

    pub(super) fn hbm(self) -> Option<String> {
        self.hbm.map(|hbm| Self { device: self.device, hbm: Some(hbm), ..Self::default() }.to_string())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device {
            Some(device) => write!(f, "neuron{device}")?,
            None => f.write_str("a device")?,
        }
        if self.host {
            f.write_str(" host")?;
        }
        if let Some(hbm) = self.hbm {
            write!(f, " HBM {hbm}")?;
        }
        self.core.map_or(Ok(()), |core| write!(f, " core {core}"))
    }
}

/// A file that can be read again.
enum Input {
    Trace(PathBuf),
    Log(Box<LogFile>),
}

/// What takes the events: false for no more.
type Take<'a> = dyn FnMut(&Event<'_>) -> Result<bool, Wrong> + 'a;

impl Input {
    fn open(path: &Path) -> Result<Self, DiffError> {
        let mut first = [0];
        let read = File::open(path)?.read(&mut first)?;
        if read == 1 && first == *b"{" {
            return Ok(Self::Trace(path.to_owned()));
        }
        LogFile::open(path).map(|log| Self::Log(Box::new(log))).map_err(DiffError::Log)
    }

    fn each(&self, take: &mut Take<'_>) -> Result<(), DiffError> {
        match self {
            Self::Trace(path) => {
                let input = BufReader::new(File::open(path)?);
                let mut reader = Reader::new(input, Format::Native).map_err(DiffError::Trace)?;
                while let Some(event) = reader.next_event().map_err(DiffError::Trace)? {
                    match take(&event) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(wrong) => return Err(DiffError::Trace(reader.wrong(&wrong))),
                    }
                }
            }
            Self::Log(log) => {
                // Its events come from one hand: nothing is freed in it that it has not allocated.
                let mut more = true;
                events::of_log(log, |event| more = more && take(event).unwrap_or(false));
            }
        }
        Ok(())
    }
}

/// What lives, and how much that is.
#[derive(Default)]
struct Living {
    ledger: Ledger,
    bytes: u64,
    at_exit: Vec<Held>,
}

impl Living {
    fn apply(&mut self, event: &Event<'_>) -> Result<(), Wrong> {
        match event {
            Event::Alloc(alloc) if !alloc.refused => {
                self.ledger.open(0, alloc);
                self.bytes = self.bytes.saturating_add(alloc.size);
            }
            Event::Free { id, .. } => {
                let index = self.ledger.find(*id)?;
                self.close(index, false);
            }
            Event::Copy(copy) => drop(self.ledger.find(copy.id)?),
            Event::Exit { pid, .. } => {
                while let Some(index) = self.ledger.newest_of(*pid) {
                    self.close(index, true);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, index: u32, by_exit: bool) {
        if let Some(slot) = self.ledger.slot(index) {
            self.bytes = self.bytes.saturating_sub(slot.size);
            if by_exit {
                self.at_exit.push(held(&self.ledger, slot));
            }
        }
        self.ledger.close(index);
    }

    fn held(&self) -> Vec<Held> {
        self.ledger.living().map(|(_, slot)| held(&self.ledger, slot)).collect()
    }
}

fn held(ledger: &Ledger, slot: &Slot) -> Held {
    let on_host = slot.location == MemLocation::Host;
    let name = slot.hint.clone().unwrap_or_else(|| format!("({})", slot.usage.name()));
    Held {
        category: if on_host { "host memory" } else { slot.usage.aggregate().name() },
        owner: ledger.owners.text(slot.owner).to_owned(),
        name,
        is_named: slot.hint.is_some(),
        place: Place {
            device: Some(slot.device.into()),
            host: on_host,
            hbm: (!on_host).then_some(slot.hbm),
            core: Some(slot.core),
        },
        bytes: slot.size,
        tol: 0,
    }
}

impl State {
    /// Reads a trace or a usage log.
    ///
    /// # Errors
    /// [`DiffError`] with what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, DiffError> {
        let input = Input::open(path)?;
        let (mut living, mut seen, mut most) = (Living::default(), 0_u64, (0, 0));
        input.each(&mut |event| {
            living.apply(event)?;
            seen += 1;
            if living.bytes > most.0 {
                most = (living.bytes, seen);
            }
            Ok(true)
        })?;
        let mut never_freed = std::mem::take(&mut living.at_exit);
        never_freed.extend(living.held());

        let (mut living, mut seen) = (Living::default(), 0);
        input.each(&mut |event| {
            if seen == most.1 {
                return Ok(false);
            }
            living.apply(event)?;
            seen += 1;
            Ok(true)
        })?;
        let source = match input {
            Input::Trace(_) => Source::Trace,
            Input::Log(_) => Source::UsageLog,
        };
        Ok(Self { source, held: living.held(), never_freed })
    }

    /// Of a report.
    pub fn reported(sums: impl IntoIterator<Item = Reported>) -> Self {
        let held = |sum: Reported| Held {
            category: sum.category,
            owner: sum.owner.unwrap_or_else(|| "-".to_owned()),
            name: format!("({})", sum.category),
            is_named: false,
            place: sum.place,
            bytes: sum.bytes,
            tol: sum.tol,
        };
        let held = sums.into_iter().filter(|sum| sum.bytes > 0 || sum.tol > 0).map(held).collect();
        Self { source: Source::Report, held, never_freed: Vec::new() }
    }

    /// What it was read from.
    pub const fn source(&self) -> Source {
        self.source
    }
}
