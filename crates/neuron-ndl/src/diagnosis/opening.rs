//! What the driver answers: why a device does not open, which versions it works with, what it
//! can do and what is done where it cannot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::arch::{CompatRange, Generation};
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::limits::MAX_PROCESSES;

use super::check::{Finding, Status, devices};
use super::container;
use super::hardware::{self, Bus};
use super::holders::Holders;
use super::nodes;
use super::roots::{self, Roots};
use crate::backend::{Backend, DeviceFile, Lane};
use crate::compat::{Compat, Fallback, FallbackHook};
use crate::error::{Detail, NdlError};
use crate::facts::{self, DeviceFacts};
use crate::open::OpenDevice;
use crate::version::{self, Verdict};

/// What a driver says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    facts: DeviceFacts,
    versions: Option<CompatRange>,
    /// What is done instead of what it lacks.
    fallbacks: Vec<Fallback>,
}

/// What a device says of itself, asked on the lane that takes no process slot and does not wait for
/// a reset (`spec/ndl.md` 2). It tells no neighbours there.
///
/// # Errors
/// As [`generation`].
pub fn device_facts(backend: &dyn Backend, index: u8) -> Result<DeviceFacts, NdlError> {
    ask(backend, index).map(|told| told.facts)
}

/// Generation of the devices of a driver, asked on the lane that takes no process slot and does
/// not wait for a reset (`spec/ndl.md` 2).
///
/// # Errors
/// The errno of opening, or of the ioctl; ENODEV for a generation that is not known here; a
/// driver that is too old or too new.
pub fn generation(backend: &dyn Backend, index: u8) -> Result<Generation, NdlError> {
    ask(backend, index).map(|told| told.facts.generation)
}

/// Opening on that lane, in words.
const ASKING: &str = "opening the device to ask about it";

/// Asks on that lane.
pub(super) fn ask(backend: &dyn Backend, index: u8) -> Result<Told, NdlError> {
    let file = backend.open(index, Lane::Misc).map_err(|errno| NdlError::new(index, ASKING, errno))?;
    ask_file(file, index)
}

/// Asks on an open file.
pub(super) fn ask_file(file: Box<dyn DeviceFile>, index: u8) -> Result<Told, NdlError> {
    let fallbacks = Arc::<Mutex<Vec<Fallback>>>::default();
    let hook = {
        let fallbacks = Arc::clone(&fallbacks);
        FallbackHook::new(move |_, fallback| told(&fallbacks).push(fallback))
    };
    let open = OpenDevice { file, index, compat: Compat::new(index, Some(hook)) };
    let facts = DeviceFacts::ask(&open)?;
    let versions = facts::versions(&open)?;
    let mut fallbacks = told(&fallbacks).clone();
    // The lane without a slot has no device info, whatever the driver's age.
    fallbacks.retain(|fallback| *fallback != Fallback::NoNeighbours);
    Ok(Told { facts, versions, fallbacks })
}

fn told(fallbacks: &Mutex<Vec<Fallback>>) -> MutexGuard<'_, Vec<Fallback>> {
    fallbacks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Told {
    pub(super) const fn generation(&self) -> Generation {
        self.facts.generation
    }

    /// The versions, which are fit or asking had failed.
    pub(super) fn version(&self) -> Finding {
        let CompatRange { min, max } = version::ours(self.facts.generation);
        match self.versions {
            Some(driver) => Finding::ok(format!(
                "{:?}; the driver works with versions {} to {}, this program speaks {min} to {max}",
                self.facts.generation, driver.min, driver.max
            )),
            None => Finding { status: Status::NotApplicable, ..Finding::ok(Verdict::Unknown.to_string()) },
        }
    }

    /// What the driver can do, and what is done where it cannot.
    pub(super) fn features(&self) -> Finding {
        let offered = self.facts.features;
        let missing = WITHOUT.iter().filter(|(feature, _)| !offered.contains(*feature));
        let missing = missing.map(|(feature, instead)| format!("{feature}: {instead}"));
        let older =
            self.fallbacks.iter().map(|fallback| format!("{}: {}", fallback.lacks(), fallback.instead()));
        let lacks: Vec<String> = older.chain(missing).collect();
        match lacks.is_empty() {
            true => Finding::ok("the driver has every feature that is used here"),
            false => Finding::ok(format!("the driver lacks {}", lacks.join("; "))),
        }
    }
}

/// What is done where a driver lacks something that no command falls back from (`spec/ndl.md` 3.2).
const WITHOUT: [(Features, &str); 4] = [
    (Features::ZEROCOPY, "copies go through a bounce buffer unless zero-copy is asked for by name"),
    (Features::CONTIGUOUS_SCRATCHPAD, "the scratchpad is paged"),
    (Features::HBM_SCRUB, "HBM is not scrubbed at the start"),
    (Features::DMABUF, "memory cannot be exported"),
];

/// Why a device that opened, or its driver, does not serve.
pub(super) fn does_not_serve(error: &NdlError) -> Finding {
    match error.detail {
        Some(Detail::Versions(verdict)) => {
            let text = verdict.to_string();
            // What is the case, then what to do.
            let (found, advice) =
                text.split_once("; ").unwrap_or((&text, "update the driver or this program"));
            Finding::failed(found, advice)
        }
        _ if error.errno == Errno::ENODEV => Finding::failed(
            error.to_string(),
            "update this program, or use a device of inf2, trn1, trn2 or trn3",
        ),
        _ => Finding::failed(
            format!("the driver does not answer as one of Neuron devices does: {error}"),
            "see whether the node belongs to the module neuron",
        ),
    }
}

/// Why device `index` of the kernel does not open, and what to do: a sentence or two, for a
/// person.
pub fn explain_open_error(roots: &Roots, index: u8, errno: Errno) -> String {
    let Finding { found, advice, .. } = why(roots, index, errno);
    match advice {
        Some(advice) => format!("{found}; {advice}"),
        None => found,
    }
}

/// As [`explain_open_error`], of an operation that failed; `None` if the device had opened.
pub fn explain_failed_open(roots: &Roots, error: &NdlError) -> Option<String> {
    let is_open = error.operation != NdlError::OPENING && error.operation != ASKING;
    (!is_open).then(|| explain_open_error(roots, error.device, error.errno))
}

/// Why device `index` of the kernel does not open (`spec/abi.md` 2.1).
pub(super) fn why(roots: &Roots, index: u8, errno: Errno) -> Finding {
    const LOG: &str = "`sudo dmesg | grep -i neuron` says more";
    const AGAIN: &str = "`sudo modprobe -r neuron && sudo modprobe neuron`, or restart the instance";
    match errno {
        Errno::ENOENT => not_there(roots, index),
        Errno::EACCES => {
            let permission = nodes::permission(roots, index);
            match permission.status {
                Status::Failed => permission,
                _ => Finding::failed(
                    format!("{errno}, though its node allows it ({})", permission.found),
                    "a security module, or the user namespace of a container, forbids it: try as root, outside it",
                ),
            }
        }
        Errno::EPERM => {
            let found = match container::sign(roots) {
                Some(sign) => {
                    format!("{errno}: this container ({sign}) has the node, but not the right to it")
                }
                None => format!("{errno}: a rule of the control group or of a security module forbids it"),
            };
            Finding::failed(found, container::pass_in(&[index]))
        }
        Errno::EBUSY => {
            let holders = Holders::of(roots, index).words();
            Finding::failed(
                format!("all {MAX_PROCESSES} process slots of the device are taken, {holders}"),
                "end one of these processes; tools that watch a device count too",
            )
        }
        Errno::EINTR => Finding::failed(
            "opening was interrupted while the device is being reset",
            "wait until the reset is over and try again",
        ),
        Errno::EINVAL => {
            let found = "the driver gave the device up: its last reset failed";
            Finding::failed(found, format!("{LOG}; then {AGAIN}"))
        }
        Errno::ENXIO | Errno::ENODEV => {
            let found = format!("{errno}: the node is left over, no driver is behind it");
            Finding::failed(found, format!("{AGAIN}; {LOG}"))
        }
        Errno::EMFILE => Finding::failed(
            "this process has as many files open as it may",
            "close some, or raise the limit: `ulimit -n`",
        ),
        Errno::ENOMEM => Finding::failed(
            "the kernel has no memory for it: opening takes 16 MiB of host memory in runs of 2 MiB",
            "free host memory, and end processes that have devices open",
        ),
        _ => Finding::failed(format!("opening failed: {errno}"), LOG),
    }
}

/// There is no such node.
fn not_there(roots: &Roots, index: u8) -> Finding {
    let nodes = roots.nodes();
    if roots.class().is_some_and(|class| class.contains(&index)) {
        return nodes::missing_nodes(roots, &[index]);
    }
    if !nodes.is_empty() {
        let found = format!("there is no neuron{index}; in /dev: {}", devices(&nodes));
        let advice = match container::sign(roots) {
            Some(_) => container::pass_in(&[index]),
            None => "use one that is there".to_owned(),
        };
        return Finding::failed(found, advice);
    }
    if nodes::module_is_there(roots) {
        return match roots.class() {
            Some(class) if !class.is_empty() => {
                let found = format!("there is no neuron{index}; the driver has {}", devices(&class));
                Finding::failed(found, "use one that is there")
            }
            _ => nodes::no_devices(),
        };
    }
    let bus = Bus::look(roots);
    let check = if bus.is_empty() {
        hardware::bus(roots, &bus, &nodes)
    } else {
        hardware::module(roots, &bus, &nodes)
    };
    Finding { status: Status::Failed, found: check.found, advice: check.advice }
}

/// The state that the driver shows of a device, if this process may read it: 0 is in reset
/// (`spec/sysfs.md` 2).
pub(super) fn is_in_reset(roots: &Roots, index: u8) -> bool {
    roots::first_line(&roots.of_device(index, "reset")).as_deref() == Some("0")
}
