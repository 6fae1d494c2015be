//! The command line: what can be asked, nothing of how it is done. Wrong usage ends with
//! [`Exit::Usage`], through clap or through the checks in [`cores`] and [`size`].

pub mod cores;
pub mod plan;
pub mod replay;
pub mod serve;
pub mod size;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use cores::CoreSelection;
pub use neuron_ndl::environment::DEFAULT_INSTANCE;
pub use plan::{Era, Placement, PlanArgs};
pub use replay::{DiffArgs, ReplayArgs};
pub use serve::{RunArgs, ServeArgs};
pub use size::ByteSize;

use neuron_ndl::environment::BackendName;

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
    /// Say whether models fit, on what, and where their memory would be, without loading them
    Plan(PlanArgs),
    /// Show what the instance has: cores, HBMs and their pools, DMA engines, H2T rings
    Devices(DevicesArgs),
    /// Show the queues of the DMA engines: what is on each, whose it is, where its cursors stand
    Rings(RingsArgs),
    /// Copy once and show how: descriptors, doorbells, marker, acknowledge
    TraceCopy(TraceCopyArgs),
    /// Look for what stands between a program and a device, and say what to do about it
    Doctor(DoctorArgs),
    /// Show the usage log of a running or ended process: who has how much device memory, peaks, newest events
    Log(LogArgs),
    /// Say why memory ran out: reads a log of the runtime or the kernel, a usage table, or a paste of either
    Explain(ExplainArgs),
    /// Run a trace of allocations against the driver's pools, or others: does it fit, who fills them, what if
    Replay(ReplayArgs),
    /// Serve a machine without hardware to other processes, over a socket
    Serve(ServeArgs),
    /// Run a program on a machine without hardware: it sees /dev/neuronN and /sys as on an instance
    Run(RunArgs),
    /// Compare what two traces, usage logs or reports hold: what grew, shrank, moved, appeared, is there twice
    Diff(DiffArgs),
}

/// Where devices are, for every command that uses one.
#[derive(Debug, Clone, Default, Args)]
pub struct MachineArgs {
    /// Where devices are: `software`, a machine without hardware, `kernel`, those of this machine, or `unix:PATH`,
    /// those of `neuron-mem serve`
    /// [default: NEURON_MEM_BACKEND, or software]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<BackendName>,

    /// Instance type whose devices the software backend presents
    /// [default: NEURON_MEM_INSTANCE, or trn1.2xlarge]
    #[arg(long, value_name = "TYPE")]
    pub instance: Option<String>,
}

/// Arguments of `load`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct LoadArgs {
    /// A `.safetensors` file, a sharded `*.index.json`, or a folder with either; without one, a seeded
    /// transformer of about 100 MB is built in memory
    pub path: Option<PathBuf>,

    /// Where the device is.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Device to load onto [default: that of the first of NEURON_RT_VISIBLE_CORES, or the first]
    #[arg(long, value_name = "INDEX")]
    pub device: Option<u32>,

    /// Cores of the device to spread the tensors over: `all`, or a list such as `0,1` or `0,4-7`
    /// [default: NEURON_RT_VISIBLE_CORES, or all]
    #[arg(long, value_name = "LIST")]
    pub cores: Option<CoreSelection>,

    /// How bytes reach the device [default: NEURON_RT_DBG_ZEROCOPY, or auto]
    #[arg(long, value_enum)]
    pub transfer: Option<Transfer>,

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

    /// How the software device runs [default: threaded]
    #[arg(long, value_enum)]
    pub execution: Option<Execution>,

    /// Also write what happened when into FILE, a timeline for Perfetto and chrome://tracing, which replaces
    /// a timeline and no other file
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,

    /// Also write every allocation, copy and free into FILE, a trace that `replay` reads
    /// [default: NEURON_MEM_TRACE, or none]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Arguments of `devices`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct DevicesArgs {
    /// Where the device is.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Also write the tree that the driver shows under `/sys` into DIR, which is empty, new, or has such a
    /// tree that this command wrote
    #[arg(long, value_name = "DIR")]
    pub sysfs: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `rings`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct RingsArgs {
    /// Where the device is.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Device to look at
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub device: u32,

    /// Only the queues of this engine
    #[arg(long, value_name = "INDEX")]
    pub engine: Option<u32>,

    /// Also queues that nothing is on
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `trace-copy`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct TraceCopyArgs {
    /// Bytes to copy, such as `200000`, `64K` or `1M`; at most 256M
    pub size: ByteSize,

    /// From where to where
    #[arg(long, value_enum, default_value_t = CopyDirection::H2d)]
    pub dir: CopyDirection,

    /// Where the device is.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Show every descriptor, not only the first and last of a long batch
    #[arg(long)]
    pub full: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct DoctorArgs {
    /// Where the devices are.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `log`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct LogArgs {
    /// The file that a process was given as `NEURON_MEM_LOG`
    pub file: PathBuf,

    /// Show every event, and those to come until the process has ended; then the rest
    #[arg(long)]
    pub follow: bool,

    /// Also write the events into FILE, a trace that `replay` reads
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Print one JSON object instead of text; with `--follow` one for each event, and one at the end
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct ExplainArgs {
    /// The log; `-` or none for standard input
    pub file: Option<PathBuf>,

    /// Generation of the devices; presumed from the log unless told
    #[arg(long, value_enum, conflicts_with = "instance")]
    pub arch: Option<Arch>,

    /// Instance type of the machine, in place of its generation
    #[arg(long, value_name = "TYPE")]
    pub instance: Option<String>,

    /// The driver's dump of what lived on the HBM, `neuron_mem_log_device_D_hbm_H_HEX.csv`; without it, dumps
    /// that the log names are looked for in its folder
    #[arg(long, value_name = "CSV")]
    pub chunks: Option<PathBuf>,

    /// Also write the answer as a page for a browser into FILE, which is replaced
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// A generation of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// Trainium1, Inferentia2
    V2,
    /// Trainium2
    V3,
    /// Trainium3
    V4,
}

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

/// From where to where a traced copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopyDirection {
    /// Host memory to the HBM of core 0
    H2d,
    /// The HBM of core 0 to host memory
    D2h,
    /// The HBM of core 0 to the HBM of the last core
    D2d,
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
            _ => unreachable!("`load` was asked for"),
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
        assert_eq!((args.machine.backend, args.machine.instance, args.device), (None, None, None));
        assert_eq!((args.cores, args.transfer, args.execution, args.seed), (None, None, None, 0));
        assert!(!args.no_verify && !args.json && args.fault.is_none() && args.timeline.is_none());
    }

    #[test]
    fn every_option_of_load_is_understood() {
        let args = load(&[
            "model.safetensors",
            "--backend=software",
            "--instance=trn2.48xlarge",
            "--device=3",
            "--cores=0,4-5",
            "--transfer=staged",
            "--no-verify",
            "--json",
            "--seed=18446744073709551615",
            "--fault=abort:nth=10",
            "--execution=inline",
            "--timeline=t.json",
        ])
        .unwrap();
        assert_eq!(args.path, Some(PathBuf::from("model.safetensors")));
        assert_eq!(args.machine.backend, Some(BackendName::Software));
        assert_eq!(args.machine.instance.as_deref(), Some("trn2.48xlarge"));
        assert_eq!((args.device, args.seed), (Some(3), u64::MAX));
        assert_eq!(args.cores, Some(CoreSelection::Only(vec![0, 4, 5])));
        assert_eq!((args.transfer, args.execution), (Some(Transfer::Staged), Some(Execution::Inline)));
        assert!(args.no_verify && args.json);
        assert_eq!(args.fault.as_deref(), Some("abort:nth=10"));
        assert_eq!(args.timeline, Some(PathBuf::from("t.json")));
    }

    #[test]
    fn wrong_usage_is_refused_with_the_usage_exit_code() {
        for args in [
            &["--cores=0,0"][..],
            &["--cores="],
            &["--transfer=magic"],
            &["--backend=hardware"],
            &["--backend=unix:"],
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
    fn rings_and_trace_copy_take_the_documented_defaults() {
        let parse = |words: &[&str]| Cli::try_parse_from(["neuron-mem"].iter().chain(words)).unwrap().command;
        let Command::Rings(rings) = parse(&["rings"]) else { panic!("not rings") };
        assert_eq!((rings.machine.instance, rings.device, rings.engine), (None, 0, None));
        assert!(!rings.all && !rings.json);
        let Command::TraceCopy(trace) = parse(&["trace-copy", "64K"]) else { panic!("not trace-copy") };
        assert_eq!((trace.size, trace.dir), (ByteSize(65536), CopyDirection::H2d));
        assert_eq!((trace.machine.backend, trace.machine.instance), (None, None));
        assert!(!trace.full && !trace.json);
        let Command::Devices(devices) = parse(&["devices", "--sysfs", "d"]) else { panic!("not devices") };
        assert_eq!(devices.sysfs, Some(PathBuf::from("d")));
        let Command::Log(log) = parse(&["log", "f", "--follow"]) else { panic!("not log") };
        assert_eq!((log.file, log.follow, log.json), (PathBuf::from("f"), true, false));
        let Command::Explain(explain) = parse(&["explain", "--arch", "v3"]) else { panic!("not explain") };
        assert_eq!((explain.file, explain.arch, explain.instance), (None, Some(Arch::V3), None));
        assert!(explain.chunks.is_none() && explain.html.is_none() && !explain.json);
    }

    #[test]
    fn every_command_that_uses_a_device_takes_a_backend() {
        for command in [&["load"][..], &["devices"], &["rings"], &["trace-copy", "1"], &["doctor"]] {
            let words = ["neuron-mem"].iter().chain(command).chain(&["--backend", "kernel"]);
            let machine = match Cli::try_parse_from(words).unwrap().command {
                Command::Load(args) => args.machine,
                Command::Devices(args) => args.machine,
                Command::Rings(args) => args.machine,
                Command::TraceCopy(args) => args.machine,
                Command::Doctor(args) => args.machine,
                Command::Log(_)
                | Command::Explain(_)
                | Command::Plan(_)
                | Command::Replay(_)
                | Command::Serve(_)
                | Command::Run(_)
                | Command::Diff(_) => {
                    unreachable!("not asked for")
                }
            };
            assert_eq!(machine.backend, Some(BackendName::Kernel), "{command:?}");
        }
    }

    #[test]
    fn everything_from_the_program_on_is_the_programs() {
        let words = ["neuron-mem", "run", "--fault", "alloc:7", "--", "python3", "-c", "x", "--fault"];
        for words in [&words[..], &[&words[..4], &words[5..]].concat()] {
            let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not run") };
            assert_eq!((args.program.len(), args.fault.len(), args.fail_on_leak), (4, 1, false));
        }
        let refused = |words: &[&str]| Cli::try_parse_from(words).unwrap_err().kind();
        let kind = refused(&["neuron-mem", "run", "--socket", "s", "--fault", "alloc:1", "--", "x"]);
        assert_eq!(kind, ErrorKind::ArgumentConflict, "a server's faults are its own");
        assert_eq!(refused(&["neuron-mem", "run"]), ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn help_of_every_level_ends_with_the_exit_codes() {
        for args in [
            &["--help"][..],
            &["load", "--help"],
            &["devices", "--help"],
            &["rings", "--help"],
            &["trace-copy", "--help"],
            &["doctor", "--help"],
            &["log", "--help"],
            &["explain", "--help"],
            &["plan", "--help"],
            &["serve", "--help"],
            &["run", "--help"],
        ] {
            let error = Cli::try_parse_from(["neuron-mem"].iter().chain(args)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp);
            assert!(error.to_string().trim_end().ends_with(&Exit::help()), "{error}");
        }
    }
}
