//! Several claims of one engine's queues at once: none is given twice, and all that was granted
//! comes back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_driver::introspect::FlavourView;
use neuron_driver::requests::Wanted;
use shuttle::thread;

use crate::explore_evenly;
use crate::rig::{Process, Rig};

/// Who was given which queue. No scheduling point is under its lock.
type Given = Arc<Mutex<BTreeMap<u32, i32>>>;

/// Claims all queues of the engine but so many.
fn leave_free(rig: &Rig, queues: u32) {
    let default = rig.device.geometry().cores_per_h2t_engine;
    for _ in default..16 - queues {
        rig.device.request_queue(0, Wanted::Service, 1).unwrap();
    }
}

fn claim(process: &Process, wanted: Wanted, given: &Given) -> Result<u32, Errno> {
    let queue = process.device().request_queue(0, wanted, process.pid)?;
    let before = given.lock().unwrap().insert(queue, process.pid);
    assert_eq!(before, None, "queue {queue} was given to process {} too", process.pid);
    Ok(queue)
}

fn release(process: &Process, queue: u32, given: &Given) {
    let mine = given.lock().unwrap().remove(&queue);
    assert_eq!(mine, Some(process.pid));
    process.device().release_queue(0, queue).unwrap();
}

/// What each process does with the queues that it claims.
fn model(free: u32, wanted: &'static [&'static [Wanted]], held: bool) {
    let rig = Rig::new(Generation::V3, 0b11);
    leave_free(&rig, free);
    let given = Given::default();
    let enough = wanted.iter().map(|wanted| wanted.len()).sum::<usize>() <= free as usize;
    let threads: Vec<_> = wanted
        .iter()
        .zip(100..)
        .map(|(wanted, pid)| {
            let (process, given) = (Process::open(&rig, pid), Arc::clone(&given));
            thread::spawn(move || {
                let mut mine = Vec::new();
                for wanted in *wanted {
                    match claim(&process, *wanted, &given) {
                        Ok(queue) => mine.push(queue),
                        Err(error) => {
                            assert!(error == Errno::EPERM && !enough, "{error}: there was a free queue")
                        }
                    }
                    if !held && let Some(queue) = mine.pop() {
                        release(&process, queue, &given);
                    }
                }
                if held {
                    // The exit releases them: from now on others may get them.
                    given.lock().unwrap().retain(|_, pid| *pid != process.pid);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    rig.all_is_back();
    let engine = rig.device.arch().h2t_engine(0);
    let views = rig.device.introspect();
    let unused = views.iter().filter(|view| view.engine == engine && view.flavour == FlavourView::Unused);
    assert_eq!(unused.count(), free as usize);
    rig.end();
}

const H2T: Wanted = Wanted::H2t;
const SERVICE: Wanted = Wanted::Service;

#[test]
fn as_many_claims_as_queues_are_all_granted_and_end_with_their_process() {
    explore_evenly(200, || model(4, &[&[H2T, SERVICE], &[H2T], &[SERVICE]], true));
}

#[test]
fn the_last_queues_go_from_hand_to_hand() {
    explore_evenly(200, || model(1, &[&[H2T, H2T], &[H2T, SERVICE], &[SERVICE, H2T]], false));
}
