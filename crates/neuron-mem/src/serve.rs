//! `neuron-mem serve`: a machine without hardware, for other processes.
//!
//! The serving is [`neuron_serve`]'s. Here: what is asked for, and when it ends.

use std::io::Write;
use std::path::PathBuf;

use neuron_ndl::environment::{DEFAULT_INSTANCE, instance_from_environment};
use neuron_ndl::remote::Address;
use neuron_serve::log::Log;
use neuron_serve::server::ListenError;
use neuron_serve::{Admit, Options, ServeError, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::bytes::plural;
use crate::cli::ServeArgs;
use crate::cli::serve::MemoryWay;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Runs the command until SIGINT or SIGTERM, which is its proper end.
///
/// # Errors
/// [`Exit::Usage`] for an unknown instance type or a socket that another server has; [`Exit::Device`] if the machine
/// does not come up; [`Exit::Output`] if the log cannot be opened.
pub fn run(args: &ServeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let log = match &args.log {
        None => Log::standard_error(),
        Some(path) => Log::file(path).map_err(|error| {
            Failure::because(Exit::Output, format!("the log {path:?} cannot be opened"), error)
        })?,
    };
    let options = Options {
        state: args.state.clone(),
        admit: match (args.any_user, args.allow_user.as_slice()) {
            (true, _) => Admit::Everybody,
            (false, []) => Admit::Own,
            (false, users) => Admit::Users(users.to_vec()),
        },
        faults: args.fault.clone(),
        memory_by_socket: args.memory == MemoryWay::Socket,
        log,
        ..Options::new(instance(args.instance.as_deref())?, address(args)?)
    };
    // The first signal ends the server in order, a second one at once.
    let failed = |error| Failure::because(Exit::Device, "signals cannot be caught".to_owned(), error);
    let _second_signal = Interrupt::install().map_err(failed)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    many_descriptors();
    let server = start(options)?;
    let machine = server.machine().instance();
    let devices = plural(machine.devices.into(), "device");
    writeln!(out, "serving {} ({devices}) at {}", machine.name, server.address())
        .and_then(|()| out.flush())
        .map_err(Failure::output)?;
    let _signal = signals.forever().next();
    let lost = server.lost_lines();
    drop(server.stop());
    match lost {
        0 => Ok(()),
        lost => {
            let why = format!("{} of the log could not be written", plural(lost, "line"));
            Err(Failure::new(Exit::Output, why))
        }
    }
}

/// Takes as many descriptors as the system gives: a client has a few here for each device and thread.
fn many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _fewer_clients_without = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Starts a server.
///
/// # Errors
/// As [`run`].
pub fn start(options: Options) -> Result<Server, Failure> {
    use neuron_ndl::software::MachineError::UnknownInstance;
    Server::start(options).map_err(|error| {
        let exit = match &error {
            ServeError::Machine(UnknownInstance(_))
            | ServeError::Listen(ListenError::Taken(_) | ListenError::NoSocket(_)) => Exit::Usage,
            _ => Exit::Device,
        };
        Failure::new(exit, error)
    })
}

/// The instance type asked for, else the one set in the environment, else the default.
///
/// # Errors
/// [`Exit::Usage`] if the environment names none.
pub fn instance(asked: Option<&str>) -> Result<String, Failure> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let set = instance_from_environment().map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(set.map_or(DEFAULT_INSTANCE, |instance| instance.name).to_owned())
}

fn address(args: &ServeArgs) -> Result<Address, Failure> {
    let path = match (&args.socket, &args.state) {
        (Some(path), _) => path.clone(),
        (None, Some(folder)) => {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::because(Exit::Device, format!("the folder {folder:?} cannot be made"), error)
            })?;
            folder.join("socket")
        }
        (None, None) => match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
            Some(folder) => PathBuf::from(folder).join("neuron-mem.sock"),
            None => PathBuf::from(format!("/tmp/neuron-mem-{}.sock", rustix::process::geteuid().as_raw())),
        },
    };
    let path = std::path::absolute(&path).map_err(|error| {
        Failure::because(Exit::Usage, format!("the path {path:?} cannot be followed"), error)
    })?;
    Address::new(path).map_err(|error| Failure::new(Exit::Usage, error))
}
