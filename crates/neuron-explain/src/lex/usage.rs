//! Lists, per-model blocks, and what stands around a table (`spec/report.md` 3.1, 3.3, 3.4).

use neuron_dmem::report::Size;

use super::Message;
use crate::facts::Key;
use crate::prefix::Record;
use crate::text::{after, behind, leading, number};

/// A line with bars and without a prefix.
pub(super) fn bars(raw: &str, messages: &mut Vec<Message>) {
    messages.extend(name(raw));
    messages.push(Message::Bars);
}

/// What announces a table, names, or a block, and the block's head.
pub(super) fn titles(record: &Record<'_>, text: &str, messages: &mut Vec<Message>) {
    if text.contains("Displaying Current Memory Utilization") {
        messages.push(Message::TableTitle);
    }
    if text.contains("NEFF id to name mapping") {
        messages.push(Message::NamesTitle);
    }
    if let Some(rest) = behind(text, "rounded up to page size (")
        && let Some((size, _)) = rest.split_once(')')
    {
        messages.extend(size.parse().ok().map(Message::Page));
    }
    if record.function == Some("dml_log_dev_neff_mem") {
        messages.push(Message::BlockFollows);
    }
    messages.extend(block(text));
    messages.extend(behind(text, "Per NEFF memory usage breakdown for ").map(|rest| {
        let name = rest.trim().trim_end_matches(':');
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        Message::BlockNeff(name.to_owned())
    }));
}

/// Lines of lists, blocks and names, which have no prefix. `hbm`: the text names one.
pub(super) fn lines(raw: &str, text: &str, hbm: bool, cut: bool, messages: &mut Vec<Message>) {
    let whole = |_: &Message| !cut || raw.trim_end().ends_with('"');
    let line = bullet(raw.trim_end()).or_else(|| hbm.then(|| hbm_list(text)).flatten());
    messages.extend(line.or_else(|| name(raw).filter(whole)));
}

/// `[ND 0:NC 4] Current Usage Total: 15.750GB`
fn block(text: &str) -> Option<Message> {
    let (place, total) = text.split_once("Current Usage Total:")?;
    let place = place.get(place.rfind("ND")? + 2..)?;
    let (device, rest) = leading(place)?;
    let core = behind(rest, "NC").and_then(leading)?.0;
    Some(Message::Block {
        device: u32::try_from(device).ok()?,
        core: u32::try_from(core).ok()?,
        total: total.trim().parse().ok()?,
    })
}

/// `* dma rings io: 1.000KB`, whatever stands in front, with or without the star.
fn bullet(text: &str) -> Option<Message> {
    let (name, size) = text.rsplit_once(':')?;
    let size: Size = size.trim().trim_end_matches(['\'', '"', '`']).parse().ok()?;
    let name = name.trim_end();
    let key = Key::ALL
        .iter()
        .filter(|key| ends_with_name(name, key.printed()))
        .max_by_key(|key| key.printed().len());
    if let Some(key) = key {
        return Some(Message::Bullet { key: Some(*key), size });
    }
    ends_with_name(name, "total").then_some(Message::Bullet { key: None, size })
}

/// Whether `text` ends with the words of `name`, in any case, behind a bullet, a bracket, a blank
/// that follows one, or nothing. A word before it makes it another name.
fn ends_with_name(text: &str, name: &str) -> bool {
    let Some(start) = text.len().checked_sub(name.len()) else { return false };
    let (Some(front), Some(end)) = (text.get(..start), text.get(start..)) else { return false };
    let before = front.trim_end().chars().next_back();
    end.eq_ignore_ascii_case(name) && before.is_none_or(|c| !c.is_alphanumeric() || front.ends_with("  "))
}

/// No sample is public of the line above an HBM's list (`spec/report.md` 3.1): one that names an
/// HBM and ends with a colon, or speaks of overall usage.
fn hbm_list(text: &str) -> Option<Message> {
    let small = |value: u64| u32::try_from(value).ok();
    let overall = text.contains("Overall HBM usage");
    let hbm = after(text, "HBM").and_then(small);
    let heads = overall || hbm.is_some() && text.trim_end().ends_with(':');
    heads.then(|| Message::HbmList { device: after(text, "ND").and_then(small), hbm })
}

/// `1025: "path"`
fn name(raw: &str) -> Option<Message> {
    let (id, rest) = raw.trim_end().split_once(": \"")?;
    let id = number(id.rsplit(|c: char| !c.is_ascii_digit()).next()?)?;
    Some(Message::Name { id, name: rest.strip_suffix('"').unwrap_or(rest).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> Vec<Message> {
        let mut messages = Vec::new();
        if raw.contains('|') {
            bars(raw, &mut messages);
            return messages;
        }
        let text = crate::text::collapsed(raw);
        titles(&Record { message: raw, ..Record::default() }, &text, &mut messages);
        lines(raw, &text, true, false, &mut messages);
        messages
    }

    fn key(text: &str) -> Option<Option<Key>> {
        match of(text)[..] {
            [Message::Bullet { key, .. }] => Some(key),
            _ => None,
        }
    }

    #[test]
    fn bullets_of_every_kind() {
        for (text, expected) in [
            ("\t* total: 15.970GB", None),
            ("* model code: 233.719MB", Some(Key::ModelCode)),
            ("        * shared scratchpad: 512.000MB", Some(Key::SharedScratchpad)),
            ("• scratchpad: 0.000B", Some(Key::Scratchpad)),
            ("dma rings: 6.518GB", Some(Key::DmaRings)),
            ("(EngineCore_DP0 pid=15012) * dma rings collectives: 1.000KB", Some(Key::DmaRingsCollectives)),
            ("\tTensors: 15.635GB", Some(Key::Tensors)),
            ("\tTotal: 1.000GB", None),
        ] {
            assert_eq!(key(text), Some(expected), "{text}");
        }
        for text in ["* total: many", "* other total: 5.000KB x", "* my tensors: 1.000GB", "total 1.000GB"] {
            assert_eq!(key(text), None, "{text}");
        }
    }

    #[test]
    fn heads_of_lists_and_blocks() {
        let total = "15.750GB".parse().unwrap();
        assert_eq!(
            of("[ND 0:NC 4] Current Usage Total: 15.750GB"),
            [Message::Block { device: 0, core: 4, total }]
        );
        assert_eq!(
            of("Per NEFF memory usage breakdown for [a b.neff]:"),
            [Message::BlockNeff("a b.neff".to_owned())]
        );
        for (text, device, hbm) in [
            ("Overall HBM usage (ND 3:HBM 1):", Some(3), Some(1)),
            ("HBM 0 usage:", None, Some(0)),
            ("Overall HBM usage:", None, None),
        ] {
            assert_eq!(of(text), [Message::HbmList { device, hbm }], "{text}");
        }
        assert_eq!(of("LNC size is 2. Neuron Cores using this HBM: NC 4"), []);
    }

    #[test]
    fn names_may_have_bars() {
        let name = Message::Name { id: 7, name: "a|b".to_owned() };
        assert_eq!(of("7: \"a|b\""), [name, Message::Bars]);
    }
}
