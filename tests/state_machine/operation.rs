//! What happens, one operation at a time, and how often. Numbers pick among what is there
//! when the operation's turn comes, so that any part of a sequence is a sequence.
//!
//! To add a command: a variant here with its place in [`operation`], a method on the model
//! that says what it answers and changes, and one in `run` that makes the call and compares.

use proptest::prelude::*;

use crate::model::Trouble;

/// Who calls: a file, and whether its opener uses it or a process that inherited it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) file: u8,
    pub(crate) heir: Option<u8>,
}

/// A chunk that is there, or for [`NO_CHUNK`] a handle that names none; and where in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) chunk: u8,
    pub(crate) offset: u16,
}

/// Picks a handle that names nothing.
pub(crate) const NO_CHUNK: u8 = u8::MAX;

/// Which of the four ways to ask for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Oldest,
    Aligned,
    Typed,
    Wide,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Open {
        pid: u8,
        misc: bool,
    },
    Close {
        file: u8,
    },
    /// All files of a process close, in any order: it was killed.
    Kill {
        pid: u8,
    },
    Allocate {
        by: Caller,
        form: Form,
        host: bool,
        channel: u8,
        core: u8,
        size: u64,
        align: u32,
        category: u8,
        told: bool,
    },
    Free {
        by: Caller,
        chunk: u8,
    },
    Info {
        by: Caller,
        chunk: u8,
    },
    /// A chunk by address; a handle comes with it.
    Locate {
        by: Caller,
        part: Part,
    },
    Map {
        file: u8,
        chunk: u8,
        whole: bool,
    },
    Unmap {
        mapping: u8,
    },
    Write {
        by: Caller,
        to: Part,
        len: u32,
        seed: u8,
        wide: bool,
        mapped: bool,
    },
    /// Between a chunk and user pages, without a bounce.
    ZeroCopy {
        by: Caller,
        part: Part,
        len: u32,
        seed: u8,
        to_device: bool,
        queue: Option<u8>,
        direct: u16,
        mapped: bool,
    },
    Read {
        by: Caller,
        from: Part,
        len: u32,
        wide: bool,
    },
    Fill {
        by: Caller,
        to: Part,
        len: u32,
        value: u32,
        wide: bool,
    },
    Copy {
        by: Caller,
        from: Part,
        to: Part,
        len: u32,
        wide: bool,
        trouble: Option<Trouble>,
    },
    CopyAsync {
        by: Caller,
        from: Part,
        to: Part,
        len: u32,
        previous: u32,
        wide: bool,
    },
    /// Started, and waited for at once.
    Troubled {
        by: Caller,
        from: Part,
        to: Part,
        len: u32,
        trouble: Trouble,
    },
    Wait {
        by: Caller,
        chunks: [u8; 2],
        handle: u32,
    },
    Request {
        by: Caller,
        core: u8,
        copies: u8,
        services: u8,
    },
    Release {
        by: Caller,
        core: u8,
        map: u32,
    },
    Bind {
        by: Caller,
        engine: u8,
        qid: u8,
        counts: [u32; 2],
        chunks: [Option<u8>; 2],
        completion: bool,
    },
    /// Copies by descriptors on a ring that is bound: stored, rung, read back, acknowledged.
    Ring {
        by: Caller,
        queue: u8,
        copies: Vec<(Part, Part, u16)>,
        host_check: bool,
    },
    /// Doorbells with numbers as they come.
    Start {
        by: Caller,
        engine: u8,
        qid: u8,
        counts: [u16; 2],
    },
    Acknowledge {
        by: Caller,
        engine: u8,
        qid: u8,
        count: u32,
    },
    Reset {
        by: Caller,
        map: u32,
        stuck: bool,
    },
    Ready {
        by: Caller,
        pid: u8,
    },
    /// Time passes.
    Pass {
        microseconds: u8,
    },
}

/// A file, mostly used by who opened it.
fn caller() -> impl Strategy<Value = Caller> {
    let heir = prop_oneof![12 => Just(None), 1 => (0..6_u8).prop_map(Some)];
    (any::<u8>(), heir).prop_map(|(file, heir)| Caller { file, heir })
}

fn chunk() -> impl Strategy<Value = u8> {
    prop_oneof![40 => 0..NO_CHUNK, 1 => Just(NO_CHUNK)]
}

fn part() -> impl Strategy<Value = Part> {
    let offset = prop_oneof![4 => Just(0), 5 => 0..4096_u16, 1 => any::<u16>()];
    (chunk(), offset).prop_map(|(chunk, offset)| Part { chunk, offset })
}

/// Lengths around what matters: nothing, a page, and the 64 KiB of a descriptor.
fn length() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 6 => 1..=64_u32, 8 => 1..=4096_u32, 2 => 4000..=9000_u32,
        1 => 65_500..=65_600_u32, 1 => 1..=150_000_u32]
}

/// Sizes of chunks: mostly a few pages, sometimes what a channel cannot hold many of.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0), 8 => 1..=4096_u64, 24 => 4097..=16_384_u64, 3 => 65_536..=150_000_u64,
        2 => 524_000..=530_000_u64, 1 => 1 << 20..1_u64 << 22, 1 => 1 << 30..15_u64 << 30,
        1 => prop::sample::select(vec![u64::MAX, i64::MAX as u64 + 1, i64::MAX as u64]),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![Just(Trouble::DroppedKick), Just(Trouble::Hang)]
}

fn allocate() -> impl Strategy<Value = Operation> {
    let form = prop_oneof![1 => Just(Form::Oldest), 1 => Just(Form::Aligned), 1 => Just(Form::Typed), 3 => Just(Form::Wide)];
    let align = prop_oneof![12 => Just(0), 2 => prop::sample::select(vec![1, 4096, 8192, 65_536, 1 << 20]),
        1 => prop::sample::select(vec![12_288, 20_000, 1 << 31, u32::MAX])];
    let channel = prop_oneof![30 => 0..4_u8, 1 => any::<u8>()];
    let core = prop_oneof![20 => 0..3_u8, 10 => 0..8_u8, 1 => any::<u8>()];
    let category = prop_oneof![8 => 0..20_u8, 2 => Just(19), 1 => any::<u8>()];
    let told = prop::bool::weighted(0.97);
    (caller(), form, any::<bool>(), channel, core, size(), align, category, told).prop_map(
        |(by, form, host, channel, core, size, align, category, told)| {
            let align = if host && align < 4096 { 0 } else { align };
            Operation::Allocate { by, form, host, channel, core, size, align, category, told }
        },
    )
}

fn copies() -> impl Strategy<Value = Operation> {
    let wide = any::<bool>;
    let trouble_or_none = prop_oneof![14 => Just(None), 1 => trouble().prop_map(Some)];
    let queue = prop::option::weighted(0.3, 0..18_u8);
    let direct = prop_oneof![2 => Just(0), 1 => Just(4096), 1 => any::<u16>()];
    let handle = prop_oneof![8 => 1..=2_u32, 1 => any::<u32>()];
    let previous = prop_oneof![8 => Just(u32::MAX), 2 => Just(0), 5 => Just(1), 5 => Just(2), 1 => 3..9_u32];
    prop_oneof![
        5 => (caller(), part(), length(), any::<u8>(), wide(), prop::bool::weighted(0.97))
            .prop_map(|(by, to, len, seed, wide, mapped)| Operation::Write { by, to, len, seed, wide, mapped }),
        4 => (caller(), part(), length(), any::<(u8, bool)>(), queue, direct, prop::bool::weighted(0.97))
            .prop_map(|(by, part, len, (seed, to_device), queue, direct, mapped)| {
                Operation::ZeroCopy { by, part, len, seed, to_device, queue, direct, mapped }
            }),
        3 => (caller(), part(), length(), wide())
            .prop_map(|(by, from, len, wide)| Operation::Read { by, from, len, wide }),
        2 => (caller(), part(), length(), any::<u32>(), wide())
            .prop_map(|(by, to, len, value, wide)| Operation::Fill { by, to, len, value, wide }),
        6 => (caller(), part(), part(), length(), wide(), trouble_or_none).prop_map(
            |(by, from, to, len, wide, trouble)| Operation::Copy { by, from, to, len, wide, trouble }),
        7 => (caller(), part(), part(), length(), previous, wide()).prop_map(
            |(by, from, to, len, previous, wide)| Operation::CopyAsync { by, from, to, len, previous, wide }),
        1 => (caller(), part(), part(), length(), trouble())
            .prop_map(|(by, from, to, len, trouble)| Operation::Troubled { by, from, to, len, trouble }),
        4 => (caller(), chunk(), chunk(), handle)
            .prop_map(|(by, a, b, handle)| Operation::Wait { by, chunks: [a, b], handle }),
    ]
}

fn queues() -> impl Strategy<Value = Operation> {
    let count = || {
        prop_oneof![10 => prop::sample::select(vec![32, 48, 64, 128, 256]),
            1 => prop::sample::select(vec![0, 16, 31, 33, 512, 8192, 1 << 28, u32::MAX])]
    };
    let counts = prop_oneof![6 => count().prop_map(|count| [count; 2]), 1 => [count(), count()]];
    let core = || prop_oneof![8 => 0..2_u8, 4 => 0..9_u8];
    let ring = || prop::option::weighted(0.93, chunk());
    let chunks = [ring(), ring()];
    let copy = (part(), part(), 1..5000_u16);
    let map = prop_oneof![4 => (0..18_u32).prop_map(|qid| 1 << qid), 1 => any::<u32>()];
    prop_oneof![
        2 => (caller(), core(), 0..4_u8, 0..4_u8)
            .prop_map(|(by, core, copies, services)| Operation::Request { by, core, copies, services }),
        2 => (caller(), core(), map).prop_map(|(by, core, map)| Operation::Release { by, core, map }),
        6 => (caller(), any::<u8>(), 0..18_u8, counts, chunks, prop::bool::weighted(0.03)).prop_map(
            |(by, engine, qid, counts, chunks, completion)| {
                Operation::Bind { by, engine, qid, counts, chunks, completion }
            }),
        8 => (caller(), any::<u8>(), prop::collection::vec(copy, 1..4), any::<bool>())
            .prop_map(|(by, queue, copies, host_check)| Operation::Ring { by, queue, copies, host_check }),
        1 => (caller(), any::<u8>(), 0..18_u8, any::<[u16; 2]>())
            .prop_map(|(by, engine, qid, counts)| Operation::Start { by, engine, qid, counts }),
        1 => (caller(), any::<u8>(), 0..18_u8, any::<u32>())
            .prop_map(|(by, engine, qid, count)| Operation::Acknowledge { by, engine, qid, count }),
    ]
}

fn processes() -> impl Strategy<Value = Operation> {
    // A few processes that do everything, and now and then one too many.
    let pid = || prop_oneof![20 => 0..5_u8, 1 => any::<u8>()];
    let map = prop_oneof![4 => (0..8_u32).prop_map(|core| 1 << core), 2 => any::<u32>(), 1 => Just(u32::MAX)];
    prop_oneof![
        8 => (pid(), prop::bool::weighted(0.1)).prop_map(|(pid, misc)| Operation::Open { pid, misc }),
        2 => any::<u8>().prop_map(|file| Operation::Close { file }),
        1 => pid().prop_map(|pid| Operation::Kill { pid }),
        1 => (caller(), map, prop::bool::weighted(0.08))
            .prop_map(|(by, map, stuck)| Operation::Reset { by, map, stuck }),
        3 => (caller(), 0..6_u8).prop_map(|(by, pid)| Operation::Ready { by, pid }),
        12 => any::<u8>().prop_map(|microseconds| Operation::Pass { microseconds }),
    ]
}

/// One operation.
pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let whole = prop::bool::weighted(0.9);
    prop_oneof![
        16 => allocate(),
        4 => (caller(), chunk()).prop_map(|(by, chunk)| Operation::Free { by, chunk }),
        2 => (caller(), chunk()).prop_map(|(by, chunk)| Operation::Info { by, chunk }),
        2 => (caller(), part()).prop_map(|(by, part)| Operation::Locate { by, part }),
        2 => (any::<u8>(), chunk(), whole).prop_map(|(file, chunk, whole)| Operation::Map { file, chunk, whole }),
        1 => any::<u8>().prop_map(|mapping| Operation::Unmap { mapping }),
        28 => copies(),
        16 => queues(),
        12 => processes(),
    ]
}
