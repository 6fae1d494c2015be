//! Drivers that are older than this program, or newer: what is tried, what is kept, what is
//! refused, and who is told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use neuron_abi::memory::Category;
use neuron_ndl::intercept::{Call, Intercepted, Interceptor};
use neuron_ndl::software::Machine;
use neuron_ndl::testing::{Age, OldDriver, Recorder, Tape, kernel_over};
use neuron_ndl::{
    AllocRequest, Backend, CopyRequest, Detail, Device, DeviceFile, Fallback, FallbackHook, Lane, Mapping,
    Memory, NdlError, OpenOptions, WaitHandle,
};
use vm_memory::{MmapRegion, VolatileMemory};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn machine() -> Machine {
    Machine::new("trn2.3xlarge").unwrap()
}

/// Opens device 0, recorded, with a list of the fallbacks that were told.
fn open(driver: impl Backend + 'static) -> (Arc<Device>, Tape, Arc<Mutex<Vec<Fallback>>>) {
    let (recorder, tape) = Recorder::new(driver);
    let heard: Arc<Mutex<Vec<Fallback>>> = Arc::default();
    let told = Arc::clone(&heard);
    let hook = FallbackHook::new(move |_, fallback| told.lock().unwrap().push(fallback));
    let options = OpenOptions { on_fallback: Some(hook), ..OpenOptions::default() };
    (Device::open_with(&recorder, 0, &options).unwrap(), tape, heard)
}

fn allocate(device: &Device, size: u64, host: bool) -> Result<Memory, NdlError> {
    let category = if host { Category::TensorsHost } else { Category::TensorsDevice };
    device.allocate(AllocRequest { size, align: 0, host, hbm: 0, core: 0, category })
}

fn copy<'a>(source: &'a Memory, destination: &'a Memory, source_offset: u64, bytes: u64) -> CopyRequest<'a> {
    CopyRequest { source, destination, source_offset, destination_offset: 0, bytes }
}

/// Names of the commands on a tape from a line on.
fn sent(tape: &Tape, from: usize) -> Vec<String> {
    let lines = tape.lines();
    let names = lines[from..].iter().filter(|line| line.starts_with("ioctl"));
    names.map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect()
}

#[test]
fn a_bad_first_call_does_not_make_a_good_driver_old() {
    // Without flags, so that EINVAL is all there is to go by.
    let (device, tape, heard) = open(OldDriver::new(machine(), Age::V2_27_4).hide(cmd::DRIVER_INFO_GET));
    let (host, hbm) = (allocate(&device, MIB, true).unwrap(), allocate(&device, MIB, false).unwrap());
    let outside = copy(&host, &hbm, MIB, 1);
    assert_eq!(device.copy(outside).unwrap_err().errno, Errno::EINVAL);
    assert_eq!(device.copy_async(outside, 0, WaitHandle::NONE).unwrap_err().errno, Errno::EINVAL);
    assert_eq!(device.memset(&hbm, MIB, 1, 0).unwrap_err().errno, Errno::EINVAL);
    assert_eq!(device.buffer_copy_in(&hbm, MIB, &[1]).unwrap_err().errno, Errno::EINVAL);
    let before = tape.lines().len();
    device.copy(copy(&host, &hbm, 0, MIB)).unwrap();
    let handle = device.copy_async(copy(&host, &hbm, 0, MIB), 0, WaitHandle::NONE).unwrap();
    assert!(handle.is_pending());
    device.copy_wait(&hbm, handle).unwrap();
    device.memset(&hbm, 0, 1, 0).unwrap();
    device.buffer_copy_in(&hbm, 0, &[1]).unwrap();
    let newest = ["MEM_COPY64", "MEM_COPY_ASYNC64", "MEM_COPY_ASYNC_WAIT", "MEMSET64", "MEM_BUF_COPY64"];
    assert_eq!(sent(&tape, before), newest);
    // From now on EINVAL is the caller's: nothing is tried.
    let before = tape.lines().len();
    assert!(device.copy(outside).is_err() && device.copy_async(outside, 0, WaitHandle::NONE).is_err());
    assert_eq!(sent(&tape, before), ["MEM_COPY64", "MEM_COPY_ASYNC64"]);
    assert_eq!(*heard.lock().unwrap(), [Fallback::NoDriverInfo]);
}

#[test]
fn the_longest_copies_say_nothing_of_the_driver() {
    let (device, tape, _) = open(OldDriver::new(machine(), Age::V2_27_4).hide(cmd::DRIVER_INFO_GET));
    let bytes = 2032 * 65536 + 1;
    let (source, destination) =
        (allocate(&device, bytes, false).unwrap(), allocate(&device, bytes, false).unwrap());
    let before = tape.lines().len();
    let long = device.copy_async(copy(&source, &destination, 0, bytes), 0, WaitHandle::NONE);
    assert_eq!(long.unwrap_err().errno, Errno::EINVAL);
    assert_eq!(sent(&tape, before), ["MEM_COPY_ASYNC64"], "a synchronous copy would have worked");
}

#[test]
fn what_the_flags_deny_is_not_tried() {
    let features = Features::of(neuron_abi::cmd::Release::V2_27_4).without(Features::ASYNC_DMA);
    let (device, tape, heard) = open(OldDriver::new(machine(), Age::V2_27_4).reporting(features));
    assert_eq!(*heard.lock().unwrap(), [Fallback::SyncCopies]);
    let (host, hbm) = (allocate(&device, MIB, true).unwrap(), allocate(&device, MIB, false).unwrap());
    device.buffer_copy_in(&host, 0, &vec![0x5A; MIB as usize]).unwrap();
    let before = tape.lines().len();
    let handle = device.copy_async(copy(&host, &hbm, 0, MIB), 0, WaitHandle::NONE).unwrap();
    assert_eq!(handle, WaitHandle::SYNC);
    assert_eq!(device.copy_async(copy(&host, &hbm, 0, MIB), 0, handle).unwrap(), WaitHandle::SYNC);
    assert_eq!(sent(&tape, before), ["MEM_COPY64", "MEM_COPY64"]);
    let mut back = vec![0; MIB as usize];
    device.buffer_copy_out(&hbm, 0, &mut back).unwrap();
    assert!(back.iter().all(|byte| *byte == 0x5A));
}

#[test]
fn each_fallback_is_told_once_however_many_find_it_out() {
    let (device, _, heard) = open(OldDriver::new(machine(), Age::BeforeAlignment));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (host, hbm) =
                    (allocate(&device, MIB, true).unwrap(), allocate(&device, MIB, false).unwrap());
                for _ in 0..8 {
                    device.copy_async(copy(&host, &hbm, 0, 4096), 0, WaitHandle::NONE).unwrap();
                    device.memset(&hbm, 0, 4096, 1).unwrap();
                    assert!(!device.scrub_hbm(0, 0, 0).unwrap());
                }
            });
        }
    });
    let mut heard = heard.lock().unwrap().clone();
    heard.sort_by_key(|fallback| *fallback as u8);
    assert_eq!(
        heard,
        [
            Fallback::AllocOldest,
            Fallback::Copy32,
            Fallback::Memset32,
            Fallback::SyncCopies,
            Fallback::NoDriverInfo,
            Fallback::NoVersions,
            Fallback::NoScrub,
        ]
    );
}

#[test]
fn what_32_bits_cannot_say_is_refused_before_the_driver_is_called() {
    let (device, tape, _) = open(OldDriver::new(machine(), Age::Before64Bit));
    let hbm = allocate(&device, 8192, false).unwrap();
    let before = tape.lines().len();
    let narrow = |result: Result<(), NdlError>| {
        let error = result.unwrap_err();
        assert_eq!((error.errno, error.detail), (Errno::EINVAL, Some(Detail::Narrow)));
        assert!(error.is_unsupported());
    };
    let limit = 1 << 32;
    narrow(device.copy(copy(&hbm, &hbm, limit, 1)));
    narrow(device.copy(copy(&hbm, &hbm, 0, limit)));
    narrow(device.copy(CopyRequest { destination_offset: limit, ..copy(&hbm, &hbm, 0, 1) }));
    narrow(device.copy_async(copy(&hbm, &hbm, limit, 1), 0, WaitHandle::NONE).map(drop));
    narrow(device.buffer_copy_in(&hbm, limit, &[1]));
    narrow(device.memset(&hbm, limit, 1, 0));
    narrow(device.memset(&hbm, 0, limit, 0));
    narrow(allocate(&device, limit, false).map(drop));
    assert_eq!(tape.lines().len(), before, "nothing was sent");
    // One byte less is the driver's business.
    assert_eq!(device.memset(&hbm, 0, limit - 1, 0).unwrap_err().detail, None);
    assert_eq!(tape.lines().len(), before + 1);
}

#[test]
fn an_alignment_is_refused_where_the_driver_cannot_align() {
    let (device, tape, _) = open(OldDriver::new(machine(), Age::BeforeAlignment));
    let before = tape.lines().len();
    let request = AllocRequest {
        size: MIB,
        align: 4096,
        host: false,
        hbm: 0,
        core: 0,
        category: Category::TensorsDevice,
    };
    let error = device.allocate(request).unwrap_err();
    assert_eq!((error.errno, error.detail), (Errno::EINVAL, Some(Detail::NoAlignment)));
    assert_eq!(tape.lines().len(), before, "nothing was sent");
}

#[test]
fn a_driver_of_a_foreign_version_is_refused_with_both_ranges() {
    for (min, max, text) in [
        (5, 9, "the driver is too old: it works with versions 5 to 9, this program speaks 10 to 11"),
        (12, 14, "the driver is too new: it works with versions 12 to 14, this program speaks 10 to 11"),
    ] {
        let driver = OldDriver::new(machine(), Age::V2_27_4).versions(min, max);
        let (recorder, tape) = Recorder::new(driver);
        let error = Device::open(&recorder, 0).unwrap_err();
        assert_eq!(error.errno, Errno::EPROTONOSUPPORT);
        assert!(matches!(error.detail, Some(Detail::Versions(_))), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(sent(&tape, 0), ["DEVICE_INFO", "COMPATIBLE_VERSION"]);
        assert_eq!(tape.lines().last().unwrap(), "close neuron0");
    }
    let (device, ..) = open(OldDriver::new(machine(), Age::V2_27_4).versions(11, 14));
    let range = device.compatible_versions().unwrap();
    assert_eq!((range.min, range.max), (11, 14));
}

#[test]
fn a_device_is_known_without_its_device_info_or_without_its_basic_info() {
    let (device, tape, heard) = open(OldDriver::new(machine(), Age::V2_27_4).hide(cmd::DEVICE_INFO));
    let facts = device.facts();
    assert_eq!((facts.generation as u32, &facts.neighbours[..]), (3, &[][..]));
    assert_eq!(sent(&tape, 0)[..2], ["DEVICE_INFO", "DEVICE_BASIC_INFO"]);
    assert_eq!(*heard.lock().unwrap(), [Fallback::NoNeighbours]);
    let (device, ..) = open(OldDriver::new(machine(), Age::V2_27_4).hide(cmd::DEVICE_BASIC_INFO));
    assert_eq!(device.facts().generation as u32, 3);
    let neither = OldDriver::new(machine(), Age::V2_27_4).hide(cmd::DEVICE_BASIC_INFO).hide(cmd::DEVICE_INFO);
    assert_eq!(Device::open(&neither, 0).unwrap_err().errno, Errno::EINVAL);
}

#[test]
fn a_driver_that_cannot_list_chunks_is_told_from_one_that_has_none() {
    let (device, ..) = open(OldDriver::new(machine(), Age::BeforeChunkList));
    let error = device.chunks(0).unwrap_err();
    assert_eq!(error.detail, Some(Detail::NoCommand("DUMP_MEM_CHUNKS")));
    assert!(error.is_unsupported());
    let (device, ..) = open(machine());
    assert_eq!(device.chunks(77).unwrap(), []);
}

/// Answers one call, ioctl or mmap, by ENOMEM.
struct Failing {
    nth: usize,
    made: AtomicUsize,
}

impl Interceptor for Failing {
    fn before(&self, call: &Call<'_>) -> Result<(), Errno> {
        let counts = matches!(call, Call::Ioctl { .. } | Call::Mmap { .. });
        if counts && self.made.fetch_add(1, Ordering::Relaxed) == self.nth {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }
}

#[test]
fn a_step_of_opening_that_fails_undoes_all_before_it() {
    let machine = Arc::new(machine());
    machine.boot(0).unwrap();
    let taken = machine.host_memory().in_use();
    let options = OpenOptions { map_hbm: true, ..OpenOptions::default() };
    let mut buffers_failed = 0;
    let mut windows_failed = 0;
    for nth in 0.. {
        let (recorder, tape) = Recorder::new(Arc::clone(&machine));
        let failing = Intercepted::new(recorder, Arc::new(Failing { nth, made: AtomicUsize::new(0) }));
        let error = match Device::open_with(&failing, 0, &options) {
            Ok(_) => {
                assert_eq!(nth, 3 + 8 * 4 + 4 * 2, "three questions, eight buffers, four windows");
                break;
            }
            Err(error) => error,
        };
        assert_eq!(error.errno, Errno::ENOMEM, "{nth}");
        match error.detail {
            Some(Detail::CopyBuffer { core }) => {
                assert_eq!(core as usize, (nth - 3) / 4);
                buffers_failed += 1;
            }
            Some(Detail::HbmWindow { hbm }) => {
                assert_eq!(hbm as usize, (nth - 35) / 2);
                windows_failed += 1;
            }
            _ => assert!(nth < 3, "{nth}: {error}"),
        }
        let lines = tape.lines();
        let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("ioctl 80384e66"), count("ioctl 80084e16"), "{nth}: allocated and freed");
        assert_eq!(count("mmap"), count("munmap"), "{nth}");
        assert_eq!(lines.last().unwrap(), "close neuron0");
        assert_eq!(machine.host_memory().in_use(), taken, "{nth}: {error}");
    }
    assert_eq!((buffers_failed, windows_failed), (32, 8));
}

/// Takes buffer copies without making them.
struct Swallowing<B>(B);
struct SwallowingFile(Box<dyn DeviceFile>);

impl<B: Backend> Backend for Swallowing<B> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn open(&self, index: u8, lane: Lane) -> Result<Box<dyn DeviceFile>, Errno> {
        Ok(Box::new(SwallowingFile(self.0.open(index, lane)?)))
    }
}

impl DeviceFile for SwallowingFile {
    unsafe fn ioctl(&self, word: u32, argument: &mut [u8]) -> Result<(), Errno> {
        if word == cmd::MEM_BUF_COPY64.word {
            return Ok(());
        }
        // SAFETY: passed on to the caller.
        unsafe { self.0.ioctl(word, argument) }
    }

    fn mmap(&self, offset: u64, bytes: u64, writable: bool) -> Result<Mapping, Errno> {
        self.0.mmap(offset, bytes, writable)
    }
}

#[test]
fn a_buffer_copy_of_4_gib_and_more_goes_in_pieces_that_32_bits_count() {
    let (device, tape, _) = open(Swallowing(machine()));
    let hbm = allocate(&device, 6 * GIB, false).unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let bytes = (5 * GIB + 4096) as usize;
    let region = MmapRegion::<()>::build(None, bytes, libc::PROT_READ | libc::PROT_WRITE, flags).unwrap();
    let before = tape.lines().len();
    device.buffer_copy_in_volatile(&hbm, 0x1000, region.as_volatile_slice()).unwrap();
    let word = |value: u64| value.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let pieces: Vec<(String, String)> = tape.lines()[before..]
        .iter()
        .map(|line| {
            let groups: Vec<&str> = line.split(' ').collect();
            (groups[5].to_owned(), groups[6].to_owned())
        })
        .collect();
    let expected = [(2 * GIB, 0x1000), (2 * GIB, 2 * GIB + 0x1000), (GIB + 4096, 4 * GIB + 0x1000)];
    assert_eq!(pieces, expected.map(|(size, offset)| (word(size), word(offset))));
}

#[test]
fn the_kernel_backend_hears_a_bad_handle_from_a_positive_return() {
    let device = Device::open(&kernel_over(machine()), 0).unwrap();
    assert_eq!(device.backend(), "kernel");
    let kernel = kernel_over(machine());
    let file = kernel.open(0, Lane::ReadOnly).unwrap();
    let mut argument = [0_u8; 48];
    argument[0] = 99;
    // SAFETY: the argument is as long as the command's structure and holds no address.
    let bad = unsafe { file.ioctl(cmd::MEM_GET_EXTENDED_INFO.word, &mut argument) };
    assert_eq!(bad, Err(Errno::EINVAL));
    assert_eq!(kernel.devices(), [0]);
    // SAFETY: as above; the misc lane does not serve it.
    let misc = unsafe { kernel.misc().unwrap().ioctl(cmd::MEM_GET_EXTENDED_INFO.word, &mut argument) };
    assert_eq!(misc, Err(Errno::EINVAL));
    let mut versions = [0_u8; 8];
    // SAFETY: as above.
    let answered = unsafe { kernel.misc().unwrap().ioctl(cmd::COMPATIBLE_VERSION.word, &mut versions) };
    assert_eq!((answered, versions), (Ok(()), [11, 0, 0, 0, 10, 0, 0, 0]));
}
