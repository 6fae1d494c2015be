//! Directories of the machine in which names of the server's are shown: the machine's own of that
//! kind are left out, and the server's follow at the end.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::c::{self, Dir, Zeroed as _};
use crate::listings::{Entry, Listing, Listings};
use crate::node::Node;
use crate::once::Once;
use crate::place::{Parent, Place, is_ours};
use crate::state::{self, TABLES};
use crate::tree::Tree;

/// `telldir(3)` in the server's names: behind all that a file system says.
const BEHIND: i64 = i64::MAX - (1 << 20);

/// Directories that are being read.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Whether none of them is one of these.
#[inline]
pub(crate) fn is_none() -> bool {
    OPEN.load(Ordering::Relaxed) == 0
}

/// Which of the four a directory is, by file system and inode.
pub(crate) fn parent(device: u64, inode: u64) -> Option<Parent> {
    static KNOWN: Once<Vec<(Parent, u64, u64)>> = Once::new();
    let known = KNOWN.get(|| {
        let identity = |parent: Parent| {
            let stat = rustix::fs::stat(parent.path()).ok()?;
            Some((parent, stat.st_dev, stat.st_ino))
        };
        Parent::ALL.into_iter().filter_map(identity).collect()
    });
    known.iter().find(|known| (known.1, known.2) == (device, inode)).map(|known| known.0)
}

fn entries(tree: &Tree, parent: Parent) -> Vec<Entry> {
    let entry = |name: Vec<u8>| {
        let place = Place::new([parent.path().as_bytes(), b"/", &name].concat());
        let node = is_ours(place.path()).then(|| Node::at(tree, &place).ok()).flatten()?;
        Some(Entry { name, inode: node.inode(), kind: node.entry_type() })
    };
    tree.names(parent.path()).into_iter().filter_map(entry).collect()
}

/// A directory was opened: if it is one of these, it is read with the server's names from now on.
pub(crate) fn opened(stream: Dir, parent: Parent) {
    let Some(server) = state::server() else { return };
    let listing = Listing {
        stream: stream as usize,
        parent,
        entries: entries(&server.tree, parent),
        read: None,
        shown: Box::new(libc::dirent::zeroed()),
    };
    change(|listings| {
        listings.all.retain(|listing| listing.stream != stream as usize);
        listings.all.push(listing);
    });
}

/// It was closed.
pub(crate) fn closed(stream: Dir) {
    change(|listings| listings.all.retain(|listing| listing.stream != stream as usize));
}

fn change(change: impl FnOnce(&mut Listings)) {
    TABLES.with(|tables| {
        change(&mut tables.listings);
        OPEN.store(tables.listings.all.len(), Ordering::Relaxed);
    });
}

/// `readdir(3)`; `None` of a directory that is none of these. `real` is the C library's.
pub(crate) fn read(stream: Dir, real: impl Fn(Dir) -> *mut libc::dirent) -> Option<*mut libc::dirent> {
    TABLES.with(|tables| {
        let listing = tables.listings.of(stream)?;
        while listing.read.is_none() {
            let before = c::errno();
            c::set_errno(0);
            let entry = real(stream);
            let failed = c::errno() != 0;
            if !failed {
                c::set_errno(before);
            }
            if !entry.is_null() && listing.parent.has(c::entry_name(entry)) {
                continue;
            }
            if !entry.is_null() || failed {
                return Some(entry);
            }
            listing.read = Some(0);
        }
        Some(listing.next())
    })?
}

impl Listing {
    fn next(&mut self) -> *mut libc::dirent {
        let read = self.read.unwrap_or(0);
        let Some(entry) = self.entries.get(read) else { return std::ptr::null_mut() };
        self.read = Some(read + 1);
        self.shown.d_ino = entry.inode as _;
        self.shown.d_off = BEHIND + read as i64 + 1;
        self.shown.d_type = entry.kind;
        let record = std::mem::offset_of!(libc::dirent, d_name) + entry.name.len() + 1;
        self.shown.d_reclen = record.next_multiple_of(8) as u16;
        let name = entry.name.iter().chain([&0]);
        for (place, &byte) in self.shown.d_name.iter_mut().zip(name) {
            *place = byte as _;
        }
        &raw mut *self.shown
    }
}

/// `telldir(3)`; `None` where the C library knows.
pub(crate) fn tell(stream: Dir) -> Option<i64> {
    TABLES.with(|tables| tables.listings.of(stream)?.read.map(|read| BEHIND + read as i64))?
}

/// `seekdir(3)` and, with 0, `rewinddir(3)`: whether that was all.
pub(crate) fn seek(stream: Dir, position: i64) -> bool {
    let sought = TABLES.with(|tables| {
        let listing = tables.listings.of(stream)?;
        listing.read = usize::try_from(position - BEHIND).ok().filter(|_| position >= BEHIND);
        listing.read
    });
    matches!(sought, Some(Some(_)))
}

/// All entries of a directory that a filter lets through, for `scandir(3)`.
///
/// # Errors
/// ENOMEM.
pub(crate) fn scan(
    read: impl Fn() -> *mut libc::dirent,
    filter: impl Fn(*const libc::dirent) -> bool,
) -> Result<Vec<*mut libc::dirent>, Errno> {
    let mut all = Vec::new();
    loop {
        let entry = read();
        if entry.is_null() {
            return Ok(all);
        }
        if !filter(entry) {
            continue;
        }
        match c::entry_copy(entry) {
            Ok(copy) => all.push(copy),
            Err(error) => {
                all.into_iter().for_each(c::free);
                return Err(error);
            }
        }
    }
}
