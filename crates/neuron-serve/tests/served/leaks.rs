//! What processes left, exactly.

use neuron_driver::Held;
use neuron_driver::held::HeldMemory;
use neuron_ndl::Device;
use neuron_serve::leaks::Left;

use crate::child::{Client, remote, report, wait_for_word};
use crate::common::Served;
use crate::raw::Raw;
use crate::work::{DEVICE, ROUNDS, SEED, allocate};

/// A client that leaves three blocks on device 1 and one on device 2.
pub(crate) fn act() {
    let remote = remote();
    let devices = [1, 2].map(|index| Device::open(&remote, index).unwrap());
    for (device, size, host) in
        [(0, 4096, false), (0, 1 << 20, false), (0, 8192, true), (1, 12288, false), (1, 12288, false)]
    {
        let memory = allocate(&devices[device], size, host, 1);
        match (device, size) {
            // One of them is freed.
            (1, 12288) => drop(memory),
            _ => std::mem::forget(memory),
        }
    }
    std::mem::forget(allocate(&devices[1], 12288, false, 0));
    report("done");
    wait_for_word();
    std::process::exit(0);
}

/// What is left beside the eight bounce buffers of a device: sizes, and whether of host memory.
fn blocks(left: &Left) -> Vec<(u64, bool)> {
    let blocks = left.held.iter().filter_map(|held| match held {
        Held::Memory(HeldMemory { size, hbm, .. }) => Some((*size, hbm.is_none())),
        _ => None,
    });
    let mut blocks: Vec<_> = blocks.filter(|&(size, host)| !(size == 2 << 20 && host)).collect();
    blocks.sort_unstable();
    blocks
}

#[test]
fn what_a_process_left_is_told_by_process_device_and_block() {
    let served = Served::new("trn1.32xlarge");
    for killed in [false, true].repeat(10) {
        let before = served.left().len();
        let mut client = Client::start("leaker", &served, &[]);
        client.wait_until("done");
        let pid = client.pid();
        assert_eq!(served.left().len(), before, "it lives");
        match killed {
            true => client.kill(),
            false => {
                client.tell();
                client.end();
            }
        }
        let mut left = served.left().split_off(before);
        left.sort_by_key(|left| left.device);
        let told: Vec<_> = left.iter().map(|left| (left.pid, left.device, blocks(left))).collect();
        let first = vec![(4096, false), (8192, true), (1 << 20, false)];
        assert_eq!(told, [(pid, 1, first), (pid, 2, vec![(12288, false)])]);
        // The kernel's name of a thread, and of a program, has 15 bytes.
        let program = std::env::current_exe().unwrap();
        let program = program.file_name().unwrap().to_str().unwrap();
        assert!(left.iter().all(|left| program.starts_with(&left.name) && !left.name.is_empty()));
    }
}

#[test]
fn who_cleans_up_leaves_nothing_and_who_closes_without_leaves_it_with_the_last_file() {
    let served = Served::new("trn1.2xlarge");
    let clean = Client::start("work", &served, &[(DEVICE, 0), (SEED, 1), (ROUNDS, 2)]);
    clean.wait_until("done");
    clean.end();
    assert!(served.left().is_empty(), "{:?}", served.left());

    let [mut first, mut second] = [(); 2].map(|()| Raw::open(served.address(), 0));
    first.allocate(4096, false).unwrap();
    first.close();
    assert!(served.left().is_empty(), "the other file keeps it");
    second.close();
    let left = served.left();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].pid, left[0].device), (std::process::id().cast_signed(), 0));
    assert_eq!(blocks(&left[0]), [(4096, false)]);
}

#[test]
fn of_files_that_are_closed_at_once_one_is_the_last() {
    let served = Served::new("trn1.2xlarge");
    for round in 0..50 {
        let files: Vec<_> = (0..8).map(|_| Raw::open(served.address(), 0)).collect();
        files[0].allocate(4096, false).unwrap();
        std::thread::scope(|scope| {
            for file in files {
                scope.spawn(move || drop(file));
            }
        });
        assert_eq!(served.left().len(), round + 1);
    }
}
