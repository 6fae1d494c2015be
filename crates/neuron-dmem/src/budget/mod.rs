//! Budgets: how much device memory a core, an owner (an allocator) or a usage type may have.
//! Ours; the runtime has none. They are soft: nothing is reserved on the device, what is in
//! use is never taken away, and host memory is not counted.
//!
//! | module | what lives there |
//! |---|---|
//! | `account` | [`Budgets`]: limits, what is in use, and the reservation around a driver call |
//! | `limits` | setting them |
//! | `refusal` | [`BudgetRefusal`]: what the caller is told |
//!
//! ```
//! use neuron_abi::memory::UsageType;
//! use neuron_abi::status::NrtStatus;
//! use neuron_dmem::budget::Budget;
//! use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory};
//! use neuron_ndl::{Device, software::Machine};
//!
//! let machine = Machine::new("trn1.2xlarge")?;
//! let memory = DeviceMemory::new(Device::open(&machine, 0)?);
//! let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "llama")?;
//! memory.budgets().limit(Budget::Usage(UsageType::Tensor), Some(1 << 20))?;
//! memory.budgets().limit(model.budget(), Some(8 << 20))?;
//!
//! let tensor = AllocRequest::device(600 << 10, UsageType::Tensor);
//! let first = model.allocate(&tensor.hint("kv.0"))?;
//! let refused = model.allocate(&tensor.hint("kv.1")).err().ok_or("over budget")?;
//! assert_eq!(refused.status(), NrtStatus::Resource);
//! assert!(refused.to_string().contains("`kv.0`"));
//!
//! drop(first);
//! model.allocate(&tensor.hint("kv.1"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod limits;
mod refusal;

pub(crate) use account::Reservation;
pub use account::{Budget, BudgetUse, Budgets, OwnerId};
pub use refusal::{BudgetRefusal, OwnerBytes, Subject};
