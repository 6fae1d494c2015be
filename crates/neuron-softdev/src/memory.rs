//! Sparse shared memory: files without a name, sealed at their size.
//!
//! A page costs nothing until it is touched. The seal keeps whoever holds the descriptor (a virtual machine
//! that maps BAR4, say) from truncating the file under the device's feet.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vm_memory::mmap::MmapRegionError;
use vm_memory::{FileOffset, MmapRegion};

/// A sparse file of `size` bytes that can neither shrink nor grow.
pub(crate) fn sparse_file(name: &str, size: u64) -> io::Result<Arc<File>> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, size)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(Arc::new(File::from(fd)))
}

/// A shared, unreserved mapping of `size` bytes of `file` from `start`.
pub(crate) fn map(file: &Arc<File>, start: u64, size: u64) -> io::Result<MmapRegion> {
    let size = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    MmapRegion::from_file(FileOffset::from_arc(file.clone(), start), size).map_err(|error| match error {
        MmapRegionError::Mmap(error) => error,
        other => io::Error::other(other),
    })
}
