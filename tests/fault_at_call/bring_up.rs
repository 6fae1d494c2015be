//! A probe with its k-th call failing.

use neuron_abi::errno::Errno;
use neuron_driver::ProbeError;
use neuron_softdev::Product;
use neuron_tests::machine::Call;

use crate::rig::{Machine, of_similar};

const RESERVE: u64 = 32 << 20;

/// Fails the `nth` call of a probe; what it did is undone, and the next probe succeeds.
fn strike(machine: &Machine, call: Call, nth: u64) {
    machine.hardware.fail(call, nth);
    let failed = machine.probe(RESERVE).err();
    assert!(matches!(failed, Some(ProbeError::Step { errno: Errno::EIO, .. })), "{call:?} {nth}: {failed:?}");
    assert!(machine.hardware.has_failed(call), "{call:?} {nth}: failed before");
    assert_eq!(machine.host.in_use(), 0, "{call:?} {nth}");
    machine.hardware.fail(call, 0);
    machine.probe(RESERVE).unwrap();
    assert_eq!(machine.host.in_use(), 0, "{call:?} {nth}");
}

/// Calls of a probe that succeeds.
fn calls(machine: &Machine, call: Call) -> u64 {
    machine.hardware.fail(call, 0);
    machine.probe(RESERVE).unwrap();
    machine.hardware.seen(call)
}

fn each_of(product: Product, call: Call) {
    let machine = Machine::new(product);
    let calls = calls(&machine, call);
    assert!(calls > 20, "{call:?}: {calls}");
    for nth in of_similar(product, 1..calls + 1) {
        strike(&machine, call, nth);
    }
}

#[test]
fn reads_of_a_bring_up_fail_in_turn() {
    each_of(Product::Trn1, Call::Read);
    each_of(Product::Trn2, Call::Read);
}

#[test]
fn writes_of_a_bring_up_fail_in_turn() {
    each_of(Product::Trn1, Call::Write);
    each_of(Product::Trn2, Call::Write);
}

/// The reserve pools take less than they want and serve what the system refuses, so a
/// single refused block is survived: by the reserve, or by a smaller reserve.
#[test]
fn a_single_refused_block_is_served_from_the_reserve() {
    let machine = Machine::new(Product::Trn1);
    for nth in 1..=calls(&machine, Call::Memory) {
        machine.hardware.fail(Call::Memory, nth);
        drop(machine.probe(RESERVE).unwrap());
        assert!(machine.hardware.has_failed(Call::Memory));
        assert_eq!(machine.host.in_use(), 0, "block {nth}");
    }
}

#[test]
fn without_a_reserve_every_refused_block_fails_the_probe() {
    let machine = Machine::new(Product::Trn1);
    machine.hardware.fail(Call::Memory, 0);
    drop(machine.probe(0).unwrap());
    for nth in 1..=machine.hardware.seen(Call::Memory) {
        machine.hardware.fail(Call::Memory, nth);
        let failed = machine.probe(0).err();
        assert!(matches!(failed, Some(ProbeError::Step { errno: Errno::ENOMEM, .. })), "{nth}: {failed:?}");
        assert_eq!(machine.host.in_use(), 0, "block {nth}");
        drop(machine.probe(0).unwrap());
    }
}
