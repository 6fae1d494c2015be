//! Cursors of a queue, ours and recorded ones.

use neuron_driver::Device;
use neuron_udma::regs::Direction;

use crate::vectors::{Mismatch, Object};

/// Cursors of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursors {
    /// Next slot to be taken.
    pub next: u32,
    /// Next slot to be acknowledged.
    pub completed: u32,
    /// Ring id of the lap.
    pub ring_id: u8,
}

impl Cursors {
    /// Those of a ring that was just programmed.
    pub const FRESH: Self = Self { next: 0, completed: 0, ring_id: 1 };
}

/// Our cursors of (TX, RX) of a queue.
///
/// # Errors
/// If the queue does not exist.
pub fn cursors(device: &Device, engine: u32, qid: u32) -> Result<[Cursors; 2], Mismatch> {
    let engine = device.engines().lock(engine).map_err(|errno| Mismatch::new(errno.to_string()))?;
    let one = |direction| {
        let queue = engine.udma.queue(direction, qid).map_err(|error| Mismatch::new(error.to_string()))?;
        let cursor = queue.cursor();
        Ok(Cursors { next: cursor.next(), completed: cursor.completed(), ring_id: cursor.ring_id() })
    };
    Ok([one(Direction::Tx)?, one(Direction::Rx)?])
}

/// Recorded cursors of (TX, RX).
///
/// # Errors
/// If the field does not hold them.
pub fn recorded_cursors(case: &Object<'_>, field: &str) -> Result<[Cursors; 2], Mismatch> {
    let both = case.object(field)?;
    let one = |direction| {
        let cursors = both.object(direction)?;
        let found = Cursors {
            next: cursors.word("next_desc")?,
            completed: cursors.word("next_cdesc")?,
            ring_id: cursors.word("ring_id")? as u8,
        };
        cursors.finish().map(|()| found)
    };
    let found = [one("tx")?, one("rx")?];
    both.finish().map_err(|error| error.at(field))?;
    Ok(found)
}
