//! `neuron-mem run -- PROGRAM`: a program on a machine without hardware. It sees `/dev/neuronN` and the tree under
//! `/sys` as on an instance, by a library that is loaded before its own.
//!
//! | module | what lives there |
//! |---|---|
//! | [`library`] | where `libneuron_preload.so` is |
//! | [`program`] | whether a program takes a library that is loaded before it |
//! | [`left`] | what programs left behind, as text |
//!
//! Serving is [`neuron_serve`]'s, what the program sees `neuron-preload`'s.

pub mod left;
pub mod library;
pub mod program;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

use neuron_ndl::remote::Address;
use neuron_serve::log::Log;
use neuron_serve::{Options, Server};
use neuron_wire::Calls;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::serve;

/// Where the library finds the server's socket.
const SOCKET: &str = "NEURON_MEM_RUN_SOCKET";
/// Where it finds the server's picture of `/dev` and `/sys`.
const TREE: &str = "NEURON_MEM_RUN_TREE";
const PRELOAD: &str = "LD_PRELOAD";
const BACKEND: &str = "NEURON_MEM_BACKEND";

/// Runs the program, tells on standard error what was left behind, and answers with the program's exit code: 128
/// and the signal's number if a signal ended it.
///
/// # Errors
/// [`Exit::Left`] if that was asked for; [`Exit::NotStarted`] if the program does not start;
/// [`Exit::Usage`] and [`Exit::Device`] if the machine does not come up or the library is missing.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let library = library::find()?;
    let (name, arguments) =
        args.program.split_first().ok_or_else(|| Failure::new(Exit::Usage, "no program"))?;
    program::check(name).map_err(|error| Failure::new(Exit::NotStarted, error))?;
    let machine = Machine::choose(args)?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env(PRELOAD, preloaded(&library, std::env::var_os(PRELOAD)))
        .env(SOCKET, machine.address.path())
        .env(TREE, &machine.tree);
    // Programs on our own libraries go to the server without a detour.
    if std::env::var_os(BACKEND).is_none_or(|value| value.is_empty()) {
        command.env(BACKEND, machine.address.to_string());
    }
    let failed = |error| Failure::because(Exit::Device, "signals cannot be caught".to_owned(), error);
    let signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]).map_err(failed)?;
    let child = command.spawn().map_err(|error| {
        Failure::because(Exit::NotStarted, format!("{} cannot be started", name.display()), error)
    })?;
    let status = ended(child, signals)
        .map_err(|error| Failure::because(Exit::Device, format!("{} is lost", name.display()), error))?;
    let is_clean = machine.end(args.quiet);
    let code = code(status);
    if code == 0 && args.fail_on_leak && !is_clean {
        return Err(Failure::new(Exit::Left, "the program left something behind"));
    }
    Ok(ExitCode::from(code))
}

/// The machine that the program sees.
struct Machine {
    address: Address,
    tree: OsString,
    /// One for this run, and the folder of its socket.
    own: Option<(Server, TempDir)>,
}

impl Machine {
    fn choose(args: &RunArgs) -> Result<Self, Failure> {
        if let Some(path) = &args.socket {
            let usage = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, error.to_string());
            let path = std::path::absolute(path).map_err(|error| usage(&error))?;
            let address = Address::new(path).map_err(|error| usage(&error))?;
            let tree =
                Calls::new(address.clone()).tree().map_err(|error| Failure::new(Exit::Device, error))?;
            return Ok(Self { address, tree: tree.into(), own: None });
        }
        let folder = tempfile::Builder::new().prefix("neuron-mem-").tempdir();
        let folder = folder.map_err(|error| {
            Failure::because(Exit::Device, "no folder for the machine's socket".to_owned(), error)
        })?;
        let address =
            Address::new(folder.path().join("socket")).map_err(|error| Failure::new(Exit::Usage, error))?;
        let server = serve::start(Options {
            faults: args.fault.clone(),
            log: Log::standard_error(),
            ..Options::new(serve::instance(args.instance.as_deref())?, address.clone())
        })?;
        let tree = server.tree().as_os_str().to_owned();
        Ok(Self { address, tree, own: Some((server, folder)) })
    }

    /// Ends it and tells what was left behind; whether nothing was.
    fn end(self, quiet: bool) -> bool {
        let Some((server, _folder)) = self.own else { return true };
        let (running, idle) = (server.clients(), server.idle_faults());
        let left = server.stop();
        if !quiet {
            let idle: String = idle.iter().map(|fault| format!("neuron-mem run: {fault}\n")).collect();
            let told = left::text(&running, &left) + &idle;
            // With standard error gone there is nobody to tell.
            let _told = io::stderr().write_all(told.as_bytes());
        }
        running.is_empty() && left.is_empty()
    }
}

/// The library before what is loaded already.
fn preloaded(library: &Path, others: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(OsStr::new(":"));
        all.push(others);
    }
    all
}

/// Waits for the program, and hands on signals that end programs. Those that a terminal sends, it sends to the
/// program too: they only must not end this process before it.
fn ended(mut child: Child, mut signals: Signals) -> io::Result<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let program = pidfd_open(pid, PidfdFlags::empty())?;
    let handle = signals.handle();
    let handing_on = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTERM => Signal::TERM,
                SIGHUP => Signal::HUP,
                _ => continue,
            };
            let _dead_already = pidfd_send_signal(&program, signal);
        }
    })?;
    let status = child.wait();
    handle.close();
    let _it_does_not_panic = handing_on.join();
    status
}

/// As a shell tells it.
fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}
