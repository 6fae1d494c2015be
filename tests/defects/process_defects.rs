//! Processes, resets and neighbouring commands: defects 57 to 70.

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_driver::requests::Wanted;

use crate::rig::{EINVAL, Rig};

#[test]
fn d57_a_new_process_in_an_old_slot_starts_from_zero() {
    let rig = Rig::new();
    let client = rig.client(1000);
    client.allocate(Some(0), 1 << 20, 0).unwrap();
    drop(client);
    let client = rig.client(2000);
    let mut info = arg::GetAppsInfo { apps_info_flags: 2, capacity: 0, ..Default::default() };
    assert_eq!(client.call(&cmd::DEVICE_GET_ALL_APPS_INFO, &mut info), 0);
    assert_eq!(rig.device.pools().core_counters(0).1.total, 16 << 20);
}

#[test]
fn d58_closing_one_of_two_files_keeps_the_memory() {
    let rig = Rig::new();
    let (first, second) = (rig.client(1000), rig.client(1000));
    let chunk = first.allocate(Some(0), 1 << 20, 0).unwrap();
    drop(first);
    let mut pa = arg::MemGetExtendedInfo { mem_handle: chunk.handle, ..Default::default() };
    assert_eq!(second.call(&cmd::MEM_GET_EXTENDED_INFO, &mut pa), 0);
    assert_eq!(pa.pa, chunk.pa);
}

#[test]
fn d59_d61_a_second_reset_is_refused_before_it_closes_anything() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let mut reset = arg::DeviceReset { nc_map: 1, request_id: 0 };
    assert_eq!((client.call(&cmd::NC_RESET, &mut reset), reset.request_id), (0, 1000));
    let qid = rig.device.request_queue(0, Wanted::H2t, 1000).unwrap();
    assert_eq!(client.call(&cmd::NC_RESET, &mut reset), -16);
    assert!(rig.device.engines().lock(32).unwrap().queues[qid as usize].is_claimed());
    let mut ready = arg::DeviceReady { request_id: 1000, result: 9 };
    assert_eq!((client.call(&cmd::NC_RESET_READY, &mut ready), ready.result), (0, 0));
    assert_eq!((client.call(&cmd::NC_RESET_READY, &mut ready), ready.result), (0, 1), "collected once");
}

#[test]
fn d64_faults_are_efault_not_a_count() {
    let rig = Rig::new();
    let client = rig.client(1000);
    for command in [&cmd::MEM_FREE, &cmd::MEM_COPY64, &cmd::MEM_GET_EXTENDED_INFO, &cmd::MEMSET64] {
        assert_eq!(client.ioctl(command.word, 8), -14, "{}", command.name);
    }
}

#[test]
fn d67_device_info_shows_no_kernel_address() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let mut info = arg::DeviceInfo { connected_devices: [9; 8], ..Default::default() };
    assert_eq!(client.call(&cmd::DEVICE_INFO, &mut info), 0);
    assert_eq!((info.connected_device_count, info.connected_devices), (0, [0; 8]));
    assert_eq!(info.bar_address[0], 1 << 60, "a cookie, not an address");
}

#[test]
fn d70_any_overlap_with_a_blocked_register_is_refused() {
    let rig = Rig::new();
    let client = rig.client(1000);
    let write = |offset: u64| {
        client.space().map(0x10_0000, ((1_u64 << 60) + offset).to_le_bytes().to_vec());
        client.space().map(0x20_0000, vec![0; 4]);
        let mut argument = arg::BarRw { address: 0x10_0000, data: 0x20_0000, count: 1, ..Default::default() };
        client.call(&cmd::BAR_WRITE, &mut argument)
    };
    let doorbell = 0x3000_1038;
    for offset in doorbell - 3..=doorbell + 3 {
        assert_eq!(write(offset), EINVAL, "{offset:#x}");
    }
    assert_eq!(write((1 << 30) - 3), EINVAL, "the last word ends with the BAR");
    assert_eq!(write(0x270_0000), 0);
}
