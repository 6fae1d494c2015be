//! What ended is over: who waited for a process's end, or for a close, finds everything free at
//! once, with no second try.

use neuron_abi::memory::Category;
use neuron_ndl::{AllocRequest, Device, Memory};

use crate::child::{Client, remote, report, variable, wait_for_word};
use crate::common::Served;
use crate::raw::Raw;

const SIZE: &str = "NEURON_SERVE_TEST_SIZE";
/// Bytes of an HBM, small so that a whole one is a number that is easy to look at.
const HBM: u64 = 1 << 30;
const ROUNDS: u64 = 50;

/// More than half of an HBM: nobody has as much beside somebody else.
fn most(device: &Device, size: u64) -> Memory {
    let request =
        AllocRequest { size, align: 0, host: false, hbm: 0, core: 0, category: Category::TensorsDevice };
    device.allocate(request).unwrap()
}

/// A client that takes an HBM whenever it is told to, and ends without giving it back.
pub(crate) fn act() {
    let device = Device::open(&remote(), 0).unwrap();
    let size = variable(SIZE).parse().unwrap();
    report("ready");
    wait_for_word();
    std::mem::forget(most(&device, size));
    report("full");
    wait_for_word();
    std::process::exit(0);
}

/// A server, and the longest block that its first HBM has room for.
fn small() -> (Served, u64) {
    let served = Served::with("trn1.2xlarge", |mut options| {
        options.faults.push(neuron_serve::faults::Wanted::HbmBytes(HBM));
        options
    });
    let size = served.machine().driver(0).unwrap().pools().hbm(0).unwrap().main.1;
    assert!(size > HBM / 2, "{size}");
    (served, size)
}

#[test]
fn who_comes_after_a_process_that_took_everything_finds_it_free() {
    let (served, size) = small();
    let own = served.device(0);
    let hog = || {
        let hog = Client::start("hog", &served, &[(SIZE, size)]);
        hog.wait_until("ready");
        hog
    };
    // The next one has been there all the time, or comes now.
    let mut next = hog();
    for round in 0..ROUNDS {
        let mut hog = if round % 2 == 0 { hog() } else { std::mem::replace(&mut next, hog()) };
        hog.tell();
        hog.wait_until("full");
        hog.tell();
        hog.end();
        drop(most(&own, size));
    }
}

#[test]
fn what_a_process_closes_is_free_for_another_that_hears_of_it() {
    let (served, size) = small();
    for round in 0..ROUNDS {
        let mut other = Client::start("hog", &served, &[(SIZE, size)]);
        other.wait_until("ready");
        let mut own = Raw::open(served.address(), 0);
        own.allocate(size, false).unwrap();
        own.close();
        other.tell();
        other.wait_until("full");
        other.kill();
        assert_eq!(served.left().len() as u64, 2 * (round + 1));
    }
}
