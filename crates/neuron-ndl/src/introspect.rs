//! A look inside for people: queues as the driver keeps them, and the doorbells the device
//! heard.
//!
//! Ours, and outside the ABI: no ioctl of the shipped driver shows these, so only a backend
//! that runs in this process can ([`DeviceFile::introspect`](crate::DeviceFile::introspect)).
//! What ioctls do show is in [`Device::engine_state`](crate::Device::engine_state),
//! [`Device::queue_state`](crate::Device::queue_state) and
//! [`Device::descriptors`](crate::Device::descriptors), on every backend.

pub use neuron_driver::introspect::{FlavourView, MarkerView, QueueView, RingView};
pub use neuron_driver::ring::Addresses;
pub use neuron_softdev::{Direction, Doorbell, DoorbellOutcome, Doorbells};
pub use neuron_udma::QueueStatus;

/// One look. Reading it changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introspection {
    /// All queues of all initialised engines, engines and queues ascending.
    pub queues: Vec<QueueView>,
    /// The last doorbells, in the order the device heard them. Taken after `queues`.
    pub doorbells: Doorbells,
}

impl Introspection {
    /// The view of one queue; `None` if its engine was never initialised.
    pub fn queue(&self, engine: u32, queue: u32) -> Option<&QueueView> {
        self.queues.iter().find(|view| (view.engine, view.queue) == (engine, queue))
    }
}
