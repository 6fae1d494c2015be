//! What a big machine costs before it is used. Alone in its process, so that nothing else is counted.

#![allow(clippy::unwrap_used, reason = "test code")]

use neuron_softdev::{Device, Instance};

/// Bytes of this process in memory, not what is addressable.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn sixteen_devices_of_96_gib_take_next_to_nothing() {
    let instance = Instance::by_name("trn2.48xlarge").unwrap();
    let before = resident();
    let devices: Vec<_> = (0..16).map(|id| Device::new(instance.device_config(id)).unwrap()).collect();
    let each = resident().saturating_sub(before) / 16;
    assert!(each < 2 << 20, "{each} bytes a device");
    let addressable: u64 = devices.iter().map(|device| device.geometry().hbm_bytes()).sum();
    assert_eq!(addressable, 1536 << 30);
}
