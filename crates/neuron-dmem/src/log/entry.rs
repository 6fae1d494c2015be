//! An entry of the ring: 64 bytes (`dma_mem_log_entry_t`, `spec/dmem.md` 1.5).
//!
//! Two fields differ from the runtime's (our choice): where it has a pointer to the hint,
//! which dangles once the hint is freed, there is the hint's row in the log, the padding, and
//! a check; and its gap at 28 holds the owner's row.
//!
//! | offset | bytes | |
//! |---:|---:|---|
//! | 0 | 4 | action: 1 allocation, 2 free |
//! | 4 | 4 | location: 1 host, 2 device |
//! | 8 | 4 | usage type |
//! | 12 | 4 | HBM |
//! | 16 | 4 | hint: row, 0 for none |
//! | 20 | 1 | padding charged beyond size: 0 for none, else 1 + log2 |
//! | 21 | 3 | check over all other bytes and the event's number |
//! | 24 | 4 | core |
//! | 28 | 4 | owner: row, 0 for none |
//! | 32 | 8 | size |
//! | 40 | 8 | physical address |
//! | 48 | 8 | offset of the first byte (`align_offset`) |
//! | 56 | 8 | bytes on the HBM after the event; 0 for host memory |

use neuron_abi::memory::{MemLocation, UsageType};

use super::format::{ENTRY, mix};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Memory was allocated.
    Alloc,
    /// Memory was freed.
    Free,
}

impl Action {
    /// As in the runtime's own dump.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "ALLOC",
            Self::Free => "FREE",
        }
    }
}

/// An entry, its rows not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) action: Action,
    pub(super) location: MemLocation,
    pub(super) usage: UsageType,
    pub(super) channel: u32,
    pub(super) hint: u32,
    pub(super) padding: Padding,
    pub(super) core: u32,
    pub(super) owner: u32,
    pub(super) size: u64,
    pub(super) pa: u64,
    pub(super) align_offset: u64,
    pub(super) total: u64,
}

/// Bytes charged beyond an allocation's size: none, or a power of two (the alignment that
/// the manual fallback pads by, `spec/dmem.md` 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Padding(u8);

impl Padding {
    /// Of so many bytes; rounded up if it is no power of two.
    pub(super) fn of(bytes: u64) -> Self {
        match bytes {
            0 => Self(0),
            _ => Self(bytes.checked_next_power_of_two().map_or(63, u64::trailing_zeros) as u8 + 1),
        }
    }

    pub(super) fn bytes(self) -> u64 {
        self.0.checked_sub(1).and_then(|shift| 1_u64.checked_shl(shift.into())).unwrap_or(0)
    }
}

impl Entry {
    /// Bytes charged to the counters.
    pub(super) fn charged(&self) -> u64 {
        self.size.wrapping_add(self.padding.bytes())
    }

    /// A counter after the event.
    pub(super) fn change(&self, counter: u64) -> u64 {
        match self.action {
            Action::Alloc => counter.wrapping_add(self.charged()),
            Action::Free => counter.wrapping_sub(self.charged()),
        }
    }

    /// Rows whose meters the event moves: owner and hint, for device memory.
    pub(super) fn rows(&self) -> [Option<u32>; 2] {
        let counted = self.location == MemLocation::Device;
        [self.owner, self.hint].map(|row| (counted && row != 0).then_some(row))
    }

    /// Rows the event names.
    pub(super) fn referenced(&self) -> impl Iterator<Item = u32> + use<> {
        [self.owner, self.hint].into_iter().filter(|&row| row != 0)
    }

    /// As words, sealed as event `number`.
    pub(super) fn words(&self, number: u64) -> [u64; ENTRY] {
        let action = match self.action {
            Action::Alloc => 1,
            Action::Free => 2,
        };
        let mut words = [
            pair(action, self.location.raw()),
            pair(self.usage.raw(), self.channel),
            pair(self.hint, self.padding.0.into()),
            pair(self.core, self.owner),
            self.size,
            self.pa,
            self.align_offset,
            self.total,
        ];
        words[2] |= check(number, &words);
        words
    }

    /// From words; `None` unless they are event `number`, whole.
    pub(super) fn from_words(number: u64, words: &[u64; ENTRY]) -> Option<Self> {
        let mut bare = *words;
        bare[2] &= !CHECK;
        if bare[2] | check(number, &bare) != words[2] {
            return None;
        }
        let [(action, location), (usage, channel), (hint, padding), (core, owner)] =
            [bare[0], bare[1], bare[2], bare[3]].map(halves);
        let entry = Self {
            action: match action {
                1 => Action::Alloc,
                2 => Action::Free,
                _ => return None,
            },
            location: MemLocation::from_raw(location).filter(|&place| place != MemLocation::Invalid)?,
            usage: UsageType::from_raw(usage)?,
            channel,
            hint,
            padding: Padding(u8::try_from(padding).ok().filter(|&shift| shift <= 64)?),
            core,
            owner,
            size: bare[4],
            pa: bare[5],
            align_offset: bare[6],
            total: bare[7],
        };
        Some(entry)
    }
}

/// Bits of the third word that hold the check.
const CHECK: u64 = 0xffff_ff00_0000_0000;

fn check(number: u64, words: &[u64; ENTRY]) -> u64 {
    mix(number, words) & CHECK
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let kinds = (any::<bool>(), any::<bool>(), 0u32..22, 0u8..=64);
        (kinds, any::<[u32; 4]>(), any::<[u64; 4]>()).prop_map(|((alloc, host, usage, padding), n, w)| {
            Entry {
                action: if alloc { Action::Alloc } else { Action::Free },
                location: if host { MemLocation::Host } else { MemLocation::Device },
                usage: UsageType::from_raw(usage).unwrap(),
                channel: n[0],
                hint: n[1],
                padding: Padding(padding),
                core: n[2],
                owner: n[3],
                size: w[0],
                pa: w[1],
                align_offset: w[2],
                total: w[3],
            }
        })
    }

    proptest! {
        #[test]
        fn an_entry_survives_its_words(entry in entry(), number: u64) {
            prop_assert_eq!(Entry::from_words(number, &entry.words(number)), Some(entry));
        }

        #[test]
        fn one_flipped_bit_or_another_laps_number_is_noticed(entry in entry(), number: u64, bit in 0usize..512) {
            let mut words = entry.words(number);
            prop_assert_eq!(Entry::from_words(number.wrapping_add(5), &words), None);
            words[bit / 64] ^= 1 << (bit % 64);
            prop_assert_eq!(Entry::from_words(number, &words), None);
        }
    }

    #[test]
    fn padding_is_none_or_a_power_of_two() {
        assert_eq!([0, 1, 4096, 1 << 63].map(|bytes| Padding::of(bytes).bytes()), [0, 1, 4096, 1 << 63]);
        assert_eq!(Padding::of(5).bytes(), 8);
        assert_eq!(Entry::from_words(0, &[0; ENTRY]), None);
    }

    #[test]
    fn fields_lie_where_the_runtime_has_them() {
        let entry = Entry {
            action: Action::Free,
            location: MemLocation::Device,
            usage: UsageType::Weight,
            channel: 3,
            hint: 0x1234,
            padding: Padding(0),
            core: 7,
            owner: 9,
            size: 0xaaaa,
            pa: 0xbbbb,
            align_offset: 0xcccc,
            total: 0xdddd,
        };
        let bytes: Vec<u8> = entry.words(1).iter().flat_map(|word| word.to_le_bytes()).collect();
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!([0, 4, 8, 12, 16, 24, 28].map(u32_at), [2, 2, 6, 3, 0x1234, 7, 9]);
        assert_eq!([32, 40, 48, 56].map(u64_at), [0xaaaa, 0xbbbb, 0xcccc, 0xdddd]);
        assert_eq!(bytes.len(), 64);
    }
}
