//! What is wrong with a variable: a message names it, its value, and what is accepted.

/// Why the environment cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A value of another kind.
    #[error("{variable} is `{value}`, but it has to be {accepted}")]
    Value {
        /// The variable.
        variable: &'static str,
        /// What it holds, fit for a terminal.
        value: String,
        /// What it may hold.
        accepted: &'static str,
    },
    /// An entry of a list that cannot be followed (NRT_INVALID to a client, `spec/ndl.md` 8.5).
    #[error("{variable} is `{value}`, whose entry `{entry}` {problem}")]
    Entry {
        /// The variable.
        variable: &'static str,
        /// What it holds, fit for a terminal.
        value: String,
        /// The entry.
        entry: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// More than there is.
    #[error("{variable} is {value}, but there are {present}")]
    TooMany {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: u32,
        /// How many there are, and of what.
        present: String,
    },
    /// Two names of one setting that differ.
    #[error("{first} is {first_value} and {second} is {second_value}, but they are one setting: unset one")]
    Differ {
        /// One name.
        first: &'static str,
        /// Its value.
        first_value: u32,
        /// The other name.
        second: &'static str,
        /// Its value.
        second_value: u32,
    },
}

impl EnvironmentError {
    /// The variable it is about; of two, the first.
    pub const fn variable(&self) -> &'static str {
        match self {
            Self::Value { variable, .. } | Self::Entry { variable, .. } | Self::TooMany { variable, .. } => {
                variable
            }
            Self::Differ { first, .. } => first,
        }
    }
}
