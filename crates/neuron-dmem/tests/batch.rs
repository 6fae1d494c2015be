//! Batches: what is refused before anything moves, what a failure leaves, small writes, and
//! drivers and devices that have no such command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod sent;

use std::sync::{Arc, Mutex};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::batch::{self, Batch, Operation};
use neuron_dmem::trace::{EventNumber, Record, Sink, What};
use neuron_dmem::transfer::Path;
use neuron_dmem::{AllocRequest, BatchProblem, DeviceMemory, Dmem, DmemError, Setup, TransferDirection};
use neuron_ndl::HostBytes;
use neuron_ndl::software::{Execution, Machine};
use neuron_ndl::testing::{Age, OldDriver};
use proptest::prelude::*;
use sent::{Recorder, allocator, open, over, pattern};
use vm_memory::VolatileSlice;

const INLINE: Execution = Execution::Inline;

fn machine(instance: &str, recorder: &Arc<Recorder>, path: Path) -> Arc<DeviceMemory> {
    open(instance, INLINE, Arc::clone(recorder) as _, Setup::default().path(path))
}

/// A trn2 whose driver is so old.
fn old(recorder: &Arc<Recorder>, age: Age, path: Path) -> Arc<DeviceMemory> {
    let backend = OldDriver::new(Machine::new("trn2.3xlarge").unwrap(), age);
    over(backend, Arc::clone(recorder) as _, Setup::default().path(path))
}

fn dmem(memory: &Arc<DeviceMemory>, size: u64) -> Dmem {
    allocator(memory, 0).allocate(&AllocRequest::device(size, UsageType::Tensor)).unwrap()
}

fn piece(offset: u64, bytes: &[u8]) -> Operation<HostBytes<'_>> {
    Operation { offset, buffer: HostBytes::Plain(bytes) }
}

#[test]
fn nothing_to_copy_is_refused_in_the_runtimes_words() {
    for error in [batch::copy_in(&[]).unwrap_err(), batch::copy_out(&[]).unwrap_err()] {
        assert_eq!(error.status(), NrtStatus::Invalid);
        assert_eq!(error.to_string(), "Invalid arguments: tensor_batches is NULL or num_batches is 0");
    }
}

/// The fault is always in the last of three batches: the first two must not have moved, and the
/// driver must not have been asked.
#[test]
fn one_bad_operation_keeps_all_batches_from_moving() {
    let recorder = Arc::new(Recorder::default());
    let memory = machine("trn2.3xlarge", &recorder, Path::Staged);
    let elsewhere = machine("trn2.3xlarge", &Arc::default(), Path::Staged);
    let (good, bad) = (dmem(&memory, 5000), dmem(&memory, 1000));
    let foreign = dmem(&elsewhere, 1000);
    good.write(0, &[7; 5000]).unwrap();
    let bytes = [1; 100];
    let fine = [piece(0, &bytes)];
    let bounds = |operation, offset, base, bytes| BatchProblem::OutOfBounds {
        operation,
        offset,
        base,
        bytes,
        size: 1000,
    };
    let cases: [(&Dmem, u64, Vec<Operation<HostBytes<'_>>>, BatchProblem); 8] = [
        (&bad, 0, vec![], BatchProblem::NoOperations),
        (&bad, 0, vec![piece(0, &bytes), piece(5, &[])], BatchProblem::NoBytes { operation: 1 }),
        (&bad, 0, vec![piece(901, &bytes)], bounds(0, 901, 0, 100)),
        (&bad, 901, vec![piece(0, &bytes)], bounds(0, 0, 901, 100)),
        (&bad, 500, vec![piece(0, &bytes), piece(401, &bytes)], bounds(1, 401, 500, 100)),
        (&bad, 2, vec![piece(u64::MAX - 1, &bytes)], bounds(0, u64::MAX - 1, 2, 100)),
        (&bad, u64::MAX, vec![piece(0, &bytes)], bounds(0, 0, u64::MAX, 100)),
        (&foreign, 0, vec![piece(0, &bytes)], BatchProblem::OtherDevice { device: 0, first: 0 }),
    ];
    recorder.take();
    for (dmem, offset, operations, problem) in cases {
        let batches = [
            Batch { dmem: &good, offset: 0, operations: &fine },
            Batch { dmem: &good, offset: 1000, operations: &fine },
            Batch { dmem, offset, operations: &operations },
        ];
        let error = batch::copy_in(&batches).unwrap_err();
        assert_eq!(error.status(), NrtStatus::Invalid);
        assert_eq!(error, DmemError::InvalidBatch { batch: 2, batches: 3, problem });
        assert!(recorder.take().is_empty());
    }
    let mut back = [0; 5000];
    good.read(0, &mut back).unwrap();
    assert_eq!(back, [7; 5000]);
}

/// Seed 000 §3: every transfer adds the offset that alignment by hand left, a batch too, whether
/// it goes by one call or piece by piece. Host memory is always aligned so, device memory where
/// the driver cannot.
#[test]
fn seed_000_a_batch_adds_the_offset_of_alignment_once() {
    for (age, has_batches) in [(Age::V2_27_4, true), (Age::BeforeAlignment, false)] {
        let recorder = Arc::new(Recorder::default());
        let memory = old(&recorder, age, Path::Staged);
        let request = match has_batches {
            true => AllocRequest::host(9000, UsageType::Tensor),
            false => AllocRequest::device(9000, UsageType::Tensor),
        };
        let dmem = allocator(&memory, 0).allocate(&request.aligned(1 << 16)).unwrap();
        assert_ne!(dmem.align_offset(), 0);
        dmem.write(0, &[0; 9000]).unwrap();
        let bytes = pattern(5000, 6);
        let operations = [piece(1, &bytes[..100]), piece(101, &bytes[100..])];
        batch::copy_in(&[Batch { dmem: &dmem, offset: 10, operations: &operations }]).unwrap();
        let mut seen = vec![1; 9000];
        dmem.map().unwrap().copy_to(&mut seen[..]);
        assert!(seen[11..5011] == bytes && seen[..11] == [0; 11] && seen[5011..] == [0; 3989], "{age:?}");
        let mut back = vec![0; 5000];
        let operations = [Operation { offset: 1, buffer: VolatileSlice::from(&mut back[..]) }];
        batch::copy_out(&[Batch { dmem: &dmem, offset: 10, operations: &operations }]).unwrap();
        assert!(back == bytes, "{age:?}");
    }
}

/// The driver's own limit of operations is met in the second batch: the first stays copied.
#[test]
fn batches_before_one_that_fails_stay_copied() {
    let recorder = Arc::new(Recorder::default());
    let memory = machine("trn2.3xlarge", &recorder, Path::Staged);
    let (first, second) = (dmem(&memory, 4096), dmem(&memory, 4096));
    let bytes = [5; 8];
    let (few, many) = (vec![piece(0, &bytes)], vec![piece(0, &bytes); (1 << 16) + 1]);
    let batches = [
        Batch { dmem: &first, offset: 0, operations: &few },
        Batch { dmem: &second, offset: 0, operations: &many },
    ];
    let error = batch::copy_in(&batches).unwrap_err();
    assert_eq!(error.status(), NrtStatus::Failure);
    let text = error.to_string();
    assert!(text.starts_with("NDL batch copy (copyin) failed: -7 (2 batches, 524304 bytes"), "{text}");
    let mut back = [0; 8];
    first.read(0, &mut back).unwrap();
    assert_eq!(back, bytes);

    recorder.refuse_once(cmd::MEM_BUF_ZEROCOPY64_BATCHES, 0, Errno::EIO);
    let mut into = [0; 8];
    let operations = [Operation { offset: 0, buffer: VolatileSlice::from(&mut into[..]) }];
    let error = batch::copy_out(&[Batch { dmem: &first, offset: 0, operations: &operations }]).unwrap_err();
    let DmemError::BatchTransfer { direction: TransferDirection::Out, batches: 1, bytes: 8, .. } = error
    else {
        panic!("{error}")
    };
    assert!(error.to_string().starts_with("NDL batch copy (copyout) failed: -5 "), "{error}");
}

/// V2 refuses a batch that does not go through the window, so what is accepted went there. Cut
/// to the field's 16 bits the setting would be 0: never.
#[test]
fn a_window_setting_of_more_than_16_bits_is_as_much_as_fits_and_not_none() {
    let path = Path::ZeroCopy { direct_write: 0x1_0000 };
    let recorder = Arc::new(Recorder::default());
    let memory = machine("trn1.2xlarge", &recorder, path);
    let dmem = dmem(&memory, 8192);
    recorder.take();
    let bytes = pattern(8192, 1);
    batch::copy_in(&[Batch { dmem: &dmem, offset: 0, operations: &[piece(0, &bytes)] }]).unwrap();
    assert_eq!(recorder.take().len(), 1);
    let mut back = vec![0; 8192];
    dmem.map().unwrap().copy_to(&mut back[..]);
    assert_eq!(back, bytes);
}

/// Copies two tensors in and out, whatever the driver has.
fn round_trip(memory: &Arc<DeviceMemory>) {
    let dmems = [dmem(memory, 100_000), dmem(memory, 3 << 20)];
    let bytes = pattern(3 << 20, 4);
    let small = [piece(1, &bytes[..10]), piece(20_000, &bytes[10..70_000])];
    let large = [piece(0, &bytes[..(3 << 20) - 10])];
    batch::copy_in(&[
        Batch { dmem: &dmems[0], offset: 9, operations: &small },
        Batch { dmem: &dmems[1], offset: 10, operations: &large },
    ])
    .unwrap();
    let mut back = [vec![0; 69_990], vec![0; (3 << 20) - 10]];
    let [first, second] =
        back.each_mut().map(|back| [Operation { offset: 0, buffer: VolatileSlice::from(&mut back[..]) }]);
    batch::copy_out(&[
        Batch { dmem: &dmems[0], offset: 20_009, operations: &first },
        Batch { dmem: &dmems[1], offset: 10, operations: &second },
    ])
    .unwrap();
    assert!(back[0] == bytes[10..70_000] && back[1] == bytes[..(3 << 20) - 10]);
}

#[test]
fn without_the_command_operations_go_one_by_one() {
    // The second is what a driver that does not know the word could answer.
    for errno in [None, Some(Errno::ENOTTY)] {
        let recorder = Arc::new(Recorder::default());
        let memory = old(&recorder, Age::V2_24_7, Path::Staged);
        if let Some(errno) = errno {
            recorder.refuse_all(cmd::MEM_BUF_ZEROCOPY64_BATCHES, errno);
        }
        recorder.take();
        round_trip(&memory);
        let sent = recorder.take();
        assert!(sent.iter().any(|sent| sent.is(cmd::MEM_COPY_ASYNC64)), "staged");
        assert!(!sent.iter().any(|sent| sent.is(cmd::MEM_BUF_ZEROCOPY64)), "the path says how");
    }
    // V2 has the command and refuses it.
    let recorder = Arc::new(Recorder::default());
    let memory = machine("trn1.2xlarge", &recorder, Path::Staged);
    recorder.take();
    round_trip(&memory);
    assert!(recorder.take().iter().any(|sent| sent.is(cmd::MEM_COPY_ASYNC64)));
}

#[test]
fn where_zero_copy_is_offered_a_refusal_is_an_error_and_nothing_is_tried_again() {
    let recorder = Arc::new(Recorder::default());
    let memory = machine("trn2.3xlarge", &recorder, Path::Staged);
    let dmem = dmem(&memory, 4096);
    recorder.refuse_all(cmd::MEM_BUF_ZEROCOPY64_BATCHES, Errno::EINVAL);
    recorder.take();
    let error = batch::copy_in(&[Batch { dmem: &dmem, offset: 0, operations: &[piece(0, &[1; 9])] }]);
    assert_eq!(error.unwrap_err().status(), NrtStatus::Failure);
    assert_eq!(recorder.take().len(), 1);
}

/// A single copy whose path is zero-copy, on a driver that does not say it has it: tried, then
/// staged, or for host memory direct (`spec/ndl.md` 3.2, 8.1).
#[test]
fn a_zero_copy_that_the_driver_has_not_goes_the_other_way() {
    let recorder = Arc::new(Recorder::default());
    let memory = old(&recorder, Age::Before64Bit, Path::ZeroCopy { direct_write: 0 });
    for request in
        [AllocRequest::device(20_000, UsageType::Tensor), AllocRequest::host(20_000, UsageType::Tensor)]
    {
        let dmem = allocator(&memory, 0).allocate(&request).unwrap();
        let mut bytes = pattern(20_000, 8);
        dmem.write(0, &bytes).unwrap();
        dmem.write_volatile(0, VolatileSlice::from(&mut bytes[..])).unwrap();
        let mut back = vec![0; 20_000];
        dmem.read(0, &mut back).unwrap();
        assert_eq!(back, bytes);
    }
    // Where the driver says it has it, its no stands.
    let recorder = Arc::new(Recorder::default());
    let memory = machine("trn2.3xlarge", &recorder, Path::ZeroCopy { direct_write: 0 });
    recorder.refuse_all(cmd::MEM_BUF_ZEROCOPY64, Errno::EINVAL);
    let error = dmem(&memory, 4096).write(0, &[1; 4]).unwrap_err();
    let DmemError::Transfer { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.errno, Errno::EINVAL);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batches_equal_their_operations_one_by_one(
        pieces in prop::collection::vec((0usize..2, 0u64..150_000, 1usize..50_000), 1..24),
        instance in prop::sample::select(vec!["trn1.2xlarge", "trn2.3xlarge"]),
        base in 0u64..5000,
    ) {
        let memory = machine(instance, &Arc::default(), Path::Staged);
        let dmems = [dmem(&memory, 205_000), dmem(&memory, 205_000)];
        let bytes: Vec<Vec<u8>> =
            (0..).zip(&pieces).map(|(seed, &(_, _, len))| pattern(len, seed)).collect();
        let mut model = [vec![0; 205_000], vec![0; 205_000]];
        let mut operations = [vec![], vec![]];
        for (&(which, offset, len), bytes) in pieces.iter().zip(&bytes) {
            let start = (base + offset) as usize;
            model[which][start..start + len].copy_from_slice(bytes);
            operations[which].push(piece(offset, bytes));
        }
        let batches: Vec<_> = dmems
            .iter()
            .zip(&operations)
            .filter(|(_, operations)| !operations.is_empty())
            .map(|(dmem, operations)| Batch { dmem, offset: base, operations: &operations[..] })
            .collect();
        dmems.iter().for_each(|dmem| dmem.write(0, &vec![0; 205_000]).unwrap());
        batch::copy_in(&batches).unwrap();
        for (dmem, model) in dmems.iter().zip(&model) {
            let mut back = vec![1; 205_000];
            dmem.read(0, &mut back).unwrap();
            prop_assert!(back == *model);
        }
    }
}

/// Begins and stops: event, bytes, and how it ended.
#[derive(Default)]
struct Events(Mutex<Vec<(EventNumber, u64, Option<NrtStatus>)>>);

impl Sink for Events {
    fn record(&self, record: &Record<'_>) {
        let (event, about, status) = match record.what {
            What::Begin { event, about, .. } => (event, about, None),
            What::Stop { event, about, status, .. } => (event, about, Some(status)),
            _ => return,
        };
        if event != EventNumber::ALLOCATION && event != EventNumber::FREE {
            assert_eq!(about.usage, None, "a batch may be about several");
            self.0.lock().unwrap().push((event, about.size, status));
        }
    }
}

/// Seed 000 §3: the event begins behind the checks and stops however the copy ends. Copies one by
/// one are still one event.
#[test]
fn seed_000_a_batch_is_one_event() {
    for instance in ["trn1.2xlarge", "trn2.3xlarge"] {
        let (events, recorder) = (Arc::new(Events::default()), Arc::new(Recorder::default()));
        let memory = open(instance, INLINE, recorder.clone(), Setup::default().trace(events.clone()));
        let dmem = dmem(&memory, 4096);
        let operations = [piece(0, &[1; 8]), piece(8, &[2; 16])];
        let batch = Batch { dmem: &dmem, offset: 0, operations: &operations };
        batch::copy_in(&[batch, batch]).unwrap();
        batch::copy_in(&[Batch { offset: 4096, ..batch }]).unwrap_err();
        let mut back = [0; 24];
        let operations = [Operation { offset: 0, buffer: VolatileSlice::from(&mut back[..]) }];
        recorder.refuse_all(cmd::MEM_BUF_ZEROCOPY64_BATCHES, Errno::EIO);
        batch::copy_out(&[Batch { dmem: &dmem, offset: 0, operations: &operations }]).unwrap_err();
        let (way_in, way_out) = (EventNumber::COPY_IN, EventNumber::COPY_OUT);
        let expected = [
            (way_in, 48, None),
            (way_in, 48, Some(NrtStatus::Success)),
            (way_out, 24, None),
            (way_out, 24, Some(NrtStatus::Failure)),
        ];
        assert_eq!(*events.0.lock().unwrap(), expected, "{instance}");
    }
}
