//! Where tensor data lives on the host: a read-only mapping of a whole file, or anonymous memory. Bounds are
//! checked here once, when a [`Span`] is made; what the bytes mean is the business of the modules above.
//!
//! A mapped file can change under us. Its bytes are therefore only reached through volatile slices, and
//! [`Backing::check`] compares the file with what it was when it was opened. A file that is cut short between
//! the check and the read still ends the process with SIGBUS: no safe code can exclude that.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vm_memory::mmap::{MmapRegionBuilder, MmapRegionError};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

use super::error::ModelError;

/// Host memory that tensors are spans of.
#[derive(Debug)]
pub(super) struct Backing {
    region: MmapRegion,
    file: Option<Opened>,
}

/// A mapped file as it was when it was opened.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: Arc<File>,
    size: u64,
    modified: (i64, i64),
}

fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

impl Backing {
    /// Maps all of `file`, read only, without reading it. `size`, not 0, is what its length was found to be;
    /// it is compared with the length at the time of mapping.
    pub(super) fn map(path: &Path, file: File, size: u64) -> Result<Self, ModelError> {
        let io = |action, source| ModelError::Io { path: path.to_owned(), action, source };
        let metadata = file.metadata().map_err(|error| io("look at it", error))?;
        if metadata.len() != size {
            return Err(ModelError::Changed { file: path.to_owned(), opened: size, now: metadata.len() });
        }
        let length = usize::try_from(size).map_err(|_| io("map it", io::ErrorKind::FileTooLarge.into()))?;
        let file = Arc::new(file);
        // MmapRegion::from_file maps for writing, which a file opened for reading refuses.
        let region = MmapRegionBuilder::new(length)
            .with_mmap_prot(libc::PROT_READ)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .with_file_offset(FileOffset::from_arc(Arc::clone(&file), 0))
            .build()
            .map_err(|error| io("map it", map_error(error)))?;
        let opened = Opened { path: path.to_owned(), file, size, modified: modified(&metadata) };
        Ok(Self { region, file: Some(opened) })
    }

    /// `bytes` of fresh, zeroed, private memory.
    pub(super) fn anonymous(bytes: usize) -> Result<Self, ModelError> {
        let region = MmapRegion::new(bytes)
            .map_err(|error| ModelError::HostMemory { bytes: bytes as u64, source: map_error(error) })?;
        Ok(Self { region, file: None })
    }

    /// All of it.
    pub(super) fn whole(&self) -> VolatileSlice<'_> {
        self.region.as_volatile_slice()
    }

    /// Compares the file, if there is one, with what it was when it was opened (one `fstat`).
    fn check(&self) -> Result<(), ModelError> {
        let Some(Opened { path, file, size, modified: when }) = &self.file else { return Ok(()) };
        let metadata = file.metadata().map_err(|source| ModelError::Io {
            path: path.clone(),
            action: "look at it again",
            source,
        })?;
        if metadata.len() != *size || modified(&metadata) != *when {
            return Err(ModelError::Changed { file: path.clone(), opened: *size, now: metadata.len() });
        }
        Ok(())
    }
}

fn map_error(error: MmapRegionError) -> io::Error {
    match error {
        MmapRegionError::Mmap(error) => error,
        other => io::Error::other(other),
    }
}

/// A range of a backing that is known to lie within it.
#[derive(Debug, Clone)]
pub(super) struct Span {
    backing: Arc<Backing>,
    offset: usize,
    len: usize,
}

impl Span {
    /// The range `offset..offset + len`, bytes; `None` if it is not within the backing.
    pub(super) fn new(backing: &Arc<Backing>, offset: u64, len: u64) -> Option<Self> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        backing.region.get_slice(offset, len).ok()?;
        Some(Self { backing: Arc::clone(backing), offset, len })
    }

    /// The bytes; `None` if there are none.
    pub(super) fn slice(&self) -> Option<VolatileSlice<'_>> {
        if self.len == 0 {
            return None;
        }
        // Cannot fail: `new` took the same slice, and a region never changes its size.
        self.backing.region.get_slice(self.offset, self.len).ok()
    }

    /// As [`Backing::check`].
    pub(super) fn check(&self) -> Result<(), ModelError> {
        self.backing.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_must_lie_within_its_backing() {
        let backing = Arc::new(Backing::anonymous(4096).unwrap());
        assert!(Span::new(&backing, 0, 4096).is_some());
        assert!(Span::new(&backing, 4096, 0).is_some());
        assert!(Span::new(&backing, 1, 4096).is_none());
        assert!(Span::new(&backing, u64::MAX, 2).is_none());
    }

    #[test]
    fn an_empty_span_has_no_slice() {
        let backing = Arc::new(Backing::anonymous(4096).unwrap());
        assert!(Span::new(&backing, 16, 0).unwrap().slice().is_none());
        assert_eq!(Span::new(&backing, 16, 8).unwrap().slice().unwrap().len(), 8);
    }

    #[test]
    fn a_file_that_grew_before_it_was_mapped_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, [0; 100]).unwrap();
        let error = Backing::map(&path, File::open(&path).unwrap(), 99).unwrap_err();
        assert!(matches!(error, ModelError::Changed { opened: 99, now: 100, .. }), "{error}");
    }
}
