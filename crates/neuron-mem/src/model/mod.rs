//! A model as the command loads it: tensors with a name, a dtype, a shape and bytes in host memory. Reads
//! safetensors files, alone or in shards, and builds a seeded one; knows nothing of devices.
//!
//! - `backing`: mapped files and anonymous memory
//! - `header`, `file`: one safetensors file
//! - `index`, `folder`: shards, and which file of a folder is the model
//! - `synthetic`: the built-in model

mod backing;
mod error;
mod file;
mod folder;
mod header;
mod index;
mod synthetic;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use vm_memory::VolatileSlice;

use backing::Span;
pub use error::{HeaderError, IndexError, ModelError};
use folder::Kind;

use crate::bytes::plural;
use crate::shown::ShownPath;

/// Where a model came from. Displays as one line for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One safetensors file.
    File(PathBuf),
    /// An index and its shards.
    Sharded {
        /// The index.
        index: PathBuf,
        /// Number of shard files.
        shards: usize,
    },
    /// The built-in model.
    Synthetic {
        /// Seed of its weights.
        seed: u64,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", ShownPath(path)),
            Source::Sharded { index, shards } => {
                write!(f, "{} ({})", ShownPath(index), plural(*shards as u64, "shard"))
            }
            Source::Synthetic { seed } => write!(f, "built-in transformer, seed {seed}"),
        }
    }
}

/// A model whose headers are checked and whose data is mapped.
#[derive(Debug)]
pub struct Model {
    source: Source,
    tensors: Vec<Tensor>,
    notes: Vec<String>,
}

impl Model {
    /// Opens the model at `path`: a safetensors file, an index of shards (`*.json`), or a folder that holds
    /// exactly one index or, without one, exactly one `.safetensors` file.
    ///
    /// Reads headers only, so files of any size open quickly.
    ///
    /// # Errors
    /// [`ModelError`] for whatever is unreadable, malformed or ambiguous.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let metadata = fs::metadata(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ModelError::NotFound { path: path.to_owned() },
            _ => ModelError::Io { path: path.to_owned(), action: "look at it", source },
        })?;
        let (path, kind) = if metadata.is_dir() {
            folder::find(path)?
        } else {
            (path.to_owned(), folder::kind_of_named(path))
        };
        match kind {
            Kind::Index => index::open(&path),
            Kind::Safetensors => {
                let tensors = file::open(&path)?;
                Ok(Self { source: Source::File(path), tensors, notes: Vec::new() })
            }
        }
    }

    /// Builds a transformer of 100 MB (within 2 %) in memory, all bf16, its weights decided by `seed`: the
    /// same seed gives the same bytes on every machine.
    ///
    /// # Errors
    /// [`ModelError::HostMemory`] if the system does not map that much.
    pub fn synthetic(seed: u64) -> Result<Self, ModelError> {
        synthetic::build(seed)
    }

    /// Where it came from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The tensors, in the order of their data; shards in the order of their file names.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Oddities that did not keep the model from being read, for people: one sentence each, no full stop.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Bytes of all tensors.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        // Each tensor is its own part of this process's address space, so the sum cannot overflow.
        self.tensors.iter().map(Tensor::bytes).sum()
    }
}

/// One tensor of a model.
#[derive(Debug)]
pub struct Tensor {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    bytes: u64,
    span: Span,
}

impl Tensor {
    fn new(name: String, dtype: Dtype, shape: Vec<u64>, bytes: u64, span: Span) -> Self {
        Self { name, dtype, shape, bytes, span }
    }

    /// Its name, as in the file: any Unicode, any length, perhaps empty. Show it through
    /// [`Shown`](crate::shown::Shown).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its element type as safetensors writes it: `BF16`, `F8_E4M3`, ...
    #[must_use]
    pub fn dtype(&self) -> String {
        self.dtype.to_string()
    }

    /// Elements along each dimension; none for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Size of its data in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its data in host memory, `bytes()` long, or `None` for a tensor without data.
    ///
    /// Data of a file is a read-only mapping of it: bytes may change between two reads if somebody writes to
    /// the file, and writing through the slice ends the process (SIGSEGV). Call
    /// [`check_still_there`](Self::check_still_there) before reading.
    #[must_use]
    pub fn data(&self) -> Option<VolatileSlice<'_>> {
        self.span.slice()
    }

    /// Checks that the tensor's file has the size and the modification time it was opened with. Costs one
    /// system call; always fine for the built-in model.
    ///
    /// # Errors
    /// [`ModelError::Changed`], before a read of the missing part would end the process with SIGBUS.
    pub fn check_still_there(&self) -> Result<(), ModelError> {
        self.span.check()
    }
}
