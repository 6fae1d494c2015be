//! What programming a queue looks like from the device's side.

use neuron_udma::RingBase;
use neuron_udma::regs::Direction;

use super::Access;

/// The 15 writes that program queue `qid` of an engine at `base` that was initialised
/// (`spec/udma.md` 4). Registers are given by their offsets: nothing here is shared with
/// who makes the writes.
pub fn programming(base: u64, qid: u32, tx: RingBase, rx: RingBase) -> [Access; 15] {
    let block = base + Direction::Tx.queue_block(qid);
    let [tx_low, tx_high] = halves(tx);
    let rx_block = base + Direction::Rx.queue_block(qid);
    let [rx_low, rx_high] = halves(rx);
    [
        // The rate-limit mask exists in TX only.
        Access::write(block + 0x74, 3),
        Access::write(block + 0x20, 0x0300_0000),
        Access::write(block + 0xb0, 0x100),
        Access::write(block + 0x28, tx_low),
        Access::write(block + 0x2c, tx_high),
        Access::write(block + 0x30, tx.size),
        Access::write(block + 0xa0, 0),
        Access::write(block + 0x20, 0x0303_0000),
        Access::write(rx_block + 0x20, 0x0300_0000),
        Access::write(rx_block + 0x64, 0x100),
        Access::write(rx_block + 0x28, rx_low),
        Access::write(rx_block + 0x2c, rx_high),
        Access::write(rx_block + 0x30, rx.size),
        Access::write(rx_block + 0x54, 0),
        Access::write(rx_block + 0x20, 0x0303_0000),
    ]
}

/// Low and high word of a ring's address, 0 for no ring.
fn halves(ring: RingBase) -> [u32; 2] {
    let address = ring.base.unwrap_or(0);
    [address as u32, (address >> 32) as u32]
}
