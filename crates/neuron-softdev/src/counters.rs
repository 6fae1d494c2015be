//! What a device counts about itself, for its owner: nothing of this is visible to a driver.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A snapshot of a device's counters since it was made. Bytes in bytes, the rest in events.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters themselves.
        #[derive(Debug, Default)]
        pub(crate) struct LiveCounters {
            $(pub(crate) $name: Counter,)*
        }

        impl LiveCounters {
            pub(crate) fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// TX descriptors retired.
    tx_descriptors,
    /// RX descriptors retired.
    rx_descriptors,
    /// Bytes moved by engines.
    bytes,
    /// Descriptors fetched with the wrong phase that stopped their queue.
    phase_errors,
    /// The same where software had masked the error: the queue went on.
    masked_phase_errors,
    /// Addresses that led nowhere, of rings or of data.
    axi_errors,
    /// Doorbells on a queue without a usable ring.
    doorbell_errors,
    /// Resets carried out, of the device or of cores.
    resets,
    /// Mailbox requests answered.
    mailbox_requests,
    /// Mailbox requests that could not be read or answered: an address that is not host memory.
    mailbox_errors,
    /// Metric posts among the mailbox requests.
    metric_posts,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        if count != 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }
}
