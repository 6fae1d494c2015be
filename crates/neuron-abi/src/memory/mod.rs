//! How memory is named: location, the driver's categories, the runtime's usage types and the columns of
//! its report (spec/mempool.md 8, spec/dmem.md 2).
//!
//! Three number spaces overlap and must not be mixed up:
//!
//! | type | values | who counts by it |
//! |---|---|---|
//! | [`UsageType`] | 22 | the runtime's counters: one per core and usage |
//! | [`Category`] | 20 | the driver: `mem_type` of an allocation, sysfs counters |
//! | [`Aggregate`] | 12 | the runtime's report: one column each |
//!
//! A usage type *projects* to a category for its location ([`UsageType::host_category`],
//! [`UsageType::device_category`]) and to an aggregate ([`UsageType::aggregate`]); nothing goes back.
//!
//! No counters live here, only the names they count by.

mod category;
mod usage;

pub use category::{Category, MemLocation};
pub use usage::{Aggregate, DOUBTFUL_PAIR, DoubtfulUsage, UsageType};

#[cfg(test)]
mod tests;
