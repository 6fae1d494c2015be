//! A small server over the protocol, its picture, and programs that see it.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use neuron_wire::message::{Hello, MAGIC, Reply, Request, SHORT, VERSION, Welcome, Which, kind, role, way};
use neuron_wire::packet::{self, Packet};
use rustix::fs::MemfdFlags;
use rustix::net::{Shutdown, SocketAddrUnix, accept, bind, listen, shutdown, sockopt};
use tempfile::TempDir;

pub(crate) const DEVICES: u32 = 2;
/// An ioctl that writes [`ANSWER`] to its argument.
pub(crate) const WORD: u32 = 0x8008_4E03;
pub(crate) const ANSWER: u64 = 0x1122_3344_5566_7788;
pub(crate) const DMABUF_FD: u32 = 0x8008_4E6B;
const EINVAL: u32 = 22;
const ENOENT: u32 = 2;
/// Where in the memory that a mapping gets its bytes begin.
const OFFSET: u64 = 8192;

/// What happened at the server, line by line.
#[derive(Default)]
pub(crate) struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

impl Log {
    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        self.grown.notify_all();
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, start: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(start)).count()
    }

    /// Waits until so many lines start like this: never for long, unless something is wrong.
    pub(crate) fn wait(&self, count: usize, start: &str) {
        let reached =
            |lines: &mut Vec<String>| lines.iter().filter(|line| line.starts_with(start)).count() < count;
        let lines = self.lines.lock().unwrap();
        let (lines, waited) =
            self.grown.wait_timeout_while(lines, Duration::from_secs(60), |lines| reached(lines)).unwrap();
        assert!(!waited.timed_out(), "{count} x {start}: {lines:#?}");
    }
}

/// A server with its picture.
pub(crate) struct Server {
    folder: TempDir,
    pub(crate) log: Arc<Log>,
    shared: Arc<Shared>,
}

struct Shared {
    log: Arc<Log>,
    numbers: AtomicU64,
    /// Open connections, to end them.
    connections: Mutex<Vec<OwnedFd>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        picture(&folder.path().join("tree"));
        let path = folder.path().join("socket");
        let socket = packet::socket().unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        listen(&socket, 16).unwrap();
        let log = Arc::new(Log::default());
        let shared = Arc::new(Shared {
            log: Arc::clone(&log),
            numbers: AtomicU64::new(100),
            connections: Mutex::default(),
        });
        let accepted = Arc::clone(&shared);
        std::thread::spawn(move || {
            while let Ok(connection) = accept(&socket) {
                accepted.connections.lock().unwrap().push(connection.try_clone().unwrap());
                let shared = Arc::clone(&accepted);
                std::thread::spawn(move || {
                    serve(&connection, &shared);
                    // The clone in the list would keep it open.
                    let _ended = shutdown(&connection, Shutdown::Both);
                });
            }
        });
        Self { folder, log, shared }
    }

    /// Ends it, as far as a program can see.
    pub(crate) fn end(&self) {
        std::fs::remove_file(self.folder().join("socket")).unwrap();
        for connection in self.shared.connections.lock().unwrap().iter() {
            let _ended = shutdown(connection, Shutdown::Both);
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder().join("tree")
    }

    /// A program that sees the server's devices.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        command(program, &self.folder().join("socket"), &self.tree())
    }

    /// Runs one that has to succeed and say nothing on its standard error.
    pub(crate) fn run(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
        told(self.command(program).args(arguments))
    }

    /// Runs a script of bash.
    pub(crate) fn bash(&self, script: &str) -> String {
        self.run("bash", &["--norc", "-c", script])
    }
}

/// A program that sees the devices of a server.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, socket: &Path, tree: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command.env("NEURON_MEM_RUN_SOCKET", socket);
    command.env("NEURON_MEM_RUN_TREE", tree);
    command.env("LC_ALL", "C");
    command
}

/// A program of C, `None` where there is no compiler. In CI there has to be one.
pub(crate) fn compiled(source: &Path, folder: &Path) -> Option<PathBuf> {
    if !is_there("cc") {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI needs a C compiler: install cc");
        return None;
    }
    let program = folder.join("program");
    // As distributions build: with checks in the place of some calls.
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_GNU_SOURCE"]);
    command.args(["-Wall", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
    told(&mut command);
    Some(program)
}

/// What a program writes that succeeds without complaints.
pub(crate) fn told(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && stderr.is_empty(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

pub(crate) fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libneuron_preload.so");
    assert!(library.exists(), "{} was not built with this test", library.display());
    library
}

/// Whether the program is there: a test that needs it is skipped otherwise.
pub(crate) fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: there is no {program}");
    }
    there
}

fn picture(root: &Path) {
    let file = |path: &str, mode| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "not to be seen").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir_all(root.join("sys/class/neuron_device")).unwrap();
    for index in 0..DEVICES {
        file(&format!("dev/neuron{index}"), 0o666);
        let device = format!("sys/devices/virtual/neuron_device/neuron{index}");
        file(&format!("{device}/reset"), 0o600);
        file(&format!("{device}/core_count"), 0o400);
        file(&format!("{device}/info/notify_delay"), 0o644);
        file(&format!("{device}/neuron_core0/stats/memory_usage/device_mem/total"), 0o644);
        let link = root.join(format!("sys/class/neuron_device/neuron{index}"));
        symlink(format!("../../devices/virtual/neuron_device/neuron{index}"), link).unwrap();
        symlink("../../../../class/neuron_device", root.join(device).join("subsystem")).unwrap();
    }
    file("sys/class/neuron_device/node_id_2", 0o444);
    file("sys/module/neuron/version", 0o444);
    file("sys/module/neuron/parameters/mempool_min_alloc_size", 0o444);
}

/// What a file under `/sys` has.
pub(crate) fn content(path: &str) -> String {
    match path {
        "sys/module/neuron/version" => "2.27.4.0\n".to_owned(),
        path => format!("now: {path}\n"),
    }
}

fn memory(bytes: &[u8]) -> OwnedFd {
    let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    File::from(fd.try_clone().unwrap()).write_all_at(bytes, 0).unwrap();
    fd
}

fn serve(connection: &OwnedFd, shared: &Shared) {
    let Ok(Some(first)) = Packet::receive(connection, SHORT) else { return };
    let (hello, tail) = first.head::<Hello>().unwrap();
    let path = String::from_utf8(tail.to_vec()).unwrap();
    let mut welcome = Welcome {
        magic: MAGIC,
        version: VERSION,
        errno: 0,
        way: way::PROCESS,
        file: 0,
        devices: DEVICES,
        server: std::process::id(),
        instance: [0; 32],
    };
    match hello.role {
        role::FILE if hello.index >= DEVICES => welcome.errno = ENOENT,
        role::FILE => {
            welcome.file = shared.numbers.fetch_add(1, Ordering::Relaxed);
            shared.log.add(format!("open {} {} flags {:o}", welcome.file, hello.index, hello.flags & 3));
        }
        _ => {}
    }
    packet::send(connection, &welcome, &[], None).unwrap();
    match hello.role {
        role::FILE if welcome.errno == 0 => {
            shutdown(connection, Shutdown::Write).unwrap();
            file(connection, &welcome, shared);
            shared.log.add(format!("close {}", welcome.file));
        }
        role::ATTRIBUTE => {
            let mut bytes = [0; 64];
            while let Ok((_, got @ 1..)) =
                rustix::net::recv(connection, &mut bytes, rustix::net::RecvFlags::empty())
            {
                let written = String::from_utf8_lossy(&bytes[..got]);
                shared.log.add(format!("write {path} {written:?}"));
            }
            shared.log.add(format!("written {path}"));
        }
        role::CALLS => calls(connection, shared),
        _ => {}
    }
}

/// An open device: asked what it is, and written to.
fn file(connection: &OwnedFd, welcome: &Welcome, shared: &Shared) {
    while let Ok(Some(packet)) = Packet::receive(connection, SHORT) {
        match (packet.whole::<Which>(), &packet.descriptor) {
            (Ok(_), Some(answer)) => {
                shared.log.add(format!("which {}", welcome.file));
                packet::send(answer, welcome, &[], None).unwrap();
            }
            _ => shared.log.add("stray".to_owned()),
        }
    }
}

fn calls(connection: &OwnedFd, shared: &Shared) {
    let client = sockopt::socket_peercred(connection).unwrap().pid.as_raw_nonzero();
    while let Ok(Some(packet)) = Packet::receive(connection, SHORT) {
        let (request, tail) = packet.head::<Request>().unwrap();
        let Request { kind, word, file, a, b, c } = request;
        let mut reply = Reply::default();
        let mut descriptor = None;
        match kind {
            kind::IOCTL => {
                shared.log.add(format!("ioctl {file} {word:#x}"));
                match word {
                    WORD => {
                        let memory = File::options().write(true).open(format!("/proc/{client}/mem")).unwrap();
                        if memory.write_all_at(&ANSWER.to_le_bytes(), a).is_err() {
                            reply.errno = 14;
                        }
                    }
                    DMABUF_FD => descriptor = Some(memory(b"exported")),
                    _ => reply.errno = EINVAL,
                }
            }
            kind::MMAP => {
                reply.a = OFFSET;
                reply.b = shared.numbers.fetch_add(1, Ordering::Relaxed);
                shared.log.add(format!("mmap {} file {file} offset {a:#x} bytes {b:#x} write {c}", reply.b));
                let mut bytes = vec![0_u8; (OFFSET + b) as usize];
                (&mut bytes[OFFSET as usize..]).write_all(b"device memory").unwrap();
                let whole = memory(&bytes);
                descriptor = Some(if c & 1 == 1 { whole } else { read_only(&whole) });
            }
            kind::PLACE => shared.log.add(format!("place {a}")),
            kind::UNMAP => shared.log.add(format!("unmap {a}")),
            kind::READ_ATTRIBUTE => {
                let path = String::from_utf8(tail.to_vec()).unwrap();
                shared.log.add(format!("read {path}"));
                descriptor = Some(memory(content(&path).as_bytes()));
            }
            _ => reply.errno = EINVAL,
        }
        if packet::send(connection, &reply, &[], descriptor.as_ref().map(AsFd::as_fd)).is_err() {
            break;
        }
    }
}

fn read_only(memory: &OwnedFd) -> OwnedFd {
    File::open(format!("/proc/self/fd/{}", memory.as_raw_fd())).unwrap().into()
}
