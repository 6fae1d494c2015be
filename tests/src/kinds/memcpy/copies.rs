//! One blocking copy between two chunks, and memset.

use neuron_abi::{arg, cmd};

use super::batch::{all_on, equal_batches, equal_cursors, ring};
use super::rig::{End, Rig};
use crate::kinds::bench::Bench;
use crate::machine::Pattern;
use crate::vectors::{Mismatch, Object, Outcome, equal};

/// Both ends of a copy of a case, which lie where its direction says.
///
/// # Errors
/// If they do not, or are placed elsewhere.
pub fn ends(rig: &Rig, case: &Object<'_>, cores: (u32, u32)) -> Result<(End, End), Mismatch> {
    let (from, to, size) = (case.number("src")?, case.number("dst")?, case.number("size")?);
    let letter = |address| Ok(if rig.hbm_of(address)?.is_none() { 'h' } else { 'd' });
    equal("direction", format!("{}2{}", letter(from)?, letter(to)?).as_str(), case.text("dir")?)?;
    Ok((rig.end("source", from, size, cores.0)?, rig.end("destination", to, size, cores.1)?))
}

/// The argument of a copy.
pub const fn copy_argument(source: End, destination: End, size: u64) -> arg::MemCopy64 {
    arg::MemCopy64 {
        src_mem_handle: source.chunk.handle,
        dst_mem_handle: destination.chunk.handle,
        size,
        src_offset: source.offset,
        dst_offset: destination.offset,
    }
}

/// Compares a blocking copy.
///
/// # Errors
/// What differs.
pub fn sync(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let rig = Rig::running(bench)?;
    let size = case.number("size")?;
    let cores = (case.word("src_nc")?, case.word("dst_nc")?);
    let (source, destination) = ends(&rig, case, cores)?;
    let ring = ring(&rig.board, case)?;
    equal_cursors(&rig.board, &ring, case, "before")?;
    let pattern = bench.pattern();
    pattern.fill(rig.window(source, size)?.slice()?)?;
    rig.guard(destination, size)?;

    let ret = rig.client.call(&cmd::MEM_COPY64, &mut copy_argument(source, destination, size));

    equal("ret", ret, case.signed("ret")?)?;
    let recording = rig.board.take();
    all_on(&recording, &ring)?;
    equal("n_batches", recording.batches.len() as u64, case.number("n_batches")?)?;
    equal_batches(&recording.batches, &case.objects("batches")?)?;
    equal("phase_ok", rig.board.engines_found_no_error(), case.flag("phase_ok")?)?;
    equal_cursors(&rig.board, &ring, case, "after")?;
    equal("data_ok", true, case.flag("data_ok")?)?;
    pattern.compare("destination", rig.window(destination, size)?.slice()?)?;
    rig.check_guard(destination, size)?;
    Ok(Outcome::Compared)
}

/// Compares a memset.
///
/// # Errors
/// What differs.
pub fn memset(bench: &Bench, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let rig = Rig::running(bench)?;
    let (offset, size, value) = (case.number("offset")?, case.number("size")?, case.word("value")?);
    let end = rig.end("destination", case.number("dst")?, offset + size, case.word("nc")?)?;
    let destination = End { offset: end.offset + offset, ..end };
    let ring = ring(&rig.board, case)?;
    bench.pattern().fill(rig.window(destination, size)?.slice()?)?;
    rig.guard(destination, size)?;

    let mut argument = arg::Memset64 {
        mem_handle: destination.chunk.handle,
        offset: destination.offset,
        value,
        size,
        ..Default::default()
    };
    let ret = rig.client.call(&cmd::MEMSET64, &mut argument);

    equal("ret", ret, case.signed("ret")?)?;
    let recording = rig.board.take();
    all_on(&recording, &ring)?;
    // The first batch reads the staging buffer: as much of it as there is, or is needed.
    let (staging, staging_size) = (case.number("staging")?, case.number("staging_size")?);
    let first = recording.batches.first().and_then(|batch| batch.pairs.first());
    let read = first.map(|pair| {
        let (_, source) = pair.tx.split_at(8);
        (source.to_vec(), u64::from(u16::from_le_bytes([pair.tx[0], pair.tx[1]])))
    });
    let bytes = size.min(staging_size) % 0x1_0000;
    equal("staging buffer", read, Some((staging.to_le_bytes().to_vec(), bytes)))?;
    equal("n_batches", recording.batches.len() as u64, case.number("n_batches")?)?;
    equal_batches(&recording.batches, &case.objects("batches")?)?;
    equal_cursors(&rig.board, &ring, case, "after")?;
    equal("no error of an engine", rig.board.engines_found_no_error(), true)?;
    equal("data_ok", true, case.flag("data_ok")?)?;
    Pattern::constant(value as u8).compare("destination", rig.window(destination, size)?.slice()?)?;
    rig.check_guard(destination, size)?;
    Ok(Outcome::Compared)
}
