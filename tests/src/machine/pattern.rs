//! Bytes that tell where they came from, to fill a source with and to find again at the
//! destination. No two 64 KiB pieces are equal, and none equals itself shifted.

use vm_memory::{Bytes, VolatileSlice};

use crate::vectors::Mismatch;

/// Bytes of a piece, as long as a descriptor can move.
const PIECE: usize = 65536;

/// Bytes for any number of pieces.
pub struct Pattern {
    piece: Vec<u8>,
    /// Whether pieces carry their number.
    numbered: bool,
}

impl Pattern {
    /// Pseudo-random bytes.
    pub fn random(seed: u64) -> Self {
        let mut state = seed;
        // SplitMix64.
        let word = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ mixed >> 31).to_le_bytes()
        };
        Self { piece: std::iter::repeat_with(word).take(PIECE / 8).flatten().collect(), numbered: true }
    }

    /// The same byte throughout.
    pub fn constant(value: u8) -> Self {
        Self { piece: vec![value; PIECE], numbered: false }
    }

    /// Fills memory with the pattern.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn fill(&self, memory: VolatileSlice<'_>) -> Result<(), Mismatch> {
        let mut piece = self.piece.clone();
        for (number, offset) in (0..memory.len()).step_by(PIECE).enumerate() {
            self.number(&mut piece, number);
            let len = PIECE.min(memory.len() - offset);
            piece
                .get(..len)
                .map(|bytes| memory.write_slice(bytes, offset))
                .transpose()
                .map_err(|error| Mismatch::new(format!("filling memory: {error}")))?;
        }
        Ok(())
    }

    /// Whether memory holds the pattern.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn compare(&self, what: &str, memory: VolatileSlice<'_>) -> Result<(), Mismatch> {
        let (mut wanted, mut found) = (self.piece.clone(), vec![0; PIECE]);
        for (number, offset) in (0..memory.len()).step_by(PIECE).enumerate() {
            self.number(&mut wanted, number);
            let len = PIECE.min(memory.len() - offset);
            let (Some(wanted), Some(found)) = (wanted.get(..len), found.get_mut(..len)) else { continue };
            memory
                .read_slice(found, offset)
                .map_err(|error| Mismatch::new(format!("reading memory: {error}")))?;
            if let Some(at) = wanted.iter().zip(&*found).position(|(wanted, found)| wanted != found)
                && let (Some(wanted), Some(found)) = (wanted.get(at), found.get(at))
            {
                let at = offset + at;
                return Err(Mismatch::new(format!(
                    "{what}: byte {at} of {} is {found:#04x}, should be {wanted:#04x}",
                    memory.len()
                )));
            }
        }
        Ok(())
    }

    fn number(&self, piece: &mut [u8], number: usize) {
        if self.numbered
            && let Some((tag, _)) = piece.split_first_chunk_mut::<8>()
        {
            *tag = (number as u64).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_memory_compares_and_one_wrong_byte_is_found() {
        let mut bytes = vec![0; 3 * PIECE + 5];
        let pattern = Pattern::random(7);
        pattern.fill(VolatileSlice::from(&mut bytes[..])).unwrap();
        pattern.compare("data", VolatileSlice::from(&mut bytes[..])).unwrap();
        bytes[2 * PIECE + 77] ^= 1;
        let told = pattern.compare("data", VolatileSlice::from(&mut bytes[..])).unwrap_err();
        assert!(told.to_string().starts_with("data: byte 131149 of 196613"), "{told}");
    }

    #[test]
    fn swapped_pieces_and_shifted_bytes_are_noticed() {
        let mut bytes = vec![0; 2 * PIECE];
        let pattern = Pattern::random(7);
        pattern.fill(VolatileSlice::from(&mut bytes[..])).unwrap();
        bytes.rotate_left(PIECE);
        assert!(pattern.compare("data", VolatileSlice::from(&mut bytes[..])).is_err());
        bytes.rotate_left(PIECE - 1);
        assert!(pattern.compare("data", VolatileSlice::from(&mut bytes[..])).is_err());
    }

    #[test]
    fn a_constant_is_that_byte_everywhere() {
        let mut bytes = vec![7; PIECE + 1];
        Pattern::constant(7).compare("memset", VolatileSlice::from(&mut bytes[..])).unwrap();
        bytes[PIECE] = 8;
        assert!(Pattern::constant(7).compare("memset", VolatileSlice::from(&mut bytes[..])).is_err());
    }
}
