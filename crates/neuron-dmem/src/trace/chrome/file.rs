//! A file that is whole at any moment: each write puts new events and the document's end over
//! the end that was there, so what a killed process or a full disk leaves can be opened.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::error::TimelineError;
use crate::scratch;

/// Before the first event. The list comes first: Perfetto reads up to a key that it does not
/// know.
const HEAD: &[u8] = b"{\"traceEvents\":[\n";
/// Behind the last event, at any moment; also tells that a file is ours.
const TAIL: &[u8] =
    b"\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"neuron-mem\",\"version\":\"1\"}}\n";
/// Bytes that are gathered before they are written; what a kill loses (our choice).
const GATHER: usize = 64 << 10;

/// What a document is written to.
pub(super) trait Store: Send {
    /// Writes all bytes at an offset, or fails with part of them written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Ends it at an offset.
    fn cut(&mut self, offset: u64) -> io::Result<()>;
}

impl Store for Box<dyn Store> {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_at(bytes, offset)
    }

    fn cut(&mut self, offset: u64) -> io::Result<()> {
        (**self).cut(offset)
    }
}

/// A file with the writer's lock.
struct Locked(File);

impl Store for Locked {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn cut(&mut self, offset: u64) -> io::Result<()> {
        self.0.set_len(offset)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        scratch::no_longer_written(&self.0);
    }
}

/// A document with events.
pub(super) struct Document<S> {
    store: S,
    /// Where the next event goes: over the tail.
    end: u64,
    /// Events that are not written yet, each with what separates it from the one before.
    gathered: Vec<u8>,
    empty: bool,
}

impl<S: Store> Document<S> {
    /// Without events.
    pub(super) fn begin(mut store: S) -> io::Result<Self> {
        store.write_at(&[HEAD, TAIL].concat(), 0)?;
        Ok(Self { store, end: HEAD.len() as u64, gathered: Vec::with_capacity(GATHER), empty: true })
    }

    /// Adds an event, a JSON object.
    pub(super) fn push(&mut self, event: &[u8]) -> io::Result<()> {
        if !std::mem::take(&mut self.empty) {
            self.gathered.extend(b",\n");
        }
        self.gathered.extend(event);
        if self.gathered.len() < GATHER { Ok(()) } else { self.flush() }
    }

    /// Writes what was gathered. What cannot be written is dropped.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let events = self.gathered.len();
        if events == 0 {
            return Ok(());
        }
        self.gathered.extend(TAIL);
        let written = self.store.write_at(&self.gathered, self.end);
        self.gathered.clear();
        if written.is_ok() {
            self.end += events as u64;
        } else {
            // The tail had room here before. The error that is reported is the one above.
            let _ = self.store.cut(self.end);
            let _ = self.store.write_at(TAIL, self.end);
        }
        written
    }
}

/// A new document under this name. Replaces a timeline that nobody writes any more, and no
/// other file; a link is replaced, not followed.
pub(super) fn create(path: &Path) -> Result<Document<Box<dyn Store>>, TimelineError> {
    make_way(path)?;
    let (new, file) = scratch::beside(path).map_err(cannot(path, "create"))?;
    let made = file.lock().map_err(cannot(path, "lock")).and_then(|()| {
        let document = Document::begin(Box::new(Locked(file)) as _).map_err(cannot(path, "write"))?;
        fs::rename(&new, path).map_err(cannot(path, "name"))?;
        Ok(document)
    });
    if made.is_err() {
        // The error that is reported is the one before.
        let _ = fs::remove_file(&new);
    }
    made
}

/// Refuses a name that something else has.
fn make_way(path: &Path) -> Result<(), TimelineError> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(cannot(path, "look at"))?,
    };
    let not_ours = || TimelineError::NotOurs { path: path.to_owned() };
    if !metadata.is_file() {
        return Err(not_ours());
    }
    if metadata.len() == 0 {
        return Ok(());
    }
    let file = File::open(path).map_err(cannot(path, "open"))?;
    if scratch::is_written(&file) {
        return Err(TimelineError::InUse { path: path.to_owned() });
    }
    let mut found = vec![0; TAIL.len()];
    let start = metadata.len().checked_sub(TAIL.len() as u64).ok_or_else(not_ours)?;
    file.read_exact_at(&mut found, start).map_err(cannot(path, "read"))?;
    if found == TAIL { Ok(()) } else { Err(not_ours()) }
}

/// What went wrong with the file.
pub(super) fn cannot(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> TimelineError {
    move |source| TimelineError::Io { path: path.to_owned(), doing, source }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes so many bytes and is full.
    pub(in super::super) struct Small {
        pub(in super::super) bytes: Vec<u8>,
        pub(in super::super) room: usize,
    }

    impl Store for Small {
        fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let offset = offset as usize;
            let end = (offset + bytes.len()).min(self.room);
            self.bytes.resize(end.max(self.bytes.len()), 0);
            self.bytes[offset..end].copy_from_slice(&bytes[..end - offset]);
            if end - offset == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }

        fn cut(&mut self, offset: u64) -> io::Result<()> {
            self.bytes.truncate(offset as usize);
            Ok(())
        }
    }

    fn events(bytes: &[u8]) -> Vec<u64> {
        let document: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(document["displayTimeUnit"], "ns");
        document["traceEvents"].as_array().unwrap().iter().map(|event| event["n"].as_u64().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn a_document_is_whole_after_every_write_even_where_the_disk_is_full(
            room in HEAD.len() + TAIL.len()..2000,
            flushes in prop::collection::vec(1u64..20, 1..20),
        ) {
            let mut document = Document::begin(Small { bytes: Vec::new(), room }).unwrap();
            let (mut number, mut kept) = (0, 0);
            for count in flushes {
                for _ in 0..count {
                    document.push(format!("{{\"n\":{number}}}").as_bytes()).unwrap();
                    number += 1;
                }
                let written = document.flush();
                let found = events(&document.store.bytes);
                prop_assert!(found.iter().copied().eq(0..found.len() as u64));
                if written.is_err() {
                    prop_assert_eq!(found.len(), kept, "nothing more, nothing less");
                    return Ok(());
                }
                prop_assert_eq!(found.len() as u64, number);
                kept = found.len();
            }
        }
    }

    #[test]
    fn only_a_timeline_that_nobody_writes_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        let document = create(&path).unwrap();
        assert!(matches!(create(&path), Err(TimelineError::InUse { .. })));
        drop(document);
        create(&path).unwrap();
        fs::write(&path, "").unwrap();
        create(&path).unwrap();

        let other = folder.path().join("mine.json");
        for content in ["[]", &format!("{}x", String::from_utf8_lossy(TAIL))] {
            fs::write(&other, content).unwrap();
            assert!(matches!(create(&other), Err(TimelineError::NotOurs { .. })));
            assert_eq!(fs::read_to_string(&other).unwrap(), content);
        }
        for path in [folder.path(), Path::new("/dev/null")] {
            assert!(matches!(create(path), Err(TimelineError::NotOurs { .. })));
        }
        let missing = create(&folder.path().join("no/t.json"));
        assert!(matches!(missing, Err(TimelineError::Io { doing: "create", .. })));
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "no scratch file stays");
    }

    #[test]
    fn a_link_is_replaced_and_what_it_names_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("empty"), folder.path().join("link"));
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        create(&link).unwrap();
        assert_eq!(fs::metadata(&target).unwrap().len(), 0);
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }
}
