//! New files that get their name only when they are whole, and whether somebody still writes
//! to an older one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new file beside the path, to be renamed to it.
pub(crate) fn beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}-{number}.new", std::process::id()));
        let new = path.with_file_name(name);
        match OpenOptions::new().read(true).write(true).create_new(true).open(&new) {
            // Left by a process that had this number before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return Ok((new, file?)),
        }
    }
}

/// Gives the writer's lock back, also for a child that was forked meanwhile and has not closed what
/// it inherited.
pub(crate) fn no_longer_written(file: &File) {
    // Closing does the same where this cannot.
    let _ = file.unlock();
}

/// Whether some process holds the writer's lock.
pub(crate) fn is_written(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // It goes with the file at the latest.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
    }
}
