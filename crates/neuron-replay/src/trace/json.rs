//! One line of our own format.

use std::borrow::Cow;
use std::fmt;

use neuron_abi::memory::{MemLocation, UsageType};
use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::{Alloc, Copy, Direction, Event, Header, VERSION};

/// Where in a line something is wrong: column from 1, and what.
pub(super) type Fault = (u64, String);

/// The header.
pub(super) fn header(line: &[u8]) -> Result<Header<'static>, Fault> {
    #[derive(serde::Deserialize)]
    struct Wire<'a> {
        v: Option<u64>,
        #[serde(borrow)]
        instance: Option<Text<'a>>,
        #[serde(borrow)]
        source: Option<Text<'a>>,
        dropped: Option<u64>,
    }
    let parsed = object(line).and_then(|()| serde_json::from_slice(line).map_err(|error| fault(&error)));
    let wire: Wire<'_> = parsed.map_err(|(column, what)| {
        (column, format!("{what}; a trace begins with a header such as {{\"v\":1,\"source\":\"...\"}}"))
    })?;
    match wire.v {
        Some(v) if v == u64::from(VERSION) => {}
        Some(v) => {
            let what = format!("version {v} of the format; this reads version {VERSION}");
            return Err((column_of(line, "v"), what));
        }
        None => {
            let what = "the header has no `v`; a trace begins with {\"v\":1,\"source\":\"...\"}";
            return Err((line.len() as u64, what.to_owned()));
        }
    }
    let owned = |text: Text<'_>| Cow::Owned(text.0.into_owned());
    Ok(Header {
        instance: wire.instance.map(owned),
        source: wire.source.map(owned).unwrap_or_default(),
        dropped: wire.dropped.unwrap_or(0),
    })
}

/// An event.
pub(super) fn event(line: &[u8]) -> Result<Event<'_>, Fault> {
    object(line)?;
    let wire: Wire<'_> = serde_json::from_slice(line).map_err(|error| fault(&error))?;
    let kind = wire.event;
    let needs =
        |key: &str, what: &str| (line.len() as u64, format!("`{}` needs `{key}`, {what}", kind.name()));
    let (id, time) = (wire.id, wire.time);
    let id = || id.ok_or_else(|| needs("id", "the number of an allocation"));
    Ok(match kind {
        Kind::Alloc => Event::Alloc(Alloc {
            id: id()?,
            size: wire.size.ok_or_else(|| needs("size", "a number of bytes"))?,
            align: wire.align.unwrap_or(0),
            location: wire.location.unwrap_or(Location::Device).into(),
            device: wire.device.unwrap_or(0),
            hbm: wire.hbm.unwrap_or(0),
            core: wire.core.unwrap_or(0),
            usage: wire.usage.map_or(UsageType::Generic, |usage| usage.0),
            owner: wire.owner.map(|text| text.0),
            hint: wire.hint.map(|text| text.0),
            pa: wire.pa,
            refused: wire.refused.unwrap_or(false),
            pid: wire.pid.unwrap_or(0),
            time,
        }),
        Kind::Free => Event::Free { id: id()?, time },
        Kind::Copy => Event::Copy(Copy {
            id: id()?,
            bytes: wire.bytes.ok_or_else(|| needs("bytes", "a number of bytes"))?,
            direction: match wire.direction.ok_or_else(|| needs("direction", "`in` or `out`"))? {
                Way::In => Direction::In,
                Way::Out => Direction::Out,
            },
            time,
        }),
        Kind::Mark => Event::Mark { name: wire.name.ok_or_else(|| needs("name", "a text"))?.0, time },
        Kind::Load | Kind::Unload => {
            let graph = wire.graph.ok_or_else(|| needs("graph", "its name"))?.0;
            if kind == Kind::Load { Event::Load { graph, time } } else { Event::Unload { graph, time } }
        }
        Kind::Exit => Event::Exit { pid: wire.pid.unwrap_or(0), time },
    })
}

/// The parser would take a list for an object, too.
fn object(line: &[u8]) -> Result<(), Fault> {
    let at = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    match line.get(at) {
        Some(b'{') => Ok(()),
        _ => Err((at as u64 + 1, "no JSON object, which each line is".to_owned())),
    }
}

/// Column of a key's value, 1 if it is not there. An escaped quote is not the end of a key, and a
/// text is not followed by a colon.
pub(super) fn column_of(line: &[u8], key: &str) -> u64 {
    let quoted = format!("\"{key}\"");
    let found = line.windows(quoted.len()).enumerate().find_map(|(at, window)| {
        let behind = line.get(at + quoted.len()..)?;
        let blanks = behind.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let is_key = window == quoted.as_bytes() && behind.get(blanks) == Some(&b':');
        let value = behind.get(blanks + 1..).unwrap_or_default();
        let more = value.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        is_key.then_some(at + quoted.len() + blanks + 1 + more)
    });
    found.map_or(1, |at| at as u64 + 1)
}

/// A parser's error, without its own idea of where it is in the text.
fn fault(error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = text.strip_suffix(&place).unwrap_or(&text);
    (error.column().max(1) as u64, what.to_owned())
}

/// All keys of all events.
#[derive(serde::Deserialize)]
struct Wire<'a> {
    event: Kind,
    id: Option<u64>,
    size: Option<u64>,
    align: Option<u64>,
    location: Option<Location>,
    device: Option<u8>,
    hbm: Option<u32>,
    core: Option<u32>,
    usage: Option<Usage>,
    #[serde(borrow)]
    owner: Option<Text<'a>>,
    #[serde(borrow)]
    hint: Option<Text<'a>>,
    pa: Option<u64>,
    refused: Option<bool>,
    pid: Option<u64>,
    time: Option<u64>,
    bytes: Option<u64>,
    direction: Option<Way>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    graph: Option<Text<'a>>,
}

#[derive(Clone, std::marker::Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Alloc,
    Free,
    Copy,
    Mark,
    Load,
    Unload,
    Exit,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::Free => "free",
            Self::Copy => "copy",
            Self::Mark => "mark",
            Self::Load => "load",
            Self::Unload => "unload",
            Self::Exit => "exit",
        }
    }
}

#[derive(Clone, std::marker::Copy, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Location {
    Device,
    Host,
}

impl From<Location> for MemLocation {
    fn from(location: Location) -> Self {
        match location {
            Location::Device => Self::Device,
            Location::Host => Self::Host,
        }
    }
}

#[derive(Clone, std::marker::Copy, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    In,
    Out,
}

/// A text that is borrowed from the line unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}

/// A usage type by its name (`spec/dmem.md` 2.1).
struct Usage(UsageType);

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByName;
        impl Visitor<'_> for ByName {
            type Value = Usage;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a usage type such as `WEIGHT` or `TENSOR`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Usage, E> {
                let known = UsageType::ALL.iter().find(|usage| usage.name() == text);
                known
                    .map(|&usage| Usage(usage))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(ByName)
    }
}
