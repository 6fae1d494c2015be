//! Which machine the software backend presents.

use neuron_softdev::Instance;

use super::error::EnvironmentError;
use super::value::Held;

/// The variable that names an instance type.
pub(super) const INSTANCE: &str = "NEURON_MEM_INSTANCE";

/// The instance type presented unless another is asked for.
pub const DEFAULT_INSTANCE: &str = "trn1.2xlarge";

/// What it may hold.
const ACCEPTED: &str = "one of inf2.xlarge, inf2.8xlarge, inf2.24xlarge, inf2.48xlarge, trn1.2xlarge, \
                        trn1.32xlarge, trn1n.32xlarge, trn2.3xlarge and trn2.48xlarge";

/// The instance type that `NEURON_MEM_INSTANCE` asks for; `None` if it is not set, or empty. The
/// other variables are not looked at.
///
/// # Errors
/// It names no instance type.
pub fn instance_from_environment() -> Result<Option<&'static Instance>, EnvironmentError> {
    let value = std::env::var_os(INSTANCE).filter(|value| !value.is_empty());
    value.map(|value| from_held(Held { variable: INSTANCE, value: &value })).transpose()
}

pub(super) fn from_held(held: Held<'_>) -> Result<&'static Instance, EnvironmentError> {
    Instance::by_name(&held.text(ACCEPTED)?).ok_or_else(|| held.wrong(ACCEPTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_type_is_named_as_accepted() {
        for instance in neuron_softdev::INSTANCES {
            assert!(ACCEPTED.contains(instance.name), "{}", instance.name);
        }
        assert!(Instance::by_name(DEFAULT_INSTANCE).is_some());
    }
}
