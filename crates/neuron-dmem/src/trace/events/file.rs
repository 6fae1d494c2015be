//! The file. Lines are gathered and written whole, so that what a killed process leaves ends with
//! a whole line.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::error::EventsError;
use super::event::{Event, Header};
use crate::scratch;

/// How every trace begins; also tells that a file is ours.
const HEAD: &[u8] = b"{\"v\":1,";
/// Bytes that are gathered before they are written; what a kill loses (our choice).
const GATHER: usize = 64 << 10;

/// Lines on their way to a file.
#[derive(Debug)]
pub(super) struct Lines {
    file: File,
    gathered: Vec<u8>,
    /// Bytes of whole lines in the file.
    written: u64,
}

impl Lines {
    /// A new file under this name with this first line. Replaces a trace that nobody writes any
    /// more, and no other file; a link is replaced, not followed.
    pub(super) fn create(path: &Path, header: &Header<'_>) -> Result<Self, EventsError> {
        make_way(path)?;
        let (new, file) = scratch::beside(path).map_err(cannot(path, "create"))?;
        let made = file.lock().map_err(cannot(path, "lock")).and_then(|()| {
            let mut lines = Self { file, gathered: Vec::with_capacity(GATHER), written: 0 };
            header.write(&mut lines.gathered);
            lines.flush().map_err(cannot(path, "write"))?;
            fs::rename(&new, path).map_err(cannot(path, "name"))?;
            Ok(lines)
        });
        if made.is_err() {
            // The error that is reported is the one before.
            let _ = fs::remove_file(&new);
        }
        made
    }

    pub(super) fn push(&mut self, event: &Event<'_>) -> io::Result<()> {
        event.write(&mut self.gathered);
        if self.gathered.len() < GATHER { Ok(()) } else { self.flush() }
    }

    /// Writes what was gathered. What cannot be written whole is taken back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.write_all(&self.gathered);
        match flushed {
            Ok(()) => self.written += self.gathered.len() as u64,
            // The error that is reported is the one above.
            Err(_) => drop(self.file.set_len(self.written)),
        }
        self.gathered.clear();
        flushed
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        scratch::no_longer_written(&self.file);
    }
}

/// Refuses a name that something else has.
fn make_way(path: &Path) -> Result<(), EventsError> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(cannot(path, "look at"))?,
    };
    let not_ours = || EventsError::NotOurs { path: path.to_owned() };
    if !metadata.is_file() {
        return Err(not_ours());
    }
    let file = File::open(path).map_err(cannot(path, "open"))?;
    if scratch::is_written(&file) {
        return Err(EventsError::InUse { path: path.to_owned() });
    }
    let mut found = Vec::new();
    file.take(HEAD.len() as u64).read_to_end(&mut found).map_err(cannot(path, "read"))?;
    if found.is_empty() || found == HEAD { Ok(()) } else { Err(not_ours()) }
}

fn cannot(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> EventsError {
    move |source| EventsError::Io { path: path.to_owned(), doing, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trace_that_nobody_writes_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let header = Header::of("test", Some("trn1.2xlarge"));
        let lines = Lines::create(&path, &header).unwrap();
        assert!(matches!(Lines::create(&path, &header), Err(EventsError::InUse { .. })));
        drop(lines);
        assert!(fs::read(&path).unwrap().starts_with(HEAD));
        Lines::create(&path, &header).unwrap();
        fs::write(&path, "").unwrap();
        Lines::create(&path, &header).unwrap();

        let other = folder.path().join("mine");
        for content in ["{}", "{\"v\":2,\"x\":0}"] {
            fs::write(&other, content).unwrap();
            assert!(matches!(Lines::create(&other, &header), Err(EventsError::NotOurs { .. })));
            assert_eq!(fs::read_to_string(&other).unwrap(), content);
        }
        for path in [folder.path(), Path::new("/dev/null")] {
            assert!(matches!(Lines::create(path, &header), Err(EventsError::NotOurs { .. })));
        }
        let missing = Lines::create(&folder.path().join("no/t"), &header);
        assert!(matches!(missing, Err(EventsError::Io { doing: "create", .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no scratch file stays");
    }

    #[test]
    fn only_whole_lines_reach_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut lines = Lines::create(&path, &Header::of("test", None)).unwrap();
        for id in 1..5000 {
            lines.push(&Event::Free { id, time: Some(id) }).unwrap();
            let now = fs::read(&path).unwrap();
            assert!(now.ends_with(b"}\n"), "after {id}");
        }
        lines.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 5000);
    }
}
