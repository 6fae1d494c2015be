//! Setting limits: where a budget is checked against what the device has.

use super::account::{Budget, Budgets};
use crate::error::DmemError;

impl Budgets {
    /// Sets a limit in bytes, or lifts it. One below what is in use takes nothing away: it
    /// refuses what comes, until enough was freed.
    ///
    /// The limit of an allocator goes with it. What is charged is the size that was asked for,
    /// and what was allocated beyond it for an alignment; not the driver's rounding to pages.
    ///
    /// # Errors
    /// NRT_INVALID if the device has no such core.
    pub fn limit(&self, budget: Budget, limit: Option<u64>) -> Result<(), DmemError> {
        if let Budget::Core(core) = budget
            && core >= self.cores
        {
            return Err(DmemError::NoCore { device: self.device, core, cores: self.cores });
        }
        self.set(budget, limit);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_has_no_budget() {
        let refused = Budgets::new(3, 2).limit(Budget::Core(2), Some(1)).unwrap_err();
        assert_eq!(refused, DmemError::NoCore { device: 3, core: 2, cores: 2 });
    }
}
