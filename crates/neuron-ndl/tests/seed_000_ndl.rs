//! What seed 000 says of the boundary to the driver, statement by statement.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;

use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use neuron_abi::memory::Category;
use neuron_ndl::software::Machine;
use neuron_ndl::testing::{Age, OldDriver, Recorder, Tape};
use neuron_ndl::{AllocRequest, Backend, CopyRequest, Device, Lane, Memory, WaitHandle};

fn open(age: Age) -> (Arc<Device>, Tape) {
    let (recorder, tape) = Recorder::new(OldDriver::new(Machine::new("trn2.3xlarge").unwrap(), age));
    (Device::open(&recorder, 0).unwrap(), tape)
}

fn allocate(device: &Device, host: bool, hbm: u32, core: u32) -> Memory {
    let category = if host { Category::TensorsHost } else { Category::TensorsDevice };
    device.allocate(AllocRequest { size: 8192, align: 0, host, hbm, core, category }).unwrap()
}

/// Groups of eight bytes of the lines that begin with a word, zeroes written out.
fn groups(tape: &Tape, word: u32) -> Vec<Vec<String>> {
    let start = format!("ioctl {word:08x} ");
    let lines = tape.lines();
    let lines = lines.iter().filter(|line| line.starts_with(&start));
    lines
        .map(|line| {
            let sent = line.rsplit_once(": ").unwrap().0;
            let groups = sent.split(' ').skip(3);
            groups
                .flat_map(|group| match group.strip_prefix("0*") {
                    Some(count) => vec!["0".repeat(16); count.parse().unwrap()],
                    None => vec![group.to_owned()],
                })
                .collect()
        })
        .collect()
}

fn hex(value: u64) -> String {
    value.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Seed 000 §2, the five ioctl numbers that the page pins.
#[test]
fn seed_000_the_five_ioctls_have_the_pages_numbers() {
    let (device, tape) = open(Age::V2_27_4);
    let (host, hbm) = (allocate(&device, true, 0, 0), allocate(&device, false, 0, 0));
    let copy = CopyRequest {
        source: &host,
        destination: &hbm,
        source_offset: 0,
        destination_offset: 0,
        bytes: 8192,
    };
    let handle = device.copy_async(copy, 0, WaitHandle::SYNC).unwrap();
    assert!(!handle.is_pending());
    let mut bytes = [1; 64];
    let operation =
        neuron_ndl::BatchOperation { offset: 0, buffer: vm_memory::VolatileSlice::from(&mut bytes[..]) };
    let batch = neuron_ndl::Batch { memory: &hbm, offset: 0, operations: &[operation], context: 0 };
    device.zero_copy_batches(&[batch], neuron_ndl::Direction::In, Default::default()).unwrap();
    drop((host, hbm));
    for word in [0x8038_4E66, 0x8008_4E19, 0xC038_4E6C, 0xC020_4E81, 0x8008_4E16] {
        assert!(!groups(&tape, word).is_empty(), "{word:#010x}");
    }
}

/// Seed 000 §2: "a pointer to a 64-byte NDL handle record, not a kernel cookie directly; the
/// kernel cookie lives inside it".
#[test]
fn seed_000_the_record_holds_the_drivers_handle_and_that_goes_to_the_driver() {
    let (device, tape) = open(Age::V2_27_4);
    let memory = Box::new(allocate(&device, false, 0, 0));
    let record = std::ptr::from_ref(&*memory) as u64;
    let handle = memory.handle();
    assert_ne!(handle, record);
    let _mapping = memory.map().unwrap();
    device.memset(&memory, 0, 16, 0).unwrap();
    // The record may move; what the driver knows it by does not.
    let moved: Memory = *memory;
    assert_eq!(moved.handle(), handle);
    drop(moved);
    for word in [0x8008_4E19, 0x8008_4E1A, 0x8020_4E1C, 0x8008_4E16] {
        let sent = groups(&tape, word);
        assert_eq!(sent.last().unwrap()[0], hex(handle), "{word:#010x}");
    }
    assert!(!tape.text().contains(&hex(record)), "the record's address is sent nowhere");
}

/// The classic mistake of `spec/ndl.md` 1.3: the record's address instead of the handle.
#[test]
fn seed_000_a_records_address_is_a_bad_handle() {
    let machine = Machine::new("trn2.3xlarge").unwrap();
    let device = Device::open(&machine, 0).unwrap();
    let memory = Box::new(allocate(&device, false, 0, 0));
    let file = machine.open(0, Lane::Full).unwrap();
    let free = |handle: u64| {
        // SAFETY: the argument is as long as the command's structure and holds no address.
        unsafe { file.ioctl(cmd::MEM_FREE.word, &mut handle.to_le_bytes()) }
    };
    assert_eq!(free(std::ptr::from_ref(&*memory) as u64), Err(Errno::EINVAL));
}

/// Seed 000 §2, gotcha: `ndl_get_copy_buf` "is not a kernel call and allocates nothing"; the
/// buffer "is allocated once, at device open, and shared by every dmem_t on that core
/// (serialised by ndl_copy_buf_t.lock)".
#[test]
fn seed_000_the_copy_buffer_of_a_core_is_no_system_call_and_shared() {
    let (device, tape) = open(Age::V2_27_4);
    assert_eq!(groups(&tape, 0x8038_4E66).len(), 8, "one for each of eight cores, at open");
    let before = tape.lines().len();
    for core in 0..8 {
        let buffer = device.copy_buffer(core).unwrap();
        assert!(std::ptr::eq(buffer, device.copy_buffer(core).unwrap()));
        let held = buffer.lock();
        assert_eq!((held.memory.request().core, held.mapping.slice().len()), (core, 2 << 20));
        assert!(held.memory.request().host);
    }
    assert!(device.copy_buffer(8).is_none());
    assert_eq!(tape.lines().len(), before, "no call was made");
    // Holders of one core exclude each other; another core's do not.
    let held = device.copy_buffer(3).unwrap().lock();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let held = device.copy_buffer(3).unwrap().lock();
            held.mapping.slice().subslice(0, 1).unwrap().copy_from(&[7_u8]);
        });
        drop(device.copy_buffer(4).unwrap().lock());
        held.mapping.slice().subslice(0, 1).unwrap().copy_from(&[1_u8]);
        let mut seen = [0_u8];
        held.mapping.slice().subslice(0, 1).unwrap().copy_to(&mut seen);
        assert_eq!(seen, [1], "nobody else writes while it is held");
        drop(held);
        waits.join().unwrap();
    });
}

/// Seed 000 §2, note: host_memory "is 1 for HOST_DRAM and 0 for TONGA_DRAM"; dram_region "is
/// hard-wired 0". In every form of the request.
#[test]
fn seed_000_host_memory_is_a_flag_and_the_region_always_0() {
    for (age, word, host_at, region_at) in [
        (Age::V2_27_4, 0x8038_4E66, 16, 24),
        (Age::Before64Bit, 0x8030_4E66, 16, 24),
        (Age::BeforeCategories, 0x8008_4E66, 16, 24),
        (Age::BeforeAlignment, 0x8008_4E15, 8, 16),
    ] {
        let (device, tape) = open(age);
        let field = |request: &[String], at: usize| {
            let group = &request[at / 8];
            let start = at % 8 * 2;
            group[start..start + 8].to_owned()
        };
        let _host = allocate(&device, true, 0, 5);
        let _device = [0, 1, 2, 3].map(|hbm| allocate(&device, false, hbm, 2 * hbm));
        let requests = groups(&tape, word);
        // Behind what was tried before the form was found.
        let made = &requests[requests.len() - 5..];
        assert_eq!(field(&made[0], host_at), "01000000", "{age:?}");
        for request in &made[1..] {
            assert_eq!(field(request, host_at), "00000000", "{age:?}");
        }
        for request in &requests {
            assert_eq!(field(request, region_at), "00000000", "{age:?}");
        }
    }
}

/// Seed 000 §1, gotcha: the category byte is what is passed to the kernel, and only forms that
/// have a place for it carry one.
#[test]
fn seed_000_the_category_goes_to_the_kernel() {
    for (age, word) in [(Age::V2_27_4, 0x8038_4E66), (Age::Before64Bit, 0x8030_4E66)] {
        let (device, tape) = open(age);
        let _memory = allocate(&device, false, 0, 0);
        let requests = groups(&tape, word);
        assert_eq!(requests.last().unwrap()[4], hex(Category::TensorsDevice as u64), "{age:?}");
    }
}
