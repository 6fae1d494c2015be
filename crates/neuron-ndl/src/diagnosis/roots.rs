//! Where the system's folders are, and reading them so that nothing in them can hurt: only
//! plain files, only so many bytes, never a device.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use neuron_abi::limits::MAX_DEVICES;

use crate::environment::printable;

/// Most that is read of a file, bytes (our choice): a group file of a large site fits.
const MOST_BYTES: u64 = 1 << 20;
/// Most entries of a folder that are looked at (our choice): more than a system has processes.
const MOST_ENTRIES: usize = 1 << 20;

/// Where the system's folders are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/dev`.
    pub dev: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
    /// `/`, for the signs of a container and the names of groups.
    pub root: PathBuf,
}

impl Roots {
    /// Those of the running system.
    pub fn system() -> Self {
        Self::below("/")
    }

    /// Those of a tree in a folder, for tests and for trees that were copied from elsewhere.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        let root = folder.into();
        Self { dev: root.join("dev"), sys: root.join("sys"), proc: root.join("proc"), root }
    }

    /// The node of a device.
    pub fn node(&self, index: u8) -> PathBuf {
        self.dev.join(format!("neuron{index}"))
    }

    /// The devices that have a node, ascending (`spec/ndl.md` 2: access to 0 to 63).
    pub fn nodes(&self) -> Vec<u8> {
        indices().filter(|&index| fs::metadata(self.node(index)).is_ok()).collect()
    }

    /// The devices that `/sys` shows, ascending; `None` if it has no such class.
    pub fn class(&self) -> Option<Vec<u8>> {
        let class = self.sys.join("class/neuron_device");
        fs::symlink_metadata(&class).ok()?;
        let is_there = |index: &u8| fs::symlink_metadata(class.join(format!("neuron{index}"))).is_ok();
        Some(indices().filter(is_there).collect())
    }

    /// A file below `/sys` that belongs to a device.
    pub(super) fn of_device(&self, index: u8, file: &str) -> PathBuf {
        self.sys.join(format!("class/neuron_device/neuron{index}")).join(file)
    }

    /// What the driver calls the product of the first device that says it: `Trn1`, `Inf2`.
    pub fn instance(&self) -> Option<String> {
        let file = |index| self.of_device(index, "info/architecture/instance_type");
        self.class()?.into_iter().find_map(|index| first_line(&file(index)))
    }
}

fn indices() -> impl Iterator<Item = u8> {
    (0..=u8::MAX).take(MAX_DEVICES)
}

/// The bytes of a plain file, at most a MiB.
fn bytes(path: &Path) -> Option<Vec<u8>> {
    // A pipe of this name must not be waited for, nor a device be opened for good.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let mut bytes = Vec::new();
    // What could be read before an error counts.
    let read = file.take(MOST_BYTES).read_to_end(&mut bytes);
    (read.is_ok() || !bytes.is_empty()).then_some(bytes)
}

/// The text of a file; what is no UTF-8 shows as U+FFFD. `None` if it cannot be read.
pub(super) fn text(path: &Path) -> Option<String> {
    bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The first line of a file, fit for a terminal; `None` if it cannot be read or is blank.
pub(super) fn first_line(path: &Path) -> Option<String> {
    let text = text(path)?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| printable(line))
}

/// The names in a folder, in order; none if it cannot be listed.
pub(super) fn names(folder: &Path) -> Vec<OsString> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.take(MOST_ENTRIES).filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort();
    names
}

/// The value of a line `key: value` of a text such as `/proc/self/status`.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}
