//! FNV-1a 64: over plain bytes, and over register accesses in the form that `mmio_fnv`
//! is recorded in.

use crate::machine::Access;

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// A hash being computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl Fnv {
    /// The hash with more bytes behind it.
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME)))
    }

    /// The hash so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// Hash of bytes.
pub fn of_bytes(bytes: &[u8]) -> u64 {
    Fnv::default().update(bytes).value()
}

/// Hash of accesses, 13 bytes each: the op character, the offset as 8 bytes and the
/// value as 4, little-endian.
pub fn of_accesses(accesses: &[Access]) -> u64 {
    let one = |hash: Fnv, access: &Access| {
        hash.update(&[access.op.letter()])
            .update(&access.offset.to_le_bytes())
            .update(&access.value.to_le_bytes())
    };
    accesses.iter().fold(Fnv::default(), one).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors of FNV-1a 64.
    #[test]
    fn published_values_come_out() {
        assert_eq!(of_bytes(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(of_bytes(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of_bytes(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn an_access_is_hashed_as_thirteen_bytes() {
        let access = Access::write(0x1_0203_0405, 0xa0b0_c0d0);
        let bytes = [b'w', 5, 4, 3, 2, 1, 0, 0, 0, 0xd0, 0xc0, 0xb0, 0xa0];
        assert_eq!(of_accesses(&[access]), of_bytes(&bytes));
    }
}
