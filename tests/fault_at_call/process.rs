//! A process with the k-th call of its life failing, on a device that stays up throughout.

use std::sync::Arc;

use neuron_driver::Device;
use neuron_softdev::Product;
use neuron_softdev::fault::{Fault, FaultId};
use neuron_tests::machine::Call;

use crate::life::{Life, NOT_DONE, RESET, RESET_FAILED, SCRIPT, Step};
use crate::rig::{Held, Machine, of_similar};

const EIO: i64 = -5;
const ENOMEM: i64 = -12;
const ETIMEDOUT: i64 = -110;
const RESERVE: u64 = 32 << 20;
const BOTH: [Product; 2] = [Product::Trn1, Product::Trn2];

/// A device, and what is in use when nobody uses it.
struct Rig {
    product: Product,
    machine: Machine,
    device: Arc<Device>,
    idle: Held,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    /// The step that failed and what it answered; `None` if all succeeded.
    failed: Option<(&'static str, i64)>,
}

impl Rig {
    fn new(product: Product, reserve: u64) -> Self {
        let machine = Machine::new(product);
        let device = machine.probe(reserve).unwrap();
        let idle = machine.held(&device);
        Self { product, machine, device, idle }
    }

    /// A process that goes on until a step fails, then exits. `done` is called after each step.
    fn live(&self, pid: i32, script: &[Step], mut done: impl FnMut(&'static str, i64)) -> End {
        let mut life = Life::begin(&self.device, pid);
        for &(step, perform) in script {
            let ret = perform(&mut life);
            done(step, ret);
            if ret != 0 {
                return End { failed: Some((step, ret)) };
            }
        }
        End { failed: None }
    }

    /// The process is gone: the next one, which knows only that its predecessor failed in a
    /// reset, lives undisturbed, and nothing stays of either.
    fn next_is_unharmed(&self, end: End, what: &str) {
        if end.failed.is_some_and(|(_, ret)| ret == RESET_FAILED) {
            let next = Life::begin(&self.device, 3000);
            assert_eq!(next.reset(), 0, "{what}: a reset after {end:?}");
        }
        let held = self.machine.held(&self.device);
        let served_by_reserve = held.host < self.idle.host;
        let mut idle = self.idle.clone();
        idle.host = idle.host.min(held.host);
        assert_eq!(held, idle, "{what}: left behind after {end:?}");
        // A reset would hide what it repairs, and takes as long as all the rest.
        let script = if served_by_reserve { SCRIPT } else { SCRIPT.split_at(RESET).0 };
        let next = self.live(2000, script, |_, _| {});
        assert_eq!(next, End { failed: None }, "{what}: the process after {end:?}");
        assert_eq!(self.machine.held(&self.device), self.idle, "{what}: left by the process after {end:?}");
    }

    /// Lives of which each one's `nth` call fails. The step in which it does answers
    /// `expected`; with `None` it copes.
    fn strike_each(&self, call: Call, expected: Option<i64>) -> u64 {
        let hardware = &self.machine.hardware;
        hardware.fail(call, 0);
        let mut after = vec![0];
        assert_eq!(self.live(1000, SCRIPT, |_, _| after.push(hardware.seen(call))), End { failed: None });
        let calls = hardware.seen(call);
        let (before_reset, reset) = (after[RESET], after[RESET + 1]);
        let in_reset = of_similar(self.product, before_reset + 1..reset + 1);
        for nth in (1..=before_reset).chain(in_reset).chain(reset + 1..=calls) {
            hardware.fail(call, nth);
            let mut struck = false;
            let end = self.live(1000, SCRIPT, |step, ret| {
                let now = hardware.has_failed(call);
                let answer = match expected {
                    Some(errno) if now && !struck => errno,
                    _ => 0,
                };
                let right = ret == answer || ret == RESET_FAILED && answer != 0;
                assert!(right, "{call:?} {nth}: {step} answered {ret}, not {answer}");
                struck = now;
            });
            // Otherwise it was a call of the exit, which has nobody to tell.
            assert!(hardware.has_failed(call), "{call:?} {nth}: never came");
            hardware.fail(call, 0);
            self.next_is_unharmed(end, &format!("{call:?} {nth}"));
        }
        calls
    }
}

#[test]
fn reads_of_a_life_fail_in_turn() {
    for product in BOTH {
        let reads = Rig::new(product, RESERVE).strike_each(Call::Read, Some(EIO));
        assert!(reads > 20, "{reads}");
    }
}

#[test]
fn writes_of_a_life_fail_in_turn() {
    for product in BOTH {
        let writes = Rig::new(product, RESERVE).strike_each(Call::Write, Some(EIO));
        assert!(writes > 1000, "{writes}");
    }
}

#[test]
fn every_block_of_host_memory_of_a_life_is_refused_in_turn() {
    for product in BOTH {
        let blocks = Rig::new(product, 0).strike_each(Call::Memory, Some(ENOMEM));
        assert!(blocks > 10, "{blocks}");
        assert_eq!(Rig::new(product, RESERVE).strike_each(Call::Memory, None), blocks, "the reserve serves");
    }
}

#[test]
fn every_allocation_of_a_life_fails_in_turn() {
    for product in BOTH {
        let rig = Rig::new(product, RESERVE);
        let lives = (1..500).map(|nth| {
            rig.device.pools().fault().arm(nth);
            let end = rig.live(1000, SCRIPT, |_, _| {});
            rig.device.pools().fault().arm(0);
            assert!(
                end.failed.is_none_or(|(_, ret)| ret == ENOMEM || ret == RESET_FAILED),
                "allocation {nth}: {end:?}"
            );
            rig.next_is_unharmed(end, &format!("allocation {nth}"));
            end
        });
        // Those past the last one are never made.
        let failed = lives.take_while(|end| end.failed.is_some()).count();
        assert!((20..499).contains(&failed), "{failed}");
    }
}

/// From the k-th doorbell on no engine does anything: what waits for it times out, and
/// what it left undone is not done later, in memory that is somebody else's by then.
#[test]
fn engines_hang_from_every_doorbell_on() {
    for product in BOTH {
        let rig = Rig::new(product, RESERVE);
        let faults = rig.machine.engines.faults();
        let hang = |nth| faults.add(Fault::Hang { nth, engine: None });
        let seen = |id: FaultId| faults.list().into_iter().find(|armed| armed.id == id).unwrap().seen;
        let never = hang(u64::MAX);
        assert_eq!(rig.live(1000, SCRIPT, |_, _| {}), End { failed: None });
        let kicks = faults.remove(never).unwrap().seen;
        assert!(kicks > 10, "{kicks}");
        for nth in 1..=kicks {
            let id = hang(nth);
            let end = rig.live(1000, SCRIPT, |step, ret| {
                let hung = seen(id) >= nth;
                let right = ret == 0 || hung && (ret == ETIMEDOUT || ret == NOT_DONE);
                assert!(right, "doorbell {nth}: {step} answered {ret}");
            });
            // Only the copy that nobody waited for can hang unseen.
            assert!(end.failed.is_some() || nth == kicks, "doorbell {nth}: nobody noticed");
            faults.remove(id);
            rig.next_is_unharmed(end, &format!("doorbell {nth}"));
        }
    }
}
