//! Who has a node open, from the links in `/proc/PID/fd`.

use std::path::Path;

use super::roots::{self, Roots};

/// Most processes that are named.
const MOST_NAMED: usize = 16;

/// Who has a node open.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// Number and name of each process, ascending.
    processes: Vec<(u32, String)>,
    /// Processes whose files could not be looked at.
    hidden: usize,
}

impl Holders {
    pub(super) fn of(roots: &Roots, index: u8) -> Self {
        let (here, real) = (roots.node(index), format!("/dev/neuron{index}"));
        let mut holders = Self::default();
        for name in roots::names(&roots.proc) {
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let at = roots.proc.join(&name);
            let files = at.join("fd");
            if std::fs::read_dir(&files).is_err() {
                holders.hidden += 1;
                continue;
            }
            let is_node = |file: &std::ffi::OsString| {
                let target = std::fs::read_link(files.join(file));
                target.is_ok_and(|target| target == here || target == Path::new(&real))
            };
            if roots::names(&files).iter().any(is_node) {
                let name = roots::first_line(&at.join("comm")).unwrap_or_else(|| "?".to_owned());
                holders.processes.push((pid, name));
            }
        }
        holders.processes.sort();
        holders
    }

    /// As a part of a sentence: `held by 4711 (python3), 4712 (neuron-top)`.
    pub(super) fn words(&self) -> String {
        let named: Vec<String> =
            self.processes.iter().take(MOST_NAMED).map(|(pid, name)| format!("{pid} ({name})")).collect();
        let mut words = match self.processes.len() {
            0 => "held by no process that can be seen from here".to_owned(),
            _ => format!("held by {}", named.join(", ")),
        };
        let more = self.processes.len() - named.len();
        if more > 0 {
            words += &format!(" and {more} more");
        }
        if self.hidden == 1 {
            words += " (one process is hidden; root sees it)";
        } else if self.hidden > 1 {
            words += &format!(" ({} processes are hidden; root sees them)", self.hidden);
        }
        words
    }
}
