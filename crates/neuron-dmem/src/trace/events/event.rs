//! What a line says: the header, and events. `docs/trace-format.md` has them for readers.

use std::borrow::Cow;

use neuron_abi::memory::{MemLocation, UsageType};
use serde::Serialize;

/// Version of the format, the header's `v`.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// Instance type on which it was recorded, if that is known.
    pub instance: Option<Cow<'a, str>>,
    /// Who wrote it.
    pub source: Cow<'a, str>,
    /// Events that are missing at the start: a usage log keeps the newest only.
    pub dropped: u64,
}

impl<'a> Header<'a> {
    /// Of a whole trace.
    pub fn of(source: &'a str, instance: Option<&'a str>) -> Self {
        Self { instance: instance.map(Cow::Borrowed), source: Cow::Borrowed(source), dropped: 0 }
    }

    /// Appends the line.
    pub fn write(&self, into: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Line<'a> {
            v: u32,
            instance: Option<&'a str>,
            source: &'a str,
            #[serde(skip_serializing_if = "is_zero")]
            dropped: u64,
        }
        let instance = self.instance.as_deref();
        line(into, &Line { v: VERSION, instance, source: &self.source, dropped: self.dropped });
    }
}

/// Something that happened. Ids of allocations rise from one to the next; times are nanoseconds of
/// any clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Memory was allocated, or asked for in vain.
    Alloc(Alloc<'a>),
    /// Memory was freed.
    Free {
        /// The allocation's.
        id: u64,
        /// When.
        time: Option<u64>,
    },
    /// Bytes were copied.
    Copy(Copy),
    /// Something that the program wants to find again.
    Mark {
        /// What.
        name: Cow<'a, str>,
        /// When.
        time: Option<u64>,
    },
    /// A graph begins to load: what it owns has its name as owner.
    Load {
        /// Its name.
        graph: Cow<'a, str>,
        /// When.
        time: Option<u64>,
    },
    /// A graph is gone. What it still owns lives on.
    Unload {
        /// Its name.
        graph: Cow<'a, str>,
        /// When.
        time: Option<u64>,
    },
    /// A process has ended: the driver frees what it had.
    Exit {
        /// Which; 0 where there is only one.
        pid: u64,
        /// When.
        time: Option<u64>,
    },
}

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alloc<'a> {
    /// Of this allocation and no other of the trace; higher than those before.
    pub id: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Alignment asked for, bytes; 0 for none.
    pub align: u64,
    /// Host or device.
    pub location: MemLocation,
    /// Device index.
    pub device: u8,
    /// HBM; 0 for host memory.
    pub hbm: u32,
    /// Core.
    pub core: u32,
    /// For what.
    pub usage: UsageType,
    /// Whose: a model, or whatever the program counts by.
    pub owner: Option<Cow<'a, str>>,
    /// Name of the memory.
    pub hint: Option<Cow<'a, str>>,
    /// Where it was put.
    pub pa: Option<u64>,
    /// It was not had: nothing frees it.
    pub refused: bool,
    /// Process; 0 where there is only one.
    pub pid: u64,
    /// When.
    pub time: Option<u64>,
}

/// A copy to or from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The allocation's.
    pub id: u64,
    /// Bytes.
    pub bytes: u64,
    /// Which way.
    pub direction: Direction,
    /// When.
    pub time: Option<u64>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the program to the memory.
    In,
    /// From the memory to the program.
    Out,
}

impl Direction {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// A location as it is written.
const fn location_name(location: MemLocation) -> &'static str {
    match location {
        MemLocation::Host => "host",
        _ => "device",
    }
}

/// A line with the keys in the order of the documentation.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(flatten)]
    rest: Rest<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Rest<'a> {
    Alloc {
        size: u64,
        align: u64,
        location: &'static str,
        #[serde(skip_serializing_if = "is_zero")]
        device: u64,
        hbm: u32,
        core: u32,
        usage: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pa: Option<u64>,
        #[serde(skip_serializing_if = "is_false")]
        refused: bool,
        #[serde(skip_serializing_if = "is_zero")]
        pid: u64,
    },
    Copy {
        direction: &'static str,
        bytes: u64,
    },
    Mark {
        name: &'a str,
    },
    Graph {
        graph: &'a str,
    },
    Exit {
        #[serde(skip_serializing_if = "is_zero")]
        pid: u64,
    },
    Nothing {},
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Appends a line of JSON. Strings and numbers into memory: there is nothing to fail.
fn line(into: &mut Vec<u8>, line: &impl Serialize) {
    let _ = serde_json::to_writer(&mut *into, line);
    into.push(b'\n');
}

impl Event<'_> {
    /// Which kind it is, as it is written.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Alloc(_) => "alloc",
            Self::Free { .. } => "free",
            Self::Copy(_) => "copy",
            Self::Mark { .. } => "mark",
            Self::Load { .. } => "load",
            Self::Unload { .. } => "unload",
            Self::Exit { .. } => "exit",
        }
    }

    /// Appends the line.
    pub fn write(&self, into: &mut Vec<u8>) {
        let (id, rest, time) = match self {
            Self::Alloc(alloc) => {
                let rest = Rest::Alloc {
                    size: alloc.size,
                    align: alloc.align,
                    location: location_name(alloc.location),
                    device: alloc.device.into(),
                    hbm: alloc.hbm,
                    core: alloc.core,
                    usage: alloc.usage.name(),
                    owner: alloc.owner.as_deref(),
                    hint: alloc.hint.as_deref(),
                    pa: alloc.pa,
                    refused: alloc.refused,
                    pid: alloc.pid,
                };
                (Some(alloc.id), rest, alloc.time)
            }
            Self::Free { id, time } => (Some(*id), Rest::Nothing {}, *time),
            Self::Copy(copy) => {
                let rest = Rest::Copy { direction: copy.direction.name(), bytes: copy.bytes };
                (Some(copy.id), rest, copy.time)
            }
            Self::Mark { name, time } => (None, Rest::Mark { name }, *time),
            Self::Load { graph, time } | Self::Unload { graph, time } => (None, Rest::Graph { graph }, *time),
            Self::Exit { pid, time } => (None, Rest::Exit { pid: *pid }, *time),
        };
        line(into, &Line { event: self.kind(), id, rest, time });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(event: &Event<'_>) -> String {
        let mut bytes = Vec::new();
        event.write(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_are_those_of_the_documentation() {
        let alloc = Alloc {
            id: 3,
            size: 4096,
            align: 64,
            location: MemLocation::Device,
            device: 0,
            hbm: 1,
            core: 2,
            usage: UsageType::Weight,
            owner: Some("llama".into()),
            hint: Some("a \"b\"\n".into()),
            pa: Some(16_777_216),
            refused: false,
            pid: 0,
            time: Some(5),
        };
        assert_eq!(
            written(&Event::Alloc(alloc.clone())),
            "{\"event\":\"alloc\",\"id\":3,\"size\":4096,\"align\":64,\"location\":\"device\",\"hbm\":1,\
             \"core\":2,\"usage\":\"WEIGHT\",\"owner\":\"llama\",\"hint\":\"a \\\"b\\\"\\n\",\
             \"pa\":16777216,\"time\":5}\n"
        );
        let refused = Alloc {
            refused: true,
            owner: None,
            hint: None,
            pa: None,
            pid: 7,
            device: 1,
            time: None,
            ..alloc
        };
        assert_eq!(
            written(&Event::Alloc(refused)),
            "{\"event\":\"alloc\",\"id\":3,\"size\":4096,\"align\":64,\"location\":\"device\",\"device\":1,\
             \"hbm\":1,\"core\":2,\"usage\":\"WEIGHT\",\"refused\":true,\"pid\":7}\n"
        );
        assert_eq!(
            written(&Event::Free { id: 3, time: Some(9) }),
            "{\"event\":\"free\",\"id\":3,\"time\":9}\n"
        );
        let copy = Copy { id: 3, bytes: 10, direction: Direction::Out, time: None };
        assert_eq!(
            written(&Event::Copy(copy)),
            "{\"event\":\"copy\",\"id\":3,\"direction\":\"out\",\"bytes\":10}\n"
        );
        assert_eq!(
            written(&Event::Mark { name: "s".into(), time: None }),
            "{\"event\":\"mark\",\"name\":\"s\"}\n"
        );
        assert_eq!(
            written(&Event::Unload { graph: "g".into(), time: None }),
            "{\"event\":\"unload\",\"graph\":\"g\"}\n"
        );
        assert_eq!(written(&Event::Exit { pid: 0, time: None }), "{\"event\":\"exit\"}\n");
        let mut header = Vec::new();
        Header::of("test", None).write(&mut header);
        assert_eq!(header, b"{\"v\":1,\"instance\":null,\"source\":\"test\"}\n");
    }
}
