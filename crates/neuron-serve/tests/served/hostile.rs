//! Clients that say what no client should: refused with an errno, written down, and nobody else
//! notices.

use std::os::fd::AsFd;
use std::time::Instant;

use neuron_abi::errno::Errno;
use neuron_abi::{arg, cmd};
use neuron_ndl::Device;
use neuron_ndl::remote::Remote;
use neuron_wire::message::{Hello, LONG, MAGIC, MAX_PATH, Reply, Request, SHORT, VERSION, Which, kind, role};
use neuron_wire::packet::{self, Packet};
use neuron_wire::{CallError, client::open};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, send};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zerocopy::IntoBytes;

use crate::child::{Client, PATIENCE, address, command, report, variable, wait_for_word};
use crate::host::{FOR_EVER, Host, answered, refused, send_bytes};
use crate::raw::Raw;
use crate::work::{Random, allocate};

/// Handle of somebody else's memory.
const HANDLE: &str = "NEURON_SERVE_TEST_HANDLE";
#[test]
fn a_greeting_that_makes_no_sense_is_refused_with_an_errno_and_written_down() {
    let host = Host::new(FOR_EVER, false);
    let good = Hello::new(role::QUESTION);
    let refusals = [
        (Hello { magic: 0, ..good }, Errno::EPROTONOSUPPORT),
        (Hello { version: VERSION + 1, ..good }, Errno::EPROTONOSUPPORT),
        (Hello { version: 0, ..good }, Errno::EPROTONOSUPPORT),
        (Hello { role: 0, ..good }, Errno::EINVAL),
        (Hello { role: 6, ..good }, Errno::EINVAL),
        (Hello { role: u32::MAX, ..good }, Errno::EINVAL),
        (Hello { role: role::FILE, index: 1, ..good }, Errno::ENOENT),
        (Hello { role: role::FILE, index: u32::MAX, ..good }, Errno::ENOENT),
        (Hello { role: role::ATTRIBUTE, ..good }, Errno::ENOENT),
    ];
    for (hello, errno) in refusals {
        let socket = host.connect();
        let lines = host.log().lines().count();
        send_bytes(&socket, hello.as_bytes());
        assert_eq!(refused(&socket), Some(errno.raw()), "{hello:?}");
        assert_eq!(refused(&socket), None, "and the connection ends");
        assert!(host.log().lines().count() > lines, "{hello:?}");
    }
    for bytes in [&good.as_bytes()[..39], b"GET / HTTP/1.1\r\n\r\n", &[0; SHORT + 1], &[0; 1 << 16]] {
        let socket = host.connect();
        send_bytes(&socket, bytes);
        assert_eq!(refused(&socket), Some(Errno::EPROTONOSUPPORT.raw()), "{} bytes", bytes.len());
    }
    // Nothing at all is an end.
    let socket = host.connect();
    send_bytes(&socket, &[]);
    assert_eq!(refused(&socket), None);
    // A path that is too long for one, with text that is none.
    let socket = host.connect();
    let path = [Hello::new(role::ATTRIBUTE).as_bytes(), &[0xff; MAX_PATH]].concat();
    send_bytes(&socket, &path);
    assert_eq!(refused(&socket), Some(Errno::ENOENT.raw()));
    drop(socket);
    host.assert_well();
}

#[test]
fn who_connects_and_is_silent_keeps_nobody_and_is_told_to_go() {
    let host = Host::new(FOR_EVER, false);
    let silent: Vec<_> = (0..100).map(|_| host.connect()).collect();
    let raw = Raw::open(&host.address, 0);
    raw.allocate(4096, false).unwrap();
    drop((silent, raw));
    host.assert_well();
    let host = Host::new(50, false);
    let silent = host.connect();
    assert_eq!(refused(&silent), Some(Errno::ETIMEDOUT.raw()));
    assert!(host.log().contains("said nothing"), "{}", host.log());
    drop(silent);
    host.assert_well();
}

#[test]
fn calls_that_make_no_sense_are_refused_one_by_one() {
    let host = Host::new(FOR_EVER, false);
    let raw = Raw::open(&host.address, 0);
    let lane = host.lane();
    let good = Request {
        kind: kind::IOCTL,
        word: cmd::DEVICE_BASIC_INFO.word,
        file: raw.file,
        ..Request::default()
    };
    let [einval, enodev] = [Errno::EINVAL.raw(), Errno::ENODEV.raw()];
    assert_eq!(answered(&lane, &good.as_bytes()[..39]), einval, "a byte is missing");
    assert_eq!(answered(&lane, &[7]), einval);
    assert_eq!(answered(&lane, &[0; SHORT + 1]), einval);
    for (request, errno) in [
        (Request { kind: 0, ..good }, einval),
        (Request { kind: 7, ..good }, einval),
        (Request { kind: u32::MAX, ..good }, einval),
        (Request { file: 0, ..good }, enodev),
        (Request { file: raw.file ^ 1, ..good }, enodev),
        (Request { kind: kind::MMAP, file: 1, ..good }, enodev),
        (Request { word: 0, ..good }, einval),
        (Request { word: u32::MAX, ..good }, einval),
        (Request { kind: kind::PLACE, a: 1, b: 4096, ..good }, einval),
        (Request { kind: kind::PLACE, a: u64::MAX, b: u64::MAX, ..good }, einval),
        (Request { kind: kind::UNMAP, a: 0, ..good }, einval),
        (Request { kind: kind::UNMAP, a: u64::MAX, ..good }, einval),
    ] {
        assert_eq!(answered(&lane, request.as_bytes()), errno, "{request:?}");
    }
    for path in [&b""[..], b"/", b"../../../etc/passwd", b"sys/", &[0xff; MAX_PATH]] {
        let request = Request { kind: kind::READ_ATTRIBUTE, ..Request::default() };
        assert_eq!(answered(&lane, &[request.as_bytes(), path].concat()), Errno::ENOENT.raw(), "{path:?}");
    }
    assert!(host.log().contains("unknown: 7") && host.log().contains("sent no call"), "{}", host.log());
    // A file that was closed is nobody's number any more.
    let stale = raw.file;
    drop(raw);
    assert_eq!(answered(&lane, Request { file: stale, ..good }.as_bytes()), enodev);
    drop(lane);
    host.assert_well();
}

#[test]
fn mappings_of_impossible_places_and_lengths_are_refused() {
    let host = Host::new(FOR_EVER, false);
    let raw = Raw::open(&host.address, 0);
    for host_memory in [false, true] {
        let (_, offset) = raw.allocate(1 << 20, host_memory).unwrap();
        let mapped = raw.calls.mmap(raw.file, offset, 1 << 20, true).unwrap();
        // Wherever it says it is.
        for place in [0, 1 << 63, u64::MAX] {
            raw.calls.place(raw.file, mapped.b, place).unwrap();
        }
        let last_page = u64::MAX - 4095;
        for (offset, bytes) in [
            (offset, u64::MAX),
            (offset, last_page),
            (offset, last_page - offset),
            (offset, 0),
            (offset, (1 << 20) + 4096),
            (0, u64::MAX),
            (u64::MAX, 1),
            (u64::MAX, u64::MAX),
            (last_page, 4096),
            (last_page, 8192),
            (1 << 63, 1 << 63),
            (7, 4096),
        ] {
            let refused = raw.calls.mmap(raw.file, offset, bytes, true);
            assert!(matches!(refused, Err(CallError::Errno(_))), "{offset:#x} {bytes:#x}: {refused:?}");
        }
        raw.calls.unmap(mapped.b).unwrap();
        assert_eq!(raw.calls.unmap(mapped.b).unwrap_err().errno(), Errno::EINVAL);
    }
    drop(raw);
    host.assert_well();
}

static READ_ONLY: [u64; 16] = [0; 16];

#[test]
fn addresses_that_are_not_the_clients_are_efault_whichever_way_they_are_reached() {
    for by_socket in [false, true] {
        let host = Host::new(FOR_EVER, by_socket);
        let raw = Raw::open(&host.address, 0);
        let (handle, _) = raw.allocate(1 << 20, false).unwrap();
        let never = [0, 8, 4095, 4096, 1 << 47, (1 << 47) - 4, 1 << 63, u64::MAX - 7, u64::MAX];
        let read_only = READ_ONLY.as_ptr() as u64;
        for address in never {
            for command in cmd::ALL {
                // Some read no argument; whatever they say, nobody is harmed.
                let answered = raw.calls.ioctl(raw.file, command.word, address);
                let told = answered.is_ok() || matches!(answered, Err(CallError::Errno(_)));
                assert!(told, "{} {address:#x}: {answered:?}", command.name);
            }
        }
        for address in never.into_iter().chain([read_only]) {
            let efault = |word, argument: &mut [u64]| {
                let refused = raw.calls.ioctl(raw.file, word, argument.as_mut_ptr() as u64);
                assert_eq!(refused.map(drop).unwrap_err().errno(), Errno::EFAULT, "{word:#x} {address:#x}");
            };
            efault(cmd::MEM_GET_PA.word, &mut [handle, address]);
            for (to_memory, word) in [(0, cmd::MEM_BUF_COPY64.word), (1, cmd::MEM_BUF_COPY64.word)] {
                if to_memory == 1 && address == read_only {
                    continue;
                }
                let mut copy = arg::MemBufCopy64 {
                    mem_handle: handle,
                    buffer: address,
                    size: 100,
                    copy_to_mem_handle: to_memory,
                    ..Default::default()
                };
                let refused = raw.ioctl(word, &mut copy).map(drop);
                assert_eq!(refused.unwrap_err().errno(), Errno::EFAULT, "{address:#x}");
            }
        }
        // The last byte is on no page.
        let mut copy = arg::MemBufCopy64 {
            mem_handle: handle,
            buffer: read_only,
            size: 1 << 19,
            copy_to_mem_handle: 0,
            ..Default::default()
        };
        assert!(raw.ioctl(cmd::MEM_BUF_COPY64.word, &mut copy).is_err());
        drop(raw);
        host.assert_well();
    }
}

#[test]
fn mapped_memory_of_the_device_is_a_buffer_as_any_other() {
    for by_socket in [false, true] {
        let host = Host::new(FOR_EVER, by_socket);
        let device = Device::open(&Remote::connect(host.address.clone()).unwrap(), 0).unwrap();
        let [from, through, to] =
            [false, true, false].map(|host_memory| allocate(&device, 1 << 20, host_memory, 0));
        let sent = Random::new(2).bytes(1 << 20);
        device.buffer_copy_in(&from, 0, &sent).unwrap();
        let window = through.map().unwrap();
        device.buffer_copy_out_volatile(&from, 0, window.slice()).unwrap();
        device.buffer_copy_in_volatile(&to, 0, window.slice()).unwrap();
        let mut back = vec![0; sent.len()];
        device.buffer_copy_out(&to, 0, &mut back).unwrap();
        assert!(back == sent);
        // Onto itself.
        device.buffer_copy_out_volatile(&through, 0, window.slice()).unwrap();
        drop((window, from, through, to, device));
        host.assert_well();
    }
}

/// A client that tries what it can with somebody else's handle.
pub(crate) fn act() {
    let handle = variable(HANDLE).parse().unwrap();
    let raw = Raw::open(&address(), 0);
    for tried in [raw.write(handle, &[9; 64]), raw.read(handle, 64).map(drop), raw.free(handle)] {
        match tried {
            Ok(()) => report("done"),
            Err(error) => report(error.errno().name().unwrap_or("?")),
        }
    }
    wait_for_word();
}

#[test]
fn a_handle_of_another_process_is_what_the_driver_says_and_a_freed_one_is_none() {
    let host = Host::new(FOR_EVER, false);
    let raw = Raw::open(&host.address, 0);
    let (handle, _) = raw.allocate(1 << 20, false).unwrap();
    raw.write(handle, &[1; 1 << 20]).unwrap();
    let mut thief = command("thief", &host.address);
    thief.env(HANDLE, handle.to_string());
    let mut thief = Client::spawn(thief);
    // Handles are the device's, not a process's: whoever knows one may use it (`spec/abi.md` 4).
    assert_eq!([(); 3].map(|()| thief.next()), ["done", "done", "done"]);
    assert_eq!(raw.free(handle).unwrap_err().errno(), Errno::EINVAL);
    assert_eq!(raw.write(handle, &[1; 64]).unwrap_err().errno(), Errno::EINVAL);
    for nothing in [0, 1, u64::MAX, handle.wrapping_add(1)] {
        assert_eq!(raw.free(nothing).unwrap_err().errno(), Errno::EINVAL, "{nothing:#x}");
    }
    thief.tell();
    thief.end();
    drop(raw);
    host.assert_well();
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let host = Host::new(FOR_EVER, false);
    let extra = std::fs::File::open("/dev/null").unwrap();
    let raw = Raw::open(&host.address, 0);
    let lane = host.lane();
    for _ in 0..50 {
        let socket = host.connect();
        packet::send(&socket, &Hello::new(role::QUESTION), &[], Some(extra.as_fd())).unwrap();
        assert_eq!(refused(&socket), Some(0));
        let request = Request { kind: kind::TREE, ..Request::default() };
        packet::send(&lane, &request, &[], Some(extra.as_fd())).unwrap();
        assert!(Packet::receive(&lane, SHORT).unwrap().is_some());
        // Too long, with one.
        packet::send(&lane, &request, &[0; SHORT], Some(extra.as_fd())).unwrap();
        assert!(Packet::receive(&lane, SHORT).unwrap().is_some());
        // Which file is this? The answer cannot be sent there.
        let file = raw.descriptor.as_ref().unwrap();
        let which = Which { magic: MAGIC, version: VERSION };
        packet::send(file, &which, &[], Some(extra.as_fd())).unwrap();
        packet::send(file, &0_u8, &[], Some(extra.as_fd())).unwrap();
        packet::send(file, &which, &[], None).unwrap();
    }
    raw.allocate(4096, false).unwrap();
    drop((raw, lane));
    host.assert_well();
}

#[test]
fn more_connections_than_there_may_be_are_refused_and_the_rest_goes_on() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let most = 4096;
    if maximum.is_some_and(|maximum| maximum < most + 500) {
        println!("skipped: a process may have only {maximum:?} files open");
        return;
    }
    let host = Host::new(FOR_EVER, false);
    let crowd: Vec<_> = (0..most + 10).map(|_| host.connect()).collect();
    // Those beyond the limit are told so; which ones they are is the system's choice.
    let mut ends: Vec<_> = crowd.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    poll(&mut ends, Some(&PATIENCE.try_into().unwrap())).unwrap();
    let told = crowd.iter().zip(&ends).filter(|(_, end)| !end.revents().is_empty());
    let told: Vec<_> = told.map(|(socket, _)| refused(socket)).collect();
    assert!(!told.is_empty() && told.iter().all(|&errno| errno == Some(Errno::EBUSY.raw())), "{told:?}");
    drop(crowd);
    wait_for_room(&host);
    host.assert_well();
}

fn wait_for_room(host: &Host) {
    let start = Instant::now();
    while Remote::connect(host.address.clone()).is_err() {
        assert!(start.elapsed() < PATIENCE, "there is no room again");
        std::thread::yield_now();
    }
}

#[test]
fn who_never_reads_its_answers_waits_for_itself() {
    let host = Host::new(FOR_EVER, false);
    let lanes: Vec<_> = (0..20).map(|_| host.lane()).collect();
    let request = Request { kind: kind::TREE, ..Request::default() };
    for lane in &lanes {
        // Until neither side has room.
        while send(lane, request.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok() {}
    }
    let raw = Raw::open(&host.address, 0);
    raw.allocate(4096, false).unwrap();
    drop((raw, lanes));
    host.assert_well();
}

#[test]
fn bytes_that_are_not_the_ones_asked_for_end_the_call_and_nothing_else() {
    let host = Host::new(FOR_EVER, true);
    let answers: [&[u8]; 5] = [&[], &[0; 7], &[0; 8 + 5], &[0xff; 8], &[0; LONG + 1]];
    for answer in answers {
        let memory = open::greet(&host.address, &Hello::new(role::MEMORY), &[]).unwrap().socket;
        let lane = host.lane();
        let raw = Raw::open(&host.address, 0);
        let word = cmd::MEM_GET_PA.word;
        let request = Request { kind: kind::IOCTL, word, file: raw.file, a: 1 << 20, ..Request::default() };
        packet::send(&lane, &request, &[], None).unwrap();
        assert!(Packet::receive(&memory, LONG).unwrap().is_some(), "it asks");
        send_bytes(&memory, answer);
        let reply = Packet::receive(&lane, SHORT).unwrap().unwrap();
        let errno = Errno::new(reply.whole::<Reply>().unwrap().errno.cast_signed());
        assert!(errno.is_some(), "{answer:?}");
    }
    host.assert_well();
}
