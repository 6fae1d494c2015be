//! Threads that execute queues: a first-in first-out list of queues with work, and workers that take from it.
//!
//! A queue is in the list once at most and is executed by one worker at a time ([`crate::engine`] sees to
//! both). Waking a sleeping thread costs tens of microseconds, as much as copying half a megabyte, so one
//! idle worker spins for a while before it sleeps, and whoever adds work wakes nobody that is awake anyway.

use std::collections::VecDeque;
use std::hint;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::engine::{Engines, QueueId};
use crate::sync::{lock, wait};

/// How long an idle worker spins before it sleeps: about the price of being woken.
const SPIN: Duration = Duration::from_micros(80);
/// Looks at the list between two looks at the clock.
const LOOKS: u32 = 64;

/// Queues that wait for a worker.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    list: Mutex<List>,
    wake: Condvar,
    /// Length of the list, for those who only look.
    waiting: AtomicUsize,
    /// A worker spins.
    spinning: AtomicBool,
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct List {
    queues: VecDeque<QueueId>,
    sleeping: usize,
}

impl Scheduler {
    /// Adds a queue at the end.
    pub(crate) fn push(&self, id: QueueId) {
        let mut list = lock(&self.list);
        list.queues.push_back(id);
        self.waiting.store(list.queues.len(), Ordering::Release);
        // A spinner that gives up looks at the list once more before it sleeps, so it will find a single
        // entry either way.
        let served = list.queues.len() == 1 && self.spinning.load(Ordering::Acquire);
        let wake = list.sleeping > 0 && !served;
        drop(list);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Whether any queue waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Takes the first queue, waiting for one. `None` when the device goes.
    fn next(&self) -> Option<QueueId> {
        loop {
            self.spin();
            let mut list = lock(&self.list);
            if self.stopping.load(Ordering::Acquire) {
                return None;
            }
            if let Some(id) = list.queues.pop_front() {
                self.waiting.store(list.queues.len(), Ordering::Release);
                return Some(id);
            }
            list.sleeping += 1;
            list = wait(&self.wake, list);
            list.sleeping -= 1;
        }
    }

    /// Spins until there may be something to take or it is time to sleep. Only one worker at a time does.
    fn spin(&self) {
        if self.has_waiting() || self.spinning.swap(true, Ordering::AcqRel) {
            return;
        }
        let start = Instant::now();
        while start.elapsed() < SPIN {
            if (0..LOOKS).any(|_| {
                hint::spin_loop();
                self.has_waiting() || self.stopping.load(Ordering::Relaxed)
            }) {
                break;
            }
        }
        self.spinning.store(false, Ordering::Release);
    }

    fn stop(&self) {
        let list = lock(&self.list);
        self.stopping.store(true, Ordering::Release);
        drop(list);
        self.wake.notify_all();
    }
}

/// The worker threads of a device. Dropping them stops and joins them; work they had not begun is dropped.
#[derive(Debug)]
pub(crate) struct Workers {
    engines: Arc<Engines>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads on the engines' scheduler.
    pub(crate) fn start(engines: &Arc<Engines>, count: usize) -> io::Result<Self> {
        let mut workers = Self { engines: engines.clone(), threads: Vec::with_capacity(count) };
        for number in 0..count {
            let engines = engines.clone();
            let thread = thread::Builder::new().name(format!("neuron-dma-{number}")).spawn(move || {
                if let Some(scheduler) = &engines.scheduler {
                    while let Some(id) = scheduler.next() {
                        engines.run_queued(id);
                    }
                }
            })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(scheduler) = &self.engines.scheduler {
            scheduler.stop();
        }
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so on stderr; the others still have to be joined.
            let _ = thread.join();
        }
    }
}
