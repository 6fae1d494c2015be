//! Ring size for a requested number of descriptors.

use neuron_driver::ring::descriptor_count;

use crate::vectors::{Mismatch, Object, Outcome, equal};

/// Compares one case.
///
/// # Errors
/// What differs.
pub fn check(case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let ours = descriptor_count(case.word("in")?);
    equal("descriptors", u64::from(ours), case.number("out")?)?;
    Ok(Outcome::Compared)
}
