//! Ring tables: what is on the queues of an engine, ours and recorded ones.

use neuron_driver::Device;
use neuron_driver::ring::{H2T_RING_BYTES, Queue};
use serde_json::Value;

use crate::vectors::object::number;
use crate::vectors::{Mismatch, Object};

/// One queue of a table. Queues of which there is nothing to say are in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Queue.
    pub qid: u32,
    /// A request claimed it.
    pub claimed: bool,
    /// It is a ring that the driver copies with.
    pub h2t: bool,
    /// Core of a claimed or H2T ring.
    pub core: Option<u32>,
    /// Process whose ring it is; 0 for the driver and for nobody.
    pub owner: i32,
    /// Address of the TX ring in its registers, 0 for none.
    pub tx: u64,
    /// The same of the RX ring.
    pub rx: u64,
    /// Address of the marker buffer of an H2T ring, 0 for none.
    pub marker: u64,
}

impl Row {
    /// Whether there is nothing to say of the queue.
    pub const fn is_blank(&self) -> bool {
        !self.claimed && !self.h2t && self.owner == 0 && self.tx == 0 && self.rx == 0
    }

    /// Bytes of each ring of an H2T ring; a ring that a process binds shows none.
    pub const fn size(&self) -> u64 {
        if self.h2t { H2T_RING_BYTES } else { 0 }
    }
}

/// The rows of one engine of our driver.
///
/// # Errors
/// If there is no such engine.
pub fn ours(device: &Device, engine: u32) -> Result<Vec<Row>, Mismatch> {
    let engine = device.engines().lock(engine).map_err(|errno| Mismatch::new(errno.to_string()))?;
    Ok((0..).zip(&engine.queues).map(|(qid, queue)| row(qid, queue)).filter(|row| !row.is_blank()).collect())
}

fn row(qid: u32, queue: &Queue) -> Row {
    Row {
        qid,
        claimed: queue.is_claimed(),
        h2t: queue.h2t().is_some(),
        core: queue.core(),
        owner: queue.owner(),
        tx: queue.shown.tx,
        rx: queue.shown.rx,
        marker: queue.h2t().map_or(0, |ring| ring.marker_address()),
    }
}

/// The rows that a step shows in `field`:
/// `[queue, claimed, is H2T, core, owner pid, tx, rx, marker]` each. Which core a ring
/// shows that is neither claimed nor H2T is an accident of what was on it before; it is
/// read as none.
///
/// # Errors
/// If the field holds anything else.
pub fn recorded(step: &Object<'_>, field: &str) -> Result<Vec<Row>, Mismatch> {
    let one = |value: &Value| {
        let [qid, claimed, h2t, core, owner, tx, rx, marker] = value.as_array()?.as_slice() else {
            return None;
        };
        let flag = |value| number(value).filter(|flag| *flag < 2).map(|flag| flag == 1);
        let (claimed, h2t) = (flag(claimed)?, flag(h2t)?);
        let core = core.as_i64()?;
        Some(Row {
            qid: u32::try_from(number(qid)?).ok()?,
            claimed,
            h2t,
            core: u32::try_from(core).ok().filter(|_| claimed || h2t),
            owner: i32::try_from(owner.as_i64()?).ok()?,
            tx: number(tx)?,
            rx: number(rx)?,
            marker: number(marker)?,
        })
    };
    let list = step.list(field)?.iter();
    list.map(|value| one(value).ok_or_else(|| Mismatch::new(format!("no ring: {value}")))).collect()
}

/// Compares the rows of an engine.
///
/// # Errors
/// The first queue that differs.
pub fn equal_rows(what: &str, ours: &[Row], wanted: &[Row]) -> Result<(), Mismatch> {
    if ours == wanted {
        return Ok(());
    }
    let at = ours.iter().zip(wanted).take_while(|(ours, wanted)| ours == wanted).count();
    let show = |rows: &[Row]| rows.get(at).map_or_else(|| "the end".to_owned(), |row| format!("{row:x?}"));
    Err(Mismatch::new(format!("{what}: ours {}, should be {}", show(ours), show(wanted))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_core_counts_only_where_something_claims_or_copies() {
        let value = json!({"rings": [
            [1, 0, 0, -1, 3002, "0x0", "0x0", "0x0"],
            [2, 0, 0, 1, 7, "0x0", "0x0", "0x0"],
            [3, 1, 0, 1, 7, "0x10", "0x20", "0x0"],
        ]});
        let rows = recorded(&Object::new(value.as_object().unwrap()), "rings").unwrap();
        assert_eq!(rows.iter().map(|row| row.core).collect::<Vec<_>>(), [None, None, Some(1)]);
        assert_eq!(
            rows[2],
            Row { qid: 3, claimed: true, core: Some(1), owner: 7, tx: 16, rx: 32, ..Row::default() }
        );
        let other = [rows[0], rows[1], Row { owner: 8, ..rows[2] }];
        let told = equal_rows("engine 5", &other, &rows).unwrap_err().to_string();
        assert!(told.contains("qid: 3") && told.contains("owner: 8"), "{told}");
        assert!(equal_rows("engine 5", &rows[..2], &rows).unwrap_err().to_string().contains("the end"));
    }
}
