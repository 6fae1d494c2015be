//! What a server costs: calls and copies of a machine in this process, and of the same one in a
//! server's. Figures and what they say: `docs/serve.md`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;

use neuron_abi::memory::UsageType;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem};
use neuron_ndl::remote::{Address, Remote};
use neuron_ndl::software::Machine;
use neuron_ndl::{Backend, Device, Memory};
use neuron_serve::{Options, Server};
use neuron_wire::message::{Reply, Request, SHORT};
use neuron_wire::packet::{self, Packet};

/// Set for this program as a server of an instance type, at `SOCKET`; or as an echo.
const INSTANCE: &str = "OVERHEAD_INSTANCE";
const SOCKET: &str = "OVERHEAD_SOCKET";
const ECHO: &str = "OVERHEAD_ECHO";

const ROUNDS: usize = 15;
const CALLS: u32 = 2000;
const SMALL: usize = 1 << 20;
const LARGE: usize = 64 << 20;
/// Rate of a large staged copy over a server, in those of one in this process.
const FLOOR: f64 = 0.8;

/// This program again, killed in the end.
struct Other(Child);

impl Other {
    fn start(command: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut again = Command::new(std::env::current_exe().unwrap());
        Self(command(&mut again).spawn().unwrap())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn serve(instance: &str) {
    let address = Address::new(std::env::var(SOCKET).unwrap()).unwrap();
    let _server = Server::start(Options::new(instance, address)).unwrap();
    // Its parent's end of the pipe is closed with the parent.
    let _end = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

/// Answers packets as long as there are any: what two processes need for one call at least.
fn echo() {
    let socket = &std::io::stdin();
    while let Ok(Some(packet)) = Packet::receive(socket, SHORT) {
        let (request, _) = packet.head::<Request>().unwrap();
        packet::send(socket, &Reply { a: request.a, ..Reply::default() }, &[], None).unwrap();
    }
}

/// A machine as this process sees it, and what is copied to and from.
struct Side {
    device: Arc<Device>,
    memory: Memory,
    block: Dmem,
    bytes: Vec<u8>,
}

impl Side {
    fn new(backend: &dyn Backend) -> Self {
        let device = Device::open(backend, 0).unwrap();
        let request = neuron_ndl::AllocRequest {
            size: 4096,
            align: 0,
            host: false,
            hbm: 0,
            core: 0,
            category: neuron_abi::memory::Category::TensorsDevice,
        };
        let memory = device.allocate(request).unwrap();
        let pool = DeviceMemory::new(Arc::clone(&device));
        let model = Allocator::new(&pool, AllocatorKind::Model, 0).unwrap();
        let block = model.allocate(&AllocRequest::device(LARGE as u64, UsageType::Weight)).unwrap();
        let mut side = Self { device, memory, block, bytes: vec![7; LARGE] };
        // Pages that nobody has touched cost both the same, and not what is asked here.
        side.write(LARGE);
        side.read(LARGE);
        side
    }

    /// Seconds of one call (`MEM_GET_EXTENDED_INFO`), whose argument is read and written back.
    fn call(&self) -> f64 {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(self.device.memory_info(&self.memory).unwrap());
        }
        start.elapsed().as_secs_f64() / f64::from(CALLS)
    }

    fn write(&mut self, bytes: usize) -> f64 {
        let start = Instant::now();
        for offset in (0..LARGE).step_by(bytes) {
            self.block.write(offset as u64, &self.bytes[offset..offset + bytes]).unwrap();
        }
        start.elapsed().as_secs_f64()
    }

    fn read(&mut self, bytes: usize) -> f64 {
        let start = Instant::now();
        for offset in (0..LARGE).step_by(bytes) {
            self.block.read(offset as u64, &mut self.bytes[offset..offset + bytes]).unwrap();
        }
        start.elapsed().as_secs_f64()
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Medians of what two ways take, in turns.
fn both(mut one: impl FnMut() -> f64, mut other: impl FnMut() -> f64) -> (f64, f64) {
    let (ones, others) = (0..ROUNDS).map(|_| (one(), other())).unzip();
    (median(ones), median(others))
}

/// Ratio of the rates, served to in process.
fn print(what: &str, bytes: usize, (here, served): (f64, f64)) -> f64 {
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    let ratio = here / served;
    println!("| {what:<36} | {:>7.2} | {:>7.2} | {ratio:>5.2} |", rate(here), rate(served));
    ratio
}

/// The copies of an instance type, and the lower ratio of the large ones.
fn copies(here: &mut Side, served: &mut Side, way: &str, sizes: &[usize]) -> f64 {
    let mut lowest = f64::INFINITY;
    for &size in sizes {
        let mib = size >> 20;
        // All of 64 MiB each time, in pieces of this size.
        let written = both(|| here.write(size), || served.write(size));
        let read = both(|| here.read(size), || served.read(size));
        let write = print(&format!("{way} write, {mib} MiB each, GB/s"), LARGE, written);
        let read = print(&format!("{way} read, {mib} MiB each, GB/s"), LARGE, read);
        if size == LARGE {
            lowest = lowest.min(write).min(read);
        }
    }
    lowest
}

fn with_server<T>(instance: &str, work: impl FnOnce(&mut Side, &mut Side) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _server =
        Other::start(|command| command.env(INSTANCE, instance).env(SOCKET, &path).stdin(Stdio::piped()));
    let remote = loop {
        match Remote::connect(Address::new(&path).unwrap()) {
            Ok(remote) => break remote,
            Err(_) => std::thread::yield_now(),
        }
    };
    let machine = Machine::new(instance).unwrap();
    work(&mut Side::new(&machine), &mut Side::new(&remote))
}

fn calls(here: &Side, served: &Side) {
    let (own, other) = packet::pair().unwrap();
    let _echo = Other::start(|command| command.env(ECHO, "1").stdin(Stdio::from(other)));
    let echo = || {
        let start = Instant::now();
        for number in 0..CALLS {
            let request = Request { a: number.into(), ..Request::default() };
            packet::send(own.as_fd(), &request, &[], None).unwrap();
            black_box(Packet::receive(&own, SHORT).unwrap().unwrap());
        }
        start.elapsed().as_secs_f64() / f64::from(CALLS)
    };
    let (here, served_call) = both(|| here.call(), || served.call());
    let (bare, _) = both(echo, || 0.0);
    println!(
        "call: in process {:.2} us, served {:.2} us, a packet there and back {:.2} us: {:.2} times that",
        here * 1e6,
        served_call * 1e6,
        bare * 1e6,
        served_call / bare
    );
}

fn main() -> ExitCode {
    if let Ok(instance) = std::env::var(INSTANCE) {
        serve(&instance);
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(ECHO).is_some() {
        echo();
        return ExitCode::SUCCESS;
    }
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    println!("backend software, threaded; medians of {ROUNDS} rounds in turns");
    let ratio = with_server("trn1.2xlarge", |here, served| {
        calls(here, served);
        println!("| copy                                 | process | served  | ratio |");
        println!("|--------------------------------------|---------|---------|-------|");
        copies(here, served, "staged", &[SMALL, LARGE])
    });
    with_server("trn2.3xlarge", |here, served| copies(here, served, "zero-copy", &[LARGE]));
    let held = if ratio < FLOOR { "missed" } else { "held" };
    println!("limit {held}: staged copies of 64 MiB over a server at {FLOOR} times their rate in process");
    ExitCode::from(u8::from(ratio < FLOOR))
}
