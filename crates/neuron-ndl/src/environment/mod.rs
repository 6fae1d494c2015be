//! The environment variables that decide how devices are reached and used (`spec/ndl.md` 7,
//! `spec/nrt-abi.md` 5), each with its type, read once.
//!
//! | module | what lives there |
//! |---|---|
//! | `variables` | [`Environment`]: the values, and what follows where nothing is set |
//! | `cores` | [`CoreList`], [`CoreLayout`]: which cores a process sees, and where they are |
//! | `backend` | [`BackendName`]: where devices are looked for |
//! | `instance` | which machine the software backend presents |
//! | `value` | what counts as a number, a switch, a list |
//! | `error` | [`EnvironmentError`]: the variable, its value, what is accepted |
//!
//! Not here: what the allocator's log and report read (`neuron_dmem::log::LogOptions`,
//! `neuron_dmem::report::DumpOptions`). `docs/environment.md` has them all.
//!
//! ```
//! use neuron_ndl::environment::{CoreLayout, Environment};
//!
//! let set = |name: &str| (name == "NEURON_RT_VISIBLE_CORES").then(|| "2-3,4".into());
//! let environment = Environment::from_variables(set)?;
//! // Two devices of 2 cores, each a logical core: 4 is not there.
//! let layout = CoreLayout { devices: 2, cores_per_device: 2, logical_size: 1 };
//! let error = environment.visible(layout).unwrap_err().to_string();
//! assert!(error.contains("entry `4`"), "{error}");
//! # Ok::<(), neuron_ndl::environment::EnvironmentError>(())
//! ```

mod backend;
mod cores;
mod error;
mod instance;
mod value;
mod variables;

pub use backend::BackendName;
pub use cores::{CoreLayout, CoreList};
pub use error::EnvironmentError;
pub use instance::{DEFAULT_INSTANCE, instance_from_environment};
pub(crate) use value::printable;
pub use variables::{Environment, Reading, VARIABLES, default_direct_write};
