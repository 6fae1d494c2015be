//! The file of a log: made by its writer, mapped by its readers.
//!
//! A file is made whole before it has its name, so a full disk is an error here, not a signal
//! at some later event, and a reader never finds half a header. The writer holds a lock on it
//! for as long as it lives: that is how others tell whether it does.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use vm_memory::mmap::{MmapRegionBuilder, MmapRegionError};
use vm_memory::{FileOffset, MmapRegion};

use super::error::{Damage, LogError};
use super::layout::begin;
use super::layout::{HEADER, Header, MAGIC};
use super::words::{WORD, Words};
use crate::scratch;

/// Bytes of the header.
const HEADER_BYTES: usize = HEADER * WORD;

fn cannot(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> LogError {
    move |source| LogError::Io { path: path.to_owned(), doing, source }
}

/// A new log without events. Replaces the log of a writer that is no more, and no other file.
pub(super) fn create(path: &Path, header: &Header) -> Result<Words, LogError> {
    make_way(path)?;
    let (new, file) = scratch::beside(path).map_err(cannot(path, "create"))?;
    let made = fill(path, &new, file, header);
    if made.is_err() {
        // The error that is reported is the one before.
        let _ = fs::remove_file(&new);
    }
    made
}

/// Refuses a name that something else has.
fn make_way(path: &Path) -> Result<(), LogError> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(cannot(path, "look at"))?,
    };
    let not_ours = || LogError::NotOurs { path: path.to_owned() };
    if !metadata.is_file() {
        return Err(not_ours());
    }
    if metadata.len() == 0 {
        return Ok(());
    }
    let file = File::open(path).map_err(cannot(path, "open"))?;
    let start = read_start(&file).map_err(cannot(path, "read"))?;
    if !start.starts_with(&MAGIC.to_le_bytes()) {
        return Err(not_ours());
    }
    if scratch::is_written(&file) {
        let pid = Header::read(&header_words(&start), metadata.len()).map_or(0, |header| header.pid);
        return Err(LogError::InUse { path: path.to_owned(), pid });
    }
    Ok(())
}

fn fill(path: &Path, new: &Path, mut file: File, header: &Header) -> Result<Words, LogError> {
    file.lock().map_err(cannot(path, "lock"))?;
    let zeros = vec![0; 1 << 20];
    let mut left = header.geometry.bytes();
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len());
        file.write_all(zeros.get(..part).unwrap_or_default()).map_err(cannot(path, "make room for"))?;
        left -= part as u64;
    }
    let region = MmapRegion::from_file(FileOffset::new(file, 0), header.geometry.words() * WORD);
    let words = begin(Words::Mapped(region.map_err(mapping).map_err(cannot(path, "map"))?), header);
    fs::rename(new, path).map_err(cannot(path, "name"))?;
    Ok(words)
}

fn mapping(error: MmapRegionError) -> io::Error {
    match error {
        MmapRegionError::Mmap(error) => error,
        other => io::Error::other(other),
    }
}

/// An opened log.
pub(super) struct Opened {
    pub(super) file: Arc<File>,
    pub(super) header: Header,
    pub(super) words: Words,
}

/// Opens a log for reading. Nothing is mapped before header and size are found in order.
pub(super) fn open(path: &Path) -> Result<Opened, LogError> {
    let damaged = |damage| LogError::Damaged { path: path.to_owned(), damage };
    let metadata = fs::metadata(path).map_err(cannot(path, "open"))?;
    // Opening a pipe would wait for a writer.
    if !metadata.is_file() {
        return Err(damaged(Damage::Magic));
    }
    let file = File::open(path).map_err(cannot(path, "open"))?;
    let start = read_start(&file).map_err(cannot(path, "read"))?;
    let bytes = file.metadata().map_err(cannot(path, "look at"))?.len();
    if start.len() < HEADER_BYTES {
        let expected = HEADER_BYTES as u64;
        return Err(damaged(match start.starts_with(&MAGIC.to_le_bytes()) {
            true => Damage::Size { expected, found: bytes },
            false => Damage::Magic,
        }));
    }
    let header = Header::read(&header_words(&start), bytes).map_err(damaged)?;
    let file = Arc::new(file);
    let region = MmapRegionBuilder::new(header.geometry.words() * WORD)
        .with_mmap_prot(libc::PROT_READ)
        .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
        .with_file_offset(FileOffset::from_arc(Arc::clone(&file), 0))
        .build();
    let region = region.map_err(mapping).map_err(cannot(path, "map"))?;
    Ok(Opened { file, header, words: Words::Mapped(region) })
}

/// As many bytes of the header as there are.
fn read_start(file: &File) -> io::Result<Vec<u8>> {
    let (mut start, mut filled) = (vec![0; HEADER_BYTES], 0);
    while let Some(rest) = start.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    start.truncate(filled);
    Ok(start)
}

fn header_words(start: &[u8]) -> Words {
    let words = Words::few(HEADER);
    for (word, bytes) in start.chunks_exact(WORD).enumerate() {
        words.store(word, bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)));
    }
    words
}
