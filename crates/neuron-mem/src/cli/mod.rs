//! The command line: what can be asked, nothing of how it is done. Wrong usage ends with
//! [`Exit::Usage`], through clap or through the checks in [`cores`].

pub mod cores;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use cores::CoreSelection;

use crate::exit::Exit;

/// Load models into Neuron device memory, and look at devices
#[derive(Debug, Parser)]
#[command(name = "neuron-mem", version, after_help = Exit::help())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The command's verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a model into device memory, verify it, show what it took and free it again
    Load(LoadArgs),
    /// Show what the instance has: cores, HBMs and their pools, DMA engines, H2T rings
    Devices(DevicesArgs),
}

/// Arguments of `load`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct LoadArgs {
    /// A `.safetensors` file, a sharded `*.index.json`, or a folder with either; without one, a seeded
    /// transformer of about 100 MB is built in memory
    pub path: Option<PathBuf>,

    /// Instance type whose devices the software backend presents
    #[arg(long, value_name = "TYPE", default_value = DEFAULT_INSTANCE)]
    pub instance: String,

    /// Device to load onto
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub device: u32,

    /// Cores to spread the tensors over: `all`, or a list such as `0,1` or `0,4-7`
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub cores: CoreSelection,

    /// How bytes reach the device
    #[arg(long, value_enum, default_value_t = Transfer::Auto)]
    pub transfer: Transfer,

    /// Do not read the tensors back to compare them
    #[arg(long)]
    pub no_verify: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,

    /// Seed of the built-in model's weights; without effect on a PATH
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Inject a fault into the software device, e.g. `abort:nth=10`
    #[arg(long, value_name = "SPEC")]
    pub fault: Option<String>,

    /// How the software device runs
    #[arg(long, value_enum, default_value_t = Execution::Threaded)]
    pub execution: Execution,
}

/// Arguments of `devices`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct DevicesArgs {
    /// Instance type whose devices the software backend presents
    #[arg(long, value_name = "TYPE", default_value = DEFAULT_INSTANCE)]
    pub instance: String,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// The instance type presented unless another is asked for.
pub const DEFAULT_INSTANCE: &str = "trn1.2xlarge";

/// How bytes reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transfer {
    /// The best the device offers
    Auto,
    /// Through a bounce buffer, in pieces
    Staged,
    /// By DMA straight from the mapped file
    Zerocopy,
}

/// How the software device runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Execution {
    /// Within the doorbell write: deterministic
    Inline,
    /// On worker threads: copies overlap
    Threaded,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    fn load(args: &[&str]) -> Result<LoadArgs, clap::Error> {
        let cli = Cli::try_parse_from(["neuron-mem", "load"].iter().chain(args))?;
        match cli.command {
            Command::Load(args) => Ok(args),
            Command::Devices(_) => unreachable!("`load` was asked for"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn load_without_arguments_takes_the_documented_defaults() {
        let args = load(&[]).unwrap();
        assert_eq!(args.path, None);
        assert_eq!((args.instance.as_str(), args.device, args.seed), ("trn1.2xlarge", 0, 0));
        assert_eq!(args.cores, CoreSelection::All);
        assert_eq!((args.transfer, args.execution), (Transfer::Auto, Execution::Threaded));
        assert!(!args.no_verify && !args.json && args.fault.is_none());
    }

    #[test]
    fn every_option_of_load_is_understood() {
        let args = load(&[
            "model.safetensors",
            "--instance=trn2.48xlarge",
            "--device=3",
            "--cores=0,4-5",
            "--transfer=staged",
            "--no-verify",
            "--json",
            "--seed=18446744073709551615",
            "--fault=abort:nth=10",
            "--execution=inline",
        ])
        .unwrap();
        assert_eq!(args.path, Some(PathBuf::from("model.safetensors")));
        assert_eq!((args.instance.as_str(), args.device, args.seed), ("trn2.48xlarge", 3, u64::MAX));
        assert_eq!(args.cores, CoreSelection::Only(vec![0, 4, 5]));
        assert_eq!((args.transfer, args.execution), (Transfer::Staged, Execution::Inline));
        assert!(args.no_verify && args.json);
        assert_eq!(args.fault.as_deref(), Some("abort:nth=10"));
    }

    #[test]
    fn wrong_usage_is_refused_with_the_usage_exit_code() {
        for args in [
            &["--cores=0,0"][..],
            &["--cores="],
            &["--transfer=magic"],
            &["--device=-1"],
            &["--seed=x"],
            &["a", "b"],
            &["--no-such-option"],
        ] {
            let error = load(args).unwrap_err();
            assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()), "{args:?}");
        }
        assert_eq!(Cli::try_parse_from(["neuron-mem"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn help_of_every_level_ends_with_the_exit_codes() {
        for args in [&["--help"][..], &["load", "--help"], &["devices", "--help"]] {
            let error = Cli::try_parse_from(["neuron-mem"].iter().chain(args)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp);
            assert!(error.to_string().trim_end().ends_with(&Exit::help()), "{error}");
        }
    }
}
