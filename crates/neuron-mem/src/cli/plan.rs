//! The arguments of `plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ByteSize, CoreSelection, DEFAULT_INSTANCE};
use crate::exit::Exit;

/// Arguments of `plan`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct PlanArgs {
    /// Models that are loaded together, each a `.safetensors` file, a sharded `*.index.json`, or a folder with
    /// either; only headers are read
    #[arg(required = true, value_name = "MODEL")]
    pub models: Vec<PathBuf>,

    /// Instance type
    #[arg(long, value_name = "TYPE", default_value = DEFAULT_INSTANCE)]
    pub instance: String,

    /// Logical cores to use, over as many devices as that takes [default: those of the first device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tp: Option<u32>,

    /// Physical cores of a logical one, 1 or 2 [default: 2; 1 on trn1 and inf2, and for what `load` does]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub lnc: Option<u32>,

    /// How tensors get to cores [default: shard with --tp, else roundrobin]
    #[arg(long, value_enum)]
    pub placement: Option<Placement>,

    /// Physical cores of the first device to use: `all`, or a list such as `0,1` or `0,4-7`
    #[arg(long, value_name = "LIST")]
    pub cores: Option<CoreSelection>,

    /// KV cache in all: split over the cores, or whole on each with `replicate`
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub kv_bytes: ByteSize,

    /// Shared scratchpad of each logical core, whole pages
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub scratchpad_page: ByteSize,

    /// Scratchpad of each logical core that graphs do not share
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub scratchpad_private: ByteSize,

    /// Instructions of each logical core [default: not counted]
    #[arg(long, value_name = "SIZE")]
    pub code_bytes: Option<ByteSize>,

    /// Whose figures count for what a core costs before any model
    #[arg(long, value_enum, default_value_t = Era::Of2026)]
    pub era: Era,

    /// Microcode of each physical core [default: that of the era]
    #[arg(long, value_name = "SIZE")]
    pub microcode_bytes: Option<ByteSize>,

    /// What the runtime keeps for each physical core [default: that of the era]
    #[arg(long, value_name = "SIZE")]
    pub runtime_bytes: Option<ByteSize>,

    /// The runtime's rings of each physical core [default: those of the era]
    #[arg(long, value_name = "SIZE")]
    pub rings_bytes: Option<ByteSize>,

    /// Collectives of the first core of each pair, if tensors are sharded over several [default: those of the era]
    #[arg(long, value_name = "SIZE")]
    pub collectives_bytes: Option<ByteSize>,

    /// Alignment, a power of two, at which the largest hole is looked for too
    #[arg(long, value_name = "SIZE", default_value = "4M")]
    pub align: ByteSize,

    /// Also write the answer as a page for a browser into FILE, which is replaced
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Also write every allocation that is wanted into FILE, a trace that `replay` reads
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// How tensors get to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// Each split over all cores along its largest dimension that divides, else whole on each
    Shard,
    /// Each whole on every core
    Replicate,
    /// Each whole on one core, the largest first to the core that has least, as `load` does
    #[value(name = "roundrobin")]
    RoundRobin,
}

/// When the runtimes were current whose figures count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Era {
    /// Runtimes of 2025
    #[value(name = "2025")]
    Of2025,
    /// Runtimes of 2026
    #[value(name = "2026")]
    Of2026,
}
