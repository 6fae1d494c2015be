//! One queue, below the driver: descriptors prepared, slots used up, doorbells.

use std::cell::RefCell;
use std::sync::Arc;

use neuron_abi::arch::Generation;
use neuron_abi::errno::Errno;
use neuron_driver::hw::Bar0;
use neuron_udma::descriptor::Descriptor;
use neuron_udma::regs::Direction;
use neuron_udma::{Barrier, Copy, RingBase, RingMemory, Udma, UdmaError};

use crate::kinds::{engine_params, udma_ret};
use crate::machine::{Recorder, Registers, equal_accesses};
use crate::vectors::difference::{
    PREPARE_REFUSED, START_OF_NOTHING, START_REFUSED, STRONG_ORDER_WRITE, UNKNOWN_BARRIER,
};
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// Descriptors of the ring that `prepare` and `start` were recorded on.
const RING: u32 = 64;
/// Queues that have one in `start`; the others have none.
const START_QUEUES: [u32; 2] = [0, 15];
/// RX word 0: strong order write.
const STRONG_ORDER: u8 = 1 << 5;

const EINVAL: i64 = Errno::EINVAL.negated() as i64;

/// Ring memory that nothing reads but the test.
struct Slots(RefCell<Vec<Descriptor>>);

impl Slots {
    fn new(count: u32) -> Self {
        Self(RefCell::new(vec![[0; 16]; count as usize]))
    }

    fn get(&self, index: u32) -> Option<Descriptor> {
        self.0.borrow().get(index as usize).copied()
    }
}

impl RingMemory for Slots {
    fn store(&self, index: u32, descriptor: Descriptor) -> bool {
        self.0.borrow_mut().get_mut(index as usize).map(|slot| *slot = descriptor).is_some()
    }
}

/// One engine that was initialised, and its registers.
struct Engine {
    udma: Udma,
    recorder: Recorder,
}

impl Engine {
    fn new(generation: Generation, engine: u32) -> Result<Self, Mismatch> {
        let recorder = Recorder::new(generation, Arc::new(Registers::new(generation, None)));
        let mut udma = Udma::new();
        let ret = udma_ret(udma.init(&Bar0(&recorder), &engine_params(generation, engine)?));
        equal("engine init", ret, 0)?;
        Ok(Self { udma, recorder })
    }

    /// Programs a queue with rings of `size` descriptors that take descriptors.
    fn program(&mut self, qid: u32, size: u32) -> Result<(), Mismatch> {
        let (tx, rx) = (RingBase::new(0x1_0000, size), RingBase::new(0x200_0000, size));
        let result = self.udma.init_queue(&Bar0(&self.recorder), qid, tx, rx, false, true);
        equal("queue init", udma_ret(result), 0)
    }

    fn prepare(&mut self, qid: u32, tx: &Slots, rx: &Slots, copy: &Copy) -> Result<(), UdmaError> {
        self.udma.pair(qid)?.prepare(tx, rx, copy)
    }

    /// Next slot of (TX, RX), next to be acknowledged, ring id.
    fn cursors(&self, qid: u32) -> Result<[(u32, u32, u8); 2], Mismatch> {
        let one = |direction| {
            let queue = self.udma.queue(direction, qid).map_err(|e| Mismatch::new(e.to_string()))?;
            let cursor = queue.cursor();
            Ok((cursor.next(), cursor.completed(), cursor.ring_id()))
        };
        Ok([one(Direction::Tx)?, one(Direction::Rx)?])
    }
}

const fn copy(bytes: u32) -> Copy {
    Copy { source: 0x1000, destination: 0x2000, bytes, barrier: Barrier::None, interrupt: false }
}

/// Compares one descriptor pair, built at index `idx` of a ring.
///
/// # Errors
/// What differs.
pub fn prepare(generation: Generation, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let (index, qid, size) = (case.word("idx")?, case.word("qid")?, case.word("size")?);
    let mut engine = Engine::new(generation, 0)?;
    let (tx, rx) = (Slots::new(RING), Slots::new(RING));
    if qid < engine.udma.num_queues() {
        engine.program(qid, RING)?;
        for _ in 0..index {
            equal("descriptor before", udma_ret(engine.prepare(qid, &tx, &rx, &copy(64))), 0)?;
        }
    }
    let (number, ret) = (case.word("barrier")?, case.signed("ret")?);
    let barrier = Barrier::from_raw(number);
    let wanted = Copy {
        source: case.number("src")?,
        destination: case.number("dst")?,
        bytes: size,
        barrier: barrier.unwrap_or(Barrier::None),
        interrupt: case.flag("rx_interrupt")?,
    };
    // A number that is no barrier cannot be asked for: it is refused where it is turned
    // into one, before a slot is taken.
    let ours = match barrier {
        Some(_) => udma_ret(engine.prepare(qid, &tx, &rx, &wanted)),
        None => EINVAL,
    };

    let row = match (number, ret) {
        (3, -22) => Some(STRONG_ORDER_WRITE),
        (4.., -22) => Some(UNKNOWN_BARRIER),
        (_, -1) if size > 65536 || qid > 15 => Some(PREPARE_REFUSED),
        _ => None,
    };
    let expected = match row {
        Some(STRONG_ORDER_WRITE) => 0,
        Some(_) => EINVAL,
        None => ret,
    };
    equal("ret", ours, expected)?;
    if qid >= engine.udma.num_queues() {
        return Ok(Outcome::from_row(row));
    }
    let recorded = (case.word("next_desc_tx")?, case.word("next_desc_rx")?);
    let next = if row == Some(UNKNOWN_BARRIER) { (index, index) } else { recorded };
    let [(tx_next, ..), (rx_next, ..)] = engine.cursors(qid)?;
    equal("next_desc (TX, RX)", (tx_next, rx_next), next)?;
    let (mut tx_wanted, mut rx_wanted) = (case.raw("tx")?, case.raw("rx")?);
    if row == Some(STRONG_ORDER_WRITE) {
        equal("recorded descriptors", (&tx_wanted, &rx_wanted), (&vec![0; 16], &vec![0; 16]))?;
        (tx_wanted, rx_wanted) = strong_order_write(&wanted);
    }
    equal("tx", tx.get(index).map(Vec::from), Some(tx_wanted))?;
    equal("rx", rx.get(index).map(Vec::from), Some(rx_wanted))?;
    Ok(Outcome::from_row(row))
}

/// What the table says of barrier 3, on the first lap: a plain pair, with bit 29 of the
/// RX descriptor's first word.
fn strong_order_write(copy: &Copy) -> (Vec<u8>, Vec<u8>) {
    let [low, high, ..] = copy.bytes.to_le_bytes();
    let tx = [&[low, high, 0, 0x0d, 3, 0, 8, 1][..], &copy.source.to_le_bytes()].concat();
    let rx = [&[low, high, 0, 1 | STRONG_ORDER, 0, 0, 0, 0][..], &copy.destination.to_le_bytes()].concat();
    (tx, rx)
}

/// Compares a ring that is filled until refused, acknowledged in part, filled again.
///
/// # Errors
/// What differs.
pub fn fill(generation: Generation, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let (qid, size) = (case.word("qid")?, case.word("ring_desc")?);
    let mut engine = Engine::new(generation, case.word("engine")?)?;
    engine.program(qid, size)?;
    let (tx, rx) = (Slots::new(size), Slots::new(size));
    for (number, round) in case.objects("rounds")?.iter().enumerate() {
        fill_round(&mut engine, qid, (&tx, &rx), round)
            .and_then(|()| round.finish())
            .map_err(|error| error.at(format!("round {number}")))?;
    }
    Ok(Outcome::Compared)
}

fn fill_round(
    engine: &mut Engine,
    qid: u32,
    (tx, rx): (&Slots, &Slots),
    round: &Object<'_>,
) -> Result<(), Mismatch> {
    equal("available", available(engine, qid)?, round.number("available")?)?;
    let mut prepared = 0;
    let refused = loop {
        match udma_ret(engine.prepare(qid, tx, rx, &copy(64))) {
            0 => prepared += 1,
            ret => break ret,
        }
    };
    equal("prepared", prepared, round.number("prepared")?)?;
    equal("then_ret", refused, round.signed("then_ret")?)?;
    let acknowledged = engine.udma.acknowledge(qid, round.word("ack")?);
    equal("acknowledge", udma_ret(acknowledged), 0)?;
    let recorded = (round.word("next_desc")?, round.word("next_cdesc")?, round.word("ring_id")? as u8);
    equal("cursors", engine.cursors(qid)?, [recorded; 2])?;
    equal("available_after", available(engine, qid)?, round.number("available_after")?)
}

fn available(engine: &mut Engine, qid: u32) -> Result<u64, Mismatch> {
    let available = engine.udma.pair(qid).and_then(|pair| pair.available());
    available.map(u64::from).map_err(|error| Mismatch::new(error.to_string()))
}

/// Compares a doorbell.
///
/// # Errors
/// What differs.
pub fn start(generation: Generation, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let mut engine = Engine::new(generation, case.word("engine")?)?;
    for qid in START_QUEUES {
        engine.program(qid, RING)?;
    }
    engine.recorder.take();
    let (tx, rx) = (case.word("tx")?, case.word("rx")?);
    let ours = udma_ret(engine.udma.start(&Bar0(&engine.recorder), case.word("qid")?, tx, rx));
    equal_accesses("mmio", &engine.recorder.take().accesses, &case.accesses("mmio")?)?;
    if case.has("driver_asserts") {
        equal("driver_asserts", case.flag("driver_asserts")?, true)?;
        equal("ret", ours, Errno::EPERM.negated().into())?;
        return Ok(Outcome::Differs(vec![START_OF_NOTHING]));
    }
    let ret = case.signed("ret")?;
    if ret == -1 {
        equal("ret", ours, EINVAL)?;
        return Ok(Outcome::Differs(vec![START_REFUSED]));
    }
    equal("ret", ours, ret)?;
    Ok(Outcome::Compared)
}
