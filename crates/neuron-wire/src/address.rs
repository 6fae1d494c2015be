//! Where a server is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What an address starts with.
pub const SCHEME: &str = "unix:";

/// Most bytes of a socket's path (`sun_path` less its final zero).
const LONGEST_PATH: usize = 107;

/// The socket of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address(PathBuf);

/// A text, or a path, that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Does not begin as one.
    #[error("{0:?} is no address of a server: write unix:PATH")]
    Scheme(String),
    /// No path.
    #[error("the path of the server's socket is missing: write unix:PATH")]
    Empty,
    /// A path that no socket can have.
    #[error("the path of a socket has at most {LONGEST_PATH} bytes, and {0:?} has {1}: use a shorter one")]
    TooLong(PathBuf, usize),
}

impl Address {
    /// The socket at a path.
    ///
    /// # Errors
    /// No path, or one that is too long.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, AddressError> {
        let path = path.into();
        match path.as_os_str().len() {
            0 => Err(AddressError::Empty),
            bytes if bytes > LONGEST_PATH => Err(AddressError::TooLong(path, bytes)),
            _ => Ok(Self(path)),
        }
    }

    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0.display())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let path = text.strip_prefix(SCHEME).ok_or_else(|| AddressError::Scheme(text.to_owned()))?;
        Self::new(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_is_written_and_says_what_is_wrong() {
        let address: Address = "unix:/run/neuron.sock".parse().unwrap();
        assert_eq!(
            (address.path(), address.to_string().as_str()),
            (Path::new("/run/neuron.sock"), "unix:/run/neuron.sock")
        );
        assert_eq!("unix:".parse::<Address>(), Err(AddressError::Empty));
        assert!(matches!("tcp:1".parse::<Address>(), Err(AddressError::Scheme(_))));
        let long = format!("unix:/{}", "x".repeat(107));
        assert!(long.parse::<Address>().unwrap_err().to_string().contains("at most 107 bytes"));
    }
}
