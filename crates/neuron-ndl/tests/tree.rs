//! The tree under `/sys` of a software machine: whole, its shape, and one file of it.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use neuron_abi::errno::Errno;
use neuron_ndl::software::Machine;

#[test]
fn the_shape_is_the_trees_with_nothing_in_it() {
    let machine = Machine::new("inf2.24xlarge").unwrap();
    let shape = machine.sysfs_shape().unwrap();
    let whole = machine.sysfs().unwrap();
    assert!(shape.files.iter().all(|file| file.content.is_empty()));
    let paths = |tree: &neuron_ndl::software::Sysfs| {
        let mut paths: Vec<_> = tree.files.iter().map(|file| (file.path.clone(), file.mode)).collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(&shape), paths(&whole));
    assert_eq!(shape.links, whole.links);
}

#[test]
fn one_file_is_read_and_written_by_either_path_to_its_device() {
    let machine = Machine::new("inf2.24xlarge").unwrap();
    let read = |path: &str| machine.attribute(path).map(|file| file.content);
    for folder in ["sys/devices/virtual/neuron_device", "sys/class/neuron_device"] {
        assert_eq!(read(&format!("{folder}/neuron5/core_count")).as_deref(), Ok("2"));
        assert_eq!(read(&format!("{folder}/neuron6/core_count")), Err(Errno::ENOENT));
        let delay = format!("{folder}/neuron5/info/notify_delay");
        assert_eq!(read(&delay).as_deref(), Ok("-1\n"));
        machine.write_attribute(&delay, b"0\n").unwrap();
        assert_eq!(read(&delay).as_deref(), Ok("0\n"));
        machine.write_attribute(&delay, b"-1\n").unwrap();
    }
    assert_eq!(read("sys/module/neuron/version").as_deref(), Ok("2.27.4.0\n"));
    assert_eq!(machine.write_attribute("sys/class/neuron_device/node_id_2", b"1"), Err(Errno::EACCES));
    for nowhere in
        ["", "sys", "sys/class/neuron_device/neuron0", "sys/class/neuron_device/neuronx/reset", "/etc/passwd"]
    {
        assert_eq!(read(nowhere), Err(Errno::ENOENT), "{nowhere}");
        assert_eq!(machine.write_attribute(nowhere, b"1"), Err(Errno::ENOENT), "{nowhere}");
    }
}
