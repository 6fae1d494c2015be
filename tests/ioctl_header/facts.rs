//! What the header has to say, from the crates that the software uses.

use neuron_abi::arch::{ENGINE_SLOTS, Generation, PAGE_SIZE, QUEUES_PER_ENGINE};
use neuron_abi::arg::{self, GetAppsInfo};
use neuron_abi::enums::{
    AsyncHandle, Block, CinitState, NqDevice, NqType, PodState, PodType, QueueType, Resource, UltraserverMode,
};
use neuron_abi::features::Features;
use neuron_abi::memory::{Category, MemLocation};
use neuron_abi::{cmd, limits};
use neuron_udma::descriptor::words;
use neuron_udma::{Barrier, Copy, DESCRIPTOR_SIZE, MAX_DESCRIPTOR_BYTES, MAX_RING, MIN_RING};

use crate::text::Struct;

/// The same lists as [`Header`](crate::text::Header) has.
pub(crate) struct Facts {
    pub(crate) commands: Vec<(String, u32)>,
    pub(crate) structs: Vec<Struct>,
    pub(crate) constants: Vec<(String, i128)>,
}

impl Facts {
    pub(crate) fn new() -> Self {
        let commands = cmd::ALL.iter().chain([&cmd::MEM_BUF_ZEROCOPY64_OLD]);
        let descriptor = [("word0", 0, 4), ("word1", 4, 4), ("address", 8, 8)];
        let descriptor = descriptor.map(|(name, at, size)| (name.to_owned(), at, size));
        let structs = arg::layouts().map(|layout| {
            let fields = layout.fields.iter().map(|field| (field.name.to_owned(), field.offset, field.size));
            (c_name(layout.name), layout.size, fields.collect())
        });
        Self {
            commands: commands.map(|command| (command.name.to_owned(), command.word)).collect(),
            structs: structs
                .chain([("neuron_descriptor".to_owned(), DESCRIPTOR_SIZE, descriptor.to_vec())])
                .collect(),
            constants: [limits(), enumerators(), features(), descriptors()].concat(),
        }
    }
}

/// `MemAllocV2` is `neuron_mem_alloc_v2`; a name is not said twice.
fn c_name(rust: &str) -> String {
    let snake: String = rust
        .chars()
        .flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain([c.to_ascii_lowercase()]))
        .collect();
    format!("neuron{}", snake.strip_prefix("_neuron").unwrap_or(&snake))
}

type Constants = Vec<(String, i128)>;

fn limits() -> Constants {
    [
        ("OPEN_FULL", 2),
        ("OPEN_MISC", 1),
        ("MAX_DEVICES", limits::MAX_DEVICES as i128),
        ("MAX_PROCESSES", limits::MAX_PROCESSES as i128),
        ("MAX_CORES", limits::MAX_CORES.into()),
        ("MAX_CONNECTED_DEVICES", limits::MAX_CONNECTED_DEVICES as i128),
        ("QUEUE_BATCH_ENTRIES", limits::QUEUE_BATCH_ENTRIES as i128),
        ("NC_MAP_ENTRIES", limits::NC_MAP_ENTRIES as i128),
        ("DATASTORE_SIZE", limits::DATASTORE_SIZE as i128),
        ("PRINTK_MAX", limits::PRINTK_MAX as i128),
        ("DEFAULT_H2T_QUEUE", limits::DEFAULT_H2T_QUEUE.into()),
        ("DEVICE_MAP", limits::DEVICE_MAP.into()),
        ("COMPLETION_QUEUE_ENTRIES", limits::COMPLETION_QUEUE_ENTRIES.into()),
        ("PAGE_SIZE", PAGE_SIZE.into()),
        ("ENGINE_SLOTS", ENGINE_SLOTS.into()),
        ("QUEUES_PER_ENGINE", QUEUES_PER_ENGINE.into()),
        ("APPS_INFO_LOCKS", GetAppsInfo::LOCKS.into()),
        ("APPS_INFO_MEMORY", GetAppsInfo::MEMORY.into()),
    ]
    .map(named)
    .to_vec()
}

fn named((name, value): (&str, i128)) -> (String, i128) {
    (format!("NEURON_{name}"), value)
}

macro_rules! enumerators {
    ($($prefix:literal $rust:ty),+) => {
        [$(<$rust>::ALL.iter().map(|value| {
            (format!("NEURON_{}_{}", $prefix, value.name()), i128::from(value.raw()))
        }).collect::<Constants>()),+].concat()
    };
}

fn enumerators() -> Constants {
    enumerators!(
        "LOCATION" MemLocation, "CATEGORY" Category, "QUEUE" QueueType, "WAIT" AsyncHandle, "BLOCK" Block,
        "RESOURCE" Resource, "NQ_DEVICE" NqDevice, "NQ" NqType, "POD_TYPE" PodType, "POD_STATE" PodState,
        "ULTRASERVER" UltraserverMode, "CINIT" CinitState, "ARCH" Generation
    )
}

fn features() -> Constants {
    Features::NAMED
        .iter()
        .map(|(name, bit)| (format!("NEURON_FEATURE_{name}"), i128::from(bit.bits())))
        .collect()
}

/// What each bit does to a descriptor of ours (`spec/udma.md` 6).
fn descriptors() -> Constants {
    let copy = |barrier| Copy { source: 0, destination: 0, bytes: 1, barrier, interrupt: false };
    let tx = |barrier, lap| words(&copy(barrier).tx(lap).unwrap());
    let (plain, meta, _) = tx(Barrier::None, 0);
    let (first, last) = (1 << 26, 1 << 27);
    assert_eq!(plain, 1 | first | last);
    let (rx, rx_meta, _) = words(&copy(Barrier::None).rx(0).unwrap());
    assert_eq!((rx, rx_meta), (1, 0));
    [
        ("DESC_LENGTH_MASK", 0xffff),
        ("DESC_MAX_BYTES", MAX_DESCRIPTOR_BYTES.into()),
        ("DESC_RING_ID(2)", (tx(Barrier::None, 2).0 ^ plain).into()),
        ("DESC_TX_FIRST", first.into()),
        ("DESC_TX_LAST", last.into()),
        ("DESC_TX_DMB", (tx(Barrier::Dmb, 0).0 ^ plain).into()),
        ("DESC_TX_WORD1", meta.into()),
        ("DESC_TX_WRITE_BARRIER", (tx(Barrier::Write, 0).1 ^ meta).into()),
        ("RING_MIN", MIN_RING.into()),
        ("RING_MAX", MAX_RING.into()),
    ]
    .map(named)
    .to_vec()
}
