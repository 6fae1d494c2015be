//! Records of the two CSV dumps (`spec/report.md` 3.2; the headings are our choice, the
//! vendor's are not known).

use std::io::{self, Write};

use neuron_abi::memory::{Category, MemLocation, UsageType};

use super::bytes::usage_named;
use super::csv::{self, CsvError};

const EVENT_HEADING: [&str; 11] = [
    "index",
    "action",
    "location",
    "usage",
    "channel",
    "core",
    "size",
    "pa",
    "align_offset",
    "total_mem_used",
    "hint",
];
const CHUNK_HEADING: [&str; 4] = ["pa", "size", "category", "category_name"];
/// Name of a number that is no category.
const NO_CATEGORY: &str = "UNKNOWN";

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Allocated.
    Alloc,
    /// Freed.
    Free,
}

/// One allocation or free (`dma_mem_log_entry_t`, `spec/dmem.md` 1.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, counted from the first.
    pub index: u64,
    /// What was done.
    pub action: Action,
    /// Where.
    pub location: MemLocation,
    /// What for.
    pub usage: UsageType,
    /// HBM; 0 for the host.
    pub channel: u32,
    /// Core.
    pub core: u32,
    /// Bytes.
    pub size: u64,
    /// Physical address.
    pub pa: u64,
    /// What is added to it for a manual alignment.
    pub align_offset: u64,
    /// Bytes of the channel after it; 0 for host memory.
    pub total_mem_used: u64,
    /// Name; empty for none.
    pub hint: String,
}

/// One block of an HBM, as the driver lists it (ioctl 116).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Physical address.
    pub pa: u64,
    /// Bytes, whole pages.
    pub size: u64,
    /// Category as it was given, a [`Category`] or any number.
    pub category: u32,
}

impl Event {
    /// Writes the events as a file, a heading first, one after the other: a full ring has a
    /// million.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_csv<'a>(events: impl IntoIterator<Item = &'a Self>, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        csv::write(&mut text, &EVENT_HEADING);
        for event in events {
            let action = match event.action {
                Action::Alloc => "ALLOC",
                Action::Free => "FREE",
            };
            let number = |value: u64| value.to_string();
            csv::write(
                &mut text,
                &[
                    &number(event.index),
                    action,
                    event.location.name(),
                    event.usage.name(),
                    &number(event.channel.into()),
                    &number(event.core.into()),
                    &number(event.size),
                    &format!("{:#x}", event.pa),
                    &number(event.align_offset),
                    &number(event.total_mem_used),
                    &event.hint,
                ],
            );
            out.write_all(text.as_bytes())?;
            text.clear();
        }
        out.write_all(text.as_bytes())
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// [`CsvError`] with the record that is none.
    pub fn read_csv(text: &str) -> Result<Vec<Self>, CsvError> {
        csv::read(text, EVENT_HEADING, |fields| {
            let [index, action, location, usage, channel, core, size, pa, align_offset, total_mem_used, hint] =
                fields;
            let action = match action.as_str() {
                "ALLOC" => Action::Alloc,
                "FREE" => Action::Free,
                other => return Err(format!("{other:?} is no action")),
            };
            let known = MemLocation::ALL.iter().copied().find(|known| known.name() == location);
            Ok(Self {
                index: number(index)?,
                action,
                location: known.ok_or_else(|| format!("{location:?} is no location"))?,
                usage: usage_named(usage)?,
                channel: number(channel)?,
                core: number(core)?,
                size: number(size)?,
                pa: address(pa)?,
                align_offset: number(align_offset)?,
                total_mem_used: number(total_mem_used)?,
                hint: hint.clone(),
            })
        })
    }
}

impl Chunk {
    /// Writes the chunks as a file, a heading first.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_csv(chunks: &[Self], out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        csv::write(&mut text, &CHUNK_HEADING);
        for Self { pa, size, category } in chunks {
            let name = Category::from_raw(*category).map_or(NO_CATEGORY, Category::name);
            csv::write(&mut text, &[&format!("{pa:#x}"), &size.to_string(), &category.to_string(), name]);
        }
        out.write_all(text.as_bytes())
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// [`CsvError`] with the record that is none.
    pub fn read_csv(text: &str) -> Result<Vec<Self>, CsvError> {
        csv::read(text, CHUNK_HEADING, |[pa, size, category, _name]| {
            Ok(Self { pa: address(pa)?, size: number(size)?, category: number(category)? })
        })
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number that fits"))
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or_else(|| format!("{text:?} is no hexadecimal number"))?;
    u64::from_str_radix(digits, 16).map_err(|_| format!("{text:?} is no hexadecimal number that fits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = Event> {
        let kind = (any::<bool>(), 0usize..3, 0usize..22, any::<[u32; 2]>());
        (kind, any::<[u64; 5]>(), "\\PC{0,12}|[\",\n\r]{0,4}").prop_map(|(kind, numbers, hint)| {
            let (freed, location, usage, [channel, core]) = kind;
            let [index, size, pa, align_offset, total_mem_used] = numbers;
            Event {
                index,
                action: if freed { Action::Free } else { Action::Alloc },
                location: MemLocation::ALL[location],
                usage: UsageType::ALL[usage],
                channel,
                core,
                size,
                pa,
                align_offset,
                total_mem_used,
                hint,
            }
        })
    }

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn events_are_read_back(events in prop::collection::vec(event(), 0..8)) {
            let text = written(|out| Event::write_csv(&events, out));
            prop_assert_eq!(Event::read_csv(&text), Ok(events));
        }

        #[test]
        fn chunks_are_read_back(parts in prop::collection::vec((any::<u64>(), any::<u64>(), 0u32..24), 0..8)) {
            let chunks: Vec<_> =
                parts.into_iter().map(|(pa, size, category)| Chunk { pa, size, category }).collect();
            let text = written(|out| Chunk::write_csv(&chunks, out));
            prop_assert_eq!(Chunk::read_csv(&text), Ok(chunks));
        }
    }

    #[test]
    fn a_chunk_of_an_unknown_category_keeps_its_number() {
        let chunks =
            [Chunk { pa: 0x1000, size: 4096, category: 9 }, Chunk { pa: 0x2000, size: 1, category: 77 }];
        let text = "pa,size,category,category_name\n0x1000,4096,9,TENSORS_DEVICE\n0x2000,1,77,UNKNOWN\n";
        assert_eq!(written(|out| Chunk::write_csv(&chunks, out)), text);
    }

    #[test]
    fn fields_that_are_none_are_told() {
        let heading = EVENT_HEADING.join(",");
        for (line, words) in [
            ("0,MOVE,HOST,IO,0,0,1,0x0,0,0,", "\"MOVE\" is no action"),
            ("0,FREE,MOON,IO,0,0,1,0x0,0,0,", "\"MOON\" is no location"),
            ("0,FREE,HOST,XX,0,0,1,0x0,0,0,", "\"XX\" is no usage type"),
            ("0,FREE,HOST,IO,0,0,-1,0x0,0,0,", "\"-1\" is no number"),
            ("0,FREE,HOST,IO,0,0,1,12,0,0,", "\"12\" is no hexadecimal"),
        ] {
            let error = Event::read_csv(&format!("{heading}\n{line}\n")).unwrap_err();
            assert!(error.record == 2 && error.problem.contains(words), "{error}");
        }
    }
}
