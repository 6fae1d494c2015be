//! Writes to the tree under `/sys` (`spec/sysfs.md` 2, 3).

use neuron_abi::errno::Errno;
use neuron_driver::{Device, OpenFile, OpenMode, Params};
use neuron_softdev::Product;
use neuron_softdev::fault::Fault;
use neuron_tests::client::PID;
use neuron_tests::rig::Rig;

use crate::rig;

fn content(device: &Device, path: &str) -> String {
    let path = format!("sys/devices/virtual/neuron_device/neuron{}/{path}", device.index());
    let file = device.sysfs().into_iter().find(|file| file.path == path);
    file.unwrap_or_else(|| panic!("{path} is not there")).content
}

/// (total, present, peak) of a counter directory.
fn counter(device: &Device, folder: &str) -> [u64; 3] {
    ["total", "present", "peak"]
        .map(|name| content(device, &format!("{folder}/{name}")).trim().parse().unwrap())
}

const CORE: &str = "neuron_core1/stats/memory_usage/device_mem";
const TENSORS: &str = "neuron_core1/stats/memory_usage/device_mem/tensors";
const HOST: &str = "stats/memory_usage/host_mem/tensors";

#[test]
fn a_write_clears_the_one_value_and_frees_after_it_stop_at_zero() {
    let rig = rig(Product::Trn1);
    let device = rig.device();
    let client = rig.client(PID).unwrap();
    let before = counter(device, CORE)[0];
    let [first, second] = [8192, 4096].map(|bytes| client.allocate(Some(1), bytes, 1).unwrap());
    let host = client.allocate(None, 12288, 1).unwrap();
    assert_eq!((counter(device, TENSORS), counter(device, HOST)), ([12288, 4096, 12288], [12288; 3]));

    assert_eq!(device.sysfs_write(&format!("{TENSORS}/total"), b"1\n"), Ok(()));
    assert_eq!((counter(device, TENSORS), counter(device, CORE)[0]), ([0, 4096, 12288], before + 12288));
    assert_eq!(client.free(first), 0);
    assert_eq!((counter(device, TENSORS), counter(device, CORE)[0]), ([0, 8192, 12288], before + 4096));
    assert_eq!(device.sysfs_write(&format!("{TENSORS}/peak"), b"0"), Ok(()));
    assert_eq!(device.sysfs_write(&format!("{TENSORS}/present"), b"what ever"), Ok(()));
    assert_eq!(counter(device, TENSORS), [0; 3]);
    client.allocate(Some(1), 4096, 1).unwrap();
    assert_eq!(counter(device, TENSORS), [4096; 3], "it counts on from where it was cleared");

    assert_eq!(device.sysfs_write(&format!("{CORE}/total"), b"x"), Ok(()));
    assert_eq!((client.free(second), counter(device, CORE)[0]), (0, 0));
    assert_eq!(device.sysfs_write(&format!("{HOST}/peak"), b"x"), Ok(()));
    assert_eq!(counter(device, HOST), [12288, 12288, 0]);
    assert_eq!((client.free(host), counter(device, HOST)), (0, [0, 12288, 0]));
    assert_eq!(device.sysfs_write(&format!("{HOST}/present"), b""), Ok(()));
    assert_eq!(counter(device, HOST), [0, 12288, 0], "a write of nothing is none");
}

#[test]
fn every_file_takes_a_write_or_says_that_it_does_not() {
    let rig = rig(Product::Trn2);
    let device = rig.device();
    let _open = rig.client(PID).unwrap();
    let folder = "sys/devices/virtual/neuron_device/neuron0/";
    let files = device.sysfs();
    let memory = |path: &str| path.contains("/memory_usage/");
    for file in &files {
        let path = file.path.strip_prefix(folder).unwrap_or_else(|| panic!("{}", file.path));
        let expected = if file.mode & 0o200 == 0 { Err(Errno::EACCES) } else { Ok(()) };
        assert_eq!(device.sysfs_write(path, b"0\n"), expected, "{path}");
        if memory(path) {
            assert_eq!(content(device, path), "0\n", "{path}");
        }
    }
    // Nothing else changed but the notifications that "0" turns on.
    let kept =
        |file: &&neuron_driver::sysfs::File| !memory(&file.path) && !file.path.ends_with("notify_delay");
    let after = device.sysfs();
    assert!(files.iter().filter(kept).eq(after.iter().filter(kept)));
    for read_only in ["core_count", "connected_devices"] {
        assert_eq!(device.sysfs_write(read_only, b"1"), Err(Errno::EACCES));
    }
    for nowhere in [
        "",
        "/reset",
        "info",
        "info/",
        "neuron_core8/stats/status/success/total",
        "reset/x",
        "../neuron0/reset",
    ] {
        assert_eq!(device.sysfs_write(nowhere, b"1"), Err(Errno::ENOENT), "{nowhere:?}");
    }
}

#[test]
fn notifications_are_on_or_off_for_all_devices_of_a_machine() {
    let params = Params { device_count: 2, ..Params::default() };
    let first = Rig::with(Product::Inf2, params, "").unwrap();
    let second = first.beside(1).unwrap();
    let elsewhere = rig(Product::Inf2);
    let shown = || [&first, &second, &elsewhere].map(|rig| content(rig.device(), "info/notify_delay"));
    let write = |bytes: &[u8]| assert_eq!(second.device().sysfs_write("info/notify_delay", bytes), Ok(()));
    assert_eq!(shown(), ["-1\n"; 3]);
    for ignored in [&b"1\n"[..], b"", b"00", b"-2", b"off", b"0 1", &[0xff; 9]] {
        write(ignored);
        assert_eq!(shown(), ["-1\n"; 3], "{ignored:?}");
    }
    write(b"0\n");
    assert_eq!(shown(), ["0\n", "0\n", "-1\n"]);
    write(b"1");
    assert_eq!(shown(), ["0\n", "0\n", "-1\n"]);
    write(b"-1");
    assert_eq!(shown(), ["-1\n"; 3]);
}

/// Words that a reset changes: cursors of a default ring that was used.
fn used(device: &Device) -> bool {
    device.introspect().iter().any(|queue| queue.is_h2t && queue.tx.next > 0)
}

#[test]
fn reset_resets_the_device_only_while_nobody_has_it_open() {
    let rig = rig(Product::Trn1);
    let device = rig.device();
    let client = rig.client(PID).unwrap();
    let chunk = client.allocate(Some(0), 1 << 20, 0).unwrap();
    assert_eq!((client.memset(chunk, 1, 1 << 20), used(device)), (0, true));
    assert_eq!((device.sysfs_write("reset", b"1\n"), used(device)), (Ok(()), true));
    assert_eq!(client.memset(chunk, 1, 4096), 0);
    drop(client);
    assert!(used(device));
    // A file for discovery does not count.
    let _misc = rig.misc(PID).unwrap();
    assert_eq!((device.sysfs_write("reset", b"1\n"), used(device)), (Ok(()), false));
    assert_eq!(content(device, "reset"), "1\n");
    let client = rig.client(PID).unwrap();
    let chunk = client.allocate(Some(0), 4096, 0).unwrap();
    assert_eq!(client.memset(chunk, 1, 4096), 0, "its cores are up again");
    assert_eq!(client.reset_outcome(0), (0, 1), "no process asked for it");
}

#[test]
fn a_device_that_did_not_come_back_shows_it_and_opens_again_after_a_reset_that_did() {
    let rig = rig(Product::Trn1);
    let device = rig.device();
    let stuck = rig.hardware().faults().add(Fault::StuckReset);
    assert_eq!(device.sysfs_write("reset", b"1"), Ok(()), "how it went is what reading it tells");
    assert_eq!(content(device, "reset"), "2\n");
    assert_eq!(OpenFile::open(device, PID, OpenMode::Full).err(), Some(Errno::EINVAL));
    assert!(OpenFile::open(device, PID, OpenMode::Misc).is_ok());
    rig.hardware().faults().remove(stuck);
    assert_eq!(device.sysfs_write("reset", b"1"), Ok(()));
    assert_eq!(content(device, "reset"), "1\n");
    let client = rig.client(PID).unwrap();
    let chunk = client.allocate(Some(0), 4096, 0).unwrap();
    assert_eq!(client.memset(chunk, 1, 4096), 0);
}

#[test]
fn a_process_that_opens_the_device_during_a_reset_gets_it_afterwards() {
    let rig = rig(Product::Trn1);
    let device = rig.device();
    std::thread::scope(|scope| {
        let resets = scope.spawn(|| (0..20).for_each(|_| device.sysfs_write("reset", b"1").unwrap()));
        let mut opened = 0;
        while !resets.is_finished() || opened == 0 {
            let client = rig.client(PID).unwrap();
            let chunk = client.allocate(Some(0), 4096, 0).unwrap();
            assert_eq!(client.memset(chunk, 1, 4096), 0);
            opened += 1;
        }
        resets.join().unwrap();
    });
    assert_eq!(content(device, "reset"), "1\n");
}
