//! A streamed XXH3-128 digest of tensor data, fed from memory that others may write (a mapped file, device
//! memory) or from plain bytes. The pieces it is fed in do not change the result.

use std::fmt;

use twox_hash::XxHash3_128;
use vm_memory::VolatileSlice;

/// Volatile memory is first copied here, this many bytes at a time, because a hash must not look at bytes that
/// change under it. Our choice: small enough to stay in a core's L2 between the copy and the hash.
const PIECE: usize = 256 << 10;

/// A finished digest. Equal digests mean equal data against accidents, not against an attacker: XXH3 is not a
/// cryptographic hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u128);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Digests one tensor after another, with one scratch buffer for them all.
///
/// # Example
/// ```
/// use neuron_mem::digest::Digest;
///
/// let mut digest = Digest::new();
/// digest.update(b"in ");
/// digest.update(b"pieces");
/// let in_pieces = digest.finish();
/// digest.update(b"in pieces");
/// assert_eq!(digest.finish(), in_pieces);
/// ```
pub struct Digest {
    hasher: XxHash3_128,
    scratch: Vec<u8>,
}

impl Digest {
    /// A digest of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { hasher: XxHash3_128::new(), scratch: Vec::new() }
    }

    /// Adds plain bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    /// Adds the bytes of a volatile slice, each read once. Bytes that change during the call count as old or
    /// new, one by one.
    pub fn update_volatile(&mut self, slice: VolatileSlice<'_>) {
        self.scratch.resize(PIECE.min(slice.len()).max(self.scratch.len()), 0);
        let mut rest = slice;
        while !rest.is_empty() {
            let copied = rest.copy_to(&mut self.scratch[..]);
            self.hasher.write(self.scratch.get(..copied).unwrap_or_default());
            match rest.offset(copied) {
                Ok(after) if copied > 0 => rest = after,
                _ => break,
            }
        }
    }

    /// The digest of everything added since the last `finish`, and starts over.
    pub fn finish(&mut self) -> Fingerprint {
        Fingerprint(std::mem::take(&mut self.hasher).finish_128())
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vm_memory::{MmapRegion, VolatileMemory};

    fn volatile_fingerprint(bytes: &[u8]) -> Fingerprint {
        let region: MmapRegion = MmapRegion::new(bytes.len().max(1)).unwrap();
        let slice = region.get_slice(0, bytes.len()).unwrap();
        slice.copy_from(bytes);
        let mut digest = Digest::new();
        digest.update_volatile(slice);
        digest.finish()
    }

    #[test]
    fn nothing_has_the_published_xxh3_128_of_nothing() {
        // XXH3_128bits of the empty input with seed 0, from the algorithm's specification.
        assert_eq!(Digest::new().finish().to_string(), "99aa06d3014798d86001c324468d497f");
        assert_eq!(volatile_fingerprint(&[]), Digest::new().finish());
    }

    #[test]
    fn volatile_and_plain_bytes_agree_around_the_piece_boundary() {
        for len in [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 255) as u8).collect();
            let mut digest = Digest::new();
            digest.update(&bytes);
            assert_eq!(volatile_fingerprint(&bytes), digest.finish(), "{len} bytes");
        }
    }

    #[test]
    fn a_short_slice_after_a_long_one_takes_no_leftover_bytes() {
        let region: MmapRegion = MmapRegion::new(PIECE).unwrap();
        region.get_slice(0, PIECE).unwrap().copy_from(&vec![0xa5u8; PIECE]);
        let mut digest = Digest::new();
        digest.update_volatile(region.get_slice(0, PIECE).unwrap());
        digest.finish();
        digest.update_volatile(region.get_slice(0, 3).unwrap());
        let mut plain = Digest::new();
        plain.update(&[0xa5; 3]);
        assert_eq!(digest.finish(), plain.finish());
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..2000), cut in 0usize..2000) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            let mut digest = Digest::new();
            digest.update(a);
            digest.update(b);
            let in_pieces = digest.finish();
            digest.update(&bytes);
            prop_assert_eq!(in_pieces, digest.finish());
        }

        #[test]
        fn one_flipped_bit_shows(
            mut bytes in prop::collection::vec(any::<u8>(), 1..500),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let before = volatile_fingerprint(&bytes);
            *at.get_mut(&mut bytes) ^= 1 << bit;
            prop_assert_ne!(before, volatile_fingerprint(&bytes));
        }
    }
}
