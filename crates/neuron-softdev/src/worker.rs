//! Threads that execute queues with work. A queue waits once at most and is executed by one worker at a time:
//! [`crate::engine`] sees to both.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::engine::Engines;

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
