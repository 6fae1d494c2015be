//! Directories that are being read. What is shown of them is `listing`'s business.

use crate::c::Dir;
use crate::place::Parent;

/// A directory that is being read.
pub(crate) struct Listing {
    pub(crate) stream: usize,
    pub(crate) parent: Parent,
    /// The server's names.
    pub(crate) entries: Vec<Entry>,
    /// How many of them were read, once the machine's are at their end.
    pub(crate) read: Option<usize>,
    /// What the program has last got of them.
    pub(crate) shown: Box<libc::dirent>,
}

/// A name of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) inode: u64,
    pub(crate) kind: u8,
}

/// Directories that are being read.
pub(crate) struct Listings {
    pub(crate) all: Vec<Listing>,
}

impl Listings {
    pub(crate) const fn new() -> Self {
        Self { all: Vec::new() }
    }

    pub(crate) fn of(&mut self, stream: Dir) -> Option<&mut Listing> {
        self.all.iter_mut().find(|listing| listing.stream == stream as usize)
    }
}
