//! Who lets a chunk go last: its handle, a mapping, a copy, the process's exit. Its memory goes
//! once, and only then. (A second free, and an engine in freed memory, stop the machine.)

use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_driver::dma::copy::ChunkCopy;
use shuttle::thread;

use crate::rig::{NONE, Process, Rig, bytes, copy, fill};
use crate::{explore, explore_evenly};

const PAGE: u64 = 4096;

/// All four at once, in whatever order.
fn last_holder() {
    let rig = Rig::new(Generation::V2, 0b1);
    let (owner, other) = (Process::open(&rig, 100), Process::open(&rig, 200));
    let (chunk, handle) = owner.chunk(PAGE, 0);
    let expected = fill(&chunk, 0x33);
    let (address, bus) = (chunk.host_memory().unwrap().address(), chunk.pa());
    drop(chunk);
    // Before anything is freed, so that it gets a number of its own.
    let (destination, _) = other.chunk(PAGE, 0);
    let alive = {
        let machine = Arc::clone(&rig.machine);
        move |who| assert!(machine.shared().state().memory.is_allocated(address), "{who} holds freed memory")
    };

    let device = Arc::clone(&rig.device);
    let free = thread::spawn(move || {
        let freed = device.pools().free(handle);
        assert!(matches!(freed, Ok(()) | Err(Errno::EINVAL)));
    });
    let (other, mapped) = (Arc::new(other), alive.clone());
    let mapper = Arc::clone(&other);
    let map = thread::spawn(move || {
        if let Ok(mapping) = mapper.file.mmap(bus, PAGE) {
            mapped("a mapping");
            thread::yield_now();
            mapped("a mapping");
            assert_eq!(bytes(mapping.chunk.as_ref().unwrap(), PAGE), expected);
        }
    });
    let copier = Arc::clone(&other);
    let copying = thread::spawn(move || {
        let device = copier.device();
        let Ok(source) = device.pools().lookup(handle) else { return };
        let what = ChunkCopy { source, ..copy(&destination, &destination, PAGE) };
        let started = device.copy_async(&what, NONE, copier.pid).unwrap();
        drop(what);
        // Whether it is waited for here or drained at the exit: the copy holds both chunks.
        thread::yield_now();
        if let Ok(source) = device.pools().lookup(handle) {
            device.copy_wait(&source, &destination, started, copier.pid).unwrap();
            alive("a copy");
        }
    });
    let exit = thread::spawn(move || drop(owner));
    [free, map, copying, exit].into_iter().for_each(|thread| thread.join().unwrap());
    drop(other);
    assert!(rig.device.pools().at_address(bus).is_none());
    rig.all_is_back();
    rig.end();
}

#[test]
fn memory_goes_once_and_with_its_last_holder() {
    explore(250, last_holder);
}

/// One process's exit, another's free of the same handle, and a third that gets the number.
/// Of the exit there is only what it does to memory, without the long scan of queues before.
fn reused_number() {
    let rig = Rig::new(Generation::V2, 0b1);
    let [owner, other, third] = [100, 200, 300].map(|pid| Process::open(&rig, pid));
    let (_, handle) = owner.chunk(PAGE, 0);
    let [device, freeing] = [&rig, &rig].map(|rig| Arc::clone(&rig.device));
    let exit = thread::spawn(move || device.pools().sweep_process(100));
    let free = thread::spawn(move || {
        let freed = freeing.pools().free(handle);
        assert!(matches!(freed, Ok(()) | Err(Errno::EINVAL)));
    });
    let reuse = thread::spawn(move || {
        let (chunk, number) = third.chunk(PAGE, 0);
        (third, chunk, number)
    });
    [exit, free].into_iter().for_each(|thread| thread.join().unwrap());
    let (third, chunk, number) = reuse.join().unwrap();
    // The free may have been of the new chunk, if its number was reused before: then it is gone.
    let found = rig.device.pools().lookup(number);
    assert_eq!(found.is_ok(), chunk.handle() == number, "a chunk and the table disagree about {number}");
    assert!(found.is_ok() || number == handle, "a living process's handle went with another chunk");
    drop((found, chunk, third, owner, other));
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_number_that_is_used_again_names_the_new_chunk_only() {
    explore_evenly(300, reused_number);
}

/// Somebody finds a chunk by its address and asks for its handle while its owner goes.
fn late_handle() {
    let rig = Rig::new(Generation::V2, 0b1);
    let owner = Process::open(&rig, 100);
    let (chunk, _) = owner.chunk(PAGE, 0);
    let bus = chunk.pa();
    drop(chunk);
    let [device, publishing] = [&rig, &rig].map(|rig| Arc::clone(&rig.device));
    let exit = thread::spawn(move || device.pools().sweep_process(100));
    let publish = thread::spawn(move || {
        let pools = publishing.pools();
        if let Some(chunk) = pools.at_address(bus) {
            let _handle = pools.publish(&chunk);
        }
    });
    [exit, publish].into_iter().for_each(|thread| thread.join().unwrap());
    drop(owner);
    rig.all_is_back();
    rig.end();
}

#[test]
fn a_handle_asked_for_too_late_keeps_nothing() {
    explore_evenly(150, late_handle);
}
