//! What the layers above a refused request say, and the information block
//! (`spec/report.md` 3.2, 3.5, 6.1): statuses, errnos, places, limits, versions, environment.

use neuron_abi::status::NrtStatus;

use super::Message;
use crate::prefix::Record;
use crate::text::{behind, ident, leading, number, word_after};

pub(super) fn lex(record: &Record<'_>, text: &str, cut: bool, messages: &mut Vec<Message>) {
    let of_runtime = record.module.is_some() || text.contains("Failed to ");
    if of_runtime {
        // A cascade has errnos of its own; the request's stands in its line.
        let of_request = messages.iter().any(|message| matches!(message, Message::Exact { .. }));
        let value = return_value(text, cut);
        messages.extend(value.filter(|it| of_request || !matches!(it, Message::Errno(_))));
        let small = |value: u64| u32::try_from(value).ok();
        messages.extend(word_after(text, "mla_idx=", cut).and_then(small).map(Message::Device));
        messages.extend(word_after(text, "tpb->idx=", cut).and_then(small).map(Message::Core));
        // HBMs are at most four; the number of another kind of channel is none.
        let channel = word_after(text, "channel ", cut).filter(|channel| *channel < 4);
        messages.extend(channel.and_then(small).map(Message::Channel));
    }
    messages.extend(status(text, of_runtime, cut));
    for limit in ["No more pages for ring", "exceeded queue descriptor limits"] {
        if text.contains(limit) {
            messages.push(Message::RingLimit(text.to_owned()));
        }
    }
    messages.extend(mismatch(text));
}

/// A negative `ret=` is an errno, a positive one a status.
fn return_value(text: &str, cut: bool) -> Option<Message> {
    let errno = text.match_indices("ret=-").find_map(|(place, key)| leading(text.get(place + key.len()..)?));
    if let Some((errno, rest)) = errno {
        return (!cut || !rest.is_empty())
            .then(|| i64::try_from(errno).ok().map(|errno| Message::Errno(-errno)))?;
    }
    let value = word_after(text, "ret=", cut).filter(|value| *value > 0)?;
    numbered(u32::try_from(value).ok()?)
}

fn numbered(status: u32) -> Option<Message> {
    Some(Message::Status { status: Some(status), name: None, place: None, enclosing: false })
}

fn status(text: &str, of_runtime: bool, cut: bool) -> Option<Message> {
    if let Some(rest) = behind(text, "Failure: NRT_") {
        let name = format!("NRT_{}", ident(rest));
        let known = NrtStatus::ALL.iter().find(|status| status.name() == name);
        let place = behind(rest, " in ").map(|place| place.trim().to_owned()).filter(|it| !it.is_empty());
        let whole = !cut || place.is_some();
        let failed = known.is_none_or(|status| *status != NrtStatus::Success);
        let status = known.map(|status| status.raw());
        return (whole && failed).then_some(Message::Status {
            status,
            name: Some(name),
            place,
            enclosing: false,
        });
    }
    if let Some(rest) = behind(text, "NERR_") {
        let name = format!("NERR_{}", ident(rest));
        let behind = rest.get(name.len() - 5..)?.trim_start_matches(['\'', '"', ' ']);
        let status = u32::try_from(leading(behind.strip_prefix('(')?)?.0).ok()?;
        return Some(Message::Status {
            status: Some(status),
            name: Some(name),
            place: None,
            enclosing: true,
        });
    }
    if !of_runtime && !text.contains("message=") {
        return None;
    }
    let keys = if text.contains("message=") { &["err:", "status="][..] } else { &["err:"] };
    let places = keys.iter().flat_map(|key| text.match_indices(key));
    let value = places.into_iter().find_map(|(place, key)| {
        let is_word = !text.get(..place)?.ends_with(|c: char| c.is_alphanumeric());
        is_word.then(|| leading(text.get(place + key.len()..)?))?
    });
    let (value, rest) = value?;
    let value = u32::try_from(value).ok().filter(|value| *value > 0)?;
    // A number cut short is another status, unless no status goes on from it.
    let goes_on = NrtStatus::ALL
        .iter()
        .any(|it| it.raw() != value && it.raw().to_string().starts_with(&value.to_string()));
    if cut && rest.is_empty() && goes_on { None } else { numbered(value) }
}

/// No sample of the whole line is at hand: the last number before the phrase is the runtime's id,
/// the first two behind it are the driver's range (our choice).
fn mismatch(text: &str) -> Option<Message> {
    let (before, after) = text.split_once("is not compatible with the installed")?;
    let runtime_id = numbers(before).pop();
    let driver = match numbers(after)[..] {
        [min, max, ..] => Some((min, max)),
        [only] => Some((only, only)),
        [] => None,
    };
    Some(Message::Mismatch { runtime_id, driver })
}

/// Whole numbers that are no part of a version or a name; both of `5..7`.
fn numbers(text: &str) -> Vec<u64> {
    let parts = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_')));
    let ends = parts.flat_map(|part| part.trim_matches('.').split(".."));
    ends.filter_map(number).collect()
}

/// The information block.
pub(super) fn infodump(record: &Record<'_>, text: &str, cut: bool, messages: &mut Vec<Message>) {
    let of_block = record.function == Some("nrt_infodump");
    if of_block {
        messages.push(Message::Infodump);
    }
    let version = |key: &str| {
        let word = behind(text, key)?.split_whitespace().next()?;
        let whole = !cut || !text.ends_with(word);
        (whole && word.starts_with(|c: char| c.is_ascii_digit())).then(|| word.to_owned())
    };
    messages.extend(version("NRT version: ").map(Message::Runtime));
    messages.extend(version("Driver version: ").map(Message::Driver));
    // Alone on its line: other texts quote variables too.
    let Some((name, value)) = record.message.trim().split_once('=') else { return };
    let is_variable =
        name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && !name.is_empty();
    let alone = record.module.is_none() && name.starts_with("NEURON_") && !value.contains(' ');
    if is_variable && (of_block || alone) && !cut {
        messages.push(Message::Env { name: name.to_owned(), value: value.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, cut: bool) -> Vec<Message> {
        let record = Record { module: Some("NRT"), message: text, ..Record::default() };
        let mut messages = Vec::new();
        lex(&record, text, cut, &mut messages);
        infodump(&record, text, cut, &mut messages);
        messages
    }

    #[test]
    fn statuses_and_errnos_of_every_kind() {
        let status = |status, place: Option<&str>, name: Option<&str>| Message::Status {
            status,
            name: name.map(str::to_owned),
            place: place.map(str::to_owned),
            enclosing: name.is_some_and(|name| name.starts_with("NERR")),
        };
        for (text, message) in [
            ("Failed to load NN: /a/b, err: 4", status(Some(4), None, None)),
            ("Failed to x (ret=2)", status(Some(2), None, None)),
            (
                "Failure: NRT_RESOURCE in nrt_load_util",
                status(Some(4), Some("nrt_load_util"), Some("NRT_RESOURCE")),
            ),
            ("Failure: NRT_NEWER in f", status(None, Some("f"), Some("NRT_NEWER"))),
            ("response code 'NERR_RESOURCE' (4) The", status(Some(4), None, Some("NERR_RESOURCE"))),
        ] {
            assert_eq!(of(text, false), [message], "{text}");
        }
        let record = Record { module: Some("TDRV"), ..Record::default() };
        let mut messages =
            vec![Message::Exact { location: neuron_abi::memory::MemLocation::Device, bytes: Some(7) }];
        lex(&record, "memory allocation failed (ret=-12)", false, &mut messages);
        assert_eq!(messages.pop(), Some(Message::Errno(-12)));
        for text in
            ["stderr: 4", "cascade ret=-12", "Failure: NRT_SUCCESS in f", "done, err: 0", "ret=0", "secret=5"]
        {
            assert_eq!(of(text, false), [], "{text}");
        }
        assert_eq!(of("Failed to load, err: 1", true), [], "10, 11 and others begin with it");
        assert_eq!(of("Failed to load, err: 4", true), [status(Some(4), None, None)]);
        assert_eq!(of("ret=-1", true), []);
    }

    #[test]
    fn places_in_the_cascade() {
        assert_eq!(of("f failed mla_idx=3 tpb->idx=1", false), [Message::Device(3), Message::Core(1)]);
        assert_eq!(of("of size 1 bytes, channel 0", false), [Message::Channel(0)]);
        assert_eq!(of("channel 17 of the fabric", false), []);
    }

    #[test]
    fn versions_that_do_not_fit_together() {
        let text = "This runtime (id: 8) is not compatible with the installed aws-neuronx-dkms 2.27.4 (supports 10 to 11)";
        assert_eq!(of(text, false), [Message::Mismatch { runtime_id: Some(8), driver: Some((10, 11)) }]);
        assert_eq!(numbers("[5..7] v2 2.3.4 9-10"), [5, 7, 9, 10]);
    }

    #[test]
    fn the_information_block() {
        let record = |text| Record {
            module: Some("NRT"),
            function: Some("nrt_infodump"),
            message: text,
            ..Record::default()
        };
        let read = |text| {
            let mut messages = Vec::new();
            infodump(&record(text), text, false, &mut messages);
            messages.remove(0);
            messages
        };
        assert_eq!(read("NRT version: 2.31.24.0 (0b04)"), [Message::Runtime("2.31.24.0".to_owned())]);
        assert_eq!(read("Driver version: 2.27.4.0"), [Message::Driver("2.27.4.0".to_owned())]);
        let env = Message::Env { name: "NEURON_RT_X".to_owned(), value: "a=b".to_owned() };
        assert_eq!(read("NEURON_RT_X=a=b"), [env]);
        assert_eq!(read("Visible cores: 0, 1"), []);
    }
}
