//! What is wrong with a trace, and where.

use std::borrow::Cow;

/// A trace that cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not what it should be.
    #[error("line {line}, column {column}: {what}")]
    Line {
        /// Line, from 1.
        line: u64,
        /// Byte of the line, from 1: where it goes wrong, or the last that was looked at.
        column: u64,
        /// What is there, and what was expected.
        what: String,
    },
    /// The input could not be read.
    #[error("line {line}: cannot read on")]
    Io {
        /// Line, from 1, that was being read.
        line: u64,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// What is wrong with the value of a key, by somebody who knows more than one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The key.
    pub key: &'static str,
    /// What is wrong, and what was expected.
    pub what: Cow<'static, str>,
}

impl Wrong {
    /// Of this key.
    pub fn new(key: &'static str, what: impl Into<Cow<'static, str>>) -> Self {
        Self { key, what: what.into() }
    }
}
