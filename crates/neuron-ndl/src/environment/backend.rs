//! Where devices are looked for.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use neuron_wire::address::SCHEME;
use neuron_wire::{Address, AddressError};

use super::error::EnvironmentError;
use super::value::{Held, printable};

/// The variable that names a backend.
pub(super) const BACKEND: &str = "NEURON_MEM_BACKEND";

/// Where devices are looked for; ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendName {
    /// A machine without hardware, in this process.
    #[default]
    Software,
    /// `/dev/neuronN`.
    Kernel,
    /// A server's devices: `unix:PATH`.
    Unix(Address),
}

/// A backend that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendNameError {
    /// A server's address that is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Something else.
    #[error("there is no backend `{0}`; there are: software, kernel, unix:PATH")]
    Unknown(String),
}

impl BackendName {
    /// Those that are all in their name.
    pub const LOCAL: [Self; 2] = [Self::Software, Self::Kernel];

    /// What `NEURON_MEM_BACKEND` asks for; `None` if it is not set, or empty. The other
    /// variables are not looked at.
    ///
    /// # Errors
    /// It names no backend.
    pub fn from_environment() -> Result<Option<Self>, EnvironmentError> {
        let value = std::env::var_os(BACKEND).filter(|value| !value.is_empty());
        value.map(|value| Self::from_value(&value)).transpose()
    }

    pub(super) fn from_value(value: &OsStr) -> Result<Self, EnvironmentError> {
        const ACCEPTED: &str = "software, kernel, or unix:PATH with at most 107 bytes of path";
        let held = Held { variable: BACKEND, value };
        held.text(ACCEPTED)?.parse().map_err(|_: BackendNameError| held.wrong(ACCEPTED))
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Software => f.write_str("software"),
            Self::Kernel => f.write_str("kernel"),
            Self::Unix(address) => address.fmt(f),
        }
    }
}

impl FromStr for BackendName {
    type Err = BackendNameError;

    fn from_str(text: &str) -> Result<Self, BackendNameError> {
        match text {
            "software" => Ok(Self::Software),
            "kernel" => Ok(Self::Kernel),
            _ if text.starts_with(SCHEME) => Ok(Self::Unix(text.parse()?)),
            _ => Err(BackendNameError::Unknown(printable(text))),
        }
    }
}
