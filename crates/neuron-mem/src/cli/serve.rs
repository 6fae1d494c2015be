//! Arguments of `serve` and `run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use neuron_serve::faults::Wanted;

use crate::exit::Exit;

/// Arguments of `serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct ServeArgs {
    /// Instance type of the machine [default: NEURON_MEM_INSTANCE, or trn1.2xlarge]
    #[arg(long, value_name = "TYPE")]
    pub instance: Option<String>,

    /// The socket: programs are told `NEURON_MEM_BACKEND=unix:PATH`
    /// [default: socket in the folder of --state; else neuron-mem.sock in XDG_RUNTIME_DIR, or neuron-mem-UID.sock
    /// in /tmp]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// A folder for the server's picture of /dev and /sys, made if it is not there [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// Also serve programs of this user; may be repeated
    #[arg(long, value_name = "UID", conflicts_with = "any_user")]
    pub allow_user: Vec<u32>,

    /// Serve programs of every user of the machine
    #[arg(long)]
    pub any_user: bool,

    /// What goes wrong, such as `alloc:7`, `copy:3=timeout`, `hbm-bytes=4G`, `random:1`; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub fault: Vec<Wanted>,

    /// How the bytes of clients are reached
    #[arg(long, value_enum, default_value_t = MemoryWay::Auto)]
    pub memory: MemoryWay,

    /// Append what happens to FILE instead of telling it on standard error
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// How the bytes of clients are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryWay {
    /// By the system's calls where it allows them, else over the socket
    Auto,
    /// Over the socket
    Socket,
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = Exit::help())]
pub struct RunArgs {
    /// Instance type of the machine [default: NEURON_MEM_INSTANCE, or trn1.2xlarge]
    #[arg(long, value_name = "TYPE", conflicts_with = "socket")]
    pub instance: Option<String>,

    /// Use the machine of the server at this socket instead of one for this run
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// What goes wrong, such as `alloc:7`, `copy:3=timeout`, `hbm-bytes=4G`, `random:1`; may be repeated
    #[arg(long, value_name = "SPEC", conflicts_with = "socket")]
    pub fault: Vec<Wanted>,

    /// End with exit code 7 if the program succeeds but leaves memory behind
    #[arg(long, conflicts_with = "socket")]
    pub fail_on_leak: bool,

    /// Do not tell what was left behind, and which faults did not strike
    #[arg(long)]
    pub quiet: bool,

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}
