//! What a place looks like to `stat(2)`: the picture's, with what the kernel would say of a device
//! or of a file of sysfs.

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::c::Zeroed as _;
use crate::place::Place;
use crate::tree::Tree;

/// Major number of the devices: an experimental one, our choice.
pub(crate) const MAJOR: u32 = 240;

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The node of a device, with its number.
    Device(u32),
    /// A file of sysfs.
    File,
    /// A directory.
    Directory,
    /// A link.
    Link,
}

/// Something that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// With the bits of the kind.
    pub(crate) mode: u32,
    size: i64,
    picture: Stat,
}

/// Who asks for what may be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// As which a file is opened.
    pub(crate) fn effective() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    /// As which `access(2)` asks.
    pub(crate) fn real() -> Self {
        Self { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
    }
}

pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const EXECUTE: u32 = 1;

impl Node {
    /// What is at a place.
    ///
    /// # Errors
    /// ENOENT.
    pub(crate) fn at(tree: &Tree, place: &Place) -> Result<Self, Errno> {
        let picture = tree.stat(place)?;
        let permissions = picture.st_mode & 0o7777;
        let (kind, mode) = match (place.device(), FileType::from_raw_mode(picture.st_mode)) {
            (Some(index), FileType::RegularFile) => (Kind::Device(index), libc::S_IFCHR | 0o666),
            (_, FileType::Directory) => (Kind::Directory, libc::S_IFDIR | permissions),
            (_, FileType::Symlink) => (Kind::Link, libc::S_IFLNK | permissions),
            _ => (Kind::File, libc::S_IFREG | permissions),
        };
        let size = match kind {
            Kind::File => 4096,
            Kind::Link => picture.st_size,
            Kind::Device(_) | Kind::Directory => 0,
        };
        Ok(Self { kind, mode, size, picture })
    }

    /// Whether all of `wanted` may be done by a user. All belongs to root and its group.
    pub(crate) fn allows(&self, wanted: u32, user: User) -> bool {
        if user.uid == 0 {
            return wanted & EXECUTE == 0 || self.mode & 0o111 != 0 || self.kind == Kind::Directory;
        }
        let bits = if user.gid == 0 { self.mode >> 3 } else { self.mode };
        bits & wanted == wanted
    }

    /// Whether a file of sysfs can be opened like this by anybody, root too: one that nobody may
    /// write is refused to root as well.
    pub(crate) const fn opens(&self, wanted: u32) -> bool {
        (wanted & READ == 0 || self.mode & 0o444 != 0) && (wanted & WRITE == 0 || self.mode & 0o222 != 0)
    }

    pub(crate) const fn inode(&self) -> u64 {
        self.picture.st_ino
    }

    /// The same, of a copy that has so many bytes: who asks for the size of an open file may count
    /// on as many, where sysfs says a page.
    pub(crate) const fn copied(mut self, bytes: i64) -> Self {
        self.size = bytes;
        self
    }

    const fn minor(&self) -> Option<u32> {
        match self.kind {
            Kind::Device(index) => Some(index),
            _ => None,
        }
    }

    /// For `stat(2)`.
    pub(crate) fn stat(&self) -> libc::stat {
        let mut stat = libc::stat::zeroed();
        stat.st_dev = self.picture.st_dev as _;
        stat.st_ino = self.picture.st_ino as _;
        stat.st_nlink = self.picture.st_nlink as _;
        stat.st_mode = self.mode;
        stat.st_rdev = self.minor().map_or(0, |minor| libc::makedev(MAJOR, minor));
        stat.st_size = self.size;
        stat.st_blksize = 4096;
        stat.st_atime = self.picture.st_atime as _;
        stat.st_mtime = self.picture.st_mtime as _;
        stat.st_ctime = self.picture.st_ctime as _;
        stat
    }

    /// For `statx(2)`.
    pub(crate) fn statx(&self) -> libc::statx {
        let mut statx = libc::statx::zeroed();
        statx.stx_mask = libc::STATX_BASIC_STATS;
        statx.stx_dev_major = libc::major(self.picture.st_dev as _);
        statx.stx_dev_minor = libc::minor(self.picture.st_dev as _);
        statx.stx_ino = self.picture.st_ino as _;
        statx.stx_nlink = self.picture.st_nlink as _;
        statx.stx_mode = self.mode as u16;
        if let Some(minor) = self.minor() {
            (statx.stx_rdev_major, statx.stx_rdev_minor) = (MAJOR, minor);
        }
        statx.stx_size = self.size.cast_unsigned();
        statx.stx_blksize = 4096;
        statx.stx_atime.tv_sec = self.picture.st_atime as _;
        statx.stx_mtime.tv_sec = self.picture.st_mtime as _;
        statx.stx_ctime.tv_sec = self.picture.st_ctime as _;
        statx
    }

    /// Type in an entry of a directory.
    pub(crate) const fn entry_type(&self) -> u8 {
        match self.kind {
            Kind::Device(_) => libc::DT_CHR,
            Kind::File => libc::DT_REG,
            Kind::Directory => libc::DT_DIR,
            Kind::Link => libc::DT_LNK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_device_is_a_character_device_and_a_file_belongs_to_root_with_a_page_for_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let tree = crate::tree::tests::picture(folder.path());
        let device = Node::at(&tree, &Place::of_device(0)).unwrap();
        let stat = device.stat();
        assert_eq!((stat.st_mode, stat.st_size), (libc::S_IFCHR | 0o666, 0));
        assert_eq!((libc::major(stat.st_rdev), libc::minor(stat.st_rdev)), (240, 0));
        assert_eq!(device.entry_type(), libc::DT_CHR);
        let version = Place::new(b"/sys/module/neuron/version".to_vec());
        let file = Node::at(&tree, &version).unwrap();
        let (stat, statx) = (file.stat(), file.statx());
        assert_eq!((stat.st_size, statx.stx_size, stat.st_uid, stat.st_rdev), (4096, 4096, 0, 0));
        assert_eq!((stat.st_ino, stat.st_mode), (statx.stx_ino, statx.stx_mode.into()));
        assert_eq!(Node::at(&tree, &Place::of_device(1)).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn permissions_are_roots_files_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let tree = crate::tree::tests::picture(folder.path());
        let place = Place::new(b"/sys/devices/virtual/neuron_device/neuron0/core_count".to_vec());
        let picture = folder.path().join("sys/devices/virtual/neuron_device/neuron0/core_count");
        let with_mode = |mode| {
            std::fs::set_permissions(&picture, std::fs::Permissions::from_mode(mode)).unwrap();
            Node::at(&tree, &place).unwrap()
        };
        let (root, user) = (User { uid: 0, gid: 0 }, User { uid: 1000, gid: 1000 });
        let secret = with_mode(0o400);
        assert!(secret.allows(READ | WRITE, root) && !secret.allows(EXECUTE, root));
        assert!(!secret.allows(READ, user) && secret.allows(0, user));
        assert!(secret.opens(READ) && !secret.opens(WRITE), "not even by root");
        let open = with_mode(0o644);
        assert!(open.allows(READ, user) && !open.allows(WRITE, user) && open.opens(READ | WRITE));
        let group = with_mode(0o660);
        assert!(group.allows(READ | WRITE, User { uid: 1000, gid: 0 }) && !group.allows(READ, user));
    }
}
