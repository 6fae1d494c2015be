//! The command run to its end, and its JSON read back.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use clap::Parser as _;
use neuron_mem::cli::{self, Cli, LoadArgs};
use neuron_mem::exit::Exit;
use serde::Deserialize;

/// What the command left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The command with these arguments, apart at blanks, not yet started.
pub(crate) fn command(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-mem"));
    command.args(args.split_whitespace());
    // What is set around a test is nothing to it.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"NEURON_")) {
        command.env_remove(name);
    }
    // Reports of a full device leave no files behind unless a test asks for them.
    command.env("NEURON_RT_OOM_DUMP_DIRECTORY", "");
    command
}

/// Runs the command with these arguments, apart at blanks.
pub(crate) fn neuron_mem(args: &str) -> Ran {
    Ran::from(command(args).output().unwrap())
}

/// Runs each command of a page of docs, `$ neuron-mem ...` at the head of a console block, in a
/// folder. The command's line, what the page shows under it, and what it left behind.
pub(crate) fn of_page(page: &str, folder: &Path) -> Vec<(String, String, Ran)> {
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```console\n").skip(1);
    let ran = blocks.map(|block| {
        let (line, shown) = block.split("```").next().unwrap().split_once('\n').unwrap();
        let mut command = command(line.strip_prefix("$ neuron-mem ").unwrap());
        let ran = Ran::from(command.current_dir(folder).output().unwrap());
        (line.to_owned(), shown.to_owned(), ran)
    });
    ran.collect()
}

/// Runs `load` on a path with these options, apart at blanks.
pub(crate) fn load(path: &Path, options: &str) -> Ran {
    Ran::from(command("load").arg(path).args(options.split_whitespace()).output().unwrap())
}

/// What `load` on a path with these options, apart at blanks, is asked in process.
pub(crate) fn load_args(path: &Path, options: &str) -> LoadArgs {
    let words = ["neuron-mem", "load"].map(OsStr::new).into_iter();
    let words = words.chain([path.as_os_str()]).chain(options.split_whitespace().map(OsStr::new));
    match Cli::try_parse_from(words).unwrap().command {
        cli::Command::Load(args) => args,
        _ => unreachable!("`load` was asked for"),
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let ran = Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }
}

impl Ran {
    /// What it wrote, after it did what was asked and had nothing to complain about.
    pub(crate) fn done(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""));
        self.stdout
    }

    /// Checks that it failed with this code and a message that has all of `words`.
    pub(crate) fn failed(self, exit: Exit, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(exit.code().into()), "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {}", self.stderr);
        }
        self
    }

    /// As [`failed`](Self::failed) with a usage error, and nothing on standard output.
    pub(crate) fn refused(self, words: &[&str]) {
        assert_eq!(self.failed(Exit::Usage, words).stdout, "");
    }
}

/// The JSON of `load`: these fields and no others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Loaded {
    pub(crate) backend: String,
    pub(crate) instance: String,
    pub(crate) tensors: usize,
    pub(crate) bytes: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) bytes_per_second: u64,
    pub(crate) verified: bool,
    pub(crate) usage: Vec<Usage>,
    pub(crate) leaked_bytes: u64,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) trace: Option<Timeline>,
}

/// Its timeline.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timeline {
    pub(crate) file: String,
    pub(crate) events: usize,
}

/// One row of its usage.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) device: u32,
    pub(crate) hbm: Option<u32>,
    pub(crate) core: Option<u32>,
    pub(crate) category: String,
    pub(crate) bytes: u64,
}

impl Loaded {
    /// Reads one line of JSON, and checks what holds after every load of tensors of these sizes.
    pub(crate) fn of(stdout: &str, sizes: &[u64]) -> Self {
        assert_eq!(stdout.matches('\n').count(), 1, "{stdout}");
        let loaded: Self = serde_json::from_str(stdout).unwrap();
        let bytes: u64 = sizes.iter().sum();
        assert_eq!((loaded.tensors, loaded.bytes), (sizes.len(), bytes));
        assert_eq!(loaded.usage.iter().map(|usage| usage.bytes).sum::<u64>(), bytes);
        assert!(loaded.usage.iter().all(|usage| usage.category == "model constants" && usage.bytes > 0));
        // The driver allocates whole pages.
        let pages: u64 = sizes.iter().map(|size| size.next_multiple_of(4096)).sum();
        assert_eq!(loaded.allocated_bytes, pages);
        assert_eq!(loaded.leaked_bytes, 0);
        assert_eq!(loaded.backend, "software");
        assert!(loaded.seconds.is_finite() && loaded.seconds >= 0.0);
        let rate = bytes as f64 / loaded.seconds;
        assert!(bytes == 0 || (loaded.bytes_per_second as f64 - rate).abs() <= 1.0, "{loaded:?}");
        loaded
    }

    /// (hbm, core, bytes) of each row.
    pub(crate) fn places(&self) -> Vec<(u32, u32, u64)> {
        self.usage.iter().map(|usage| (usage.hbm.unwrap(), usage.core.unwrap(), usage.bytes)).collect()
    }
}
