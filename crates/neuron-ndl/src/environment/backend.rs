//! Where devices are looked for.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use super::error::EnvironmentError;
use super::value::{Held, printable};

/// The variable that names a backend.
pub(super) const BACKEND: &str = "NEURON_MEM_BACKEND";

/// Where devices are looked for; ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendName {
    /// A machine without hardware, in this process.
    #[default]
    Software,
    /// `/dev/neuronN`.
    Kernel,
}

/// A backend that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendNameError {
    /// A socket.
    #[error("`{0}` is a backend in another process, which is not supported yet; there are: software, kernel")]
    Socket(String),
    /// Something else.
    #[error("there is no backend `{0}`; there are: software, kernel")]
    Unknown(String),
}

impl BackendName {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Software, Self::Kernel];

    /// As it is written on the command line and in the environment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Kernel => "kernel",
        }
    }

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
        const ACCEPTED: &str = "software or kernel";
        let held = Held { variable: BACKEND, value };
        held.text(ACCEPTED)?.parse().map_err(|error| match error {
            BackendNameError::Socket(_) => {
                held.wrong("software or kernel (a backend in another process is not supported yet)")
            }
            BackendNameError::Unknown(_) => held.wrong(ACCEPTED),
        })
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BackendName {
    type Err = BackendNameError;

    fn from_str(text: &str) -> Result<Self, BackendNameError> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == text);
        found.ok_or_else(|| match text.starts_with("unix:") {
            true => BackendNameError::Socket(printable(text)),
            false => BackendNameError::Unknown(printable(text)),
        })
    }
}
