//! Where memory is placed: sequences of allocations and frees, and addresses looked up.
//!
//! They are asked of the driver's pools, below its ioctls, on a device of which no core
//! is up: only the firmware's part of each channel is taken, and host memory begins
//! where it did for the recorder.

use std::collections::BTreeMap;

use neuron_abi::arch::{FIRMWARE_RESERVE, Geometry};
use neuron_abi::memory::{Category, MemLocation};
use neuron_driver::Device;
use neuron_driver::pool::{ChunkRef, Lifespan, Request};
use serde_json::Value;

use super::bench::Bench;
use crate::client::PID;
use crate::machine::Board;
use crate::machine::board::Cores;
use crate::vectors::difference::SCRATCHPAD_SIZE;
use crate::vectors::object::number;
use crate::vectors::{Difference, Mismatch, Object, Outcome, equal, equal_hex};

/// The kind of a case: its name without the sizes in it.
pub fn kind(case: &Object<'_>) -> Option<String> {
    let name = case.text("case").ok()?;
    let sized =
        name.split_once("_").filter(|(_, rest)| rest.starts_with(|first: char| first.is_ascii_digit()));
    Some(sized.map_or(name, |(word, _)| word).to_owned())
}

/// Compares cases of one generation.
pub struct Checker {
    bench: Bench,
}

impl Checker {
    /// A checker with host memory for its machines.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(generation: neuron_abi::arch::Generation) -> Result<Self, Mismatch> {
        Ok(Self { bench: Bench::new(generation)? })
    }

    /// Compares one case.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, case: &Object<'_>) -> Result<Outcome, Mismatch> {
        let board = self.bench.still(Cores::Down)?;
        let outcome = match case.text("case")? {
            "lookup" => lookup(board.device(), case),
            _ => operations(&board, case),
        }?;
        everything_is_free(board.device())?;
        drop(board);
        self.bench.check_host_memory()?;
        Ok(outcome)
    }
}

/// Whether only the firmware's part of each channel is left once the process is gone.
fn everything_is_free(device: &Device) -> Result<(), Mismatch> {
    device.pools().sweep_process(PID);
    for channel in channels(device.geometry()) {
        let allocated = device.pools().hbm(channel).map(|hbm| hbm.allocated);
        equal(format!("left on channel {channel}"), allocated, Some(FIRMWARE_RESERVE))?;
        equal("chunks left", device.pools().device_chunks(channel).len(), 1)?;
    }
    Ok(())
}

fn channels(geometry: &Geometry) -> std::ops::Range<u32> {
    0..geometry.hbm.len() as u32
}

/// One allocation as a case has it.
#[derive(Clone, Copy)]
struct Wanted {
    location: MemLocation,
    size: u64,
    align: u64,
    channel: u32,
    core: u32,
    category: u32,
}

impl Wanted {
    /// Memory for nothing special where an address was recorded.
    fn at(geometry: &Geometry, address: u64, size: u64) -> Self {
        let (location, channel) = match geometry.hbm_holding(address, 1) {
            Some(channel) if !geometry.is_host_address(address) => (MemLocation::Device, channel),
            _ => (MemLocation::Host, 0),
        };
        Self { location, size, align: 0, channel, core: 0, category: Category::MiscDevice.raw() }
    }

    /// Allocates, as a process does: held by its list, known by a handle.
    fn allocate(self, device: &Device) -> Result<(ChunkRef, u64), i64> {
        let Self { location, size, align, channel, core, category } = self;
        let request = Request {
            size,
            align,
            location,
            channel,
            core,
            category,
            lifespan: Lifespan::CurrentProcess,
            pid: PID,
            usage: None,
        };
        let chunk = device.pools().allocate(request).map_err(|errno| i64::from(errno.negated()))?;
        let handle = device.pools().publish(&chunk).map_err(|errno| i64::from(errno.negated()))?;
        Ok((chunk, handle))
    }
}

/// One step.
enum Step {
    Allocate(Wanted, Value),
    Free(usize),
}

/// `["d" or "h", size, alignment, channel, region, core, type, result]` or `["f", n]`.
/// There is one region everywhere, so which one is asked for says nothing.
fn step(value: &Value) -> Option<Step> {
    let word = |value| u32::try_from(number(value)?).ok();
    match value.as_array()?.as_slice() {
        [op, index] if op == "f" => Some(Step::Free(usize::try_from(number(index)?).ok()?)),
        [op, size, align, channel, region, core, category, result] => {
            number(region)?;
            let wanted = Wanted {
                location: match op.as_str()? {
                    "d" => MemLocation::Device,
                    "h" => MemLocation::Host,
                    _ => return None,
                },
                size: number(size)?,
                align: number(align)?,
                channel: word(channel)?,
                core: word(core)?,
                category: word(category)?,
            };
            Some(Step::Allocate(wanted, result.clone()))
        }
        _ => None,
    }
}

/// Memory that a case allocated and has not freed.
struct Living {
    handle: u64,
    pa: u64,
    size: u64,
    wanted: Wanted,
}

impl Living {
    /// Channel of a page of the contiguous scratchpad.
    fn scratchpad(&self) -> Option<u32> {
        let Wanted { location, channel, category, .. } = self.wanted;
        let page = location == MemLocation::Device && category == Category::ContiguousScratchpadDevice.raw();
        page.then_some(channel)
    }
}

fn operations(board: &Board, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let device = board.device();
    if case.has("coherent_alloc_fails") {
        equal("coherent_alloc_fails", case.flag("coherent_alloc_fails")?, true)?;
        reserve_pools(board, case)?;
        board.recorder().refuse_memory();
    }
    case.skip("seed");
    let mut living = BTreeMap::new();
    for (index, value) in case.list("ops")?.iter().enumerate() {
        let step = step(value).ok_or_else(|| Mismatch::new(format!("no operation: {value}")))?;
        perform(device, &mut living, index, &step)
            .map_err(|error| error.at(format!("operation {index} {value}")))?;
    }
    equal("live", living.len() as u64, case.number("live")?)?;
    let mut row = None;
    for after in case.objects("after")? {
        let channel = after.word("channel")?;
        row = row.or(compare_channel(device, channel, &living, &after)
            .and_then(|row| after.finish().map(|()| row))
            .map_err(|error| error.at(format!("channel {channel}")))?);
    }
    equal("channels", case.list("after")?.len(), device.geometry().hbm.len())?;
    Ok(Outcome::from_row(row))
}

fn perform(
    device: &Device,
    living: &mut BTreeMap<usize, Living>,
    index: usize,
    step: &Step,
) -> Result<(), Mismatch> {
    let (wanted, result) = match step {
        Step::Allocate(wanted, result) => (*wanted, result),
        Step::Free(index) => {
            let old = living.remove(index).ok_or_else(|| Mismatch::new("frees what is not there"))?;
            return device.pools().free(old.handle).map_err(|errno| Mismatch::new(errno.to_string()));
        }
    };
    match (wanted.allocate(device), result.as_i64()) {
        (Ok((chunk, handle)), None) => {
            let recorded = number(result).ok_or_else(|| Mismatch::new("no result"))?;
            equal_hex("address", chunk.pa(), recorded)?;
            living.insert(index, Living { handle, pa: chunk.pa(), size: chunk.size(), wanted });
            Ok(())
        }
        (Err(ours), Some(recorded)) => equal("ret", ours, recorded),
        (Ok((chunk, _)), Some(recorded)) => {
            Err(Mismatch::new(format!("ours {:#x}, recorded {recorded}", chunk.pa())))
        }
        (Err(ours), None) => Err(Mismatch::new(format!("ours {ours}, recorded {result}"))),
    }
}

/// The pages of the reserve pools are where they were recorded.
fn reserve_pools(board: &Board, case: &Object<'_>) -> Result<(), Mismatch> {
    let base = board.device().geometry().host_base;
    for pool in case.objects("reserve_pools")? {
        let (size, pages, first) =
            (pool.number("page_size")?, pool.number("pages")?, pool.number("first_pa")?);
        equal("consecutive", pool.flag("consecutive")?, true)?;
        for page in 0..pages {
            let address = base | (first + page * size);
            let block = board.recorder().host_memory(address, size);
            let starts = block.is_some_and(|block| block.address() == first + page * size);
            equal(format!("page {page} of the {size:#x} pool at {address:#x}"), starts, true)?;
        }
        pool.finish()?;
    }
    Ok(())
}

/// Compares what is used and free of a channel.
fn compare_channel(
    device: &Device,
    channel: u32,
    living: &BTreeMap<usize, Living>,
    after: &Object<'_>,
) -> Result<Option<Difference>, Mismatch> {
    let none = || Mismatch::new("we have no such channel");
    let ours = device.pools().hbm(channel).ok_or_else(none)?;
    equal("allocated", ours.allocated, after.number("allocated")?)?;
    equal("main_free", ours.main.0, after.number("main_free")?)?;
    equal("small_free", ours.small.0, after.number("small_free")?)?;
    let of_channel =
        |memory: &&Living| memory.wanted.location == MemLocation::Device && memory.wanted.channel == channel;
    // The firmware's part is one more.
    let chunks = living.values().filter(of_channel).count() + 1;
    equal("chunks", device.pools().device_chunks(channel).len(), chunks)?;

    let recorded = after.number("scratchpad")?;
    let pages = || living.values().filter(|memory| memory.scratchpad() == Some(channel));
    let sum = pages().map(|page| page.size).sum::<u64>();
    let end = device.geometry().main_pool(channel).ok_or_else(none)?.end;
    let distance = pages().map(|page| end.saturating_sub(page.pa)).max().unwrap_or(0);
    equal("distance to the lowest scratchpad page", ours.scratchpad, distance)?;
    equal("scratchpad", sum, recorded)?;
    // They part where a page was freed above a living one.
    Ok((sum != distance).then_some(SCRATCHPAD_SIZE))
}

fn lookup(device: &Device, case: &Object<'_>) -> Result<Outcome, Mismatch> {
    let pairs = |field| -> Result<Vec<(u64, Value)>, Mismatch> {
        let pair = |value: &Value| match value.as_array()?.as_slice() {
            [first, second] => Some((number(first)?, second.clone())),
            _ => None,
        };
        case.list(field)?
            .iter()
            .map(|value| pair(value).ok_or_else(|| Mismatch::new(format!("no pair: {value}"))))
            .collect()
    };
    for (address, size) in pairs("chunks")? {
        let size = number(&size).ok_or_else(|| Mismatch::new("no size"))?;
        let wanted = Wanted::at(device.geometry(), address, size);
        let (chunk, _) =
            wanted.allocate(device).map_err(|ret| Mismatch::new(format!("{address:#x}: {ret}")))?;
        equal_hex("address", chunk.pa(), address)?;
    }
    for (address, recorded) in pairs("queries")? {
        let ours = device.pools().at_address(address).map(|chunk| chunk.pa());
        let recorded = if recorded.is_null() {
            None
        } else {
            Some(number(&recorded).ok_or_else(|| Mismatch::new(format!("no address: {recorded}")))?)
        };
        equal(format!("chunk at {address:#x}"), ours, recorded)?;
    }
    Ok(Outcome::Compared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::{cases, every_change_is_noticed, is};
    use neuron_abi::arch::Generation;
    use serde_json::json;

    #[test]
    fn sizes_are_no_part_of_a_kind() {
        let kind_of = |name: &str| kind(&Object::new(json!({"case": name}).as_object().unwrap()));
        assert_eq!(kind_of("exhaust_67108864_align_0").as_deref(), Some("exhaust"));
        assert_eq!(kind_of("random_p3").as_deref(), Some("random_p3"));
        assert_eq!(kind_of("lookup").as_deref(), Some("lookup"));
    }

    #[test]
    fn a_placement_case_with_one_wrong_value_fails() {
        let checker = Checker::new(Generation::V3).unwrap();
        let cases = cases("v3/mempool.jsonl.gz");
        let named = |name: &str| cases.iter().find(|case| is(case, "case", name)).unwrap();
        let changes = [
            ("/ops/0/7", json!("0x1001000")),
            ("/ops/7/7", json!(-12)),
            ("/ops/0/1", json!(1_u64 << 40)),
            ("/after/1/allocated", json!(1)),
            ("/after/0/main_free", json!(1)),
            ("/after/3/small_free", json!(1)),
            ("/after/2/scratchpad", json!(1)),
            ("/live", json!(1)),
        ];
        every_change_is_noticed(named("random_p0"), &changes, |case| checker.check(case));
        let changes =
            [("/reserve_pools/1/first_pa", json!("0x14001000")), ("/ops/0/7", json!("0x400012000000"))];
        every_change_is_noticed(named("host_reserve_fallback"), &changes, |case| checker.check(case));
        // Where the row applies, it applies to the size that was recorded.
        let changes = [("/after/0/scratchpad", json!(1)), ("/ops/4/7", json!("0x10"))];
        every_change_is_noticed(named("contiguous_scratchpad"), &changes, |case| checker.check(case));
        let changes = [("/queries/4/1", Value::Null), ("/queries/3/1", json!("0x5c0000000"))];
        every_change_is_noticed(named("lookup"), &changes, |case| checker.check(case));
    }
}
