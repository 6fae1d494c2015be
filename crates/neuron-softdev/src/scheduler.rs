//! A first-in first-out list of queues with work, for workers that take from it.
//!
//! Waking a sleeping thread costs tens of microseconds, as much as copying half a megabyte, so one idle
//! worker spins for a while before it sleeps, and whoever adds work wakes nobody that is awake anyway.

use std::collections::VecDeque;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::sync::{lock, wait};

/// How long an idle worker spins before it sleeps: about the price of being woken.
const SPIN: Duration = Duration::from_micros(80);
/// Looks at the list between two looks at the clock.
const LOOKS: u32 = 64;

/// Queues that wait for a worker.
#[derive(Debug)]
pub(crate) struct Scheduler<T> {
    list: Mutex<List<T>>,
    wake: Condvar,
    /// Length of the list, for those who only look.
    waiting: AtomicUsize,
    /// A worker spins.
    spinning: AtomicBool,
    stopping: AtomicBool,
}

#[derive(Debug)]
struct List<T> {
    queues: VecDeque<T>,
    sleeping: usize,
}

impl<T> Default for Scheduler<T> {
    fn default() -> Self {
        Self {
            list: Mutex::new(List { queues: VecDeque::new(), sleeping: 0 }),
            wake: Condvar::new(),
            waiting: AtomicUsize::new(0),
            spinning: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }
}

impl<T> Scheduler<T> {
    /// Adds a queue at the end.
    pub(crate) fn push(&self, id: T) {
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
    pub(crate) fn next(&self) -> Option<T> {
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

    /// Ends all waiting.
    pub(crate) fn stop(&self) {
        let list = lock(&self.list);
        self.stopping.store(true, Ordering::Release);
        drop(list);
        self.wake.notify_all();
    }
}
