//! The messages that announce a failure, as data and text, one at a time
//! (`spec/report.md` 3.2). Their order and prefixes are [`failure_log`](super::failure_log)'s.

use std::fmt;

use neuron_abi::memory::MemLocation;

use super::size::Size;
use super::table::TITLE;

const ALIGNMENT_HINT: &str = "Aligned allocations may fail even if HBM has space for the actual size \
                              requested, due to running out of alignment boundaries";
const EVENTS: &str = "Wrote nrt memory alloc debug info to ";
const CHUNKS: &str = "Wrote driver memory alloc debug info to ";
const TABLE: &str = "Also logged memory breakdown to ";

/// A message of a failed allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureLine {
    /// What was asked, to the byte.
    Exact {
        /// Where.
        location: MemLocation,
        /// Bytes.
        bytes: u64,
    },
    /// Where the event ring was written.
    EventFile(String),
    /// Where the driver's chunks were written.
    ChunkFile(String),
    /// An alignment was asked for.
    AlignmentHint,
    /// Who shares the HBM.
    Sharing {
        /// Physical cores in a logical one.
        lnc_size: u32,
        /// Physical cores on the HBM.
        cores: Vec<u32>,
    },
    /// What was asked of a device.
    Refused {
        /// How much.
        requested: Size,
        /// Alignment.
        alignment: Alignment,
        /// Category of its usage, in lower case.
        usage: String,
        /// Device.
        device: u32,
        /// Physical core.
        core: u32,
    },
    /// What was asked of the host (our choice: no sample is public).
    RefusedHost {
        /// How much.
        requested: Size,
        /// Category of its usage, in lower case.
        usage: String,
    },
    /// The table follows.
    TableFollows,
    /// Where the table was written.
    TableFile(String),
}

/// An alignment in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Older messages have none.
    NotPrinted,
    /// `none`: none was asked for.
    None,
    /// Bytes.
    Bytes(Size),
}

impl FailureLine {
    /// Function that logs it.
    pub const fn function(&self) -> &'static str {
        match self {
            Self::Exact { .. } | Self::AlignmentHint => "dmem_alloc_internal",
            Self::EventFile(_) => "dml_dump",
            Self::ChunkFile(_) => "dml_driver_dump",
            Self::Sharing { .. } => "print_lnc_hbm_details",
            Self::Refused { .. } => "log_dev_mem",
            Self::RefusedHost { .. } => "dml_log_host_mem",
            Self::TableFollows | Self::TableFile(_) => "log_dev_mem_usage_table",
        }
    }

    /// Reads a message without its prefix. `None` if it is none of these.
    pub fn parse(message: &str) -> Option<Self> {
        let message = message.trim();
        let file = |start, line: fn(String) -> Self| {
            let path = message.strip_prefix(start)?;
            Some(line(path.to_owned()))
        };
        match message {
            ALIGNMENT_HINT => return Some(Self::AlignmentHint),
            TITLE => return Some(Self::TableFollows),
            _ => {}
        }
        file(EVENTS, Self::EventFile)
            .or_else(|| file(CHUNKS, Self::ChunkFile))
            .or_else(|| file(TABLE, Self::TableFile))
            .or_else(|| exact(message))
            .or_else(|| sharing(message))
            .or_else(|| refused(message))
    }
}

/// The tail behind the bytes differs between versions, and older ones write no brackets.
fn exact(message: &str) -> Option<FailureLine> {
    let (rest, brackets) = match message.strip_prefix("Failed to allocate ") {
        Some(rest) => (rest, true),
        None => (message.strip_prefix("Failed to alloc ")?, false),
    };
    let (location, rest) = rest.split_once(' ')?;
    let location = MemLocation::ALL.iter().copied().find(|known| known.name() == location)?;
    let bytes = if brackets {
        rest.strip_prefix("memory (")?.split_once(" bytes)")?.0
    } else {
        rest.strip_prefix("memory: ")?
    };
    Some(FailureLine::Exact { location, bytes: bytes.parse().ok()? })
}

fn sharing(message: &str) -> Option<FailureLine> {
    let rest = message.strip_prefix("LNC size is ")?;
    let (lnc_size, cores) = rest.split_once(". Neuron Cores using this HBM: ")?;
    let core = |text: &str| text.strip_prefix("NC ")?.parse().ok();
    let cores = cores.split([',']).flat_map(|part| part.split(" and "));
    let cores = cores.map(|text| core(text.trim())).collect::<Option<_>>()?;
    Some(FailureLine::Sharing { lnc_size: lnc_size.parse().ok()?, cores })
}

fn refused(message: &str) -> Option<FailureLine> {
    let (requested, rest) = message.strip_prefix("Failed to allocate ")?.split_once(' ')?;
    let requested = requested.parse().ok()?;
    if let Some(usage) = rest.strip_prefix("of host memory (usage: ") {
        return Some(FailureLine::RefusedHost { requested, usage: usage.strip_suffix(')')?.to_owned() });
    }
    let (asked, place) = rest.strip_prefix('(')?.split_once(") on ND")?;
    let (alignment, asked) = match asked.strip_prefix("alignment: ").and_then(|asked| asked.split_once(", "))
    {
        None => (Alignment::NotPrinted, asked),
        Some(("none", rest)) => (Alignment::None, rest),
        Some((bytes, rest)) => (Alignment::Bytes(bytes.parse().ok()?), rest),
    };
    let usage = asked.strip_prefix("usage: ")?.to_owned();
    let (device, core) = place.split_once(":NC")?;
    let core = core.split(',').next().unwrap_or_default();
    let number = |text: &str| text.trim().parse().ok();
    Some(FailureLine::Refused { requested, alignment, usage, device: number(device)?, core: number(core)? })
}

impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPrinted => Ok(()),
            Self::None => f.write_str("alignment: none, "),
            Self::Bytes(size) => write!(f, "alignment: {size}, "),
        }
    }
}

impl fmt::Display for FailureLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact { location, bytes } => {
                // The host's form ends behind the bytes.
                let tail = match location {
                    MemLocation::Device => ": memory allocation failed (ret=-12)",
                    MemLocation::Host | MemLocation::Invalid => "",
                };
                write!(f, "Failed to allocate {location} memory ({bytes} bytes){tail}")
            }
            Self::EventFile(path) => write!(f, "{EVENTS}{path}"),
            Self::ChunkFile(path) => write!(f, "{CHUNKS}{path}"),
            Self::AlignmentHint => f.write_str(ALIGNMENT_HINT),
            Self::Sharing { lnc_size, cores } => {
                let cores: Vec<_> = cores.iter().map(|core| format!("NC {core}")).collect();
                let cores = cores.join(" and ");
                write!(f, "LNC size is {lnc_size}. Neuron Cores using this HBM: {cores}")
            }
            Self::Refused { requested, alignment, usage, device, core } => {
                write!(
                    f,
                    "Failed to allocate {requested} ({alignment}usage: {usage}) on ND{device:2}:NC {core}"
                )
            }
            Self::RefusedHost { requested, usage } => {
                write!(f, "Failed to allocate {requested} of host memory (usage: {usage})")
            }
            Self::TableFollows => f.write_str(TITLE),
            Self::TableFile(path) => write!(f, "{TABLE}{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Size {
        text.parse().unwrap()
    }

    #[test]
    fn messages_of_the_newest_form_are_read_and_written_alike() {
        for (text, line) in [
            (
                "Failed to allocate DEVICE memory (95079808 bytes): memory allocation failed (ret=-12)",
                FailureLine::Exact { location: MemLocation::Device, bytes: 95_079_808 },
            ),
            (
                "Failed to allocate HOST memory (4194304 bytes)",
                FailureLine::Exact { location: MemLocation::Host, bytes: 4_194_304 },
            ),
            (
                "LNC size is 2. Neuron Cores using this HBM: NC 4 and NC 5",
                FailureLine::Sharing { lnc_size: 2, cores: vec![4, 5] },
            ),
            (
                "LNC size is 1. Neuron Cores using this HBM: NC 0",
                FailureLine::Sharing { lnc_size: 1, cores: vec![0] },
            ),
            (
                "Failed to allocate 13.000MB (alignment: 16.000MB, usage: collectives) on ND 0:NC 4",
                FailureLine::Refused {
                    requested: size("13.000MB"),
                    alignment: Alignment::Bytes(size("16.000MB")),
                    usage: "collectives".to_owned(),
                    device: 0,
                    core: 4,
                },
            ),
            (
                "Failed to allocate 1.000KB (alignment: none, usage: dma rings io) on ND14:NC 6",
                FailureLine::Refused {
                    requested: size("1.000KB"),
                    alignment: Alignment::None,
                    usage: "dma rings io".to_owned(),
                    device: 14,
                    core: 6,
                },
            ),
            (
                "Failed to allocate 4.000MB of host memory (usage: dma rings runtime)",
                FailureLine::RefusedHost {
                    requested: size("4.000MB"),
                    usage: "dma rings runtime".to_owned(),
                },
            ),
            ("Also logged memory breakdown to /d/t.log", FailureLine::TableFile("/d/t.log".to_owned())),
        ] {
            assert_eq!(FailureLine::parse(text), Some(line.clone()), "{text}");
            assert_eq!(line.to_string(), text);
        }
    }

    #[test]
    fn older_and_shortened_messages_are_read_too() {
        let exact = |bytes| Some(FailureLine::Exact { location: MemLocation::Device, bytes });
        assert_eq!(
            FailureLine::parse("Failed to allocate DEVICE memory (95079808 bytes): ret=-12"),
            exact(95_079_808)
        );
        assert_eq!(FailureLine::parse("Failed to alloc DEVICE memory: 13743184"), exact(13_743_184));
        let text = "Failed to allocate 13.107MB (usage: dma rings) on ND 0:NC 1, current utilization:";
        let Some(FailureLine::Refused { alignment: Alignment::NotPrinted, usage, core: 1, .. }) =
            FailureLine::parse(text)
        else {
            panic!("{:?}", FailureLine::parse(text))
        };
        assert_eq!(usage, "dma rings");
    }

    #[test]
    fn other_messages_are_none_of_these() {
        for text in [
            "",
            "Failed to allocate aligned staging instr buffer",
            "Failed to allocate nrt tensor x",
            "Failed to allocate DEVICE memory (many bytes)",
            "Failed to allocate 1.000MB (alignment: big, usage: x) on ND 0:NC 0",
            "Failed to allocate 1.000MB (usage: x) on ND 0",
            "LNC size is 2. Neuron Cores using this HBM: ",
        ] {
            assert_eq!(FailureLine::parse(text), None, "{text}");
        }
    }
}
