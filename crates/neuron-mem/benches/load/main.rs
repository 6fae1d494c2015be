//! `load` of a page-cached file against what a processor alone would do with it. What is
//! compared, and figures: README.md beside this file.
#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser as _;
use neuron_abi::memory::Category;
use neuron_mem::cli::{Cli, Command};
use neuron_mem::load;
use neuron_ndl::software::Machine;
use neuron_ndl::{AllocRequest, Device};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, VolatileMemory as _};

const TENSORS: usize = 8;
const TENSOR: usize = 64 << 20;
const BYTES: usize = TENSORS * TENSOR;
/// Bytes that `load` copies at a time, and so do its peers.
const PIECE: usize = 8 << 20;
const ROUNDS: usize = 9;
/// Of mmap and memcpy.
const ZERO_COPY_FLOOR: f64 = 0.85;
/// Of read and copy.
const STAGED_FLOOR: f64 = 1.3;

/// Writes a safetensors file, so that it is in the page cache. Its data begins at the result.
fn write_model(path: &Path) -> usize {
    let entries: Vec<String> = (0..TENSORS)
        .map(|index| {
            let (begin, end) = (index * TENSOR, (index + 1) * TENSOR);
            format!(r#""t{index}":{{"dtype":"U8","shape":[{TENSOR}],"data_offsets":[{begin},{end}]}}"#)
        })
        .collect();
    let mut header = format!("{{{}}}", entries.join(","));
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut file = File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let words = (1_u64..).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let data: Vec<u8> = words.flat_map(u64::to_le_bytes).take(TENSOR).collect();
    (0..TENSORS).for_each(|_| file.write_all(&data).unwrap());
    8 + header.len()
}

/// Seconds that `load` says copying took.
fn loaded(path: &Path, options: &str) -> f64 {
    let path = path.to_str().unwrap();
    let words = ["neuron-mem", "load", path, "--json", "--no-verify"];
    let cli = Cli::parse_from(words.into_iter().chain(options.split(' ')));
    let Command::Load(args) = cli.command else { return f64::INFINITY };
    let mut out = Vec::new();
    load::run(&args, &|| false, &mut out).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(report["bytes"].as_u64(), Some(BYTES as u64));
    report["seconds"].as_f64().unwrap()
}

/// Seconds to put the file into device memory that nobody has touched, mapped: exactly the
/// memory that `load` gets.
fn by_processor(path: &Path, start: usize, instance: &str, mapped: bool) -> f64 {
    let device = Device::open(&Machine::new(instance).unwrap(), 0).unwrap();
    let request = AllocRequest {
        size: BYTES as u64,
        align: 0,
        host: false,
        hbm: 0,
        core: 0,
        category: Category::TensorsDevice,
    };
    let memory = device.allocate(request).unwrap();
    let target = memory.map().unwrap();
    let target = target.slice();
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; PIECE];
    file.read_exact(&mut buffer[..start]).unwrap();
    let pieces = (0..BYTES).step_by(PIECE).map(|offset| target.subslice(offset, PIECE).unwrap());
    if mapped {
        let region = MmapRegionBuilder::<()>::new(start + BYTES)
            .with_mmap_prot(libc::PROT_READ)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .with_file_offset(FileOffset::from_arc(Arc::new(file), 0))
            .build()
            .unwrap();
        let source = region.as_volatile_slice().offset(start).unwrap();
        let begin = Instant::now();
        for (index, piece) in pieces.enumerate() {
            source.subslice(index * PIECE, PIECE).unwrap().copy_to_volatile_slice(piece);
        }
        begin.elapsed().as_secs_f64()
    } else {
        let begin = Instant::now();
        for piece in pieces {
            file.read_exact(&mut buffer).unwrap();
            piece.copy_from(&buffer[..]);
        }
        begin.elapsed().as_secs_f64()
    }
}

fn median<const N: usize>(mut once: impl FnMut() -> [f64; N]) -> [f64; N] {
    let rounds: Vec<[f64; N]> = (0..ROUNDS).map(|_| once()).collect();
    std::array::from_fn(|way| {
        let mut times: Vec<f64> = rounds.iter().map(|round| round[way]).collect();
        times.sort_unstable_by(f64::total_cmp);
        times[ROUNDS / 2]
    })
}

fn main() -> ExitCode {
    // `cargo test --benches` only wants to know that it runs.
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let start = write_model(&path);
    println!("backend software, threaded; 512 MiB, page-cached, to fresh device memory; GB/s, medians");
    println!("| instance     | transfer | load | peer            | peer's | load/peer |");
    println!("|--------------|----------|------|-----------------|--------|-----------|");
    let mut missed = false;
    for (instance, transfer, peer, mapped, floor) in [
        ("trn2.3xlarge", "zerocopy", "mmap and memcpy", true, ZERO_COPY_FLOOR),
        ("trn1.2xlarge", "staged", "read and copy", false, STAGED_FLOOR),
    ] {
        let options = format!("--instance {instance} --transfer {transfer}");
        let [load, plain] =
            median(|| [loaded(&path, &options), by_processor(&path, start, instance, mapped)]);
        let rate = |seconds: f64| BYTES as f64 / seconds / 1e9;
        println!(
            "| {instance} | {transfer:<8} | {:>4.2} | {peer:<15} | {:>6.2} | {:>9.2} |",
            rate(load),
            rate(plain),
            plain / load,
        );
        missed |= plain / load < floor;
    }
    let held = if missed { "missed" } else { "held" };
    println!(
        "limit {held}: zerocopy {ZERO_COPY_FLOOR} times mmap and memcpy, staged {STAGED_FLOOR} times read and copy"
    );
    ExitCode::from(u8::from(missed))
}
