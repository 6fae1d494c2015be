//! Answers about all but refused device requests: host memory, limits, versions, the kernel's
//! lines, growth by loads, and tables that stand alone.

use neuron_abi::status::NrtStatus;
use neuron_dmem::report::Size;
use neuron_dmem::report::figures::{quoted, short, thousands};

use super::{Answer, Basis, CauseKind, device, words};
use crate::facts::{Facts, Failure, Kernel};
use crate::stack::Stack;
use crate::tags::{growth, idle, rows};

/// Reserve pages of the driver end here (`spec/mempool.md` 3.2).
const LARGEST_RESERVE: u64 = 2 << 20;
const PAGE: u64 = 4096;

impl Answer {
    fn of(cause: CauseKind, basis: Basis, sentence: String, change: String) -> Self {
        let none = || "not in this log".to_owned();
        Self {
            failures: Vec::new(),
            request: "none was refused in this log".to_owned(),
            place: none(),
            consumers: none(),
            room: Vec::new(),
            cause,
            basis,
            holder: None,
            sentence,
            change,
            unknown: Vec::new(),
        }
    }
}

/// A refused request for host memory.
pub(super) fn host(facts: &Facts, failure: &Failure, group: Vec<usize>) -> Answer {
    let bytes = failure.requested.map_or(0, |requested| requested.bytes);
    let pages = bytes.div_ceil(PAGE).max(1).checked_next_power_of_two().unwrap_or(u64::MAX);
    let order = pages.trailing_zeros();
    let reserve = if bytes > LARGEST_RESERVE {
        "the driver's reserve has no page above 2.0 MiB, so it cannot help".to_owned()
    } else {
        "the kernel had none and the driver's reserve (4 times 32.0 MiB) was used up".to_owned()
    };
    let change = if bytes > LARGEST_RESERVE {
        format!(
            "blocks of {} or less, which the reserve can serve; else free host memory in one piece: drop the page cache, compact memory, end orphan processes",
            short(LARGEST_RESERVE)
        )
    } else {
        "free host memory in one piece: drop the page cache, compact memory, end orphan processes that hold the reserve".to_owned()
    };
    Answer {
        request: words::request(failure),
        place: format!("the host; {}", words::place(facts, &group)),
        consumers: "not in this log: device memory is not the problem".to_owned(),
        room: vec!["host memory is not in any report; /proc/buddyinfo shows its free pieces".to_owned()],
        failures: group,
        ..Answer::of(
            CauseKind::HostContiguous,
            Basis::Fact,
            format!(
                "host memory: {} in one piece (order {order} of the kernel's pages) below 4 GiB were not free; {reserve}",
                short(bytes)
            ),
            change,
        )
    }
}

/// A status without a refused request.
pub(super) fn status(facts: &Facts, group: Vec<usize>) -> Answer {
    let failure = group.first().and_then(|index| facts.failures.get(*index)).cloned().unwrap_or_default();
    let known = failure.status.and_then(NrtStatus::from_raw).map(NrtStatus::name);
    let name = failure.status_name.as_deref().or(known).unwrap_or("unknown");
    let number = failure.status.map_or_else(String::new, |status| format!(" {status}"));
    let place = words::place(facts, &group);
    let answer = match facts.ring_limits.first() {
        Some(line) => Answer::of(
            CauseKind::RingLimit,
            Basis::Fact,
            format!("a limit of rings, not memory: {}; status{number} ({name}) follows from it", quoted(line)),
            "smaller static rings: compile for a smaller batch or fewer descriptors a queue, or take a newer runtime".to_owned(),
        ),
        None => Answer::of(
            CauseKind::NotOom,
            Basis::Inferred,
            format!("not out of memory, by all this log shows: status{number} ({name}) without a refused request; a failed mapping ends so too"),
            "none for memory: look at the first line that failed, and give the log from there".to_owned(),
        ),
    };
    Answer { failures: group, request: "no size in this log".to_owned(), place, ..answer }
}

/// What a log without failures, or with versions that do not fit, shows.
pub(super) fn extend(facts: &Facts, stack: Option<&Stack>, answers: &mut Vec<Answer>) {
    if facts.mismatch {
        answers.push(mismatch(facts));
    }
    if !answers.iter().any(|answer| answer.cause == CauseKind::RingLimit)
        && let Some(line) = facts.ring_limits.first()
    {
        answers.push(Answer::of(
            CauseKind::RingLimit,
            Basis::Fact,
            format!("a limit of rings, not memory: {}", quoted(line)),
            "smaller static rings: compile for a smaller batch or fewer descriptors a queue".to_owned(),
        ));
    }
    kernel(facts, answers);
    if !answers.is_empty() {
        return;
    }
    if facts.memory_blocks.is_empty() {
        tables(facts, stack, answers);
    } else {
        blocks(facts, stack, answers);
    }
    if answers.is_empty() {
        let seen =
            if facts.versions.runtime.is_some() || facts.versions.driver.is_some() || !facts.env.is_empty() {
                "versions and settings"
            } else {
                "files or cores"
            };
        answers.push(Answer::of(
            CauseKind::Open,
            Basis::Open,
            format!("open: the log names {seen}, and nothing that failed"),
            "none can be told".to_owned(),
        ));
    }
}

fn mismatch(facts: &Facts) -> Answer {
    let compat = facts.compat.unwrap_or_default();
    let id = compat.runtime_id.map_or_else(|| "an id that is not told".to_owned(), |id| format!("id {id}"));
    let range = match (compat.driver_min, compat.driver_max) {
        (Some(min), Some(max)) => format!("ids {min} to {max}"),
        _ => "ids that are not told".to_owned(),
    };
    let older = compat.runtime_id.zip(compat.driver_max).is_some_and(|(id, max)| id > max);
    let change = if older {
        "a newer driver, or a runtime as old as it"
    } else {
        "a newer runtime, or a driver as old as it"
    };
    Answer::of(
        CauseKind::DriverMismatch,
        Basis::Fact,
        format!("versions do not fit together: the runtime has {id}, the driver works with {range}"),
        change.to_owned(),
    )
}

/// The kernel's lines.
pub(super) fn kernel(facts: &Facts, answers: &mut Vec<Answer>) {
    let mut kinds = Vec::new();
    for line in &facts.kernel {
        let kind = std::mem::discriminant(&line.kernel);
        let Some(answer) = kernel_line(facts, &line.kernel).filter(|_| !kinds.contains(&kind)) else {
            continue;
        };
        kinds.push(kind);
        answers.push(answer);
    }
    if answers.is_empty() && !facts.kernel.is_empty() {
        answers.push(Answer::of(
            CauseKind::Open,
            Basis::Open,
            format!(
                "open: {} lines of the driver, none of which says that something was refused",
                facts.kernel.len()
            ),
            "none can be told".to_owned(),
        ));
    }
}

fn kernel_line(facts: &Facts, kernel: &Kernel) -> Option<Answer> {
    Some(match kernel {
        Kernel::PoolExhausted { channel, region, total, occupied, needed, available, available_small } => {
            let between = total.saturating_sub(*occupied);
            let capacity = *needed > between;
            let printed = available.map_or_else(|| "no figure for what is available".to_owned(), |it| format!("{} B available", thousands(it)));
            let small = available_small.map_or_else(String::new, |it| format!(", {} B in the small pool", thousands(it)));
            let sentence = if capacity {
                format!("capacity: {} B needed, {} B between total and occupied", thousands(*needed), thousands(between))
            } else {
                format!("fragmentation or alignment: {} B lie between total and occupied, and yet {printed}: trust what is available", thousands(between))
            };
            let cause = if capacity { CauseKind::Capacity } else { CauseKind::FragmentationOrAlignment };
            Answer {
                request: format!("{} B", thousands(*needed)),
                place: format!("channel {channel}, region {region}; the line does not name the device"),
                room: vec![format!("{printed}{small}; total {} B, occupied {} B", thousands(*total), thousands(*occupied))],
                ..Answer::of(cause, Basis::Fact, sentence, format!("free {} on this channel, or place the load on another", short(needed.saturating_sub(available.unwrap_or(0)).max(1))))
            }
        }
        Kernel::QueueTooLarge { queue, size } => Answer {
            request: format!("queue {queue} with {} descriptors", thousands(*size)),
            ..Answer::of(
                CauseKind::RingLimit,
                Basis::Fact,
                format!("a limit of queues, not memory: {} descriptors are too many for one", thousands(*size)),
                format!("fewer than {} descriptors a queue: compile with smaller static rings", thousands(*size)),
            )
        },
        Kernel::DmaTimeout { engine, queue, device, .. } => {
            let retried = facts.kernel.iter().any(|line| matches!(line.kernel, Kernel::CopyRetryDuringReset { .. }));
            let count = facts.kernel.iter().filter(|line| matches!(line.kernel, Kernel::DmaTimeout { .. })).count();
            let (then, change) = if retried && count == 1 {
                ("a reset was under way and the copy was tried again: harmless if it stays alone", "none, unless it comes again")
            } else if retried {
                ("copies were tried again during a reset, but it came more than once", "look at the device: it stays away from its queue")
            } else {
                ("nothing shows that it was tried again", "reset the device; if it comes again, look at the hardware's error counters")
            };
            let place = device.map_or_else(String::new, |device| format!("ND {device}, "));
            Answer {
                place: format!("{place}engine {engine}, queue {queue}"),
                ..Answer::of(CauseKind::DmaTimeout, Basis::Fact, format!("a copy did not end in time ({count} times); {then}"), change.to_owned())
            }
        }
        Kernel::CopyRetryDuringReset { device, size, .. }
            if !facts.kernel.iter().any(|line| matches!(line.kernel, Kernel::DmaTimeout { .. })) =>
        {
            Answer {
                place: format!("ND {device}"),
                ..Answer::of(
                    CauseKind::Retried,
                    Basis::Fact,
                    format!("a copy of {} was hit by a reset and tried again: harmless if it stays alone", short(*size)),
                    "none, unless it comes again".to_owned(),
                )
            }
        }
        Kernel::AlignedAllocationFailed { size, alignment } => Answer {
            request: format!("{}, aligned to {}", words::size(Size::exact(*size)), short(*alignment)),
            ..Answer::of(
                CauseKind::FragmentationOrAlignment,
                Basis::Open,
                "no free place at the alignment; whether unaligned ones were left the line does not say".to_owned(),
                "a smaller alignment, or aligned blocks first".to_owned(),
            )
        },
        Kernel::ContiguousScratchpadFailed { device, hbm, size, .. } => Answer {
            request: format!("{} of contiguous scratchpad", words::size(Size::exact(*size))),
            place: format!("ND {device} HBM {hbm}"),
            ..Answer::of(
                CauseKind::Fragmentation,
                Basis::Fact,
                "scratchpad pages grow down from the end of the main pool, each below the last, and the next place is taken".to_owned(),
                format!("load what needs scratchpad first, so that {} below the last page stay free", short(*size)),
            )
        },
        Kernel::MemsetFailed { size } => Answer::of(
            CauseKind::NotOom,
            Basis::Fact,
            format!("clearing {} of memory failed; that is a copy that failed, not a lack of memory", short(*size)),
            "none for memory".to_owned(),
        ),
        _ => return None,
    })
}

/// Loads on a core, one after the other.
fn blocks(facts: &Facts, stack: Option<&Stack>, answers: &mut Vec<Answer>) {
    let growth = growth(&facts.memory_blocks);
    let most = growth.iter().max_by_key(|(low, high)| high.current_total.bytes - low.current_total.bytes);
    let Some(largest) = facts.memory_blocks.iter().max_by_key(|block| block.current_total.bytes) else {
        return;
    };
    let (low, high) = most.copied().unwrap_or((largest, largest));
    let row = crate::facts::Row {
        scope: crate::facts::Scope { device: Some(high.device), hbm: None, core: Some(high.core) },
        total: high.neff_total,
        categories: high.categories.clone(),
        ..crate::facts::Row::default()
    };
    let (cause, sentence, change) = if growth.is_empty() {
        (
            CauseKind::Open,
            "nothing failed: blocks at the load of models, no core twice with more".to_owned(),
            "none is needed".to_owned(),
        )
    } else {
        let cores: Vec<_> = growth
            .iter()
            .take(4)
            .map(|(low, high)| {
                format!(
                    "NC {} of ND {} {} to {}",
                    high.core, high.device, low.current_total, high.current_total
                )
            })
            .collect();
        let added = high.neff_total.map_or_else(|| "not told".to_owned(), |it| short(it.bytes));
        (
            CauseKind::GraphGrowth,
            format!("growth by graph: {}; nothing failed in this log", cores.join(", ")),
            format!(
                "one graph or bucket fewer saves {added} on NC {}, of which {} is most",
                high.core,
                high.biggest.map_or("none", crate::facts::Key::printed)
            ),
        )
    };
    let whose = stack.map_or_else(
        || "generation not known".to_owned(),
        |stack| format!("{}, {} an HBM", device::name(stack.generation), short(stack.stack_bytes())),
    );
    answers.push(Answer {
        place: format!(
            "ND {} NC {}{}",
            high.device,
            high.core,
            high.time.as_ref().map_or_else(String::new, |time| format!(" at {time}"))
        ),
        consumers: format!(
            "the last model {}: {}",
            high.neff_name.as_deref().map_or_else(String::new, quoted),
            words::consumers(&row)
        ),
        room: vec![format!(
            "the core had {} before and {} after; {whose}",
            low.current_total, high.current_total
        )],
        unknown: vec![
            "cores that share the HBM, and what other processes have, are not in these blocks".to_owned(),
        ],
        ..Answer::of(cause, if growth.is_empty() { Basis::Open } else { Basis::Fact }, sentence, change)
    });
}

/// Tables and lists without a request.
fn tables(facts: &Facts, stack: Option<&Stack>, answers: &mut Vec<Answer>) {
    for row in rows(facts).into_iter().take(super::MOST) {
        let room = stack.and_then(|stack| stack.room(row)).filter(|room| !room.contradiction);
        let left = room.map_or_else(
            || "not known: without the generation (--arch, --instance) or a total".to_owned(),
            |room| {
                let because = stack
                    .and_then(|stack| stack.because)
                    .map_or_else(String::new, |why| format!(", presumed: {why}"));
                format!(
                    "{} left of {} by the printed total ({}{because})",
                    words::brief(room.free),
                    short(room.pool_bytes),
                    stack.map_or("", |stack| device::name(stack.generation)),
                )
            },
        );
        let idle = idle(facts, stack);
        let change = idle.first().map_or_else(
            || {
                format!(
                    "none can be told without the request; {} is the largest",
                    row.biggest.map_or("nothing", crate::facts::Key::printed)
                )
            },
            |core| {
                format!(
                    "NC {} of ND {} uses {} and has an HBM of its own",
                    core.core,
                    core.device,
                    short(core.total.bytes)
                )
            },
        );
        answers.push(Answer {
            place: words::scope(row.scope),
            consumers: words::consumers(row),
            room: vec![left],
            unknown: vec!["which request failed, if any: a table or list alone does not say".to_owned()],
            ..Answer::of(CauseKind::Open, Basis::Open, "open: usage without a request".to_owned(), change)
        });
    }
}
