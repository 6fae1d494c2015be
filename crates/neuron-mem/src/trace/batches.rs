//! Descriptors that were read back, decoded, and cut into batches: a batch ends with its marker.

use neuron_ndl::descriptor::words;
use neuron_ndl::{DecodedRx, DecodedTx};

use super::look::{Places, Slot};
use crate::render::trace::{Batch, Pair, Rx, Tx};

/// Data pairs up to which a batch is shown whole.
const SHORT: usize = 4;

/// The batches that these pairs are. Of long ones only the first and the last data pair, unless `full`.
/// Descriptors behind the last marker, of which a finished copy has none, are a batch without one.
pub(super) fn of(pairs: &[(Slot, Slot)], places: &Places<'_>, full: bool) -> Vec<Batch> {
    let decoded: Vec<Pair> = pairs.iter().map(|(tx, rx)| decode(tx, rx, places)).collect();
    let is_marker = |pair: &Pair| places.is_marker(pair.tx.address, pair.rx.address, pair.tx.bytes);
    decoded
        .split_inclusive(is_marker)
        .map(|batch| match batch.split_last() {
            Some((last, data)) if is_marker(last) => abbreviated(data, Some(last.clone()), full),
            _ => abbreviated(batch, None, full),
        })
        .collect()
}

fn abbreviated(data: &[Pair], marker: Option<Pair>, full: bool) -> Batch {
    let count = data.len() as u32;
    match data {
        [first, middle @ .., last] if !full && data.len() > SHORT => Batch {
            count,
            omitted: middle.len() as u32,
            omitted_alike: follow(first, middle),
            pairs: vec![first.clone(), last.clone()],
            marker,
        },
        whole => Batch { count, omitted: 0, omitted_alike: true, pairs: whole.to_vec(), marker },
    }
}

/// Whether each of `rest` is as the pair before it, its bytes further on.
fn follow(first: &Pair, rest: &[Pair]) -> bool {
    let mut before = first;
    rest.iter().all(|pair| {
        let expected_tx = Tx {
            address: before.tx.address.wrapping_add(before.tx.bytes.into()),
            // Where they lie follows from the address, the ring id from the lap.
            place: pair.tx.place.clone(),
            ring_id: pair.tx.ring_id,
            words: pair.tx.words,
            ..before.tx.clone()
        };
        let expected_rx = Rx {
            address: before.rx.address.wrapping_add(before.rx.bytes.into()),
            place: pair.rx.place.clone(),
            ring_id: pair.rx.ring_id,
            words: pair.rx.words,
            ..before.rx.clone()
        };
        before = pair;
        pair.tx == expected_tx && pair.rx == expected_rx
    })
}

fn decode(tx: &Slot, rx: &Slot, places: &Places<'_>) -> Pair {
    let (from, to) = (DecodedTx::from(&tx.descriptor), DecodedRx::from(&rx.descriptor));
    Pair {
        slot: tx.index,
        rx_slot: rx.index,
        tx: Tx {
            words: words(&tx.descriptor),
            bytes: from.bytes,
            ring_id: from.ring_id,
            first: from.first,
            last: from.last,
            meta: from.meta,
            concat: from.concat,
            interrupt: from.interrupt,
            data_barrier: from.dmb,
            write_barrier: from.write_barrier,
            address: from.source,
            place: places.of(from.source),
        },
        rx: Rx {
            words: words(&rx.descriptor),
            bytes: to.bytes,
            ring_id: to.ring_id,
            interrupt: to.interrupt,
            strong_order: to.strong_order_write,
            address: to.destination,
            place: places.of(to.destination),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_abi::arch::Generation;
    use neuron_ndl::Descriptor;
    use neuron_ndl::introspect::MarkerView;

    const HOST: u64 = 1 << 44 | 0x1000_0000;
    const MARKER: u64 = 1 << 44 | 0x2000_0000;

    fn descriptor(word0: u32, word1: u32, address: u64) -> Descriptor {
        let all = u128::from(word0) | u128::from(word1) << 32 | u128::from(address) << 64;
        all.to_le_bytes()
    }

    /// One pair of a plain copy; `bytes` 65536 at most.
    fn pair(index: u32, bytes: u32, from: u64, to: u64) -> (Slot, Slot) {
        let tx = descriptor(0x0d00_0000 | bytes & 0xffff, 0x0108_0003, from);
        let rx = descriptor(0x0100_0000 | bytes & 0xffff, 0, to);
        (Slot { index, descriptor: tx }, Slot { index, descriptor: rx })
    }

    /// A copy of whole pieces from the host to HBM 0, and its marker.
    fn copy(pieces: u32) -> Vec<(Slot, Slot)> {
        let data = (0..pieces).map(|i| pair(i, 65536, HOST + u64::from(i) * 65536, u64::from(i) * 65536));
        data.chain([pair(pieces, 4, MARKER, MARKER + 4)]).collect()
    }

    fn batches(pairs: &[(Slot, Slot)], full: bool) -> Vec<Batch> {
        let markers = [MarkerView { address: MARKER, source: 0, destination: 0 }];
        of(pairs, &Places { geometry: Generation::V2.geometry(), markers: &markers }, full)
    }

    #[test]
    fn a_batch_ends_with_its_marker() {
        let twice: Vec<_> = copy(3).into_iter().chain(copy(2)).collect();
        let batches = batches(&twice, false);
        let shape: Vec<_> = batches.iter().map(|batch| (batch.count, batch.marker.is_some())).collect();
        assert_eq!(shape, [(3, true), (2, true)]);
        assert_eq!(batches[1].marker.as_ref().unwrap().tx.bytes, 4);
    }

    #[test]
    fn descriptors_behind_the_last_marker_are_not_lost() {
        let mut pairs = copy(1);
        pairs.push(pair(2, 100, HOST, 0));
        let batches = batches(&pairs, false);
        assert_eq!((batches.len(), batches[1].count, batches[1].marker.is_some()), (2, 1, false));
    }

    #[test]
    fn a_copy_of_four_bytes_is_data_unless_it_goes_to_the_next_word_of_the_host() {
        for (from, to) in [(HOST, 0), (0, HOST), (HOST, HOST + 8), (64, 68)] {
            let batches = batches(&[pair(0, 4, from, to), pair(1, 4, MARKER, MARKER + 4)], false);
            assert_eq!((batches.len(), batches[0].count), (1, 1), "{from:#x} to {to:#x}");
        }
    }

    #[test]
    fn long_batches_show_their_ends_and_say_whether_the_middle_is_alike() {
        let short = &batches(&copy(4), false)[0];
        assert_eq!((short.pairs.len(), short.omitted), (4, 0));
        let long = &batches(&copy(5), false)[0];
        assert_eq!((long.count, long.omitted, long.omitted_alike), (5, 3, true));
        assert_eq!(long.pairs.iter().map(|pair| pair.slot).collect::<Vec<_>>(), [0, 4]);
        let full = &batches(&copy(5), true)[0];
        assert_eq!((full.pairs.len(), full.omitted), (5, 0));

        let mut odd = copy(6);
        odd[2] = pair(2, 65536, HOST, 2 * 65536);
        assert!(!batches(&odd, false)[0].omitted_alike, "another source");
        let mut odd = copy(6);
        odd[3].1.descriptor[3] |= 0x20;
        assert!(!batches(&odd, false)[0].omitted_alike, "another flag");
        let mut odd = copy(6);
        (odd[3].0.descriptor[3], odd[3].1.descriptor[3]) = (0x0e, 0x02);
        assert!(batches(&odd, false)[0].omitted_alike, "another lap");
    }

    #[test]
    fn addresses_are_told_apart() {
        use crate::render::trace::{Context, Place};
        let pairs = [
            pair(0, 8, HOST + 16, 0x10_0000_0040),
            pair(1, 8, 0x0fff_c000_0000_0000, 1 << 43),
            pair(2, 4, MARKER, MARKER + 4),
        ];
        let batches = batches(&pairs, true);
        let [first, second] = &batches[0].pairs[..] else { panic!("{batches:?}") };
        assert_eq!(first.tx.place, Place::Host { physical: 0x1000_0010 });
        assert_eq!(first.rx.place, Place::Hbm { hbm: 1, offset: 0x40 });
        assert_eq!((&second.tx.place, &second.rx.place), (&Place::Other, &Place::Other));
        let marker = batches[0].marker.as_ref().unwrap();
        assert_eq!(marker.tx.place, Place::MarkerSource { context: Context::Sync });
        assert_eq!(marker.rx.place, Place::MarkerDestination { context: Context::Sync });
    }
}
