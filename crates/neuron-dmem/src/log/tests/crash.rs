//! A writer that stops behind any of its stores leaves a log that is right.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};

use super::super::layout::begin;
use super::super::layout::{COMMITTED, Geometry, Header};
use super::super::words::Words;
use super::super::{Event, LogFile, Repair, Statistics, UsageLog, WriterState};

/// Every store of a writer, and what its log holds after each update.
struct Recording {
    geometry: Geometry,
    stores: Vec<(usize, u64)>,
    /// By number of the update that ends an operation.
    after: HashMap<u64, (Statistics, Vec<Event>)>,
}

fn recording(geometry: Geometry, steps: u64) -> Recording {
    let stores = Arc::new(Mutex::new(Vec::new()));
    let zeroed = (0..geometry.words()).map(|_| 0.into()).collect();
    let header = Header { geometry, device: 0, pid: 1 };
    let log = UsageLog::over(header, begin(Words::Recorded(zeroed, Arc::clone(&stores)), &header));
    let mut after = HashMap::new();
    // One step at a time is not possible from outside: what each update leads to is what a
    // run that ends there shows.
    for until in 0..=steps {
        let shorter = Arc::new(Mutex::new(Vec::new()));
        let zeroed = (0..geometry.words()).map(|_| 0.into()).collect();
        let log = UsageLog::over(header, begin(Words::Recorded(zeroed, Arc::clone(&shorter)), &header));
        let _live = super::work(&log, until);
        let last = shorter.lock().unwrap().iter().rfind(|&&(word, _)| word == COMMITTED).unwrap().1;
        after.insert(last, (log.statistics(), log.events()));
    }
    let _live = super::work(&log, steps);
    let stores = stores.lock().unwrap().clone();
    Recording { geometry, stores, after }
}

#[test]
fn a_log_cut_off_behind_any_store_is_whole_up_to_its_last_update() {
    // Small enough that events are overwritten and rows change their names.
    for (capacity, rows, steps) in [(4, 8, 90), (0, 8, 60), (1, 7, 90), (64, 64, 30)] {
        let Recording { geometry, stores, after } = recording(Geometry { capacity, rows }, steps);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
        file.set_len(geometry.bytes()).unwrap();
        let (mut follower, mut committed, mut replayed, mut compared) = (None::<LogFile>, 0, 0, 0);
        for (number, (word, value)) in stores.into_iter().enumerate() {
            file.write_all_at(&value.to_le_bytes(), word as u64 * 8).unwrap();
            if word == COMMITTED {
                committed = value;
            }
            // The header and the first state are written before a file has its name.
            if number <= 16 {
                continue;
            }
            let late = LogFile::open(&path).unwrap_or_else(|error| panic!("behind store {number}: {error}"));
            assert_eq!(late.writer(), WriterState::Ended);
            assert!(matches!(late.repairs(), [] | [Repair::Replayed { .. }]));
            replayed += late.repairs().len();
            let follower = match &mut follower {
                Some(follower) => {
                    follower.refresh().unwrap_or_else(|error| panic!("behind store {number}: {error}"));
                    follower
                }
                none => none.insert(LogFile::open(&path).unwrap()),
            };
            assert_eq!(follower.statistics(), late.statistics());
            assert!(follower.events_from(0).eq(late.events_from(0)));
            if let Some((statistics, events)) = after.get(&committed) {
                assert_eq!(&late.statistics(), statistics);
                compared += 1;
                assert!(late.events_from(0).eq(events.iter().cloned()));
            }
        }
        assert!(replayed > 100 && compared > 100, "{replayed} {compared}");
    }
}
