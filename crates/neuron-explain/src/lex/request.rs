//! Refused requests (`spec/report.md` 3.1, 3.2): the exact line, the report line, lines that
//! repeat the size, and who shares the HBM.

use neuron_abi::memory::MemLocation;
use neuron_dmem::report::{Alignment, FailureLine, Size};

use super::{Message, Refused};
use crate::text::{behind, leading, number};

pub(super) fn lex(text: &str, cut: bool, messages: &mut Vec<Message>) {
    for verb in ["Failed to allocate ", "Failed to alloc "] {
        if let Some(place) = text.find(verb) {
            let rest = text.get(place + verb.len()..).unwrap_or_default();
            messages.extend(exact(rest, cut).or_else(|| refused(rest, cut).map(Message::Refused)));
        }
    }
    messages.extend(repeat(text).map(Message::Repeat));
    messages.extend(tensor(text).map(Message::Tensor));
    messages.extend(sharing(text, cut));
}

/// `DEVICE memory (N bytes)...`, `DEVICE memory: N`.
fn exact(rest: &str, cut: bool) -> Option<Message> {
    let (location, rest) = rest.split_once(" memory")?;
    let location = [MemLocation::Device, MemLocation::Host].into_iter().find(|it| it.name() == location)?;
    let inside = rest.strip_prefix(" (").or_else(|| rest.strip_prefix(':'))?;
    let bytes = leading(inside).filter(|(_, behind)| !(cut && behind.is_empty())).map(|(bytes, _)| bytes);
    // A line of another kind has no number there; one that was cut has nothing.
    (bytes.is_some() || cut).then_some(Message::Exact { location, bytes })
}

/// `SIZE (alignment: A, usage: U) on ND d:NC c`, `SIZE of host memory (usage: U)`; cut anywhere
/// behind the bracket that names it.
fn refused(rest: &str, cut: bool) -> Option<Refused> {
    let (size, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let requested: Size = size.parse().ok()?;
    let host = rest.strip_prefix("of host memory ");
    let mut refused = Refused {
        host: host.is_some(),
        requested,
        alignment: Alignment::NotPrinted,
        usage: None,
        device: None,
        core: None,
        list: false,
    };
    let inside = host.unwrap_or(rest);
    let named = inside.starts_with("(alignment: ") || inside.starts_with("(usage: ");
    if !named {
        let is_start =
            ["(alignment: ", "(usage: ", "of host memory ("].iter().any(|start| start.starts_with(rest));
        return (cut && is_start && !rest.is_empty()).then_some(refused);
    }
    let inside = inside.strip_prefix('(')?;
    let inside = match inside.strip_prefix("alignment: ") {
        None => inside,
        Some(behind) => {
            let (value, rest) = behind.split_once(',').unwrap_or((behind, ""));
            let whole = !rest.is_empty() || !cut;
            refused.alignment = match value.trim() {
                "none" if whole => Alignment::None,
                value => value.parse().map_or(Alignment::NotPrinted, Alignment::Bytes),
            };
            rest.trim_start()
        }
    };
    let Some((usage, place)) = inside.strip_prefix("usage: ").and_then(|it| it.split_once(')')) else {
        return Some(refused);
    };
    refused.usage = Some(usage.trim().to_owned());
    let Some((device, core)) = place.split_once("ND").and_then(|(_, place)| place.split_once(':')) else {
        return Some(refused);
    };
    refused.device = number(device.trim()).and_then(|it| u32::try_from(it).ok());
    let core = behind(core, "NC").and_then(leading);
    // Cores have one digit today; a second one may be what was cut off.
    let core = core.filter(|(core, rest)| !cut || !rest.is_empty() || *core > 0);
    refused.core = core.and_then(|(core, _)| u32::try_from(core).ok());
    refused.list = place.contains("utilization") || refused.alignment == Alignment::NotPrinted;
    Some(refused)
}

/// `of size N bytes`, `Failed to allocate N bytes`.
fn repeat(text: &str) -> Option<u64> {
    ["of size ", "Failed to allocate "].iter().find_map(|start| {
        let (bytes, rest) = leading(behind(text, start)?)?;
        rest.starts_with(" bytes").then_some(bytes)
    })
}

/// The name in the lines of the layers above; only some have it.
fn tensor(text: &str) -> Option<String> {
    let name = behind(text, "Failed to allocate nrt tensor ")
        .or_else(|| behind(text, " bytes on DEVICE for tensor "))
        .or_else(|| behind(text, " in MLA DRAM for ")?.split_once(" of size ").map(|(name, _)| name))?;
    let name = name.trim().trim_end_matches('.');
    (!name.is_empty() && name != "UNKNOWN").then(|| name.to_owned())
}

fn sharing(text: &str, cut: bool) -> Option<Message> {
    let text = text.get(text.find("LNC size is ")?..)?;
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    if cut && end == text.len() && text.len() < 2 {
        return None;
    }
    match FailureLine::parse(text.get(..end)?)? {
        FailureLine::Sharing { lnc_size, cores } => Some(Message::Sharing { lnc_size, cores }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, cut: bool) -> Option<Message> {
        let mut messages = Vec::new();
        lex(text, cut, &mut messages);
        messages.into_iter().next()
    }

    fn size(text: &str) -> Size {
        text.parse().unwrap()
    }

    #[test]
    fn exact_lines_of_every_era() {
        let exact = |location, bytes| Some(Message::Exact { location, bytes: Some(bytes) });
        for (text, location) in [
            ("Failed to alloc DEVICE memory: 77", MemLocation::Device),
            (
                "x Failed to allocate DEVICE memory (77 bytes): memory allocation failed (ret=-12)",
                MemLocation::Device,
            ),
            ("Failed to allocate HOST memory (77 bytes)", MemLocation::Host),
            ("'Failed to alloc HOST memory: 77'", MemLocation::Host),
        ] {
            assert_eq!(one(text, false), exact(location, 77), "{text}");
        }
        let cut = Message::Exact { location: MemLocation::Device, bytes: None };
        assert_eq!(one("Failed to alloc DEVICE memory: 77", true), Some(cut.clone()));
        assert_eq!(one("Failed to allocate DEVICE memory (", true), Some(cut));
        assert_eq!(one("Failed to allocate DEVICE memory (many bytes)", false), None);
    }

    #[test]
    fn a_report_line_is_read_as_far_as_it_goes() {
        let whole = "Failed to allocate 13.000MB (alignment: 16.000MB, usage: dma rings io) on ND14:NC 4";
        let cuts = |length: usize| match one(&whole[..length], true) {
            Some(Message::Refused(refused)) => Some(refused),
            None => None,
            other => panic!("{other:?}"),
        };
        let place = |part: &str| whole.find(part).unwrap();
        assert_eq!(cuts(place("MB (") + 1), None, "a size without its unit is none");
        let start = cuts(place("alignment")).unwrap();
        assert_eq!((start.requested, start.alignment), (size("13.000MB"), Alignment::NotPrinted));
        let aligned = cuts(place(", usage")).unwrap();
        assert_eq!(aligned.alignment, Alignment::Bytes(size("16.000MB")));
        assert_eq!(cuts(place(" io)")).unwrap().usage, None, "a name may go on");
        let placed = cuts(place("4:NC")).unwrap();
        assert_eq!((placed.usage.as_deref(), placed.device), (Some("dma rings io"), None));
        let placed = cuts(whole.len()).unwrap();
        assert_eq!((placed.device, placed.core, placed.list), (Some(14), Some(4), false));
    }

    #[test]
    fn older_report_lines_open_a_list() {
        let text = "Failed to allocate 13.107MB (usage: dma rings) on ND 0:NC 1, current utilization:";
        let Some(Message::Refused(refused)) = one(text, false) else { panic!() };
        assert!(refused.list && refused.alignment == Alignment::NotPrinted && refused.core == Some(1));
        let text = "Failed to allocate 4.000MB of host memory (usage: dma rings runtime)";
        let Some(Message::Refused(refused)) = one(text, false) else { panic!() };
        assert!(refused.host && refused.usage.as_deref() == Some("dma rings runtime"));
    }

    #[test]
    fn other_failures_are_none_of_these() {
        for text in [
            "Failed to allocate TX ring",
            "Failed to allocate aligned staging instr buffer",
            "Failed to allocate 12 things",
            "Failed to allocate 1.000MB for fun",
        ] {
            assert_eq!(one(text, false), None, "{text}");
        }
    }

    #[test]
    fn cascades_repeat_sizes_and_sometimes_name_the_tensor() {
        assert_eq!(repeat("Failed to allocate 7 bytes on DEVICE for tensor UNKNOWN."), Some(7));
        assert_eq!(
            repeat("aligned (0) buffer in MLA DRAM for W145-b of size 4194304 bytes, channel 0"),
            Some(4_194_304)
        );
        assert_eq!(tensor("Failed to allocate nrt tensor kv.1").as_deref(), Some("kv.1"));
        assert_eq!(
            tensor("Failed to allocate aligned (0) buffer in MLA DRAM for W145-b of size 1 bytes").as_deref(),
            Some("W145-b")
        );
        assert_eq!(tensor("Failed to allocate 7 bytes on DEVICE for tensor UNKNOWN."), None);
    }

    #[test]
    fn the_sharing_line_ends_with_its_last_number() {
        let sharing = one("LNC size is 2. Neuron Cores using this HBM: NC 4 and NC 5'", false);
        assert_eq!(sharing, Some(Message::Sharing { lnc_size: 2, cores: vec![4, 5] }));
        assert_eq!(one("LNC size is 2. Neuron Cores using", true), None);
    }
}
