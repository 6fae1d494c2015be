//! One safetensors file: opened, its header read and checked, its data mapped but not touched.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use super::Tensor;
use super::backing::{Backing, Span};
use super::error::{HeaderError, ModelError};
use super::header::{self, MAX_HEADER};

/// Opens a safetensors file. Tensors come in the order of their data. Reads the header, nothing more: a file
/// of any size opens in the same time.
pub(super) fn open(path: &Path) -> Result<Vec<Tensor>, ModelError> {
    let bad = |source| ModelError::File { file: path.to_owned(), source };
    let (mut file, size) = open_regular(path)?;
    let length = read_header_length(path, &mut file, size)?;
    let header = read_exactly(path, &mut file, length, "read the header")?
        .ok_or_else(|| bad(HeaderError::HeaderPastEnd { length, size }))?;
    // `read_header_length` found that the header fits the file.
    let data_at = 8 + length;
    let available = size.saturating_sub(data_at);
    let entries = header::parse(&header, available).map_err(bad)?;

    let backing = Arc::new(Backing::map(path, file, size)?);
    let mut tensors = Vec::with_capacity(entries.len());
    for entry in entries {
        let (begin, bytes) = (entry.begin, entry.bytes);
        match Span::new(&backing, data_at.saturating_add(begin), bytes) {
            Some(span) => tensors.push(Tensor::new(entry.name, entry.dtype, entry.shape, bytes, span)),
            // The header was checked against the size that was mapped, so this is a second line of defence.
            None => {
                let end = begin.saturating_add(bytes);
                return Err(bad(HeaderError::OutOfRange { tensor: entry.name, begin, end, available }));
            }
        }
    }
    Ok(tensors)
}

/// Opens a regular file for reading and tells its size in bytes.
pub(super) fn open_regular(path: &Path) -> Result<(File, u64), ModelError> {
    let io = |action, source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ModelError::NotFound { path: path.to_owned() },
        _ => ModelError::Io { path: path.to_owned(), action, source },
    };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(|error| io("look at it", error))?.is_file() {
        return Err(ModelError::NotAFile { path: path.to_owned() });
    }
    let file = File::open(path).map_err(|error| io("open it", error))?;
    let size = file.metadata().map_err(|error| io("look at it", error))?.len();
    Ok((file, size))
}

/// Reads `length` bytes, or `None` if the file ends before. The caller has bounded `length`.
pub(super) fn read_exactly(
    path: &Path,
    file: &mut File,
    length: u64,
    action: &'static str,
) -> Result<Option<Vec<u8>>, ModelError> {
    let mut bytes = Vec::new();
    match file.take(length).read_to_end(&mut bytes) {
        Ok(read) if read as u64 == length => Ok(Some(bytes)),
        Ok(_) => Ok(None),
        Err(source) => Err(ModelError::Io { path: path.to_owned(), action, source }),
    }
}

/// Reads the header's length and checks it against the format's limit and the file's size.
fn read_header_length(path: &Path, file: &mut File, size: u64) -> Result<u64, ModelError> {
    let bad = |source| ModelError::File { file: path.to_owned(), source };
    if size == 0 {
        return Err(bad(HeaderError::Empty));
    }
    let mut prefix = [0; 8];
    match file.read_exact(&mut prefix) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(bad(HeaderError::TooShort { size }));
        }
        Err(source) => {
            return Err(ModelError::Io { path: path.to_owned(), action: "read the header", source });
        }
    }
    let length = u64::from_le_bytes(prefix);
    if length > MAX_HEADER {
        return Err(bad(HeaderError::HeaderTooLong { length, limit: MAX_HEADER }));
    }
    if length.saturating_add(8) > size {
        return Err(bad(HeaderError::HeaderPastEnd { length, size }));
    }
    Ok(length)
}
