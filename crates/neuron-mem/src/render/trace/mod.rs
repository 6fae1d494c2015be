//! A traced copy, as JSON; as text for people in the module `text`.

mod text;

use serde::{Serialize, Serializer};

use super::rings::{Flavour, Ring};

/// The result of `trace-copy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// The backend that was asked: `software` or `kernel`.
    pub backend: String,
    /// Instance type; of the kernel's devices what the driver calls them, `None` (JSON `null`) if it does not
    /// show it.
    pub instance: Option<String>,
    /// Device index.
    pub device: u32,
    /// From where to where.
    pub direction: Direction,
    /// Bytes copied.
    pub bytes: u64,
    /// Source.
    pub from: End,
    /// Destination.
    pub to: End,
    /// The ring that took the copy.
    pub route: Route,
    /// The ring before the copy.
    pub before: Moment,
    /// The ring after it.
    pub after: Moment,
    /// What was staged, batch by batch.
    pub batches: Vec<Batch>,
    /// The doorbells of the copy; `null` where the backend does not show them.
    pub doorbells: Option<Doorbells>,
    /// Whether the destination, read back, is what the source was filled with.
    pub equal: bool,
}

/// From where to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Host to device.
    H2d,
    /// Device to host.
    D2h,
    /// Device to device.
    D2d,
}

/// One end of the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct End {
    /// What is there.
    pub place: Place,
    /// Bus address.
    pub address: u64,
    /// Core that the memory belongs to; `null` for host memory.
    pub core: Option<u32>,
}

/// What a bus address leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Place {
    /// Host memory.
    Host {
        /// Physical address: the bus address without the host tag.
        physical: u64,
    },
    /// Device memory.
    Hbm {
        /// Channel.
        hbm: u32,
        /// Bytes from its start.
        offset: u64,
    },
    /// The word that a marker copies.
    MarkerSource {
        /// Of this context.
        context: Context,
    },
    /// The word that the driver polls.
    MarkerDestination {
        /// Of this context.
        context: Context,
    },
    /// None of these.
    Other,
}

/// A copy context of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Context {
    /// Of copies that are done when the call returns.
    Sync,
    /// First of the asynchronous pair.
    Async1,
    /// Second of the asynchronous pair.
    Async2,
}

/// The ring that took the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Core whose default H2T ring it is.
    pub core: u32,
    /// Its engine.
    pub engine: u32,
    /// Its queue on that engine.
    pub queue: u32,
}

/// The ring at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// State of the engine's TX half, by its number.
    pub tx_state: u32,
    /// State of its RX half.
    pub rx_state: u32,
    /// What is on the queue; `null` where the backend does not show it.
    pub flavour: Option<Flavour>,
    /// TX ring.
    pub tx: Ring,
    /// RX ring.
    pub rx: Ring,
    /// The synchronous context's marker; `null` where the backend does not show it.
    pub marker: Option<Marker>,
}

/// A marker's two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Marker {
    /// Bus address of the first.
    pub address: u64,
    /// The word that is copied.
    pub source: u32,
    /// The word behind it, that the driver polls.
    pub destination: u32,
}

/// Descriptors that were staged together, under one marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Batch {
    /// Data descriptor pairs.
    pub count: u32,
    /// Pairs left out between the first and the last.
    pub omitted: u32,
    /// Whether each one left out is as the pair before it, its bytes further on.
    pub omitted_alike: bool,
    /// Data pairs, in ring order.
    pub pairs: Vec<Pair>,
    /// The marker behind them.
    pub marker: Option<Pair>,
}

/// A TX and an RX descriptor: one copy of up to 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Slot in the TX ring.
    pub slot: u32,
    /// Slot in the RX ring.
    pub rx_slot: u32,
    /// The TX descriptor.
    pub tx: Tx,
    /// The RX descriptor.
    pub rx: Rx,
}

/// A TX descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "one per hardware bit")]
pub struct Tx {
    /// Word 0, word 1 and the address, as hexadecimal text.
    #[serde(serialize_with = "hex_words")]
    pub words: (u32, u32, u64),
    /// Bytes: 1 to 65536.
    pub bytes: u32,
    /// Phase.
    pub ring_id: u8,
    /// First of a packet.
    pub first: bool,
    /// Last of a packet.
    pub last: bool,
    /// Carries metadata.
    pub meta: bool,
    /// Chained to the next.
    pub concat: bool,
    /// Raises an interrupt.
    pub interrupt: bool,
    /// Data memory barrier.
    pub data_barrier: bool,
    /// Write barrier.
    pub write_barrier: bool,
    /// Source bus address.
    pub address: u64,
    /// What is there.
    pub place: Place,
}

/// An RX descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rx {
    /// Word 0, word 1 and the address, as hexadecimal text.
    #[serde(serialize_with = "hex_words")]
    pub words: (u32, u32, u64),
    /// Bytes: 1 to 65536.
    pub bytes: u32,
    /// Phase.
    pub ring_id: u8,
    /// Raises an interrupt.
    pub interrupt: bool,
    /// Strong order write.
    pub strong_order: bool,
    /// Destination bus address.
    pub address: u64,
    /// What is there.
    pub place: Place,
}

fn hex((word0, word1, address): (u32, u32, u64)) -> [String; 3] {
    [format!("{word0:08x}"), format!("{word1:08x}"), format!("{address:016x}")]
}

fn hex_words<S: Serializer>(words: &(u32, u32, u64), serializer: S) -> Result<S::Ok, S::Error> {
    hex(*words).serialize(serializer)
}

/// The doorbells of the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doorbells {
    /// Whether the device still had the first of them.
    pub complete: bool,
    /// In the order the device heard them, those of other queues too.
    pub list: Vec<Doorbell>,
}

/// One doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Doorbell {
    /// Its number on the device, from 0.
    pub number: u64,
    /// Engine.
    pub engine: u32,
    /// Queue.
    pub queue: u32,
    /// Which ring.
    pub half: Half,
    /// Descriptors announced.
    pub count: u32,
    /// What came of it.
    pub outcome: Outcome,
}

/// A half of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Half {
    /// The ring of sources.
    Tx,
    /// The ring of destinations.
    Rx,
}

/// What came of a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The tail moved.
    Announced,
    /// The tail moved and the engine did not notice.
    Unnoticed,
    /// The ring was not programmed.
    Refused,
}
