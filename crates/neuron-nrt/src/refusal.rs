//! Why a call fails, and with which status (`spec/nrt-abi.md` 7).

use neuron_abi::status::NrtStatus;
use neuron_dmem::DmemError;
use neuron_dmem::log::LogError;
use neuron_ndl::environment::EnvironmentError;
use neuron_ndl::{ClaimError, NdlError};

/// A call that fails.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Refusal {
    pub(crate) status: NrtStatus,
    pub(crate) why: String,
    /// Said to the caller alone, not to the log.
    pub(crate) quiet: bool,
}

impl Refusal {
    pub(crate) fn new(status: NrtStatus, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), quiet: false }
    }

    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::new(NrtStatus::Invalid, why)
    }

    pub(crate) fn failure(why: impl Into<String>) -> Self {
        Self::new(NrtStatus::Failure, why)
    }

    /// A handle that is none, of a tensor or a set.
    pub(crate) fn handle(what: &str) -> Self {
        Self::new(
            NrtStatus::InvalidHandle,
            format!("no {what} has this handle: it was freed, or never given out"),
        )
    }

    /// The pointer that is NULL.
    pub(crate) fn null(argument: &str) -> Self {
        Self::invalid(format!("`{argument}` is NULL"))
    }

    pub(crate) fn quiet(self) -> Self {
        Self { quiet: true, ..self }
    }
}

/// An error with its causes, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl From<DmemError> for Refusal {
    fn from(error: DmemError) -> Self {
        Self::new(error.status(), with_causes(&error))
    }
}

impl From<NdlError> for Refusal {
    fn from(error: NdlError) -> Self {
        Self::failure(with_causes(&error))
    }
}

impl From<EnvironmentError> for Refusal {
    fn from(error: EnvironmentError) -> Self {
        let status = match error {
            // More cores than there are is too few free ones.
            EnvironmentError::TooMany { .. } => NrtStatus::Resource,
            _ => NrtStatus::Invalid,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ClaimError> for Refusal {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Busy { .. } => Self::new(NrtStatus::Resource, error.to_string()),
            error => Self::failure(error.to_string()),
        }
    }
}

impl From<LogError> for Refusal {
    fn from(error: LogError) -> Self {
        let status = match error {
            LogError::Setting { .. } => NrtStatus::Invalid,
            _ => NrtStatus::Failure,
        };
        Self::new(status, with_causes(&error))
    }
}
