#![forbid(unsafe_code)]
//! Whether models fit in device memory, before anything is bought or loaded: every allocation
//! that loading them would make is made, in the pools of a device in software, with no bytes
//! behind it.
//!
//! | you look for | go to |
//! |---|---|
//! | what is planned: names, shapes, sizes | [`Model`], [`Tensor`] |
//! | on what, and how it is split | [`Ask`], [`Placement`], `cores`, [`spread`] |
//! | what a core costs before any model | [`Costs`] |
//! | every block that is wanted, in order | `demand` |
//! | the blocks made on a device | `device` |
//! | the answer | [`plan`], [`Answer`] |
//! | what would fit instead | `search` |
//! | the plan for a replay | [`trace`] |
//!
//! ```
//! use neuron_plan::{Ask, Model, Tensor, plan};
//!
//! let embedding = Tensor { name: "embed".into(), dtype: "BF16".into(), shape: vec![128_256, 4096], bytes: 1 << 30 };
//! let model = Model { name: "small".into(), tensors: vec![embedding] };
//! let planned = plan(&[model], &Ask::on("trn1.2xlarge"))?;
//! assert!(planned.answer.fits);
//! assert_eq!(planned.placed[0].pa, 16 << 20, "behind the firmware's reserve");
//! # Ok::<(), neuron_plan::PlanError>(())
//! ```

mod answer;
mod ask;
mod cores;
mod costs;
mod demand;
mod device;
mod error;
mod model;
mod planner;
mod search;
pub mod spread;
mod term;
pub mod trace;

pub use answer::{Answer, CostFacts, Hbm, ModelFacts, Pool, Refused, Suggestion, TensorFacts, TermFacts};
pub use ask::{Ask, DEFAULT_ALIGN, Placement};
pub use costs::Costs;
pub use demand::Block;
pub use device::Placed;
pub use error::PlanError;
pub use model::{Model, Tensor};
pub use planner::{Planned, plan};
pub use term::Term;
