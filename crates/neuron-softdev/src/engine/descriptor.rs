//! The 16-byte descriptor as the engine reads it (`spec/udma.md` 6). Barriers need no decoding: an engine
//! that completes in order satisfies all of them.

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR_BYTES: u64 = 16;

const META: u64 = 1 << 23;
const LAST: u64 = 1 << 27;

/// The fields that matter to an engine which completes in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Bytes, 1 to 65536.
    pub(super) len: u32,
    /// Phase: the lap of the ring it was written in, 0 to 3.
    pub(super) ring_id: u8,
    /// Last of its packet (TX).
    pub(super) last: bool,
    /// A lead descriptor of a runtime packet (TX): it carries no data (our choice, `spec/udma.md` 6.4).
    pub(super) meta: bool,
    /// Source (TX) or destination (RX), a bus address.
    pub(super) address: u64,
}

impl Descriptor {
    /// Decodes the two 64-bit halves.
    pub(super) fn decode([control, address]: [u64; 2]) -> Self {
        let len = control as u32 & 0xffff;
        Self {
            len: if len == 0 { 0x1_0000 } else { len },
            ring_id: (control >> 24 & 3) as u8,
            last: control & LAST != 0,
            meta: control & META != 0,
            address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_pair_decodes() {
        let tx = Descriptor::decode([0x0508_0003_0d00_0001, 0x1234]);
        assert_eq!(tx, Descriptor { len: 1, ring_id: 1, last: true, meta: false, address: 0x1234 });
        let rx = Descriptor::decode([0x0100_0001, 1 << 46]);
        assert_eq!(rx, Descriptor { len: 1, ring_id: 1, last: false, meta: false, address: 1 << 46 });
    }

    #[test]
    fn length_zero_is_64_kib() {
        assert_eq!(Descriptor::decode([0x0c00_0000, 0]).len, 65536);
        assert!(Descriptor::decode([0x0480_0000, 0]).meta);
    }
}
