//! What kind of log is kept, and the environment variables that say so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::error::LogError;
use super::layout::{Geometry, Header, MAX_CAPACITY};

/// Names the file.
const FILE: &str = "NEURON_MEM_LOG";
/// Events that the ring holds, as for the runtime (`spec/ndl.md` 7, `spec/dmem.md` 9.4).
const SIZE: &str = "NEURON_RT_DEBUG_MEMLOG_MAX_SIZE";

/// What kind of log is kept of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    capacity: u64,
    rows: u64,
    path: Option<PathBuf>,
}

impl Default for LogOptions {
    /// In memory, with the runtime's capacity of 0x100000 events (`spec/dmem.md` 9.4) and
    /// room for 65,533 owners and hints (our choice).
    fn default() -> Self {
        Self { capacity: 0x10_0000, rows: 0x1_0000, path: None }
    }
}

impl LogOptions {
    /// As the environment says: `NEURON_MEM_LOG`, the path of a file, empty for none, and
    /// `NEURON_RT_DEBUG_MEMLOG_MAX_SIZE`, the events that the ring holds.
    ///
    /// # Errors
    /// [`LogError::Setting`] if that is no number.
    pub fn from_environment() -> Result<Self, LogError> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, LogError> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let mut options = Self::default();
        if let Some(value) = set(SIZE) {
            let value = value.to_string_lossy();
            let number = value.trim().parse().ok().filter(|&number| number <= MAX_CAPACITY);
            let wrong = || LogError::Setting { variable: SIZE, value: value.escape_debug().to_string() };
            options.capacity = number.ok_or_else(wrong)?;
        }
        options.path = set(FILE).map(PathBuf::from);
        Ok(options)
    }

    /// A ring of so many events; 0 for none: counters and peaks are kept all the same.
    #[must_use]
    pub fn events(self, capacity: u64) -> Self {
        Self { capacity, ..self }
    }

    /// Room for so many owners and hints; those beyond count as others. At least one, at most
    /// a million (our choice).
    #[must_use]
    pub fn names(self, names: u32) -> Self {
        use super::layout::MAX_ROWS;
        use super::rows::FIRST_ROW;
        Self { rows: u64::from(names.max(1)).saturating_add(FIRST_ROW).min(MAX_ROWS), ..self }
    }

    /// In this file, which others can read, now and when the process is no more.
    #[must_use]
    pub fn file(self, path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Bytes that the log takes, in memory or as a file.
    pub fn bytes(&self) -> u64 {
        Geometry { capacity: self.capacity.min(MAX_CAPACITY), rows: self.rows }.bytes()
    }

    pub(super) fn header(&self, device: u8) -> Result<Header, LogError> {
        if self.capacity > MAX_CAPACITY {
            return Err(LogError::Capacity { capacity: self.capacity });
        }
        let geometry = Geometry { capacity: self.capacity, rows: self.rows };
        Ok(Header { geometry, device: device.into(), pid: std::process::id().into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(file: &str, size: &str) -> Result<LogOptions, LogError> {
        LogOptions::from_variables(|name| Some(if name == FILE { file.into() } else { size.into() }))
    }

    #[test]
    fn the_environment_names_file_and_capacity() {
        let unset = LogOptions::from_variables(|_| None).unwrap();
        assert_eq!(unset, LogOptions::default());
        assert_eq!(unset.capacity, 1_048_576);
        assert_eq!(with("", "").unwrap(), unset, "empty is unset");
        assert_eq!(with("a b/log", " 16 ").unwrap(), LogOptions::default().events(16).file("a b/log"));
        assert_eq!(with("", "0").unwrap().capacity, 0);
    }

    #[test]
    fn a_capacity_that_is_none_is_refused_by_name() {
        for value in ["x", "-1", "67108865", "0x10", "99999999999999999999"] {
            let error = with("", value).unwrap_err().to_string();
            assert!(error.contains("NEURON_RT_DEBUG_MEMLOG_MAX_SIZE") && error.contains(value), "{error}");
        }
        let error = LogOptions::default().events(MAX_CAPACITY + 1).header(0).unwrap_err();
        assert!(matches!(error, LogError::Capacity { capacity: 67_108_865 }));
    }

    #[test]
    fn room_for_names_is_bounded() {
        let rows = |names| LogOptions::default().names(names).rows;
        assert_eq!([0, 1, 100, u32::MAX].map(rows), [4, 4, 103, 1 << 20]);
    }
}
