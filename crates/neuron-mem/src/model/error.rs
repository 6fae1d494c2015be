//! Why a model could not be read. Every message says what is wrong, where (file, tensor, offset) and what to
//! do about it; text that comes from a file is shown escaped and bounded. All of these end the command with
//! [`Exit::Input`](crate::exit::Exit::Input).

use std::io;
use std::path::PathBuf;

use crate::bytes::thousands;
use crate::shown::{Shown, ShownList, ShownPath};

/// A model that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Nothing is at the path.
    #[error("{}: no such file or folder; check the path", ShownPath(path))]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// The system refused to look at, open, read or map a file.
    #[error("{}: cannot {action}", ShownPath(path))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done: `open`, `read the header`, ...
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A device, a socket, a pipe or a folder where a model's file must be.
    #[error("{}: not a regular file, so it cannot be mapped; name a `.safetensors` file", ShownPath(path))]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A folder with neither an index nor a `.safetensors` file.
    #[error(
        "{}: the folder holds no model: neither a `*.index.json` nor a `.safetensors` file directly in it",
        ShownPath(folder)
    )]
    NoModel {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder in which more than one model could be meant.
    #[error(
        "{}: the folder holds more than one candidate ({}); name the file to load",
        ShownPath(folder),
        ShownList(candidates)
    )]
    SeveralModels {
        /// The folder.
        folder: PathBuf,
        /// The candidates' file names, sorted.
        candidates: Vec<String>,
    },
    /// A safetensors file whose header or size is wrong.
    #[error("{}: not a usable safetensors file", ShownPath(file))]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: HeaderError,
    },
    /// An index of shards that is wrong, or does not agree with its shards.
    #[error("{}: not a usable index of shards", ShownPath(index))]
    Index {
        /// The index.
        index: PathBuf,
        /// What is wrong.
        source: IndexError,
    },
    /// A mapped file is not what it was when it was opened. Reading past a shrunken file's end would kill the
    /// process (SIGBUS); reading on in a rewritten one would load a mixture.
    #[error(
        "{}: changed while it was being loaded: {} bytes when opened, {} now{}; load it again once nothing writes to it",
        ShownPath(file),
        thousands(*opened),
        thousands(*now),
        if opened == now { ", modified in between" } else { "" }
    )]
    Changed {
        /// The file.
        file: PathBuf,
        /// Its size in bytes when it was opened.
        opened: u64,
        /// Its size in bytes now.
        now: u64,
    },
    /// No address space or memory for the built-in model.
    #[error("cannot map {} bytes of host memory for the built-in model", thousands(*bytes))]
    HostMemory {
        /// The size asked for.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// What is wrong with a safetensors file. Offsets are those of the header's `data_offsets`: bytes from the end
/// of the header.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// A file of no bytes.
    #[error("the file is empty; fetch or write it again")]
    Empty,
    /// Too short for the header's length.
    #[error(
        "the file has {size} bytes, too few for the 8-byte header length it must begin with; fetch it again"
    )]
    TooShort {
        /// The file's size in bytes.
        size: u64,
    },
    /// A header length no safetensors file can have.
    #[error(
        "the first 8 bytes give a header of {} bytes, over the format's limit of {}; the file is corrupt or is no safetensors file",
        thousands(*length),
        thousands(*limit)
    )]
    HeaderTooLong {
        /// The length read.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// The header runs past the end of the file.
    #[error(
        "the header's {} bytes run past the end of the file ({} bytes); the file is truncated, fetch it again",
        thousands(*length),
        thousands(*size)
    )]
    HeaderPastEnd {
        /// The header's length in bytes, without its 8-byte prefix.
        length: u64,
        /// The file's size in bytes.
        size: u64,
    },
    /// The header is not text.
    #[error("the header is not UTF-8 (first bad byte at offset {offset} of the file); the file is corrupt")]
    NotUtf8 {
        /// Offset of the first bad byte from the start of the file.
        offset: u64,
    },
    /// The header is not the JSON it should be.
    #[error("the header is not valid: {message}")]
    NotJson {
        /// The parser's words, with the position, bounded.
        message: String,
    },
    /// Two entries with one name.
    #[error("tensor {} is listed twice in the header; which one is meant cannot be told", Shown(tensor))]
    Duplicate {
        /// The name.
        tensor: String,
    },
    /// A data type the format does not have.
    #[error(
        "tensor {}: unknown dtype {}; the file may need a newer version of this program",
        Shown(tensor),
        Shown(dtype)
    )]
    UnknownDtype {
        /// The tensor.
        tensor: String,
        /// The dtype as written.
        dtype: String,
    },
    /// An end before its begin.
    #[error("tensor {}: data_offsets {begin}..{end} are reversed; the header is corrupt", Shown(tensor))]
    Reversed {
        /// The tensor.
        tensor: String,
        /// First byte.
        begin: u64,
        /// One past the last byte.
        end: u64,
    },
    /// Data past the end of the file.
    #[error(
        "tensor {}: data_offsets {begin}..{end} are out of range, the file holds {available} bytes of data; it is truncated or its header is corrupt",
        Shown(tensor)
    )]
    OutOfRange {
        /// The tensor.
        tensor: String,
        /// First byte.
        begin: u64,
        /// One past the last byte.
        end: u64,
        /// Bytes of data in the file.
        available: u64,
    },
    /// A shape whose size is no 64-bit number.
    #[error(
        "tensor {}: the size of shape {shape} in {dtype} overflows; the header is corrupt",
        Shown(tensor)
    )]
    SizeOverflow {
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: String,
        /// Its shape, bounded.
        shape: String,
    },
    /// A sub-byte dtype whose elements do not fill whole bytes.
    #[error(
        "tensor {}: shape {shape} in {dtype} is {bits} bits, not whole bytes; the format does not allow that",
        Shown(tensor)
    )]
    NotWholeBytes {
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: String,
        /// Its shape, bounded.
        shape: String,
        /// The size in bits.
        bits: u64,
    },
    /// Offsets that do not span what the shape needs.
    #[error(
        "tensor {}: shape {shape} in {dtype} needs {needed} bytes, data_offsets {begin}..{end} span {}; the header is corrupt",
        Shown(tensor),
        end.saturating_sub(*begin)
    )]
    SizeMismatch {
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: String,
        /// Its shape, bounded.
        shape: String,
        /// Bytes the shape needs.
        needed: u64,
        /// First byte.
        begin: u64,
        /// One past the last byte.
        end: u64,
    },
    /// Data that begins inside the tensor before it.
    #[error(
        "tensor {}: its data begins at {begin}, inside tensor {}, which ends at {previous_end}: they overlap; the header is corrupt",
        Shown(tensor),
        Shown(previous)
    )]
    Overlap {
        /// The tensor.
        tensor: String,
        /// First byte.
        begin: u64,
        /// The tensor before it.
        previous: String,
        /// One past the last byte of the one before.
        previous_end: u64,
    },
    /// Bytes between two tensors that belong to none.
    #[error(
        "tensor {}: its data begins at {begin}, but the data before it ends at {previous_end}; the format allows no gaps",
        Shown(tensor)
    )]
    Gap {
        /// The tensor.
        tensor: String,
        /// First byte.
        begin: u64,
        /// Where it had to begin.
        previous_end: u64,
    },
    /// Bytes after the last tensor.
    #[error(
        "the tensors end at {covered} but the file holds {available} bytes of data; the format allows no bytes after the last tensor"
    )]
    Trailing {
        /// Bytes that tensors cover.
        covered: u64,
        /// Bytes of data in the file.
        available: u64,
    },
    /// The safetensors library refused what the checks above let through.
    #[error("the header is not valid: {message}")]
    Rejected {
        /// The library's words, bounded.
        message: String,
    },
}

/// What is wrong with an index of shards.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Larger than any index is.
    #[error(
        "it has {} bytes, over the limit of {}; it is no index of shards",
        thousands(*size),
        thousands(*limit)
    )]
    TooLong {
        /// Its size in bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Not the JSON it should be.
    #[error("it is not valid: {message}")]
    NotJson {
        /// The parser's words, with the position, bounded.
        message: String,
    },
    /// No map from tensors to shards.
    #[error("it has no `weight_map`, or an empty one; name the model's `*.safetensors.index.json`")]
    NoWeightMap,
    /// One tensor mapped twice.
    #[error("tensor {} is listed twice in `weight_map`; which shard is meant cannot be told", Shown(tensor))]
    Duplicate {
        /// The name.
        tensor: String,
    },
    /// A shard outside the index's folder.
    #[error(
        "tensor {} is mapped to {}, which is not a path inside the index's folder; such files are not opened",
        Shown(tensor),
        Shown(shard)
    )]
    Escapes {
        /// The tensor.
        tensor: String,
        /// The shard as written.
        shard: String,
    },
    /// Shards that are not there.
    #[error(
        "{} of {total} shards missing ({}); put them next to the index",
        missing.len(),
        ShownList(missing)
    )]
    ShardsMissing {
        /// File names of the shards that are missing, sorted.
        missing: Vec<String>,
        /// Number of shards in the index.
        total: usize,
    },
    /// A tensor that its shard does not have.
    #[error(
        "tensor {} is mapped to {}, which does not hold it; index and shards are of different versions, fetch them again",
        Shown(tensor),
        Shown(shard)
    )]
    TensorMissing {
        /// The tensor.
        tensor: String,
        /// The shard's file name.
        shard: String,
    },
    /// A tensor held by another shard than the one it is mapped to.
    #[error(
        "tensor {} is mapped to {} but {} holds one of that name too; which one is meant cannot be told",
        Shown(tensor),
        Shown(shard),
        Shown(other)
    )]
    HeldTwice {
        /// The tensor.
        tensor: String,
        /// The shard it is mapped to.
        shard: String,
        /// The other shard that holds it.
        other: String,
    },
}
