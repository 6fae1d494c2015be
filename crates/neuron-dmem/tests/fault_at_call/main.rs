//! A fault at every call: a scripted life of the runtime's allocator runs once to count its
//! calls to the driver, then once for each of them and each errno, with that call refused.
//! The step that is struck ends with the right status, no other one notices, bytes and
//! counters are exact after each step, and nothing is left in the driver or the runtime.
//!
//! | module | what lives there |
//! |---|---|
//! | `strike` | counting calls, refusing one, and which status that makes |
//! | `life` | the script, and what must hold after each step |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod life;
mod strike;

use std::sync::Arc;

use life::{Life, SCRIPT};
use neuron_abi::errno::Errno;
use neuron_dmem::{DeviceMemory, Usage};
use neuron_driver::hw::VirtualClock;
use neuron_ndl::Device;
use neuron_ndl::intercept::Intercepted;
use neuron_ndl::software::{Execution, Machine, MachineOptions};
use strike::{Calls, Hit};

/// What a driver may answer to anything: no memory, a broken device, a request that it does
/// not take.
const ERRNOS: [Errno; 3] = [Errno::ENOMEM, Errno::EIO, Errno::EINVAL];

/// Bytes that the driver counts: device memory, and the process's host memory.
fn driver_bytes(device: &Device) -> u64 {
    let hbms = 0..device.geometry().hbm.len() as u32;
    let on_device: u64 = hbms.flat_map(|hbm| device.chunks(hbm).unwrap()).map(|chunk| chunk.size).sum();
    on_device + device.processes().unwrap().iter().map(|app| app.host_mem_size).sum::<u64>()
}

/// A machine that lives through one life after the other.
struct Rig {
    calls: Arc<Calls>,
    machine: Intercepted<Machine>,
}

impl Rig {
    fn new(instance: &str) -> Self {
        let (calls, clock) = (Arc::new(Calls::default()), Arc::new(VirtualClock::default()));
        let options = MachineOptions { execution: Execution::Inline, clock, ..MachineOptions::default() };
        let machine = Machine::with_options(instance, options).unwrap();
        Self { machine: Intercepted::new(machine, Arc::clone(&calls) as _), calls }
    }

    /// Lives a life whose call `strike`, from 0, is refused. Returns how many there were.
    fn live(&self, strike: Option<(u64, Errno)>) -> u64 {
        let device = Device::open(&self.machine, 0).unwrap();
        let before = driver_bytes(&device);
        let memory = DeviceMemory::new(Arc::clone(&device));
        let mut life = Life::new(&memory);
        let mut struck: Option<Hit> = None;
        for step in SCRIPT {
            self.calls.arm(strike);
            let ended = (step.run)(&mut life);
            self.calls.disarm();
            let hit = self.calls.take_hit();
            let expected = match &hit {
                Some(hit) => hit.expected(step.kind, device.offers_zero_copy()),
                None => step.ends,
            };
            struck = struck.or(hit);
            assert_eq!(ended, expected, "{}, with {struck:?}", step.name);
            life.check(&memory, &format!("after {}, with {struck:?}", step.name));
        }
        self.calls.arm(strike);
        drop(life);
        self.calls.disarm();
        struck = struck.or(self.calls.take_hit());

        assert_eq!(memory.usage(), Usage::default(), "{struck:?}");
        let statistics = memory.statistics();
        assert!(statistics.owners.iter().all(|owner| owner.amount.current == 0 && owner.left), "{struck:?}");
        assert!(statistics.hints.iter().all(|hint| hint.amount.current == 0), "{struck:?}");
        let left = driver_bytes(&device) - before;
        // What the driver does not free stays there until the process ends.
        let kept = struck.as_ref().is_some_and(Hit::is_free);
        assert_eq!(left > 0, kept, "{left} bytes left, with {struck:?}");
        assert_eq!(struck.is_some(), strike.is_some(), "each call of the first life comes in the others");

        drop((memory, device));
        let device = Device::open(&self.machine, 0).unwrap();
        assert_eq!(driver_bytes(&device), before, "the end of a process gives all back, with {struck:?}");
        self.calls.reset()
    }
}

fn every_call(instance: &str) {
    let rig = Rig::new(instance);
    let calls = rig.live(None);
    assert!(calls > 50, "{calls} calls are too few for the script");
    for call in 0..calls {
        for errno in ERRNOS {
            rig.live(Some((call, errno)));
        }
    }
}

#[test]
fn a_fault_at_any_call_on_trn1_is_told_and_leaves_nothing() {
    every_call("trn1.2xlarge");
}

#[test]
fn a_fault_at_any_call_on_trn2_is_told_and_leaves_nothing() {
    every_call("trn2.3xlarge");
}
