#![forbid(unsafe_code)]
//! The library behind the command `neuron-mem`: what it reads, what it asks of a device, what it shows.
//!
//! - [`cli`]: the arguments; [`exit`]: the exit codes; [`failure`]: errors on their way to both
//! - [`load`], [`plan`], [`devices`], [`rings`], [`trace`], [`log`], [`doctor`], [`explain`]: the subcommands;
//!   [`tree`]: the files of `devices --sysfs`
//! - [`replay`]: the subcommands `replay` and `diff`
//! - [`serve`], [`run`]: a machine for other processes, and programs on it
//! - [`machine`]: where the devices are
//! - [`model`]: safetensors files, shards and the built-in model, memory-mapped
//! - [`spread`]: tensors over cores; [`digest`]: comparing what was written with what is read back
//! - [`render`], [`page`], [`bytes`], [`shown`], [`progress`]: output; [`interrupt`]: Ctrl-C
//!
//! Device memory itself is `neuron-dmem`'s.

pub mod bytes;
pub mod cli;
pub mod devices;
pub mod digest;
pub mod doctor;
pub mod exit;
pub mod explain;
pub mod failure;
pub mod interrupt;
pub mod load;
pub mod log;
pub mod machine;
pub mod model;
pub mod page;
pub mod plan;
pub mod progress;
pub mod render;
pub mod replay;
pub mod rings;
pub mod run;
pub mod serve;
pub mod shown;
pub mod trace;
pub mod tree;

pub use neuron_plan::spread;
