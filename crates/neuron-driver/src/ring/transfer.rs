//! What a copy moves, cut into descriptor-sized pieces and batches. Plain arithmetic:
//! no ring and no device here.

use neuron_udma::{Copy, MAX_DESCRIPTOR_BYTES};

use super::H2T_DESCRIPTORS;
use crate::arch;

/// Index of the last data descriptor of a full batch; it is tested before the
/// descriptor is counted (`spec/dma-op.md` 1).
pub const SYNC_THRESHOLD: u32 = H2T_DESCRIPTORS / 2 - neuron_udma::GUARD_GAP - 1;
/// Data descriptors of a full batch.
pub const BATCH_DESCRIPTORS: u32 = SYNC_THRESHOLD + 1;
/// Bytes of a full batch: an asynchronous copy is at most this long.
pub const BATCH_BYTES: u64 = BATCH_DESCRIPTORS as u64 * MAX_DESCRIPTOR_BYTES as u64;

/// A copy between two bus addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Source bus address.
    pub source: u64,
    /// Destination bus address.
    pub destination: u64,
    /// Bytes still to be copied.
    pub bytes: u64,
    /// Whether the source moves on with each piece. A replicating fill reads the same
    /// piece again and again.
    pub source_moves: bool,
}

/// A batch as it was staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Bytes it moves.
    pub bytes: u64,
    /// Data descriptors, without the marker.
    pub descriptors: u32,
}

impl Transfer {
    /// A plain copy.
    pub const fn new(source: u64, destination: u64, bytes: u64) -> Self {
        Self { source, destination, bytes, source_moves: true }
    }

    /// The next batch's size.
    pub const fn batch(&self) -> Batch {
        let whole = self.bytes.div_ceil(MAX_DESCRIPTOR_BYTES as u64);
        if whole <= BATCH_DESCRIPTORS as u64 {
            Batch { bytes: self.bytes, descriptors: whole as u32 }
        } else {
            Batch { bytes: BATCH_BYTES, descriptors: BATCH_DESCRIPTORS }
        }
    }

    /// The pieces of `batch`: 64 KiB each but the transfer's last, the batch's last one
    /// ordered before the marker.
    pub fn pieces(self, batch: Batch) -> impl Iterator<Item = Copy> {
        let piece = u64::from(MAX_DESCRIPTOR_BYTES);
        (0..batch.descriptors).map(move |index| {
            let offset = u64::from(index) * piece;
            Copy {
                source: if self.source_moves { self.source + offset } else { self.source },
                destination: self.destination + offset,
                bytes: (batch.bytes - offset).min(piece) as u32,
                barrier: match index + 1 == batch.descriptors {
                    true => arch::BATCH_LAST,
                    false => arch::BATCH_OTHER,
                },
                interrupt: false,
            }
        })
    }

    /// What is left after `batch`.
    #[must_use]
    pub const fn after(self, batch: Batch) -> Self {
        Self {
            source: if self.source_moves { self.source + batch.bytes } else { self.source },
            destination: self.destination + batch.bytes,
            bytes: self.bytes - batch.bytes,
            source_moves: self.source_moves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_batch_is_2032_descriptors() {
        let transfer = Transfer::new(0, 0, 133_169_152 + 1);
        assert_eq!(transfer.batch(), Batch { bytes: 133_169_152, descriptors: 2032 });
        assert_eq!(transfer.after(transfer.batch()).batch(), Batch { bytes: 1, descriptors: 1 });
        assert_eq!(Transfer::new(0, 0, 133_169_152).batch(), Batch { bytes: 133_169_152, descriptors: 2032 });
    }

    proptest! {
        #[test]
        fn pieces_cover_the_transfer_exactly_once(bytes in 1u64..400_000_000, moves: bool) {
            let mut left = Transfer { source: 1 << 44, destination: 1 << 33, bytes, source_moves: moves };
            let mut done = 0;
            while left.bytes > 0 {
                let batch = left.batch();
                let pieces: Vec<_> = left.pieces(batch).collect();
                prop_assert_eq!(pieces.len() as u32, batch.descriptors);
                for (index, piece) in pieces.iter().enumerate() {
                    prop_assert_eq!(piece.destination, (1 << 33) + done);
                    prop_assert_eq!(piece.source, if moves { (1 << 44) + done } else { 1 << 44 });
                    prop_assert_eq!(piece.barrier == arch::BATCH_LAST, index + 1 == pieces.len());
                    done += u64::from(piece.bytes);
                }
                left = left.after(batch);
            }
            prop_assert_eq!(done, bytes);
        }
    }
}
