//! Files that are no log, or one that somebody changed.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::layout::{self, COMMITTED, Geometry, METERS, WRITTEN};
use super::super::{Damage, LogError, LogFile, LogOptions, Repair, UsageLog, WriterState};

const GEOMETRY: Geometry = Geometry { capacity: 8, rows: 23 };

/// The bytes of a log of `steps` events, some overwritten, whose writer closed it.
fn written(folder: &Path, steps: u64) -> (PathBuf, Vec<u8>) {
    let path = folder.join("log");
    let options = LogOptions::default().events(GEOMETRY.capacity).names(20).file(&path);
    let log = UsageLog::new(0, &options).unwrap();
    let _live = super::work(&log, steps);
    drop(log);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, GEOMETRY.bytes());
    (path, bytes)
}

fn set(bytes: &mut [u8], word: usize, change: impl Fn(u64) -> u64) {
    let at = word * 8;
    let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    bytes[at..at + 8].copy_from_slice(&change(old).to_le_bytes());
}

fn damage(path: &Path, bytes: &[u8]) -> Damage {
    fs::write(path, bytes).unwrap();
    match LogFile::open(path) {
        Err(LogError::Damaged { damage, .. }) => damage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_log_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for bytes in [&b""[..], b"NEURON", b"{\"events\":[]}", &[0; 20_000], &[0xff; 20_000]] {
        assert_eq!(damage(&path, bytes), Damage::Magic);
    }
    assert!(matches!(LogFile::open(folder.path()), Err(LogError::Damaged { damage: Damage::Magic, .. })));
    let error = LogFile::open(folder.path().join("none")).unwrap_err();
    assert!(matches!(&error, LogError::Io { doing: "open", .. }), "{error}");
}

#[test]
fn a_cut_or_longer_file_says_both_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = written(folder.path(), 30);
    let expected = bytes.len() as u64;
    for found in [8, 127, 128, 4096, expected - 1, expected - 8] {
        let damage = damage(&path, &bytes[..found as usize]);
        let shown = if found < 128 { 128 } else { expected };
        assert_eq!(damage, Damage::Size { expected: shown, found });
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(damage(&path, &longer), Damage::Size { expected, found: expected + 1 });
}

#[test]
fn another_version_and_a_changed_header_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = written(folder.path(), 30);
    let mut other = bytes.clone();
    set(&mut other, 1, |_| 2);
    assert_eq!(damage(&path, &other), Damage::Version { found: 2 });
    for word in 2..16 {
        let mut other = bytes.clone();
        set(&mut other, word, |old| old ^ 1 << 40);
        assert_eq!(damage(&path, &other), Damage::Header, "word {word}");
    }
}

#[test]
fn counters_that_disagree_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = written(folder.path(), 30);
    let meter = METERS + layout::METER; // HBM 1
    let mut other = bytes.clone();
    set(&mut other, meter, |old| old + 1);
    let found = damage(&path, &other);
    assert!(
        matches!(&found, Damage::Counter { counter, stored, recomputed }
        if counter == "HBM 1" && *stored == recomputed + 1),
        "{found}"
    );
    let mut other = bytes.clone();
    set(&mut other, meter + 1, |_| 1);
    let found = damage(&path, &other);
    assert!(matches!(&found, Damage::Peak { counter, stored: 1, .. } if counter == "HBM 1"), "{found}");
    // A wrong base shows in the first event's total already.
    let mut other = bytes.clone();
    set(&mut other, meter + 2, |old| old + 7);
    let found = damage(&path, &other);
    assert!(
        matches!(&found, Damage::Counter { counter, .. } if counter == "HBM 1 after event 22"),
        "{found}"
    );
    // A row's base, without which the hint's bytes come out wrong.
    let mut other = bytes;
    let row = (3..23).find(|&row| other[GEOMETRY.row(row) * 8] == 1).unwrap();
    set(&mut other, GEOMETRY.row(row) + 3, |old| old + 7);
    let found = damage(&path, &other);
    assert!(matches!(&found, Damage::Counter { counter, .. } if counter.contains("(hint ")), "{found}");
}

#[test]
fn an_event_that_is_torn_is_left_out_at_the_end_and_an_error_before() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = written(folder.path(), 28);
    let whole = LogFile::open(&path).unwrap();
    let events: Vec<_> = whole.events_from(0).collect();
    assert_eq!((whole.first(), whole.written(), events.len()), (20, 28, 8));

    let mut other = bytes.clone();
    set(&mut other, GEOMETRY.entry(27) + 5, |old| old ^ 0x100);
    fs::write(&path, &other).unwrap();
    let repaired = LogFile::open(&path).unwrap();
    assert_eq!(repaired.repairs(), [Repair::TornEvent { number: 27 }]);
    assert!(repaired.events_from(0).eq(events[..7].iter().cloned()));
    // Device memory as it was after the event before.
    let before = events[..7].iter().rfind(|event| event.hbm_total > 0).unwrap().hbm_total;
    assert_eq!(repaired.statistics().hbm(1).current, before);
    assert_ne!(whole.statistics().hbm(1).current, before);

    let mut other = bytes;
    set(&mut other, GEOMETRY.entry(25) + 5, |old| old ^ 0x100);
    assert_eq!(damage(&path, &other), Damage::Event { number: 25, first: 20, end: 28 });
}

#[test]
fn cursors_and_journal_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = written(folder.path(), 30);
    for (word, change, what) in [
        (WRITTEN, 1_u64 << 40, "state"),
        (layout::FIRST, 1 << 40, "state"),
        (layout::ROWS_USED, 1 << 40, "state"),
        (COMMITTED, 1 << 40, "journal"),
    ] {
        let mut other = bytes.clone();
        set(&mut other, word, |old| old ^ change);
        assert_eq!(damage(&path, &other), Damage::State { what }, "word {word}");
    }
    // A journal that would write outside of the state is not carried out.
    let mut other = bytes.clone();
    set(&mut other, layout::APPLIED, |old| old - 1);
    let number = u64::from_le_bytes(bytes[COMMITTED * 8..COMMITTED * 8 + 8].try_into().unwrap());
    fs::write(&path, &other).unwrap();
    assert_eq!(LogFile::open(&path).unwrap().repairs(), [Repair::Replayed { transaction: number }]);
    set(&mut other, layout::journal(number) + 2, |_| COMMITTED as u64);
    assert_eq!(damage(&path, &other), Damage::State { what: "journal" });
}

#[test]
fn a_writer_takes_over_what_is_dead_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let options = LogOptions::default().events(4).names(4).file(&path);
    fs::write(&path, "precious").unwrap();
    assert!(matches!(UsageLog::new(0, &options), Err(LogError::NotOurs { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::write(&path, "").unwrap();

    let first = UsageLog::new(0, &options).unwrap();
    let error = UsageLog::new(1, &options).unwrap_err();
    let own = u64::from(std::process::id());
    assert!(matches!(&error, LogError::InUse { pid, .. } if *pid == own), "{error}");
    let mut reader = LogFile::open(&path).unwrap();
    assert_eq!(reader.writer(), WriterState::Writing);
    drop(first);
    reader.refresh().unwrap();
    assert_eq!(reader.writer(), WriterState::Closed);

    // The next log takes the name; who has the old one open keeps that.
    let second = UsageLog::new(7, &options).unwrap();
    reader.refresh().unwrap();
    assert_eq!((reader.device(), LogFile::open(&path).unwrap().device()), (0, 7));
    drop(second);
    let error = UsageLog::new(0, &options.clone().file(folder.path())).unwrap_err();
    assert!(matches!(error, LogError::NotOurs { .. }));
    let error = UsageLog::new(0, &options.file(folder.path().join("no/such"))).unwrap_err();
    assert!(matches!(error, LogError::Io { doing: "create", .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the words are: an error, or a log whose figures agree with each other.
    #[test]
    fn no_change_of_a_file_brings_a_reader_down(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0u8..4), 1..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut bytes) = written(folder.path(), 20);
        let words = bytes.len() / 8;
        for (index, value, kind) in changes {
            let word = match kind {
                0 => index.index(words),
                1 => WRITTEN - 16 + index.index(24),
                2 => layout::journal(0) + index.index(512),
                _ => GEOMETRY.entry(0) + index.index(72),
            };
            let value = if value % 2 == 0 { value >> 50 } else { value };
            set(&mut bytes, word, |_| value);
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(mut log) = LogFile::open(&path) {
            let events: Vec<_> = log.events_from(0).collect();
            prop_assert!(events.len() as u64 <= log.capacity());
            let statistics = log.statistics();
            let hbms = (0..4).fold(0_u64, |sum, hbm| sum.wrapping_add(statistics.hbm(hbm).current));
            prop_assert_eq!(hbms, statistics.device().current);
            log.refresh().unwrap();
        }
    }
}
