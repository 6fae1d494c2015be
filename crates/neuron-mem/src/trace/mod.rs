//! `neuron-mem trace-copy`: one copy, and what it left behind on its ring.
//!
//! | module | what lives there |
//! |---|---|
//! | `look` | what is read: engine, queue, cursors, markers, doorbells, descriptors |
//! | `batches` | descriptors read back, decoded and cut into batches |
//!
//! Here: the memory the copy is between, and the order of things. Looks are taken before and after one
//! `MEM_COPY`; everything reported is what a look read, or follows from two of them.

mod batches;
mod look;

use std::io::Write;
use std::ops::Range;

use neuron_abi::memory::Category;
use neuron_ndl::software::MachineOptions;
use neuron_ndl::{AllocRequest, CopyRequest, Device, Memory, NdlError};

use crate::bytes::exact_and_human;
use crate::cli::{CopyDirection, TraceCopyArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::render::trace::{Direction, End, Route, TraceReport};
use crate::render::write_json;
use look::{Look, Places};

/// Largest copy that is traced: three batches. All its descriptors are in the ring at once, so that each can
/// still be read when the copy is over (our choice).
pub const MAX_BYTES: u64 = 256 << 20;

/// Bytes that are filled and compared at a time.
const PIECE: usize = 1 << 20;

/// Runs the command and writes its result to `out`.
///
/// # Errors
/// See [`Exit`] for which failure has which code. After a verification mismatch the report is written all the
/// same.
pub fn run(args: &TraceCopyArgs, out: &mut dyn Write) -> Result<(), Failure> {
    check(args.size.0)?;
    let machine = Machine::choose(&args.machine, MachineOptions::default())?;
    let device = machine.open(machine.first_device())?;
    let report = report(args, &machine, &device)?;
    if args.json {
        write_json(out, &report).map_err(Failure::output)?;
    } else {
        out.write_all(report.text().as_bytes()).map_err(Failure::output)?;
    }
    match report.equal {
        true => Ok(()),
        false => Err(Failure::new(Exit::Mismatch, "the destination differs from the source")),
    }
}

fn check(bytes: u64) -> Result<(), Failure> {
    let why = match bytes {
        0 => "a copy of 0 bytes takes no descriptor, so there is nothing to trace".to_owned(),
        1..=MAX_BYTES => return Ok(()),
        _ => format!(
            "SIZE is {}, but at most {} are traced: all descriptors must be in the ring at once",
            exact_and_human(bytes),
            exact_and_human(MAX_BYTES)
        ),
    };
    Err(Failure::new(Exit::Usage, why))
}

/// Copies once on a device of the machine, which may be open on any backend, and reports how.
///
/// # Errors
/// [`Exit::Usage`] for a size that is not traced; [`Exit::Device`] with the step that failed.
pub fn report(args: &TraceCopyArgs, machine: &Machine, device: &Device) -> Result<TraceReport, Failure> {
    check(args.size.0)?;
    let failed = |error: NdlError| Failure::new(Exit::Device, error);
    let bytes = args.size.0;
    let route = route(args.dir, device);
    let [from, to] = memory(args.dir, device, bytes).map_err(failed)?;
    fill(device, &from, bytes).map_err(failed)?;

    let before = Look::take(device, &route).map_err(failed)?;
    let copy =
        CopyRequest { source: &from, destination: &to, source_offset: 0, destination_offset: 0, bytes };
    device.copy(copy).map_err(failed)?;
    let after = Look::take(device, &route).map_err(failed)?;
    let (tx, rx) = look::descriptors(device, &route, &before, &after).map_err(failed)?;
    if tx.is_empty() || tx.len() != rx.len() {
        let Route { engine, queue, .. } = route;
        let (tx, rx) = (tx.len(), rx.len());
        let why = format!(
            "the copy succeeded, but engine {engine}, queue {queue} moved by {tx} TX and {rx} RX descriptors: \
             it went another way, or others use the queue"
        );
        return Err(Failure::new(Exit::Device, why));
    }
    let pairs: Vec<_> = tx.into_iter().zip(rx).collect();
    let doorbells = look::doorbells(&before, &after);
    let equal = compare(device, &to, bytes).map_err(failed)?;

    let places = Places { geometry: device.geometry(), markers: after.markers() };
    let end = |memory: &Memory| {
        let request = memory.request();
        let core = (!request.host).then_some(request.core);
        End { place: places.of(memory.pa()), address: memory.pa(), core }
    };
    Ok(TraceReport {
        backend: machine.name().to_string(),
        instance: machine.instance().map(str::to_owned),
        device: device.facts().index.into(),
        direction: direction(args.dir),
        bytes,
        from: end(&from),
        to: end(&to),
        batches: batches::of(&pairs, &places, args.full),
        doorbells,
        before: before.moment(),
        after: after.moment(),
        route,
        equal,
    })
}

const fn direction(dir: CopyDirection) -> Direction {
    match dir {
        CopyDirection::H2d => Direction::H2d,
        CopyDirection::D2h => Direction::D2h,
        CopyDirection::D2d => Direction::D2d,
    }
}

/// The core at the device's end, and for copies within the device the one they go to.
fn cores(dir: CopyDirection, device: &Device) -> [u32; 2] {
    let last = device.geometry().cores.saturating_sub(1);
    if dir == CopyDirection::D2d { [0, last] } else { [0, 0] }
}

/// The ring that a synchronous copy takes: of the destination's core if that is on the device, else of the
/// source's (`spec/dma-op.md` 2). What a look at this queue finds decides whether it did.
fn route(dir: CopyDirection, device: &Device) -> Route {
    let [_, core] = cores(dir, device);
    let (engine, queue) = device.geometry().h2t_ring(core);
    Route { core, engine, queue }
}

/// Source and destination.
fn memory(dir: CopyDirection, device: &Device, bytes: u64) -> Result<[Memory; 2], NdlError> {
    let [from, to] = cores(dir, device);
    let allocate = |host: bool, core: u32| {
        let category = if host { Category::TensorsHost } else { Category::TensorsDevice };
        let hbm = if host { 0 } else { device.geometry().hbm_of_core(core).unwrap_or(0) };
        device.allocate(AllocRequest { size: bytes, align: 0, host, hbm, core, category })
    };
    let (from_host, to_host) = (dir == CopyDirection::H2d, dir == CopyDirection::D2h);
    Ok([allocate(from_host, from)?, allocate(to_host, to)?])
}

/// The pieces of `bytes`.
fn pieces(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let piece = PIECE as u64;
    (0..bytes.div_ceil(piece)).map(move |index| index * piece..bytes.min((index + 1) * piece))
}

/// What is copied: bytes without a short period, none of them zero for long, by their offset.
fn pattern(range: &Range<u64>) -> Vec<u8> {
    // Weyl's sequence; pieces begin at whole words.
    let words = (range.start / 8 + 1..).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).take((range.end - range.start) as usize).collect()
}

fn fill(device: &Device, memory: &Memory, bytes: u64) -> Result<(), NdlError> {
    pieces(bytes).try_for_each(|range| device.buffer_copy_in(memory, range.start, &pattern(&range)))
}

fn compare(device: &Device, memory: &Memory, bytes: u64) -> Result<bool, NdlError> {
    for range in pieces(bytes) {
        let mut found = vec![0; (range.end - range.start) as usize];
        device.buffer_copy_out(memory, range.start, &mut found)?;
        if found != pattern(&range) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_from_one_byte_to_256_mib_are_traced() {
        for bytes in [1, 65536, MAX_BYTES] {
            assert!(check(bytes).is_ok(), "{bytes}");
        }
        for bytes in [0, MAX_BYTES + 1, u64::MAX] {
            assert_eq!(check(bytes).unwrap_err().exit(), Exit::Usage, "{bytes}");
        }
    }

    #[test]
    fn the_largest_copy_leaves_all_its_descriptors_in_the_ring() {
        let data = MAX_BYTES / 65536;
        assert!(data + data.div_ceil(2032) < 8192 - 16);
    }

    proptest! {
        #[test]
        fn pieces_of_the_pattern_are_the_pattern(bytes in 1u64..3 << 20) {
            let whole = pattern(&(0..bytes));
            prop_assert_eq!(whole.len() as u64, bytes);
            let joined: Vec<u8> = pieces(bytes).flat_map(|range| pattern(&range)).collect();
            prop_assert!(joined == whole);
        }
    }
}
