//! Causes that are known, made on the software device: the log and the chunk dump of each have to
//! be explained by it. The rates are printed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::memory::UsageType;
use neuron_dmem::report::{DumpOptions, Form, Origin};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem};
use neuron_explain::{CauseKind, Dump, Explanation, Holder, Options, explain};
use neuron_ndl::Device;
use neuron_ndl::software::Machine;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE: u64 = 4 * KIB;
const ORIGIN: Origin = Origin { pid: 15_012, tid: 71 };
/// States of each kind.
const EACH: u64 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Capacity,
    HoleTooSmall,
    Alignment,
    PoolSplit,
    Duplicates,
    NeighbourCore,
    OtherProcess,
}

const ALL: [Truth; 7] = [
    Truth::Capacity,
    Truth::HoleTooSmall,
    Truth::Alignment,
    Truth::PoolSplit,
    Truth::Duplicates,
    Truth::NeighbourCore,
    Truth::OtherProcess,
];

impl Truth {
    fn is_named(self, read: &Explanation) -> bool {
        let [answer] = &read.answers[..] else { return false };
        let holder = answer.holder.as_ref();
        match self {
            Self::Capacity => answer.cause == CauseKind::Capacity && holder.is_none(),
            Self::HoleTooSmall => answer.cause == CauseKind::Fragmentation,
            Self::Alignment => answer.cause == CauseKind::Alignment,
            Self::PoolSplit => answer.cause == CauseKind::PoolSplit,
            Self::Duplicates => {
                answer.cause == CauseKind::Capacity && matches!(holder, Some(Holder::DuplicateModels { .. }))
            }
            Self::NeighbourCore => {
                answer.cause == CauseKind::Capacity && matches!(holder, Some(Holder::NeighbourCore { .. }))
            }
            Self::OtherProcess => {
                answer.cause == CauseKind::Capacity && matches!(holder, Some(Holder::OtherProcess { .. }))
            }
        }
    }

    /// Without the dump holes, pools and other processes are not to be seen.
    fn is_named_by_log(self, read: &Explanation) -> bool {
        let [answer] = &read.answers[..] else { return false };
        match self {
            Self::Capacity | Self::Duplicates | Self::NeighbourCore => self.is_named(read),
            Self::HoleTooSmall | Self::Alignment | Self::PoolSplit => {
                answer.cause == CauseKind::FragmentationOrAlignment
            }
            Self::OtherProcess => {
                answer.cause == CauseKind::FragmentationOrAlignment
                    && answer.sentence.contains("another process")
            }
        }
    }
}

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    /// Whole pages from `low` up to `high`.
    fn pages(&mut self, low: u64, high: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (low + self.0 % (high - low)) / PAGE * PAGE
    }
}

/// An HBM that fills up.
struct Rig {
    machine: Machine,
    memory: Arc<DeviceMemory>,
    core: u32,
    living: Vec<Dmem>,
    main: u64,
}

impl Rig {
    fn new(instance: &str, core: u32) -> Self {
        let machine = Machine::new(instance).unwrap();
        let memory = DeviceMemory::new(Device::open(&machine, 0).unwrap());
        let geometry = memory.device().geometry();
        let pool = geometry.hbm(0).unwrap().main_pool();
        Self { machine, memory, core, living: Vec::new(), main: pool.end - pool.start - 16 * MIB }
    }

    fn model(&self, label: &str) -> Allocator {
        Allocator::labelled(&self.memory, AllocatorKind::Model, self.core, label).unwrap()
    }

    fn allocate(&mut self, allocator: &Allocator, size: u64) {
        self.living.push(allocator.allocate(&weight(size)).unwrap());
    }

    /// Blocks of at most 1 GiB.
    fn fill(&mut self, allocator: &Allocator, mut bytes: u64) {
        while bytes > 0 {
            let block = bytes.min(GIB);
            self.allocate(allocator, block);
            bytes -= block;
        }
    }
}

fn weight(size: u64) -> AllocRequest<'static> {
    AllocRequest::device(size, UsageType::Weight)
}

/// Blocks of one size all over the main pool, the small pool full, every other block freed.
fn sieve(rig: &mut Rig, allocator: &Allocator, block: u64) {
    let count = rig.main / block;
    let mut blocks: Vec<_> = (0..count).map(|_| allocator.allocate(&weight(block)).unwrap()).collect();
    rig.allocate(allocator, GIB);
    for (place, block) in blocks.drain(..).enumerate() {
        // The last stays, so that the rest of the pool is no part of a hole.
        if place % 2 == 1 || place as u64 + 1 == count {
            rig.living.push(block);
        }
    }
}

/// Makes a state and is refused: the log, and the dump.
fn refused(truth: Truth, seed: u64) -> (String, Dump, Generation) {
    let mut numbers = Numbers(seed * 2_654_435_761 + 88_172_645_463_325_252);
    let on_trn2 = truth == Truth::NeighbourCore || seed % 2 == 1;
    let (instance, core) =
        if on_trn2 { ("trn2.3xlarge", 2) } else { ("trn1.2xlarge", u32::try_from(seed / 2 % 2).unwrap()) };
    let mut rig = Rig::new(instance, core);
    let allocator = rig.model("m");
    // Its row is in the table while its allocator lives.
    let again = rig.model("m");
    let mut other_process = Vec::new();
    let request = match truth {
        Truth::Capacity => {
            let left = numbers.pages(0, 2 * GIB);
            rig.fill(&allocator, rig.main - left);
            weight(numbers.pages(left + GIB + MIB, rig.main))
        }
        Truth::HoleTooSmall => {
            let block = numbers.pages(64 * MIB, 512 * MIB);
            sieve(&mut rig, &allocator, block);
            weight(numbers.pages(block + PAGE, block * 3 / 2))
        }
        Truth::Alignment => {
            // From 16 MiB on, each block begins at no multiple of 1 GiB: 96 MiB and some pages.
            let block = (96 * MIB) + PAGE * (1 + seed);
            let starts = (0..rig.main / block).step_by(2).map(|place| 16 * MIB + place * block);
            assert!(starts.clone().all(|start| start % GIB != 0));
            sieve(&mut rig, &allocator, block);
            weight(numbers.pages(block - MIB, block)).aligned(GIB)
        }
        Truth::PoolSplit => {
            let left = numbers.pages(64 * MIB, 900 * MIB);
            rig.fill(&allocator, rig.main - left);
            weight(GIB + numbers.pages(PAGE, left))
        }
        Truth::Duplicates => {
            let share = rig.main / 3;
            rig.fill(&allocator, share / PAGE * PAGE);
            rig.fill(&again, share / PAGE * PAGE);
            weight(numbers.pages(share + GIB + 64 * MIB, 2 * share))
        }
        Truth::NeighbourCore => {
            let neighbour = Allocator::labelled(&rig.memory, AllocatorKind::Model, 3, "n").unwrap();
            let bytes = numbers.pages(14 * GIB, 18 * GIB);
            rig.fill(&neighbour, bytes);
            rig.fill(&allocator, 2 * GIB);
            weight(numbers.pages(9 * GIB, 12 * GIB))
        }
        Truth::OtherProcess => {
            // Another process's file; nothing tells the log whether it lives.
            let theirs = DeviceMemory::new(Device::open(&rig.machine, 0).unwrap());
            let model = Allocator::labelled(&theirs, AllocatorKind::Model, core, "theirs").unwrap();
            for _ in 0..rig.main / GIB * 2 / 3 {
                other_process.push(model.allocate(&weight(GIB)).unwrap());
            }
            rig.fill(&allocator, GIB + numbers.pages(PAGE, GIB));
            weight(rig.main / 2)
        }
    };
    let error = allocator.allocate(&request).unwrap_err();
    let report = error.report().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = DumpOptions { directory: Some(folder.path().to_owned()), form: Form::Categories };
    let files = report.write_files(&[], &options);
    let chunks = files.chunks.clone().unwrap();
    let dump =
        Dump::parse(chunks.to_str().unwrap(), &std::fs::read_to_string(&chunks).unwrap(), true).unwrap();
    let generation = if on_trn2 { Generation::V3 } else { Generation::V2 };
    (report.failure_log(ORIGIN, &files, Form::Categories), dump, generation)
}

#[test]
fn causes_that_are_known_are_named() {
    let (mut states, mut with_dump, mut by_log) = (0, 0, 0);
    let mut wrong = Vec::new();
    for truth in ALL {
        for seed in 0..EACH {
            let (log, dump, generation) = refused(truth, seed);
            let read =
                |generation, dumps| explain(&mut log.as_bytes(), &Options { generation, dumps }).unwrap();
            states += 1;
            // Nobody tells the generation: the log shows it.
            let full = read(None, vec![dump]);
            assert_eq!(full.presumed.map(|it| it.arch), Some(generation.raw()), "{log}");
            with_dump += usize::from(truth.is_named(&full));
            let alone = read(Some(generation), Vec::new());
            by_log += usize::from(truth.is_named_by_log(&alone));
            if !truth.is_named(&full) || !truth.is_named_by_log(&alone) {
                wrong.push(format!("{truth:?} {seed}\n{log}\n{}\n{}", full.text(), alone.text()));
            }
        }
    }
    println!(
        "{with_dump} of {states} causes named right with the dump, {by_log} by the log alone as far as it shows them"
    );
    if let Some(first) = wrong.first() {
        println!("the first wrong one: {first}");
    }
    assert!(
        states >= 100 && with_dump * 100 >= states * 95 && by_log * 100 >= states * 95,
        "{with_dump}, {by_log} of {states}"
    );
}
