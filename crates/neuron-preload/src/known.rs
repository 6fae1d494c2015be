//! What is known of descriptors, by file system and inode. How it becomes known is `descriptors`'
//! business.

use crate::place::Place;
use crate::recent::Recent;

/// An open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// What calls name it by.
    pub(crate) file: u64,
    /// Its number.
    pub(crate) index: u32,
    /// `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
    pub(crate) access: u32,
}

/// File system and inode.
pub(crate) type Identity = (u64, u64);

/// Descriptors of the server's, by what they lead to.
pub(crate) struct Descriptors {
    pub(crate) devices: Recent<Identity, Device>,
    pub(crate) places: Recent<Identity, Place>,
}

impl Descriptors {
    pub(crate) const fn new() -> Self {
        Self { devices: Recent::new(), places: Recent::new() }
    }
}
