//! Queues as the engines' side sees them: what was written to a queue's registers since
//! its reset says where its ring is, how far its tail is and which phase comes next. So
//! the driver's own cursors are compared with something that is not derived from them.

use std::collections::{BTreeMap, HashMap};

use neuron_driver::arch::Arch;
use neuron_udma::descriptor::Descriptor;
use neuron_udma::regs::{Direction, queue};

use super::Access;

/// Registers of one queue's one direction, bytes.
const BLOCK: u64 = 0x1000;
const QUEUES: u64 = neuron_udma::QUEUES as u64;

/// One direction of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    base: u64,
    length: u32,
    tail: u32,
    /// Laps since the reset; the ring id is one more, modulo 4.
    laps: u32,
    /// Tail and laps before the last doorbell, and its count.
    rung: Rung,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rung {
    start: u32,
    laps: u32,
    count: u32,
}

/// A pair of descriptors as it was in the rings when the doorbells were rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index in the TX ring.
    pub index: u32,
    /// TX descriptor.
    pub tx: Descriptor,
    /// RX descriptor.
    pub rx: Descriptor,
}

impl Pair {
    /// Ring ids of (TX, RX).
    pub const fn phases(&self) -> (u8, u8) {
        (self.tx[3] & 3, self.rx[3] & 3)
    }
}

/// What one ring of both doorbells set going.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Engine.
    pub engine: u32,
    /// Queue.
    pub qid: u32,
    /// Base addresses of (TX, RX), as programmed.
    pub bases: (u64, u64),
    /// Tails of (TX, RX) before.
    pub starts: (u32, u32),
    /// Doorbell values of (TX, RX).
    pub counts: (u32, u32),
    /// Accesses since the batch before.
    pub accesses: Vec<Access>,
    /// The descriptors, if the rings are in host memory.
    pub pairs: Vec<Pair>,
    /// Whether each carries the phase of its lap.
    pub phases_right: bool,
}

/// Descriptors in memory, by bus address.
pub trait Descriptors {
    /// The 16 bytes at `address`; `None` if that is no host memory.
    fn descriptor(&self, address: u64) -> Option<Descriptor>;
}

/// All queues of a device.
#[derive(Debug)]
pub struct Queues {
    engines: BTreeMap<u64, u32>,
    halves: HashMap<(u32, u32), [Half; 2]>,
    accesses: Vec<Access>,
    batches: Vec<Batch>,
}

impl Queues {
    /// Queues of a generation's engines, none programmed.
    pub fn new(arch: &Arch) -> Self {
        let engines =
            (0..arch.engines()).filter_map(|engine| Some((arch.engine_base(engine)?, engine))).collect();
        Self { engines, halves: HashMap::new(), accesses: Vec::new(), batches: Vec::new() }
    }

    /// Takes the batches since the last call; accesses before now belong to none.
    pub fn take(&mut self) -> Vec<Batch> {
        self.accesses.clear();
        std::mem::take(&mut self.batches)
    }

    /// Follows a read.
    pub fn read(&mut self, access: Access) {
        self.accesses.push(access);
    }

    /// Follows a write that is about to happen.
    pub fn write(&mut self, access: Access, memory: &impl Descriptors) {
        self.accesses.push(access);
        let Some((engine, qid, direction, register)) = self.locate(access.offset) else { return };
        let halves = self.halves.entry((engine, qid)).or_default();
        let half = match direction {
            Direction::Tx => &mut halves[0],
            Direction::Rx => &mut halves[1],
        };
        half.write(direction, register, access.value);
        if direction == Direction::Tx && register == queue::DRTP_INC {
            let [tx, rx] = *halves;
            let accesses = std::mem::take(&mut self.accesses);
            self.batches.push(batch(engine, qid, &tx, &rx, accesses, memory));
        }
    }

    /// Engine, queue, direction and register in the queue's block of a BAR0 offset.
    fn locate(&self, offset: u64) -> Option<(u32, u32, Direction, u64)> {
        let (base, engine) = self.engines.range(..=offset).next_back()?;
        [Direction::Tx, Direction::Rx].into_iter().find_map(|direction| {
            let within = (offset - base).checked_sub(direction.queue_block(0))?;
            (within < QUEUES * BLOCK).then_some((*engine, (within / BLOCK) as u32, direction, within % BLOCK))
        })
    }
}

impl Half {
    fn write(&mut self, direction: Direction, register: u64, value: u32) {
        match register {
            queue::DRBP_LOW => self.base = self.base & !0xffff_ffff | u64::from(value),
            queue::DRBP_HIGH => self.base = self.base & 0xffff_ffff | u64::from(value) << 32,
            queue::DRL => self.length = value,
            queue::DRTP_INC => self.ring(value),
            _ if register == direction.q_sw_ctrl() && value & queue::RESET != 0 => {
                (self.tail, self.laps, self.rung) = (0, 0, Rung::default());
            }
            _ => {}
        }
    }

    fn ring(&mut self, count: u32) {
        self.rung = Rung { start: self.tail, laps: self.laps, count };
        let tail = u64::from(self.tail) + u64::from(count);
        if let (Some(laps), Some(tail)) =
            (tail.checked_div(self.length.into()), tail.checked_rem(self.length.into()))
        {
            self.laps = self.laps.wrapping_add(laps as u32);
            self.tail = tail as u32;
        }
    }

    /// (index, ring id) of the `n`-th descriptor of the last doorbell.
    fn slot(&self, n: u32) -> Option<(u32, u8)> {
        let place = self.rung.start.checked_add(n)?;
        let laps = self.rung.laps.wrapping_add(place.checked_div(self.length)?);
        Some((place.checked_rem(self.length)?, (laps.wrapping_add(1) & 3) as u8))
    }

    fn descriptor(&self, index: u32, memory: &impl Descriptors) -> Option<Descriptor> {
        memory.descriptor(self.base.checked_add(u64::from(index) * 16)?)
    }
}

fn batch(
    engine: u32,
    qid: u32,
    tx: &Half,
    rx: &Half,
    accesses: Vec<Access>,
    memory: &impl Descriptors,
) -> Batch {
    let mut phases_right = true;
    let pair = |n| {
        let ((tx_index, tx_id), (rx_index, rx_id)) = (tx.slot(n)?, rx.slot(n)?);
        let pair = Pair {
            index: tx_index,
            tx: tx.descriptor(tx_index, memory)?,
            rx: rx.descriptor(rx_index, memory)?,
        };
        phases_right &= pair.phases() == (tx_id, rx_id);
        Some(pair)
    };
    let pairs = (0..tx.rung.count.min(rx.rung.count)).map_while(pair).collect();
    Batch {
        engine,
        qid,
        bases: (tx.base, rx.base),
        starts: (tx.rung.start, rx.rung.start),
        counts: (tx.rung.count, rx.rung.count),
        accesses,
        pairs,
        phases_right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::arch::Generation;

    /// Each descriptor carries its address, and the phase of the first lap.
    struct Memory;

    impl Descriptors for Memory {
        fn descriptor(&self, address: u64) -> Option<Descriptor> {
            let mut bytes = [0; 16];
            bytes[3] = 1;
            bytes[8..].copy_from_slice(&address.to_le_bytes());
            Some(bytes)
        }
    }

    fn programmed() -> (Queues, u64, u64) {
        let arch = Arch::of(Generation::V2);
        let mut queues = Queues::new(arch);
        let base = arch.engine_base(33).unwrap();
        let (tx, rx) = (base + Direction::Tx.queue_block(3), base + Direction::Rx.queue_block(3));
        for (block, direction, ring) in [(tx, Direction::Tx, 0x1000), (rx, Direction::Rx, 0x2000)] {
            for (register, value) in [
                (direction.q_sw_ctrl(), queue::RESET),
                (queue::DRBP_LOW, ring),
                (queue::DRBP_HIGH, 1),
                (queue::DRL, 32),
            ] {
                queues.write(Access::write(block + register, value), &Memory);
            }
        }
        assert!(queues.take().is_empty());
        (queues, tx, rx)
    }

    #[test]
    fn both_doorbells_make_a_batch_with_its_descriptors() {
        let (mut queues, tx, rx) = programmed();
        let doorbells = [Access::write(rx + queue::DRTP_INC, 2), Access::write(tx + queue::DRTP_INC, 2)];
        for access in doorbells {
            queues.write(access, &Memory);
        }
        let batches = queues.take();
        let [batch] = batches.as_slice() else { panic!("{batches:?}") };
        assert_eq!((batch.engine, batch.qid, batch.counts, batch.starts), (33, 3, (2, 2), (0, 0)));
        assert_eq!(batch.bases, (0x1_0000_1000, 0x1_0000_2000));
        assert_eq!(batch.accesses, doorbells);
        assert_eq!(batch.pairs[1].tx[8..], 0x1_0000_1010_u64.to_le_bytes());
        assert!(batch.phases_right);
    }

    #[test]
    fn a_stale_phase_behind_the_wrap_is_noticed() {
        let (mut queues, tx, rx) = programmed();
        for count in [30, 4] {
            queues.write(Access::write(rx + queue::DRTP_INC, count), &Memory);
            queues.write(Access::write(tx + queue::DRTP_INC, count), &Memory);
        }
        let batches = queues.take();
        assert_eq!((batches[1].starts, batches[1].pairs[2].index), ((30, 30), 0));
        assert!(batches[0].phases_right && !batches[1].phases_right);
    }
}
