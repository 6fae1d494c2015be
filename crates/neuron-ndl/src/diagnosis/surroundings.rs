//! What is around a device: limits of the process, memory, folders that files go to, and the
//! environment.

use std::path::PathBuf;

use neuron_abi::arch::Generation;
use rustix::fs::{Access, access, statvfs};

use super::check::{Check, Status};
use super::roots::{self, Roots};
use crate::environment::{BackendName, CoreLayout, Reading, printable};

/// Bytes that a zero-copy has pinned at most: two steps of 64 pages (`spec/ndl.md` 4).
const PINNED: u64 = 2 * 64 * 4096;
/// Memory below which the software machine is in want of it (our choice): the bounce buffers
/// of a few devices.
const LITTLE_MEMORY: u64 = 256 << 20;

/// A folder that files go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The variable that says so.
    pub variable: &'static str,
    /// The folder.
    pub path: PathBuf,
    /// Bytes that will be written there; 0 if that is not known.
    pub bytes: u64,
    /// Whether programs refuse to start without it.
    pub required: bool,
}

/// The memory that may be pinned.
pub(super) fn pinned(roots: &Roots) -> Check {
    const NAME: &str = "memlock";
    let limits = roots::text(&roots.proc.join("self/limits")).unwrap_or_default();
    let soft = limits.lines().find_map(|line| {
        line.strip_prefix("Max locked memory").and_then(|rest| rest.split_whitespace().next())
    });
    match soft {
        Some("unlimited") => {
            Check::new(NAME, Status::Ok, "no limit of locked memory; huge pages are not needed")
        }
        Some(text) => match text.parse::<u64>() {
            Ok(bytes) if bytes >= PINNED => {
                let found = format!(
                    "{bytes} bytes of locked memory, a zero-copy pins {PINNED}; huge pages are not needed"
                );
                Check::new(NAME, Status::Ok, found)
            }
            Ok(bytes) => {
                let found =
                    format!("the limit of locked memory is {bytes} bytes, but a zero-copy pins {PINNED}");
                Check::new(NAME, Status::Warning, found)
                    .advice("`ulimit -l unlimited`; in a container, --ulimit memlock=-1")
            }
            Err(_) => not_told(NAME),
        },
        None => not_told(NAME),
    }
}

fn not_told(name: &'static str) -> Check {
    Check::new(name, Status::NotApplicable, "/proc does not tell")
}

/// The memory that the software machine can have. Its memory is in files without a name, which
/// the size of `/dev/shm` does not limit.
pub(super) fn memory(roots: &Roots) -> Check {
    const NAME: &str = "memory";
    let text = roots::text(&roots.proc.join("meminfo")).unwrap_or_default();
    let available = roots::field(&text, "MemAvailable")
        .and_then(|line| line.strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map(|kib| kib.saturating_mul(1024));
    let Some(available) = available else { return not_told(NAME) };
    let mib = available >> 20;
    if available < LITTLE_MEMORY {
        let found =
            format!("{mib} MiB of memory are left; the software machine takes what is loaded into it");
        return Check::new(NAME, Status::Warning, found).advice("free memory, or load less");
    }
    let found = format!("{mib} MiB of memory for the software machine; the size of /dev/shm does not matter");
    Check::new(NAME, Status::Ok, found)
}

/// Whether files can be written to a folder.
pub(super) fn folder(folder: &Folder) -> Check {
    const NAME: &str = "folder";
    let Folder { variable, path, bytes, required } = folder;
    let shown = printable(&path.to_string_lossy());
    let bad = if *required { Status::Failed } else { Status::Warning };
    let what = format!("{shown} ({variable})");
    let another = format!("make it, or set {variable} to another");
    match std::fs::metadata(path) {
        Err(error) => return Check::new(NAME, bad, format!("{what}: {error}")).advice(another),
        Ok(about) if !about.is_dir() => {
            return Check::new(NAME, bad, format!("{what} is no folder")).advice(another);
        }
        Ok(_) => {}
    }
    if access(path, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let advice = format!("`chmod u+wx` it, or set {variable} to another");
        return Check::new(NAME, bad, format!("{what} cannot be written to")).advice(advice);
    }
    match statvfs(path) {
        Ok(about) => {
            let free = about.f_frsize.saturating_mul(about.f_bavail);
            let mib = free >> 20;
            if free < (*bytes).max(1) {
                let found = format!("{what} has {mib} MiB free, but {} are needed", bytes.div_ceil(1 << 20));
                return Check::new(NAME, bad, found)
                    .advice(format!("free some, or set {variable} to another"));
            }
            Check::new(NAME, Status::Ok, format!("{what} can be written to, {mib} MiB free"))
        }
        Err(_) => Check::new(NAME, Status::Ok, format!("{what} can be written to")),
    }
}

/// What is known of the machine that variables are held against.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) generation: Option<Generation>,
    pub(super) devices: u32,
    pub(super) backend: BackendName,
}

/// Whether the environment can be followed. `others` are variables that somebody else reads,
/// and what is wrong with them.
pub(super) fn variables(reading: &Reading, known: &Known, others: &[String]) -> Vec<Check> {
    const NAME: &str = "variables";
    const UNSET: &str = "correct it or unset it: programs refuse to start with it";
    let mut wrong: Vec<String> = reading.errors.iter().map(ToString::to_string).collect();
    wrong.extend_from_slice(others);
    if let Some(generation) = known.generation {
        let layout = CoreLayout {
            devices: known.devices,
            cores_per_device: generation.geometry().cores,
            logical_size: reading.environment.logical_size(generation),
        };
        wrong.extend(reading.environment.visible(layout).err().map(|error| error.to_string()));
    }
    let mut checks: Vec<Check> =
        wrong.into_iter().map(|found| Check::new(NAME, Status::Failed, found).advice(UNSET)).collect();
    let idle = reading.environment.without_effect(known.generation);
    let elsewhere =
        reading.environment.backend.as_ref().filter(|&backend| *backend != known.backend).map(|backend| {
            format!(
                "NEURON_MEM_BACKEND is {backend}, but {} was asked for by name: the name counts",
                known.backend
            )
        });
    checks.extend(idle.into_iter().chain(elsewhere).map(|found| {
        Check::new(NAME, Status::Warning, found).advice("unset one, if that is not what is meant")
    }));
    if checks.is_empty() {
        let set: Vec<String> = reading.set.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let found = match set.is_empty() {
            true => "no variable is set that decides how devices are used".to_owned(),
            false => format!("set: {}", set.join(", ")),
        };
        checks.push(Check::new(NAME, Status::Ok, found));
    }
    checks
}
