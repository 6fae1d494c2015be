//! Copies between user pages and a chunk. The recorded driver cuts, joins and orders as
//! 2.24.7 does; ours is held against the same bytes, cut and ordered as 2.27.4.

use neuron_abi::arch::{Generation, PAGE_SIZE};
use neuron_abi::{arg, cmd, limits};
use neuron_udma::{Barrier, DecodedRx, DecodedTx};

use super::batch::{all_on, ring};
use super::rig::{End, Rig};
use crate::client::Client;
use crate::kinds::bench::Bench;
use crate::kinds::cursors::{Cursors, cursors, recorded_cursors};
use crate::machine::{Batch, UserPages};
use crate::vectors::difference::ZEROCOPY_CUT;
use crate::vectors::object::number;
use crate::vectors::{Mismatch, Object, Outcome, equal, equal_hex};

/// Where the argument is in the process.
const ARGUMENT: u64 = 0x7000_0000_0000;
/// The longest data descriptor.
const MAX_DESCRIPTOR: u64 = 65536;

/// Compares a zero-copy.
///
/// # Errors
/// What differs.
pub fn check(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    // How the recorded driver cut it.
    ["pin_calls", "n_batches", "batches"].into_iter().for_each(|field| case.skip(field));
    recorded_cursors(case, "after")?;
    let rig = Rig::zero_copy(bench)?;
    let (size, page_offset) = (case.number("size")?, case.number("page_offset")?);
    let (dev, offset) = (case.number("dev")?, case.number("dev_offset")?);
    let chunk = rig.chunk("device memory", dev, offset + size + 1, case.word("nc")?)?;
    let device = End { chunk, offset };
    let ring = ring(&rig.board, case)?;
    let user = UserPages::new(&runs(case)?)?;
    let engines = rig.board.engines().ok_or_else(|| Mismatch::new("no engines"))?;
    engines.set_dma_table(user.dma_table(bench.host())?);
    let to_device = match case.text("dir")? {
        "h2d" => true,
        "d2h" => false,
        dir => return Err(Mismatch::new(format!("unknown direction {dir}"))),
    };
    let pattern = bench.pattern();
    match to_device {
        true => {
            pattern.fill(user.bytes(page_offset, size)?)?;
            rig.guard(device, size)?;
        }
        false => pattern.fill(rig.window(device, size)?.slice()?)?,
    }

    let argument = arg::MemBufCopy64Zc {
        mem_handle: chunk.handle,
        buffer: user.address() + page_offset,
        size,
        offset,
        is_copy_to_device: to_device.into(),
        h2t_qid: limits::DEFAULT_H2T_QUEUE,
        ..Default::default()
    };
    let ret = zero_copy(&rig.client, &user, &argument);

    equal("ret", ret, case.signed("ret")?)?;
    let recording = rig.board.take();
    all_on(&recording, &ring)?;
    let moved = Moved { to_device, chunk: dev + offset, host_base: rig.board.device().geometry().host_base };
    let parts = recording.batches.iter().map(|batch| moved.by(batch)).collect::<Result<Vec<_>, _>>()?;
    let bytes: Vec<u64> = parts.iter().map(|part| part.iter().map(|piece| piece.bytes).sum()).collect();
    equal("bytes of each transfer", bytes, transfers(page_offset, size))?;
    equal_bytes(&parts.concat(), &runs(case)?, page_offset, size)?;
    parts.iter().try_for_each(|part| joined(part))?;
    orders(&recording.batches, bench.generation(), to_device)?;
    let descriptors = recording.batches.iter().map(|batch| batch.counts.0).sum::<u32>();
    let after = Cursors { next: descriptors, completed: descriptors, ring_id: 1 };
    equal("cursors after", cursors(rig.board.device(), ring.engine(), ring.qid())?, [after; 2])?;
    equal("no error of an engine", rig.board.engines_found_no_error(), true)?;
    equal("pages that stay pinned", user.pinned(), 0)?;
    match to_device {
        true => {
            pattern.compare("device memory", rig.window(device, size)?.slice()?)?;
            rig.check_guard(device, size)?;
        }
        false => pattern.compare("user pages", user.bytes(page_offset, size)?)?,
    }
    Ok(Outcome::Differs(vec![ZEROCOPY_CUT]))
}

/// One zero-copy of a process whose buffer is `user`.
fn zero_copy(client: &Client, user: &UserPages, argument: &arg::MemBufCopy64Zc) -> i64 {
    use zerocopy::IntoBytes;
    user.space().map(ARGUMENT, argument.as_bytes().to_vec());
    match client.file().ioctl(cmd::MEM_BUF_ZEROCOPY64.word, ARGUMENT, user) {
        Ok(()) => 0,
        Err(errno) => errno.negated().into(),
    }
}

/// `pages`: (address, count).
fn runs(case: &Object<'_>) -> Result<Vec<(u64, u64)>, Mismatch> {
    let run = |value: &serde_json::Value| {
        let [address, count] = value.as_array()?.as_slice() else { return None };
        Some((number(address)?, number(count)?))
    };
    let runs = case.list("pages")?.iter().map(run).collect::<Option<_>>();
    runs.ok_or_else(|| Mismatch::new("pages are not runs"))
}

/// Bytes of each transfer (`spec/dma-op.md` 7.2), page by page.
fn transfers(page_offset: u64, size: u64) -> Vec<u64> {
    let whole = page_offset + size;
    let pages = match whole.div_ceil(PAGE_SIZE) {
        few if few <= 64 => few,
        some if whole <= 128 * PAGE_SIZE => {
            let half = whole.div_ceil(2);
            some.min(half.div_ceil(PAGE_SIZE))
        }
        _ => 64,
    };
    let mut ends: Vec<u64> = (1..).map(|n| n * pages * PAGE_SIZE).take_while(|&end| end < whole).collect();
    ends.push(whole);
    let starts = [page_offset].into_iter().chain(ends.iter().copied());
    ends.iter().zip(starts).map(|(end, start)| end - start).collect()
}

/// Contiguous bytes that a data descriptor pair moves: user side and chunk side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    user: u64,
    chunk: u64,
    bytes: u64,
}

/// How descriptors of a case are read.
struct Moved {
    to_device: bool,
    /// Bus address of the first byte on the device.
    chunk: u64,
    host_base: u64,
}

impl Moved {
    /// What the data descriptors of a batch move; chunk addresses from the copy's start.
    fn by(&self, batch: &Batch) -> Result<Vec<Piece>, Mismatch> {
        let (_marker, data) = batch.pairs.split_last().ok_or_else(|| Mismatch::new("no descriptor"))?;
        equal("phases", batch.phases_right, true)?;
        let piece = |pair: &crate::machine::Pair| {
            let (tx, rx) = (DecodedTx::from(&pair.tx), DecodedRx::from(&pair.rx));
            equal("bytes of TX and RX", tx.bytes, rx.bytes)?;
            let (user, chunk) = match self.to_device {
                true => (tx.source, rx.destination),
                false => (rx.destination, tx.source),
            };
            equal_hex("host tag", user & self.host_base, self.host_base)?;
            Ok(Piece { user: user - self.host_base, chunk: chunk - self.chunk, bytes: tx.bytes.into() })
        };
        data.iter().map(piece).collect()
    }
}

/// Whether `pieces` are exactly the bytes of the pages, in order.
fn equal_bytes(pieces: &[Piece], runs: &[(u64, u64)], page_offset: u64, size: u64) -> Result<(), Mismatch> {
    let mut at = 0;
    let mut pages = runs.iter().flat_map(|&(start, count)| (0..count).map(move |n| start + n * PAGE_SIZE));
    let mut page = pages.next();
    for piece in pieces {
        equal_hex("chunk offset", piece.chunk, at)?;
        for (address, bytes) in by_page(piece.user, piece.bytes) {
            let within = (page_offset + at) % PAGE_SIZE;
            if within == 0 && at > 0 {
                page = pages.next();
            }
            equal_hex("user address", address, page.map_or(0, |page| page + within))?;
            at += bytes;
        }
    }
    equal("bytes moved", at, size)
}

/// A range cut at page ends.
fn by_page(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = start + bytes;
    let mut at = start;
    std::iter::from_fn(move || {
        let from = at;
        at = end.min((from / PAGE_SIZE + 1) * PAGE_SIZE);
        (from < end).then_some((from, at - from))
    })
}

/// Neighbours of one transfer share a descriptor unless it is full.
fn joined(part: &[Piece]) -> Result<(), Mismatch> {
    for pair in part.windows(2) {
        if let [a, b] = pair
            && a.user + a.bytes == b.user
        {
            equal("bytes before a neighbour", a.bytes, MAX_DESCRIPTOR)?;
        }
    }
    equal("no descriptor is too long", part.iter().all(|piece| piece.bytes <= MAX_DESCRIPTOR), true)
}

/// Barriers are on the last transfer of a write only (`spec/arch.md` 7).
fn orders(batches: &[Batch], generation: Generation, to_device: bool) -> Result<(), Mismatch> {
    let (last_data, last_marker) = match generation {
        Generation::V2 => (Barrier::Write, Barrier::None),
        Generation::V3 | Generation::V4 => (Barrier::None, Barrier::StrongOrderWrite),
    };
    let last = batches.len().saturating_sub(1);
    for (number, batch) in batches.iter().enumerate() {
        let marker = batch.pairs.len().saturating_sub(1);
        for (index, pair) in batch.pairs.iter().enumerate() {
            let ordered = to_device && number == last;
            let wanted = match index {
                _ if !ordered => Barrier::None,
                index if index == marker => last_marker,
                index if index + 1 == marker => last_data,
                _ => Barrier::None,
            };
            let (tx, rx) = (DecodedTx::from(&pair.tx), DecodedRx::from(&pair.rx));
            let found = match (tx.dmb, tx.write_barrier, rx.strong_order_write) {
                (false, false, false) => Some(Barrier::None),
                (true, false, false) => Some(Barrier::Dmb),
                (false, true, false) => Some(Barrier::Write),
                (false, false, true) => Some(Barrier::StrongOrderWrite),
                _ => None,
            };
            equal(format!("barrier of descriptor {index} of batch {number}"), found, Some(wanted))?;
        }
    }
    Ok(())
}
