//! The reference: first fit over one bit for each granule, a word at a time, the way a
//! kernel's bitmap search goes (`spec/mempool.md` 3.1 describes its results).

/// One bit for each granule, set where taken.
pub(crate) struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    pub(crate) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    /// Takes the lowest run of `len` granules whose first has no bit of `mask` set.
    pub(crate) fn fit(&mut self, len: usize, mask: usize) -> Option<usize> {
        let mut from = 0;
        loop {
            let at = (self.next::<false>(from, self.len) + mask) & !mask;
            let end = at + len;
            if end > self.len {
                return None;
            }
            let busy = self.next::<true>(at, end);
            if busy == end {
                self.fill::<true>(at, len);
                return Some(at);
            }
            from = busy + 1;
        }
    }

    /// First bit from `from` on that is `SET`, or `end`.
    fn next<const SET: bool>(&self, from: usize, end: usize) -> usize {
        if from >= end {
            return end;
        }
        let flip = if SET { 0 } else { u64::MAX };
        let mut index = from / 64;
        let mut word = (self.words[index] ^ flip) & (u64::MAX << (from % 64));
        let last = (end - 1) / 64;
        while word == 0 {
            if index == last {
                return end;
            }
            index += 1;
            word = self.words[index] ^ flip;
        }
        (index * 64 + word.trailing_zeros() as usize).min(end)
    }

    /// Sets or clears a run, whole words at once.
    pub(crate) fn fill<const SET: bool>(&mut self, at: usize, len: usize) {
        let (first, last) = (at / 64, (at + len - 1) / 64);
        let head = u64::MAX << (at % 64);
        let tail = u64::MAX >> (63 - (at + len - 1) % 64);
        let mut put = |index: usize, bits: u64| {
            let word = &mut self.words[index];
            *word = if SET { *word | bits } else { *word & !bits };
        };
        if first == last {
            put(first, head & tail);
            return;
        }
        put(first, head);
        put(last, tail);
        self.words[first + 1..last].fill(if SET { u64::MAX } else { 0 });
    }
}
