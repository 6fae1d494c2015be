//! What is read, what is refused, and where the message says that it is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

use neuron_abi::memory::{MemLocation, UsageType};
use neuron_replay::replay::Options;
use neuron_replay::run;
use neuron_replay::scenario::Scenario;
use neuron_replay::trace::{Alloc, Copy, Direction, Event, Format, Header, MAX_LINE, Reader, TraceError};
use proptest::prelude::*;

const HEADER: &str = "{\"v\":1,\"source\":\"test\"}\n";

fn events(text: &str, format: Format) -> Result<Vec<Event<'static>>, TraceError> {
    let mut reader = Reader::new(text.as_bytes(), format)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(owned(event));
    }
    Ok(events)
}

fn owned(event: Event<'_>) -> Event<'static> {
    let own = |text: std::borrow::Cow<'_, str>| std::borrow::Cow::Owned(text.into_owned());
    match event {
        Event::Alloc(alloc) => {
            let (owner, hint) = (alloc.owner.map(own), alloc.hint.map(own));
            Event::Alloc(Alloc { owner, hint, ..alloc })
        }
        Event::Free { id, time } => Event::Free { id, time },
        Event::Copy(copy) => Event::Copy(copy),
        Event::Mark { name, time } => Event::Mark { name: own(name), time },
        Event::Load { graph, time } => Event::Load { graph: own(graph), time },
        Event::Unload { graph, time } => Event::Unload { graph: own(graph), time },
        Event::Exit { pid, time } => Event::Exit { pid, time },
    }
}

/// Line, column and message of a run that goes wrong.
fn fault(text: &str, format: Format) -> (u64, u64, String) {
    let mut reader = match Reader::new(text.as_bytes(), format) {
        Ok(reader) => reader,
        Err(error) => return place(error),
    };
    let scenario = Scenario::named("trn1.2xlarge").unwrap();
    place(run(&mut reader, &[scenario], &Options::default(), None).unwrap_err())
}

fn place(error: TraceError) -> (u64, u64, String) {
    match error {
        TraceError::Line { line, column, what } => (line, column, what),
        error => panic!("{error}"),
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z.0-9]{1,12}", any::<String>()]
}

fn alloc() -> impl Strategy<Value = Alloc<'static>> {
    let numbers = any::<(u64, u64, u8, u32, u32, u64)>();
    let texts = (prop::option::of(text()), prop::option::of(text()));
    (numbers, texts, any::<(bool, bool)>(), 0_u32..22, any::<(Option<u64>, Option<u64>)>()).prop_map(
        |((size, align, device, hbm, core, pid), (owner, hint), (host, refused), usage, (pa, time))| Alloc {
            id: 0,
            size,
            align,
            location: if host { MemLocation::Host } else { MemLocation::Device },
            device,
            hbm,
            core,
            usage: UsageType::from_raw(usage).unwrap(),
            owner: owner.map(Into::into),
            hint: hint.map(Into::into),
            pa,
            refused,
            pid,
            time,
        },
    )
}

fn event() -> impl Strategy<Value = Event<'static>> {
    let (id, time) = (any::<u64>(), any::<Option<u64>>());
    prop_oneof![
        alloc().prop_map(Event::Alloc),
        (id, time.clone()).prop_map(|(id, time)| Event::Free { id, time }),
        (any::<(u64, u64, bool)>(), time.clone()).prop_map(|((id, bytes, into), time)| {
            Event::Copy(Copy {
                id,
                bytes,
                direction: if into { Direction::In } else { Direction::Out },
                time,
            })
        }),
        (text(), time.clone()).prop_map(|(name, time)| Event::Mark { name: name.into(), time }),
        (text(), time.clone()).prop_map(|(graph, time)| Event::Load { graph: graph.into(), time }),
        (text(), time.clone()).prop_map(|(graph, time)| Event::Unload { graph: graph.into(), time }),
        (any::<u64>(), time).prop_map(|(pid, time)| Event::Exit { pid, time }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(mut all in prop::collection::vec(event(), 0..30)) {
        let mut bytes = Vec::new();
        Header::of("test", Some("trn1.2xlarge")).write(&mut bytes);
        for (number, event) in all.iter_mut().enumerate() {
            if let Event::Alloc(alloc) = event {
                alloc.id = number as u64 + 1;
            }
            event.write(&mut bytes);
        }
        let text = String::from_utf8(bytes).unwrap();
        prop_assert_eq!(events(&text, Format::Native).unwrap(), all);
    }
}

#[test]
fn what_is_left_out_has_its_documented_value() {
    let text =
        format!("{HEADER}{{\"event\":\"alloc\",\"id\":1,\"size\":5,\"colour\":[{{}}],\"hint\":null}}\r\n");
    let Event::Alloc(alloc) = events(&text, Format::Native).unwrap().remove(0) else { panic!("no alloc") };
    assert_eq!((alloc.align, alloc.device, alloc.hbm, alloc.core, alloc.pid), (0, 0, 0, 0, 0));
    assert_eq!((alloc.location, alloc.usage), (MemLocation::Device, UsageType::Generic));
    assert_eq!(
        (alloc.owner, alloc.hint, alloc.pa, alloc.refused, alloc.time),
        (None, None, None, false, None)
    );
}

#[test]
fn a_message_says_line_and_column_and_what_was_expected() {
    let one = r#"{"event":"alloc","id":1,"size":4096}"#;
    for (lines, line, column, words) in [
        (r#"{"event":"alloc","id":1}"#.to_owned(), 2, 24, "`alloc` needs `size`, a number of bytes"),
        (
            r#"{"event":"jump","id":1}"#.to_owned(),
            2,
            15,
            "unknown variant `jump`, expected one of `alloc`, `free`",
        ),
        (r#"{"event":"free"}"#.to_owned(), 2, 16, "needs `id`"),
        (r#"{"event":"copy","id":1,"bytes":1}"#.to_owned(), 2, 33, "needs `direction`, `in` or `out`"),
        (r#"{"event":"mark"}"#.to_owned(), 2, 16, "needs `name`"),
        (r#"{"event":"load"}"#.to_owned(), 2, 16, "needs `graph`"),
        (r#"{"event":"alloc","id":1,"size":-1}"#.to_owned(), 2, 33, "expected u64"),
        (
            r#"{"event":"alloc","id":1,"size":1,"usage":"WAIT"}"#.to_owned(),
            2,
            47,
            "expected a usage type such as `WEIGHT`",
        ),
        (r#"{"event":"alloc","id":1,"size":1,"id":2}"#.to_owned(), 2, 37, "duplicate field `id`"),
        (format!("{one}\n{one}"), 3, 23, "id 1 after 1: ids of allocations rise"),
        (format!("{one}\n{{\"event\":\"free\", \"id\" : 2}}"), 3, 25, "id 2 is of nothing that lives"),
        (format!("{one}\n\n"), 3, 1, "no JSON object"),
        (format!("{one}\n{one} x"), 3, 38, "trailing characters"),
        ("[]".to_owned(), 2, 1, ""),
        (r#"{"event":"copy","id":9,"bytes":1,"direction":"in"}"#.to_owned(), 2, 22, "nothing that lives"),
    ] {
        let (at, in_line, what) = fault(&format!("{HEADER}{lines}\n"), Format::Native);
        assert_eq!((at, in_line), (line, column), "{lines}: {what}");
        assert!(what.contains(words), "{lines}: {what}");
    }
}

#[test]
fn a_header_that_is_none_is_refused() {
    for (header, column, words) in [
        ("", 1, "nothing is there"),
        ("{}", 2, "no `v`"),
        ("{\"v\":2}", 6, "version 2 of the format; this reads version 1"),
        ("{\"v\":\"1\"}", 8, "a trace begins with a header"),
        ("hello", 1, "a trace begins with a header"),
    ] {
        let (line, at, what) = fault(header, Format::Native);
        assert_eq!((line, at), (1, column), "{header}: {what}");
        assert!(what.contains(words), "{header}: {what}");
    }
}

#[test]
fn a_line_without_an_end_is_not_read_into_memory() {
    let long = format!("{HEADER}{{\"event\":\"mark\",\"name\":\"{}\"}}\n", "x".repeat(MAX_LINE));
    let (line, column, what) = fault(&long, Format::Native);
    assert_eq!((line, column), (2, MAX_LINE as u64 + 1));
    assert!(what.contains("65536 bytes"), "{what}");
}

#[test]
fn deep_json_is_an_error_and_overflows_nothing() {
    let deep = format!("{HEADER}{{\"event\":\"exit\",\"x\":{}", "[".repeat(MAX_LINE / 2));
    assert!(fault(&deep, Format::Native).2.contains("EOF"));
}

const RMM: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

#[test]
fn a_log_of_rmm_is_read_and_its_pointers_are_used_again() {
    let log = format!(
        "{RMM}1021,13:47:50:000123,allocate,0x7f0000000000,1048576,0x0\n\
         1021,13:47:50:000130,free,0x7f0000000000,1048576,0x0\n\
         1021,13:47:51:000000,allocate,0x7f0000000000,32,0x0\n\
         1022,?,allocate failure,0x0,99,0x0"
    );
    let read = |log: &str| events(log, Format::RmmCsv).unwrap();
    let events = read(&log);
    let alloc = |event: &Event<'static>| match event {
        Event::Alloc(alloc) => alloc.clone(),
        event => panic!("{event:?}"),
    };
    let first = alloc(&events[0]);
    let noon = (13 * 3600 + 47 * 60 + 50) * 1_000_000_000;
    assert_eq!((first.id, first.size, first.time), (1, 1 << 20, Some(noon + 123_000)));
    assert_eq!((first.owner.as_deref(), first.usage), (Some("1021"), UsageType::Tensor));
    assert_eq!(events[1], Event::Free { id: 1, time: Some(noon + 130_000) });
    assert_eq!(alloc(&events[2]).id, 2);
    let failed = alloc(&events[3]);
    assert_eq!((failed.id, failed.refused, failed.time), (3, true, None));
    for time in ["24:00:00:0", "12222222:4723:47:50", "0:60:0:0", "0:0:60:0", "0:0:0:1000000", "1:2:3"] {
        let log = format!("{RMM}1,{time},allocate,0x1,32,0x0");
        assert_eq!(alloc(&read(&log)[0]).time, None, "{time} is no time of day");
    }
}

#[test]
fn a_log_of_rmm_that_is_wrong_says_where() {
    for (line, column, words) in [
        ("1,0,allocate,0x1", 17, "no Size"),
        ("1,0,allocate,0x1,5,0,7", 22, "more fields"),
        ("1,0,move,0x1,5,0", 5, "Action is `move`"),
        ("1,0,allocate,pointer,5,0", 14, "no pointer"),
        ("1,0,allocate,0x1,-5,0", 18, "no number of bytes"),
        ("1,0,free,0x1,5,0", 10, "not allocated in this log"),
    ] {
        let (at, in_line, what) = fault(&format!("{RMM}{line}\n"), Format::RmmCsv);
        assert_eq!((at, in_line), (2, column), "{line}: {what}");
        assert!(what.contains(words), "{line}: {what}");
    }
    assert!(fault("Thread,Time\n", Format::RmmCsv).2.contains("begins with the line Thread,Time,Action"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_with_a_place(bytes in prop::collection::vec(any::<u8>(), 0..300), rmm: bool) {
        let format = if rmm { Format::RmmCsv } else { Format::Native };
        for head in [&b""[..], HEADER.as_bytes(), RMM.as_bytes()] {
            let input = [head, &bytes].concat();
            let Ok(mut reader) = Reader::new(&input[..], format) else { continue };
            let scenario = Scenario::named("inf2.xlarge").unwrap();
            if let Err(TraceError::Line { line, column, .. }) =
                run(&mut reader, &[scenario], &Options::default(), None)
            {
                prop_assert!(line >= 1 && column >= 1);
                prop_assert!(line as usize <= input.iter().filter(|&&byte| byte == b'\n').count() + 1);
            }
        }
    }

    #[test]
    fn a_trace_with_bytes_that_are_others_never_panics(
        mut all in prop::collection::vec(event(), 1..12),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = HEADER.as_bytes().to_vec();
        for (number, event) in all.iter_mut().enumerate() {
            if let Event::Alloc(alloc) = event {
                alloc.id = number as u64 + 1;
            }
            event.write(&mut bytes);
        }
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let scenario = Scenario::named("trn1.2xlarge").unwrap();
        if let Ok(mut reader) = Reader::new(&bytes[..], Format::Native) {
            let _ = run(&mut reader, &[scenario], &Options::default(), None);
        }
    }
}

#[test]
fn a_trace_cut_at_any_byte_is_read_up_to_there_or_refused_with_line_and_column() {
    let lines = [
        HEADER.trim_end(),
        r#"{"event":"load","graph":"g"}"#,
        r#"{"event":"alloc","id":1,"size":4096,"align":64,"location":"device","hbm":1,"core":1,"usage":"WEIGHT","owner":"g","hint":"é\n","pa":7,"time":1}"#,
        r#"{"event":"copy","id":1,"direction":"in","bytes":10}"#,
        r#"{"event":"free","id":1}"#,
        r#"{"event":"exit"}"#,
    ];
    let text = lines.join("\n");
    let scenario = Scenario::named("trn1.2xlarge").unwrap();
    for end in 0..=text.len() {
        let cut = &text.as_bytes()[..end];
        let newlines = cut.iter().filter(|&&byte| byte == b'\n').count();
        let last = cut.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let whole = last.is_empty() && newlines > 0 || lines.iter().any(|line| line.as_bytes() == last);
        let outcome = Reader::new(cut, Format::Native).and_then(|mut reader| {
            run(&mut reader, std::slice::from_ref(&scenario), &Options::default(), None)
        });
        match outcome {
            Ok(_) => assert!(whole, "{end}"),
            Err(error) => {
                let (line, column, what) = place(error);
                assert!(!whole, "{end}: {what}");
                assert_eq!(line as usize, newlines + 1, "{end}: {what}");
                assert!(column as usize <= last.len().max(1), "{end}: {column} {what}");
            }
        }
    }
}
