//! The smaller commands through their ioctls: semaphores and events, bring-up states, core
//! locks and claims, data stores, the log, the firmware's counters and metrics.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use neuron_abi::arg;
use neuron_abi::cmd::{self, Command};
use neuron_abi::features::Features;
use neuron_abi::limits::{DATASTORE_SIZE, DEVICE_MAP};
use neuron_driver::ioctl::mmap::Window;
use neuron_driver::{OpenFile, Params};
use neuron_softdev::Product;
use neuron_tests::client::Client;
use neuron_tests::rig::{Rig, call_as};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const EACCES: i64 = -13;
const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const E2BIG: i64 = -7;
const ENOMEM: i64 = -12;
/// User address of buffers in these tests.
const BUFFER: u64 = 0x10_0000;

fn rig(product: Product) -> Rig {
    Rig::new(product).unwrap()
}

fn call<T: IntoBytes + Immutable + FromBytes>(
    client: &Client,
    command: &Command,
    mut argument: T,
) -> (i64, T) {
    let ret = client.call(command, &mut argument);
    (ret, argument)
}

fn semaphore(client: &Client, command: &Command, nc_id: u32, index: u32, value: u32) -> (i64, u32) {
    let argument = arg::Semaphore { nc_id, semaphore_index: index, value };
    let (ret, after) = call(client, command, argument);
    (ret, after.value)
}

fn event(client: &Client, command: &Command, nc_id: u32, event_index: u32, value: u32) -> (i64, u32) {
    let (ret, after) = call(client, command, arg::Event { nc_id, event_index, value });
    (ret, after.value)
}

#[test]
fn semaphores_are_set_added_to_and_subtracted_from_in_their_own_core() {
    for (product, last, window) in [(Product::Trn1, 1, 0x400_0000), (Product::Trn2, 7, 0xec00_0000)] {
        let rig = rig(product);
        let client = rig.client(1000).unwrap();
        for (command, value) in
            [(cmd::SEMAPHORE_WRITE, 10), (cmd::SEMAPHORE_INCREMENT, 5), (cmd::SEMAPHORE_DECREMENT, 3)]
        {
            assert_eq!(semaphore(&client, &command, last, 255, value).0, 0);
        }
        assert_eq!(semaphore(&client, &cmd::SEMAPHORE_READ, last, 255, 0), (0, 12));
        assert_eq!(semaphore(&client, &cmd::SEMAPHORE_READ, last, 254, 9), (0, 0));
        assert_eq!(semaphore(&client, &cmd::SEMAPHORE_READ, 0, 255, 9), (0, 0));
        assert_eq!(rig.hardware().bar_read(0, window + 0x270_1000 + 4 * 255), Ok(12));
        for command in
            [cmd::SEMAPHORE_READ, cmd::SEMAPHORE_WRITE, cmd::SEMAPHORE_INCREMENT, cmd::SEMAPHORE_DECREMENT]
        {
            assert_eq!(semaphore(&client, &command, last + 1, 0, 0).0, E2BIG);
            assert_eq!(semaphore(&client, &command, last, 256, 0).0, EINVAL);
        }
    }
}

#[test]
fn a_core_is_brought_up_by_one_process_and_again_after_a_reset() {
    let rig = rig(Product::Trn1);
    let (first, second) = (rig.client(1).unwrap(), rig.client(2).unwrap());
    let (started, completed, invalid) = (1, 2, 3);
    let set = |client: &Client, nc_id, state| {
        let (ret, after) =
            call(client, &cmd::CINIT_SET_STATE, arg::CinitSet { nc_id, state, ..Default::default() });
        (ret, after.new_state)
    };
    assert_eq!(set(&first, 1, completed), (0, invalid), "nothing was started");
    assert_eq!(set(&first, 1, started), (0, started));
    assert_eq!(set(&second, 1, started), (0, started), "after five seconds of virtual time");
    assert_eq!(set(&second, 0, started), (0, started), "another core");
    assert_eq!(set(&first, 1, completed), (0, completed));
    assert_eq!(set(&second, 1, started), (0, completed));
    assert_eq!(
        (set(&second, 2, started).0, set(&second, 1, 0).0, set(&second, 1, 4).0),
        (E2BIG, EINVAL, EINVAL)
    );
    let reset = arg::DeviceReset { nc_map: DEVICE_MAP, ..Default::default() };
    assert_eq!(call(&second, &cmd::NC_RESET, reset).0, 0);
    assert_eq!(set(&first, 1, invalid), (0, invalid));
    // A process that dies in the middle makes nobody wait.
    assert_eq!(set(&second, 0, started), (0, started));
    drop(second);
    assert_eq!(set(&first, 0, invalid), (0, invalid));
}

fn lock(client: &Client, command: &Command, nc_id: u32, model: u8) -> i64 {
    call(client, command, arg::Crwl { nc_id, uuid: [model; 32] }).0
}

#[test]
fn a_models_lock_is_shared_by_readers_kept_from_others_and_given_back_at_exit() {
    let rig = rig(Product::Trn2);
    let (first, second) = (rig.client(1).unwrap(), rig.client(2).unwrap());
    assert_eq!(lock(&first, &cmd::CRWL_WRITER_ENTER, 3, 7), 0);
    assert_eq!(lock(&second, &cmd::CRWL_READER_ENTER, 3, 7), EBUSY);
    assert_eq!(lock(&second, &cmd::CRWL_WRITER_DOWNGRADE, 3, 7), EINVAL);
    assert_eq!(lock(&first, &cmd::CRWL_WRITER_DOWNGRADE, 3, 7), 0);
    assert_eq!(lock(&second, &cmd::CRWL_READER_ENTER, 3, 8), EBUSY);
    assert_eq!(lock(&second, &cmd::CRWL_READER_ENTER, 3, 7), 0);
    assert_eq!(lock(&second, &cmd::CRWL_READER_EXIT, 3, 8), EINVAL);
    assert_eq!(lock(&second, &cmd::CRWL_READER_ENTER, 8, 7), E2BIG);
    let apps = |flags| {
        let len = size_of::<arg::GetAppsInfo>();
        let header = arg::GetAppsInfo { apps_info_flags: flags, capacity: 2, ..Default::default() };
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(len + 2 * size_of::<arg::AppInfo>(), 0);
        first.space().map(BUFFER, bytes);
        assert_eq!(first.ioctl(cmd::DEVICE_GET_ALL_APPS_INFO.word, BUFFER), 0);
        let bytes = first.space().bytes(BUFFER + len as u64, size_of::<arg::AppInfo>()).unwrap();
        let app = arg::AppInfo::read_from_bytes(&bytes).unwrap();
        (app.pid, app.nc_lock_map, app.uuid[3])
    };
    assert_eq!(apps(arg::GetAppsInfo::LOCKS), (1, 1 << 3, [7; 32]));
    assert_eq!(apps(arg::GetAppsInfo::MEMORY), (1, 0, [0; 32]));
    assert_eq!(lock(&first, &cmd::CRWL_READER_EXIT, 3, 7), 0);
    drop(second);
    assert_eq!(lock(&first, &cmd::CRWL_WRITER_ENTER, 3, 9), 0, "the other reader is gone");
    // A child without a slot would never give it back.
    let stranger = call_as(first.file(), 99, &cmd::CRWL_READER_ENTER, arg::Crwl { nc_id: 0, uuid: [1; 32] });
    assert_eq!(stranger.0, EACCES);
}

fn map(nc_count: u32, start: u32, end: u32) -> arg::CrwlNcMap {
    arg::CrwlNcMap { nc_count, start, end, ..Default::default() }
}

#[test]
fn cores_of_all_devices_are_claimed_relative_to_the_opened_one() {
    let params = Params { device_count: 16, ..Params::default() };
    let first = Rig::with(Product::Trn2, params, "").unwrap();
    // Routing id 8 is node 1.
    let second = first.beside(8).unwrap();
    assert_eq!((first.device().index(), second.device().index()), (0, 1));
    let (on_first, on_second) = (first.misc(1).unwrap(), second.misc(1).unwrap());
    let ext = |file, nc_count, start, end| {
        let argument = arg::CrwlNcMapExt { nc_count, start, end, ..Default::default() };
        call_as(file, 1, &cmd::CRWL_NC_RANGE_MARK_EXT0, argument)
    };
    let (ret, after) = ext(&on_first, 4, 62, 127);
    assert_eq!((ret, &after.bitmap[..3]), (0, &[3 << 62, 3, 0][..]));
    // The same cores by the second device's count: 54 to 57.
    let (ret, after) = ext(&on_second, 1, 54, 57);
    assert_eq!((ret, after.max_nc_available), (EBUSY, 0));
    let (ret, after) = ext(&on_second, 4, 53, 60);
    assert_eq!((ret, after.max_nc_available, after.bitmap), (EBUSY, 3, [0; 8]));
    let (ret, after) = ext(&on_second, 3, 53, 60);
    assert_eq!((ret, after.bitmap[0]), (0, 7 << 58));
    for (count, start, end) in [(1, 5, 4), (0, 0, 7), (1, 0, 128), (1, 0, u32::MAX), (1, u32::MAX, u32::MAX)]
    {
        assert_eq!(ext(&on_first, count, start, end).0, EINVAL, "{count} {start} {end}");
    }
    assert_eq!(ext(&on_second, 1, 0, 119).0, 0);
    assert_eq!(ext(&on_second, 1, 0, 120).0, EINVAL, "the machine has 128 cores");
    // The short form tells 64.
    assert_eq!(call_as(&on_first, 1, &cmd::CRWL_NC_RANGE_MARK, map(1, 0, 63)).1.bitmap, 1);
    assert_eq!(call_as(&on_first, 1, &cmd::CRWL_NC_RANGE_MARK, map(1, 0, 64)).0, EINVAL);
}

fn data_store(client: &Client, command: &Command, pid: i32) -> (i64, u64) {
    let (ret, after) = call(client, command, arg::NeuronDsInfo { pid, ..Default::default() });
    assert!(ret != 0 || *command == cmd::RELEASE_NEURON_DS || after.size == 262_144);
    (ret, after.mmap_offset)
}

#[test]
fn a_data_store_is_its_processs_and_seen_by_others_until_it_ends() {
    let rig = rig(Product::Trn1);
    let in_use = rig.host().in_use();
    let (runtime, monitor) = (rig.client(10).unwrap(), rig.client(20).unwrap());
    assert_eq!(data_store(&monitor, &cmd::ACQUIRE_NEURON_DS, 10).0, -2, "none yet");
    let (ret, offset) = data_store(&runtime, &cmd::ACQUIRE_NEURON_DS, 0);
    assert_eq!(ret, 0);
    assert_eq!(data_store(&runtime, &cmd::ACQUIRE_NEURON_DS, 0), (0, offset));
    assert_eq!(data_store(&monitor, &cmd::ACQUIRE_NEURON_DS, 10), (0, offset));
    assert_ne!(data_store(&monitor, &cmd::ACQUIRE_NEURON_DS, 0).1, offset);
    assert_eq!(rig.host().in_use(), in_use, "they were allocated with the device");
    let bytes = DATASTORE_SIZE as u64;
    let mapped = runtime.file().mmap(offset, bytes).unwrap();
    assert!(mapped.writable && monitor.file().mmap(offset, bytes).is_ok());
    let Window::Host(memory) = &mapped.window else { panic!("a data store is host memory") };
    memory.fill(0x77);
    // Only the owner's release counts.
    assert_eq!(data_store(&monitor, &cmd::RELEASE_NEURON_DS, 10).0, 0);
    assert_eq!(data_store(&monitor, &cmd::ACQUIRE_NEURON_DS, 10).0, 0);
    assert_eq!(data_store(&runtime, &cmd::RELEASE_NEURON_DS, 0).0, 0);
    assert_eq!(data_store(&monitor, &cmd::ACQUIRE_NEURON_DS, 10).0, -2);
    // Who gets it next sees nothing of it.
    let next = rig.client(30).unwrap();
    assert_eq!(data_store(&next, &cmd::ACQUIRE_NEURON_DS, 0), (0, offset));
    let mut first = [1; 64];
    memory.slice().copy_to(&mut first);
    assert_eq!(first, [0; 64]);
    drop(next);
    assert_eq!(data_store(&monitor, &cmd::ACQUIRE_NEURON_DS, 30).0, -2, "gone with its process");
    let stranger = call_as(runtime.file(), 99, &cmd::ACQUIRE_NEURON_DS, arg::NeuronDsInfo::default());
    assert_eq!(stranger.0, EACCES);
}

#[test]
fn the_pod_is_one_node_whatever_is_asked_of_it() {
    let rig = rig(Product::Trn1);
    let file = rig.misc(1).unwrap();
    let (ret, after) =
        call_as(&file, 1, &cmd::POD_CTRL, arg::PodCtrl { sz: 16, ctrl: 2, ..Default::default() });
    assert_eq!((ret, after.state), (0, 4));
    let v2 = arg::PodCtrlV2 { sz: 20, mode: 3, ..Default::default() };
    let (ret, after) = call_as(&file, 1, &cmd::POD_CTRL_V2, v2);
    assert_eq!((ret, after.state, after.mode), (0, 4, 0));
    assert_eq!(call_as(&file, 1, &cmd::POD_CTRL, arg::PodCtrl { sz: 20, ..Default::default() }).0, EINVAL);
    // Taken by number and size, whatever the direction bits say.
    let word = cmd::POD_CTRL.word & !(3 << 30);
    assert_eq!(
        call_as(&file, 1, &Command { word, ..cmd::POD_CTRL }, arg::PodCtrl { sz: 16, ..Default::default() })
            .0,
        0
    );
}

#[test]
fn a_metric_reaches_the_firmware_and_a_longer_one_than_its_window_is_refused() {
    for product in [Product::Trn1, Product::Trn2] {
        let rig = rig(product);
        let client = rig.client(1).unwrap();
        let window = rig.hardware().geometry().misc_ram + 0x100;
        let post = |bytes: &[u8]| {
            client.space().map(BUFFER, bytes.to_vec());
            let argument =
                arg::PostMetric { data: BUFFER, data_size: bytes.len() as u32, ..Default::default() };
            call(&client, &cmd::POST_METRIC, argument).0
        };
        assert_eq!(post(&[0x41; 128]), 0);
        assert_eq!(rig.hardware().bar_read(0, window + 124), Ok(0x4141_4141));
        assert_eq!(post(b"short"), 0);
        assert_eq!(rig.hardware().bar_read(0, window), Ok(u32::from_le_bytes(*b"shor")));
        assert_eq!(
            rig.hardware().bar_read(0, window + 4),
            Ok(u32::from(b't')),
            "and nothing of the one before"
        );
        assert_eq!(rig.hardware().bar_read(0, window + 124), Ok(0));
        assert_eq!(post(&[0; 129]), EINVAL);
        let counters = rig.hardware().counters();
        assert_eq!((counters.metric_posts, counters.mailbox_errors), (2, 0));
        let faults = arg::PostMetric { data: 8, data_size: 4, ..Default::default() };
        assert_eq!(call(&client, &cmd::POST_METRIC, faults).0, -14);
        assert_eq!(call_as(client.file(), 99, &cmd::POST_METRIC, faults).0, EACCES);
    }
}

#[test]
fn hardware_counters_are_read_by_the_firmware_in_as_many_requests_as_it_takes() {
    let rig = rig(Product::Trn1);
    let client = rig.client(1).unwrap();
    let events = 0xfff_c000_0000 + 0x270_0000_u64;
    for index in 0..200 {
        assert_eq!(event(&client, &cmd::EVENT_SET, 0, index, 1000 + index).0, 0);
    }
    let read = |addresses: &[u64]| {
        client.space().map(BUFFER, addresses.iter().flat_map(|address| address.to_le_bytes()).collect());
        client.space().map(2 * BUFFER, vec![0; 4 * addresses.len()]);
        let count = addresses.len() as u32;
        let argument = arg::ReadHwCounters { address: BUFFER, data: 2 * BUFFER, count, ..Default::default() };
        call(&client, &cmd::READ_HW_COUNTERS, argument).0
    };
    let addresses: Vec<u64> = (0..200).map(|index| events + 4 * index).collect();
    assert_eq!(read(&addresses), 0);
    let values = client.space().bytes(2 * BUFFER, 800).unwrap();
    let expected: Vec<u8> = (1000..1200_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(values, expected);
    assert_eq!(rig.hardware().counters().mailbox_requests, 4, "64 to a request");
    assert_eq!(read(&[]), 0);
    let host = client.allocate(None, 4096, 0).unwrap();
    for refused in [host.pa, 0x100_0000, events + 2, u64::MAX] {
        assert_eq!(read(&[events, refused]), EINVAL, "{refused:#x}");
    }
    assert_eq!(read(&vec![events; 4097]), EINVAL);
}

#[test]
fn firmware_that_does_not_answer_is_given_up() {
    use neuron_tests::machine::{Board, board::Cores};
    use std::sync::Arc;
    let host = Arc::new(neuron_ndl::software::HostMemory::new().unwrap());
    let board = Board::still(neuron_abi::arch::Generation::V2, &host, Cores::Down).unwrap();
    let client = Client::open(board.device()).unwrap();
    board.take();
    assert_eq!(call(&client, &cmd::POST_METRIC, arg::PostMetric::default()).0, -110);
    let rings = board.take().accesses.iter().filter(|access| access.offset == 0x30fa_0800).count();
    assert_eq!(rings, 15, "tries");
}

fn notify(client: &Client, argument: arg::NotificationsInitV2) -> (i64, u64, u64) {
    let (ret, after) = call(client, &cmd::NOTIFICATIONS_INIT_V2, argument);
    (ret, after.mmap_offset, after.mem_handle)
}

#[test]
fn a_notification_queue_keeps_its_memory_until_other_is_asked_for_or_its_core_is_reset() {
    let rig = rig(Product::Trn1);
    let in_use = rig.host().in_use();
    let client = rig.client(1).unwrap();
    let host =
        arg::NotificationsInitV2 { nq_dev_id: 1, size: 16384, on_host_memory: 1, ..Default::default() };
    let (ret, offset, handle) = notify(&client, host);
    assert_eq!((ret, rig.host().in_use()), (0, in_use + 16384));
    let mapped = client.file().mmap(offset, 16384).unwrap();
    assert!(mapped.writable);
    assert_eq!(notify(&client, host), (0, offset, handle));
    let v1 = arg::NotificationsInitV1 { nc_id: 1, size: 16384, ..Default::default() };
    let (ret, after) = call(&client, &cmd::NOTIFICATIONS_INIT_V1, v1);
    assert_eq!((ret, after.mmap_offset), (0, offset), "the same queue");
    // New memory, by force or of another size; the old one stays while it is mapped.
    let anew = arg::NotificationsInitWithReallocV2 {
        nq_dev_id: 1,
        size: 16384,
        on_host_memory: 1,
        force_alloc_mem: 1,
        ..Default::default()
    };
    let (ret, after) = call(&client, &cmd::NOTIFICATIONS_INIT_WITH_REALLOC_V2, anew);
    assert_eq!(ret, 0);
    assert_ne!(after.mmap_offset, offset);
    assert_eq!(rig.host().in_use(), in_use + 2 * 16384);
    drop(mapped);
    assert_eq!(rig.host().in_use(), in_use + 16384);
    assert_eq!(notify(&client, arg::NotificationsInitV2 { size: 4096, ..host }).0, 0);
    assert_eq!(rig.host().in_use(), in_use + 4096);
    // It outlives its process, not its core's reset.
    drop(client);
    assert_eq!(rig.host().in_use(), in_use + 4096);
    let client = rig.client(1).unwrap();
    let reset = |nc_map| {
        assert_eq!(call(&client, &cmd::NC_RESET, arg::DeviceReset { nc_map, ..Default::default() }).0, 0);
        let ready = arg::DeviceReady { request_id: 1, ..Default::default() };
        assert_eq!(call(&client, &cmd::NC_RESET_READY, ready).1.result, 0);
    };
    reset(0b01);
    assert_eq!(rig.host().in_use(), in_use + 4096);
    reset(0b10);
    assert_eq!(rig.host().in_use(), in_use);
}

#[test]
fn a_notification_queue_on_the_device_is_aligned_to_its_size() {
    let rig = rig(Product::Trn2);
    let client = rig.client(1).unwrap();
    client.allocate(Some(2), 1 << 20, 0).unwrap();
    let topsp = arg::NotificationsInitV2 {
        nq_dev_id: 15,
        nq_dev_type: 1,
        nq_type: 5,
        engine_index: 15,
        size: 4 << 20,
        dram_channel: 2,
        ..Default::default()
    };
    let (ret, offset, handle) = notify(&client, topsp);
    assert_eq!((ret, offset), (0, u64::MAX), "it cannot be mapped");
    let info = arg::MemGetExtendedInfo { mem_handle: handle, ..Default::default() };
    let (ret, info) = call(&client, &cmd::MEM_GET_EXTENDED_INFO, info);
    assert_eq!((ret, info.host_memory, info.size), (0, 0, 4 << 20));
    assert!(info.pa.is_multiple_of(4 << 20));
    for (argument, error) in [
        (arg::NotificationsInitV2 { nq_dev_type: 2, ..topsp }, -38),
        (arg::NotificationsInitV2 { nq_dev_id: 16, ..topsp }, E2BIG),
        (arg::NotificationsInitV2 { nq_dev_type: 0, nq_dev_id: 8, ..topsp }, E2BIG),
        (arg::NotificationsInitV2 { nq_type: 6, ..topsp }, EINVAL),
        (arg::NotificationsInitV2 { engine_index: 16, ..topsp }, EINVAL),
        (arg::NotificationsInitV2 { size: 5 << 20, ..topsp }, EINVAL),
        (arg::NotificationsInitV2 { size: 0, ..topsp }, EINVAL),
        (arg::NotificationsInitV2 { dram_channel: 4, ..topsp }, EINVAL),
    ] {
        assert_eq!(notify(&client, argument).0, error, "{argument:?}");
    }
    assert_eq!(call_as(client.file(), 99, &cmd::NOTIFICATIONS_INIT_V2, topsp).0, EACCES);
}

#[test]
fn power_profiles_and_metrics_control_check_what_they_are_given() {
    let (v2, v3) = (rig(Product::Trn1), rig(Product::Trn2));
    let (v2, v3) = (v2.client(1).unwrap(), v3.client(1).unwrap());
    let profile = |client: &Client, sz, ctrl| {
        call(client, &cmd::POWER_PROFILE, arg::PowerProfile { sz, ctrl, profile: 1 }).0
    };
    assert_eq!((profile(&v2, 8, 0), profile(&v2, 12, 0), profile(&v2, 8, 1)), (0, -6, -524));
    assert_eq!((profile(&v3, 8, 0), profile(&v3, 12, 0)), (-524, -6));
    let control = |mode: u32| call(&v2, &cmd::METRICS_CTRL, mode).0;
    assert_eq!((control(0), control(1), control(2)), (0, 0, EINVAL));
}

#[test]
fn a_dump_of_a_cores_state_checks_its_argument() {
    let rig = rig(Product::Trn1);
    let file = rig.misc(1).unwrap();
    let dump = |size, nc_id| {
        let argument = arg::NcPidStateDump { size, nc_id, ..Default::default() };
        call_as(&file, 1, &cmd::NC_PID_STATE_DUMP, argument).0
    };
    assert_eq!((dump(16, 1), dump(12, 1), dump(16, 2)), (0, EINVAL, E2BIG));
}

#[test]
fn the_feature_word_names_what_is_served() {
    let rig = rig(Product::Trn2);
    let client = rig.client(1).unwrap();
    let (ret, info) = call(&client, &cmd::DRIVER_INFO_GET, arg::DeviceDriverInfo::default());
    let features = Features::from_bits(info.feature_flags1);
    assert_eq!(ret, 0);
    for feature in [Features::DMABUF, Features::HBM_SCRUB, Features::BIG_CORE_MAPS] {
        assert!(features.contains(feature), "{feature}");
    }
}

mod defects {
    use super::*;

    #[test]
    fn d65_a_text_of_no_bytes_has_no_last_byte() {
        let rig = rig(Product::Trn1);
        let client = rig.client(1).unwrap();
        let print = |text: &[u8], size| {
            client.space().map(BUFFER, text.to_vec());
            call(&client, &cmd::PRINTK, arg::Printk { buffer: BUFFER, size, action: 0 }).0
        };
        let (ebadmsg, efault) = (-74, -14);
        assert_eq!((print(b"hello\n\0", 7), print(b"\0", 1), print(&[0; 512], 512)), (0, 0, 0));
        assert_eq!((print(b"\0", 0), print(b"hello", 5), print(b"hello\0", 5)), (ebadmsg, ebadmsg, ebadmsg));
        assert_eq!(
            (print(&[0; 513], 513), print(b"\0", u32::MAX), print(b"\0", 2)),
            (efault, efault, efault)
        );
    }

    #[test]
    fn d66_counters_that_find_no_memory_say_so() {
        let rig = rig(Product::Trn1);
        let client = rig.client(1).unwrap();
        client.space().map(BUFFER, 0xfff_c270_0000_u64.to_le_bytes().to_vec());
        client.space().map(2 * BUFFER, vec![0xaa; 4]);
        let argument =
            arg::ReadHwCounters { address: BUFFER, data: 2 * BUFFER, count: 1, ..Default::default() };
        rig.device().pools().fault().arm(1);
        assert_eq!(call(&client, &cmd::READ_HW_COUNTERS, argument).0, ENOMEM);
        assert_eq!(client.space().bytes(2 * BUFFER, 4).unwrap(), [0xaa; 4]);
        assert_eq!(call(&client, &cmd::READ_HW_COUNTERS, argument).0, 0);
    }

    #[test]
    fn d68_events_check_core_and_number() {
        for (product, cores) in [(Product::Trn1, 2), (Product::Trn3, 8)] {
            let rig = rig(product);
            let client = rig.client(1).unwrap();
            assert_eq!(event(&client, &cmd::EVENT_SET, cores - 1, 255, 5).0, 0);
            assert_eq!(event(&client, &cmd::EVENT_GET, cores - 1, 255, 0), (0, 5));
            for command in [cmd::EVENT_SET, cmd::EVENT_GET] {
                for (core, index, error) in
                    [(cores, 0, E2BIG), (u32::MAX, 0, E2BIG), (0, 256, EINVAL), (0, u32::MAX, EINVAL)]
                {
                    assert_eq!(event(&client, &command, core, index, 0).0, error, "{core} {index}");
                }
            }
            // One further would be semaphore 0.
            assert_eq!(semaphore(&client, &cmd::SEMAPHORE_READ, cores - 1, 0, 1), (0, 0));
        }
    }

    #[test]
    fn d71_claims_of_cores_are_the_files_and_skip_none() {
        let rig = rig(Product::Trn2);
        let (first, second) = (rig.misc(1).unwrap(), rig.misc(1).unwrap());
        let mark =
            |file: &OpenFile, count, end| call_as(file, 1, &cmd::CRWL_NC_RANGE_MARK, map(count, 0, end));
        assert_eq!(mark(&first, 2, 7).1.bitmap, 0b11);
        // The core right behind an occupied run.
        assert_eq!(mark(&second, 1, 7).1.bitmap, 0b100);
        assert_eq!(mark(&second, 5, 7).1.bitmap, 0b1111_1000);
        assert_eq!(mark(&second, 1, 7), (EBUSY, arg::CrwlNcMap { max_nc_available: 0, ..map(1, 0, 7) }));
        // Giving back touches the file's own only.
        let unmark = arg::CrwlNcMap { start: 0, end: 7, ..Default::default() };
        assert_eq!(call_as(&first, 1, &cmd::CRWL_NC_RANGE_UNMARK, unmark).0, 0);
        assert_eq!(mark(&first, 2, 7).1.bitmap, 0b11);
        let unmark = arg::CrwlNcMapExt { start: 4, end: 5, ..Default::default() };
        assert_eq!(call_as(&second, 1, &cmd::CRWL_NC_RANGE_UNMARK_EXT0, unmark).0, 0);
        assert_eq!(mark(&first, 2, 7).1.bitmap, 0b11_0000);
        // So does closing one of the process's files.
        drop(first);
        assert_eq!(mark(&second, 8, 7).1.max_nc_available, 2);
        drop(second);
        let third = rig.client(2).unwrap();
        assert_eq!(call(&third, &cmd::CRWL_NC_RANGE_MARK, map(8, 0, 7)).1.bitmap, 0xff);
    }
}
