//! Clients as processes: this test program again, which does one of the things below and tells of
//! it line by line.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::RwLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use neuron_ndl::remote::{Address, Remote};
use neuron_serve::Server;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

use crate::{descriptors, hostile, leaks, life, order, stops, users, work};

/// What the process does, and where its server is.
const ACT: &str = "NEURON_SERVE_TEST_ACT";
const SOCKET: &str = "NEURON_SERVE_TEST_SOCKET";
/// Set for a child of the test: it tells first that it is there.
const HERE: &str = "NEURON_SERVE_TEST_HERE";
/// Lines that begin so are reports; others are what a panic says.
const REPORT: &str = "=";
/// How long a report may take on a busy machine before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A child has all descriptors of this process until it is another program: held until one is, and while one is closed whose end is waited for.
pub(crate) static SPAWN: RwLock<()> = RwLock::new(());

#[test]
#[ignore = "a client of the other tests, which start it"]
fn client() {
    if std::env::var_os(HERE).is_some() {
        report(HERE);
    }
    match variable(ACT).as_str() {
        "work" => work::act(),
        "stopped" => stops::act(),
        "orphan" => stops::act_orphan(),
        "holder" => descriptors::act_holder(),
        "exec" => descriptors::act_exec(),
        "executed" => descriptors::act_executed(),
        "foreign" => users::act(),
        "hog" => order::act(),
        "thief" => hostile::act(),
        "leaker" => leaks::act(),
        "server" => life::act(),
        other => panic!("no act {other:?}"),
    }
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// In a client: its server.
pub(crate) fn address() -> Address {
    Address::new(variable(SOCKET)).unwrap()
}

pub(crate) fn remote() -> Remote {
    Remote::connect(address()).unwrap()
}

/// In a client: tells the test.
pub(crate) fn report(text: &str) {
    // One write each, so that lines of threads stay whole.
    std::io::stderr().write_all(format!("{REPORT}{text}\n").as_bytes()).unwrap();
}

/// In a client: waits for a word of the test.
pub(crate) fn wait_for_word() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the test has ended");
}

/// This program again, to do `act`.
pub(crate) fn command(act: &str, address: &Address) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::client", "--ignored", "--nocapture"]);
    command.env(ACT, act).env(SOCKET, address.path()).env_remove(HERE);
    command
}

/// A client. Dropping it kills it.
pub(crate) struct Client {
    child: Child,
    stdin: ChildStdin,
    reports: Receiver<String>,
    ended: bool,
}

impl Client {
    pub(crate) fn start(act: &str, server: &Server, variables: &[(&str, u64)]) -> Self {
        let mut command = command(act, server.address());
        command.envs(variables.iter().map(|(name, value)| (name, value.to_string())));
        Self::spawn(command)
    }

    pub(crate) fn spawn(command: Command) -> Self {
        Self::spawn_with(command, None)
    }

    /// One that inherits a descriptor, which no other child does.
    pub(crate) fn spawn_with(mut command: Command, descriptor: Option<&OwnedFd>) -> Self {
        let one = SPAWN.write();
        let inherit = |flags| descriptor.iter().for_each(|fd| fcntl_setfd(fd, flags).unwrap());
        inherit(FdFlags::empty());
        command.env(HERE, "1");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        inherit(FdFlags::CLOEXEC);
        let (stdin, stderr) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let client = Self { child, stdin, reports, ended: false };
        // A spawn returns some time before what the child is not to have is closed there.
        client.wait_until(HERE);
        drop(one);
        client
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The next thing that it tells.
    pub(crate) fn next(&self) -> String {
        match self.reports.recv_timeout(PATIENCE) {
            Ok(line) => match line.strip_prefix(REPORT) {
                Some(report) => report.to_owned(),
                None => panic!("client {}: {line}\n{}", self.pid(), self.rest()),
            },
            Err(RecvTimeoutError::Timeout) => panic!("client {} tells nothing", self.pid()),
            Err(RecvTimeoutError::Disconnected) => panic!("client {} has ended", self.pid()),
        }
    }

    fn rest(&self) -> String {
        std::iter::from_fn(|| self.reports.recv_timeout(Duration::from_secs(1)).ok())
            .fold(String::new(), |all, line| all + &line + "\n")
    }

    /// Waits until it tells this.
    pub(crate) fn wait_until(&self, text: &str) {
        while self.next() != text {}
    }

    /// Forgets what it has told by now, unless it tells of trouble.
    pub(crate) fn catch_up(&self) {
        while let Ok(line) = self.reports.try_recv() {
            assert!(line.starts_with(REPORT), "client {}: {line}\n{}", self.pid(), self.rest());
        }
    }

    /// Tells it a word.
    pub(crate) fn tell(&mut self) {
        self.stdin.write_all(b"go\n").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it, and waits for it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.wait().code(), None, "it ended by itself");
    }

    /// Waits for its end by itself.
    pub(crate) fn end(mut self) {
        // What it tells of trouble is of interest, if it does.
        let status = self.wait();
        assert!(status.success(), "client {}: {}", self.pid(), self.rest());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.ended = true;
        self.child.wait().unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.ended {
            let _ended_already = self.child.kill();
            let _status = self.child.wait();
        }
    }
}
