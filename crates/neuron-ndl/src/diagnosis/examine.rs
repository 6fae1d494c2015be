//! All checks in order.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use neuron_abi::errno::Errno;

use super::check::{Check, Diagnosis, Finding, Status, devices, grouped};
use super::hardware::{self, Bus};
use super::nodes;
use super::opening::{self, Told};
use super::roots::Roots;
use super::surroundings::{self, Folder, Known};
use crate::backend::{Backend, DeviceFile, Lane};
use crate::environment::{BackendName, Reading};

/// How long opening is waited for (our choice): longer than a device's reset takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is examined.
#[derive(Clone)]
pub struct Subject {
    backend: Arc<dyn Backend>,
    name: BackendName,
    devices: Vec<u8>,
    environment: Reading,
    folders: Vec<Folder>,
    problems: Vec<String>,
    patience: Duration,
}

impl Subject {
    /// The devices of a backend: of the kernel's, those with a node.
    pub fn new(backend: Arc<dyn Backend>, name: BackendName, devices: Vec<u8>) -> Self {
        let (environment, folders, problems) = Default::default();
        Self { backend, name, devices, environment, folders, problems, patience: PATIENCE }
    }

    /// Follows this environment.
    #[must_use]
    pub fn environment(self, environment: Reading) -> Self {
        Self { environment, ..self }
    }

    /// Files go to these folders.
    #[must_use]
    pub fn folders(self, folders: Vec<Folder>) -> Self {
        Self { folders, ..self }
    }

    /// What is wrong with variables that are read elsewhere, a sentence each.
    #[must_use]
    pub fn problems(self, problems: Vec<String>) -> Self {
        Self { problems, ..self }
    }

    /// Waits so long for devices to open.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("name", &self.name)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

/// Looks at everything. Devices are opened for a moment, each takes a process slot for it;
/// nothing is allocated or changed.
pub fn examine(subject: &Subject, roots: &Roots) -> Diagnosis {
    let is_kernel = subject.name == BackendName::Kernel;
    let mut checks = vec![backend(subject, roots)];
    let mut open = opened(subject, roots);
    if is_kernel {
        let nodes = roots.nodes();
        let bus = Bus::look(roots);
        checks.push(hardware::bus(roots, &bus, &nodes));
        checks.push(hardware::module(roots, &bus, &nodes));
        checks.push(nodes::present(roots, &nodes));
    } else {
        checks.extend(
            ["pci", "module", "nodes", "permission"]
                .map(|name| Check::new(name, Status::NotApplicable, "the software machine has none")),
        );
    }
    // Where one device can be used, another that cannot is no obstacle.
    let usable: Vec<u8> =
        open.iter().filter(|device| device.is_usable()).map(|device| device.index).collect();
    if !usable.is_empty() {
        for check in &mut checks {
            if check.status == Status::Failed {
                check.status = Status::Warning;
            }
        }
        open.iter_mut().for_each(Examined::soften);
    }
    if is_kernel {
        checks.extend(group("permission", &open, |device| device.permission.clone()));
    }
    checks.extend(group("open", &open, |device| Some(device.open.clone())));
    checks.extend(group("version", &open, |device| device.version.clone()));
    checks.extend(group("features", &open, |device| device.told.as_ref().map(Told::features)));
    if is_kernel {
        checks.push(surroundings::pinned(roots));
    } else {
        checks.push(surroundings::memory(roots));
    }
    checks.extend(subject.folders.iter().map(surroundings::folder));
    let known = Known {
        generation: open.iter().find_map(|device| Some(device.told.as_ref()?.generation())),
        devices: subject.devices.iter().max().map_or(0, |last| u32::from(*last) + 1),
        backend: subject.name.clone(),
    };
    checks.extend(surroundings::variables(&subject.environment, &known, &subject.problems));
    checks.push(match usable.is_empty() {
        false => Check::new("device", Status::Ok, format!("can be used: {}", devices(&usable))),
        true => Check::new("device", Status::Failed, "no device can be used")
            .advice("see to the first check above that failed; --backend software needs no device"),
    });
    Diagnosis { checks }
}

fn backend(subject: &Subject, roots: &Roots) -> Check {
    const NAME: &str = "backend";
    match &subject.name {
        BackendName::Kernel => Check::new(NAME, Status::Ok, "kernel: the devices of this machine"),
        BackendName::Unix(address) => {
            Check::new(NAME, Status::Ok, format!("{address}: the devices of a server, which has no hardware"))
        }
        BackendName::Software => {
            let check = Check::new(NAME, Status::Ok, "software: a machine without hardware");
            match roots.nodes().as_slice() {
                [] => check,
                nodes => check.advice(format!(
                    "this machine has {}: --backend kernel or NEURON_MEM_BACKEND=kernel uses them",
                    devices(nodes)
                )),
            }
        }
    }
}

fn group(
    name: &'static str,
    open: &[Examined],
    finding: impl Fn(&Examined) -> Option<Finding>,
) -> Vec<Check> {
    let findings: Vec<_> = open.iter().filter_map(|device| Some((device.index, finding(device)?))).collect();
    match findings.is_empty() {
        true => vec![Check::new(name, Status::NotApplicable, "there is no device to ask")],
        false => grouped(name, &findings),
    }
}

/// What was found of a device.
struct Examined {
    index: u8,
    permission: Option<Finding>,
    open: Finding,
    told: Option<Told>,
    version: Option<Finding>,
}

impl Examined {
    fn is_usable(&self) -> bool {
        let version = self.version.as_ref().is_some_and(|version| version.status != Status::Failed);
        version && self.open.status == Status::Ok
    }

    fn soften(&mut self) {
        let findings = [Some(&mut self.open), self.permission.as_mut(), self.version.as_mut()];
        for finding in findings.into_iter().flatten() {
            if finding.status == Status::Failed {
                finding.status = Status::Warning;
            }
        }
    }
}

/// What a thread of its own will answer: a kernel may keep a caller waiting for ever.
struct Answer<T>(io::Result<mpsc::Receiver<T>>);

impl<T: Send + 'static> Answer<T> {
    fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (answer, answers) = mpsc::channel();
        // Nobody listens any more if it took too long.
        let thread = thread::Builder::new().spawn(move || answer.send(work()).unwrap_or_default());
        Self(thread.map(|_| answers))
    }

    /// The answer, or nothing within that time.
    fn within(self, time: Duration) -> Result<Option<T>, Errno> {
        let answers =
            self.0.map_err(|error| error.raw_os_error().and_then(Errno::new).unwrap_or(Errno::EAGAIN))?;
        match answers.recv_timeout(time) {
            Ok(answer) => Ok(Some(answer)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            // A thread that died without an answer.
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Errno::EIO),
        }
    }
}

/// Opens all devices at once: each may have to wait for a reset, and one that never ends must
/// not end this. What is still waited for then is left to itself.
fn opened(subject: &Subject, roots: &Roots) -> Vec<Examined> {
    let begun = Instant::now();
    let open = |index: u8| {
        let backend = Arc::clone(&subject.backend);
        Answer::start(move || backend.open(index, Lane::Full))
    };
    let started: Vec<_> = subject.devices.iter().map(|&index| (index, open(index))).collect();
    let answered = started.into_iter().map(|(index, answer)| {
        let file = match answer.within(subject.patience.saturating_sub(begun.elapsed())) {
            Ok(Some(file)) => file.map(Some),
            Ok(None) => Ok(None),
            Err(errno) => Err(errno),
        };
        look(subject, roots, index, file)
    });
    answered.collect()
}

/// Looks at a device that was opened, or not, or is still waited for.
fn look(
    subject: &Subject,
    roots: &Roots,
    index: u8,
    file: Result<Option<Box<dyn DeviceFile>>, Errno>,
) -> Examined {
    let is_kernel = subject.name == BackendName::Kernel;
    let open = match &file {
        Ok(Some(_)) => Finding::ok("opens"),
        Ok(None) => waits(subject, roots, index),
        Err(errno) if is_kernel => opening::why(roots, index, *errno),
        Err(errno) => Finding::failed(
            format!("opening the software device failed: {errno}"),
            match &subject.name {
                BackendName::Unix(_) => "the server's own log says why",
                _ => "see the check of memory; `neuron-mem devices` names the step",
            },
        ),
    };
    let opens = open.status == Status::Ok;
    let permission = is_kernel.then(|| match nodes::permission(roots, index) {
        // What the system allowed is allowed.
        permission if opens => Finding { status: Status::Ok, advice: None, ..permission },
        permission => permission,
    });
    // Without a slot the driver still says what it is.
    let told = match file.ok().flatten() {
        Some(file) => Some(opening::ask_file(file, index)),
        None => {
            let backend = Arc::clone(&subject.backend);
            let answer = Answer::start(move || opening::ask(backend.as_ref(), index));
            answer.within(subject.patience).ok().flatten()
        }
    };
    let version = match &told {
        Some(Ok(told)) => Some(told.version()),
        Some(Err(error)) if opens || error.detail.is_some() => Some(opening::does_not_serve(error)),
        // It did not open: nothing new.
        _ => None,
    };
    Examined { index, permission, open, told: told.and_then(Result::ok), version }
}

fn waits(subject: &Subject, roots: &Roots, index: u8) -> Finding {
    let found = match opening::is_in_reset(roots, index) {
        true => "is being reset, and opening waits for that".to_owned(),
        false => {
            let patience = subject.patience.as_secs_f32();
            format!("opening has waited for {patience} s: the device is being reset, or hangs")
        }
    };
    let advice = "wait and look again; if it stays so, `sudo dmesg | grep -i neuron` says why, and a restart of the \
                  instance ends it";
    Finding::failed(found, advice)
}
