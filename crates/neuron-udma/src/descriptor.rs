//! The 16-byte descriptor, built and taken apart (`spec/udma.md` 6).
//!
//! | bytes | TX | RX |
//! |---|---|---|
//! | 0..4 | word 0: length 15:0, META 23, ring id 25:24, FIRST 26, LAST 27, INT 28, DMB 30, CONCAT 31 | length 15:0, ring id 25:24, INT 28, SOW 29 |
//! | 4..8 | meta control, default `0x0108_0003`; write barrier is bit 26 | 0 |
//! | 8..16 | source bus address | destination bus address |

use crate::error::{Reason, UdmaError};
use crate::{DESCRIPTOR_SIZE, MAX_DESCRIPTOR_BYTES};

/// One descriptor in memory order.
pub type Descriptor = [u8; DESCRIPTOR_SIZE];

const RING_ID_SHIFT: u32 = 24;
const META: u32 = 1 << 23;
const FIRST: u32 = 1 << 26;
const LAST: u32 = 1 << 27;
const INTERRUPT: u32 = 1 << 28;
const SOW: u32 = 1 << 29;
const DMB: u32 = 1 << 30;
const CONCAT: u32 = 1 << 31;

const META_DEFAULT: u32 = 0x0108_0003;
const META_WRITE_BARRIER: u32 = 1 << 26;

/// How a descriptor is ordered against the ones after it (`spec/udma.md` 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Barrier {
    /// Unordered.
    None = 0,
    /// Data memory barrier: TX word 0, bit 30.
    Dmb = 1,
    /// Write barrier: TX meta, bit 26.
    Write = 2,
    /// Strong order write: RX word 0, bit 29. V3 and later.
    StrongOrderWrite = 3,
}

impl Barrier {
    /// The barrier of this number, as callers of the C layer name it.
    ///
    /// # Errors
    /// EINVAL for an unknown number, before anything is taken or written.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::None),
            1 => Some(Self::Dmb),
            2 => Some(Self::Write),
            3 => Some(Self::StrongOrderWrite),
            _ => None,
        }
    }
}

/// One copy of at most 64 KiB: what a descriptor pair says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Source bus address.
    pub source: u64,
    /// Destination bus address.
    pub destination: u64,
    /// 0..=65536. **0 moves 65536 bytes**, as the hardware reads it: layers above
    /// must not ask for it (`spec/udma.md` 8).
    pub bytes: u32,
    /// Ordering of this pair.
    pub barrier: Barrier,
    /// Raise an interrupt when the destination was written. The copy paths never do.
    pub interrupt: bool,
}

impl Copy {
    /// Length as the descriptor carries it.
    const fn encoded_length(&self) -> Result<u32, UdmaError> {
        if self.bytes > MAX_DESCRIPTOR_BYTES {
            return Err(UdmaError::Invalid(Reason::DescriptorBytes));
        }
        Ok(self.bytes & 0xffff)
    }

    /// The TX descriptor of a slot with this ring id.
    ///
    /// # Errors
    /// EINVAL above 65536 bytes.
    #[inline]
    pub const fn tx(&self, ring_id: u8) -> Result<Descriptor, UdmaError> {
        let Ok(length) = self.encoded_length() else {
            return Err(UdmaError::Invalid(Reason::DescriptorBytes));
        };
        let mut word0 = length | FIRST | LAST | phase(ring_id);
        let mut meta = META_DEFAULT;
        match self.barrier {
            Barrier::Dmb => word0 |= DMB,
            Barrier::Write => meta |= META_WRITE_BARRIER,
            Barrier::None | Barrier::StrongOrderWrite => {}
        }
        Ok(assemble(word0, meta, self.source))
    }

    /// The RX descriptor of a slot with this ring id.
    ///
    /// # Errors
    /// EINVAL above 65536 bytes.
    #[inline]
    pub const fn rx(&self, ring_id: u8) -> Result<Descriptor, UdmaError> {
        let Ok(length) = self.encoded_length() else {
            return Err(UdmaError::Invalid(Reason::DescriptorBytes));
        };
        let mut word0 = length | phase(ring_id);
        if self.interrupt {
            word0 |= INTERRUPT;
        }
        if matches!(self.barrier, Barrier::StrongOrderWrite) {
            word0 |= SOW;
        }
        Ok(assemble(word0, 0, self.destination))
    }
}

const fn phase(ring_id: u8) -> u32 {
    ((ring_id & 3) as u32) << RING_ID_SHIFT
}

const fn assemble(word0: u32, word1: u32, address: u64) -> Descriptor {
    (word0 as u128 | (word1 as u128) << 32 | (address as u128) << 64).to_le_bytes()
}

/// Word 0, word 1 and the address of a descriptor of either direction.
pub const fn words(descriptor: &Descriptor) -> (u32, u32, u64) {
    let all = u128::from_le_bytes(*descriptor);
    (all as u32, (all >> 32) as u32, (all >> 64) as u64)
}

const fn length(word0: u32) -> u32 {
    match word0 & 0xffff {
        0 => MAX_DESCRIPTOR_BYTES,
        length => length,
    }
}

/// A TX descriptor taken apart, for people and for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one per hardware bit")]
pub struct DecodedTx {
    /// 1..=65536.
    pub bytes: u32,
    /// Phase, 0..=3.
    pub ring_id: u8,
    /// First descriptor of a packet.
    pub first: bool,
    /// Last descriptor of a packet.
    pub last: bool,
    /// Carries metadata instead of a plain copy.
    pub meta: bool,
    /// Chained to the next descriptor.
    pub concat: bool,
    /// Interrupt enabled; nothing here sets it.
    pub interrupt: bool,
    /// Data memory barrier.
    pub dmb: bool,
    /// Write barrier.
    pub write_barrier: bool,
    /// Source bus address.
    pub source: u64,
}

impl From<&Descriptor> for DecodedTx {
    fn from(descriptor: &Descriptor) -> Self {
        let (word0, meta, source) = words(descriptor);
        Self {
            bytes: length(word0),
            ring_id: (word0 >> RING_ID_SHIFT) as u8 & 3,
            first: word0 & FIRST != 0,
            last: word0 & LAST != 0,
            meta: word0 & META != 0,
            concat: word0 & CONCAT != 0,
            interrupt: word0 & INTERRUPT != 0,
            dmb: word0 & DMB != 0,
            write_barrier: meta & META_WRITE_BARRIER != 0,
            source,
        }
    }
}

/// An RX descriptor taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedRx {
    /// 1..=65536.
    pub bytes: u32,
    /// Phase, 0..=3.
    pub ring_id: u8,
    /// Interrupt on completion.
    pub interrupt: bool,
    /// Strong order write.
    pub strong_order_write: bool,
    /// Destination bus address.
    pub destination: u64,
}

impl From<&Descriptor> for DecodedRx {
    fn from(descriptor: &Descriptor) -> Self {
        let (word0, _, destination) = words(descriptor);
        Self {
            bytes: length(word0),
            ring_id: (word0 >> RING_ID_SHIFT) as u8 & 3,
            interrupt: word0 & INTERRUPT != 0,
            strong_order_write: word0 & SOW != 0,
            destination,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reference pair and marker of `spec/udma.md` 6.3.
    #[test]
    fn reference_words_come_out() {
        let copy = Copy { source: 1, destination: 2, bytes: 1, barrier: Barrier::Write, interrupt: false };
        assert_eq!(words(&copy.tx(1).unwrap()), (0x0d00_0001, 0x0508_0003, 1));
        assert_eq!(words(&copy.rx(1).unwrap()), (0x0100_0001, 0, 2));
        let marker = Copy { bytes: 4, barrier: Barrier::None, ..copy };
        assert_eq!(words(&marker.tx(1).unwrap()), (0x0d00_0004, 0x0108_0003, 1));
        assert_eq!(words(&marker.rx(1).unwrap()), (0x0100_0004, 0, 2));
    }

    #[test]
    fn more_than_64_kib_is_refused() {
        let copy = Copy { source: 0, destination: 0, bytes: 65537, barrier: Barrier::None, interrupt: false };
        assert_eq!(copy.tx(1), Err(UdmaError::Invalid(Reason::DescriptorBytes)));
        assert_eq!(copy.rx(1), Err(UdmaError::Invalid(Reason::DescriptorBytes)));
    }

    proptest! {
        #[test]
        fn built_descriptors_decode_to_what_was_asked(
            source: u64, destination: u64, bytes in 1u32..=65536, raw in 0u32..4, interrupt: bool, ring_id in 0u8..4,
        ) {
            let barrier = Barrier::from_raw(raw).unwrap();
            let copy = Copy { source, destination, bytes, barrier, interrupt };
            let tx = DecodedTx::from(&copy.tx(ring_id).unwrap());
            let rx = DecodedRx::from(&copy.rx(ring_id).unwrap());
            prop_assert_eq!((tx.bytes, tx.source, tx.ring_id), (bytes, source, ring_id));
            prop_assert_eq!((rx.bytes, rx.destination, rx.ring_id), (bytes, destination, ring_id));
            prop_assert!(tx.first && tx.last && !tx.meta && !tx.concat && !tx.interrupt);
            prop_assert_eq!((tx.dmb, tx.write_barrier, rx.strong_order_write), (raw == 1, raw == 2, raw == 3));
            prop_assert_eq!(rx.interrupt, interrupt);
        }
    }
}
