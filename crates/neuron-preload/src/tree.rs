//! The server's picture of `/dev` and `/sys`: what is in it, and where a path leads.

use std::collections::VecDeque;
use std::ffi::CString;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::place::{Place, is_ours};

/// Links that are followed before a path counts as a loop, as the kernel has it.
const LINKS: usize = 40;

#[derive(Debug)]
pub(crate) struct Tree {
    /// Path of the picture, without links.
    root: Vec<u8>,
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// To the server's; whether there is anything is not said.
    Ours(Place),
    /// Elsewhere; `entered` if a part of it is the server's, so that the system knows no such way.
    Elsewhere { path: Vec<u8>, entered: bool },
}

impl Tree {
    /// The picture at a path.
    pub(crate) fn new(root: &[u8]) -> Self {
        let canonical =
            rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .and_then(|fd| crate::fds::path_of(&fd));
        Self { root: canonical.unwrap_or_else(|_| root.to_owned()) }
    }

    /// What the program is to see of a path in the picture: `None` for one that is not there.
    pub(crate) fn shown(&self, real: &[u8]) -> Option<Vec<u8>> {
        match real.strip_prefix(self.root.as_slice())? {
            b"" => Some(b"/".to_vec()),
            rest => rest.starts_with(b"/").then(|| rest.to_owned()),
        }
    }

    /// Where in the picture a place is.
    ///
    /// # Errors
    /// EINVAL for a path that none can be.
    pub(crate) fn picture(&self, place: &Place) -> Result<CString, Errno> {
        CString::new([self.root.as_slice(), place.path()].concat()).map_err(|_| Errno::INVAL)
    }

    /// What the picture has at a place.
    ///
    /// # Errors
    /// ENOENT.
    pub(crate) fn stat(&self, place: &Place) -> Result<Stat, Errno> {
        rustix::fs::lstat(self.picture(place)?)
    }

    /// Where a link leads.
    ///
    /// # Errors
    /// ENOENT; EINVAL if it is no link.
    pub(crate) fn link(&self, place: &Place) -> Result<Vec<u8>, Errno> {
        rustix::fs::readlink(self.picture(place)?, Vec::new()).map(CString::into_bytes)
    }

    /// Names in a directory of the picture.
    pub(crate) fn names(&self, directory: &str) -> Vec<Vec<u8>> {
        let path = [self.root.as_slice(), directory.as_bytes()].concat();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return Vec::new() };
        let mut space = Vec::with_capacity(4096);
        let mut entries = rustix::fs::RawDir::new(fd, space.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(Ok(entry)) = entries.next() {
            names.push(entry.file_name().to_bytes().to_owned());
        }
        names.sort();
        names
    }

    /// Where a path leads that starts at a directory, `start`; `follow` if a link at its end is
    /// followed. Links that are not the server's are not: the system follows them, and `..` behind
    /// one is taken by the names.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, ELOOP on the way.
    pub(crate) fn resolve(&self, start: &[u8], path: &[u8], follow: bool) -> Result<Resolved, Errno> {
        let mut rest: VecDeque<Vec<u8>> = VecDeque::new();
        if !path.starts_with(b"/") {
            rest.extend(names(start));
        }
        rest.extend(names(path));
        let directory = path.ends_with(b"/") || path.ends_with(b"/.");
        let mut at = Place::new(Vec::new());
        let (mut entered, mut links) = (false, 0);
        while let Some(name) = rest.pop_front() {
            let mut path = at.path().to_owned();
            if name == b".." {
                let parent = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                path.truncate(parent);
                at = Place::new(path);
                continue;
            }
            path.push(b'/');
            path.extend(name);
            let next = Place::new(path);
            if !is_ours(next.path()) {
                at = next;
                continue;
            }
            entered = true;
            let last = rest.is_empty();
            let kind = match self.stat(&next) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) if last => return Ok(Resolved::Ours(next)),
                Err(error) => return Err(error),
            };
            match kind {
                FileType::Symlink if !last || follow || directory => {
                    links += 1;
                    if links > LINKS {
                        return Err(Errno::LOOP);
                    }
                    let target = self.link(&next)?;
                    if target.starts_with(b"/") {
                        at = Place::new(Vec::new());
                    }
                    for name in names(&target).rev() {
                        rest.push_front(name);
                    }
                }
                FileType::Directory | FileType::Symlink => at = next,
                _ if !last || directory => return Err(Errno::NOTDIR),
                _ => at = next,
            }
        }
        if is_ours(at.path()) {
            return Ok(Resolved::Ours(at));
        }
        let mut path = at.path().to_owned();
        if path.is_empty() || directory {
            path.push(b'/');
        }
        Ok(Resolved::Elsewhere { path, entered })
    }
}

fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// A picture of one device.
    pub(crate) fn picture(root: &Path) -> Tree {
        let device = root.join("sys/devices/virtual/neuron_device/neuron0");
        for folder in ["dev", "sys/class/neuron_device", "sys/module/neuron/parameters"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::create_dir_all(device.join("neuron_core0")).unwrap();
        for file in ["dev/neuron0", "sys/module/neuron/version"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        std::fs::write(device.join("core_count"), "").unwrap();
        symlink("../../devices/virtual/neuron_device/neuron0", root.join("sys/class/neuron_device/neuron0"))
            .unwrap();
        symlink("loop", device.join("loop")).unwrap();
        Tree::new(root.as_os_str().as_encoded_bytes())
    }

    fn ours(path: &str) -> Result<Resolved, Errno> {
        Ok(Resolved::Ours(Place::new(path.as_bytes().to_vec())))
    }

    #[test]
    fn paths_lead_where_the_kernel_would_lead_them() {
        let folder = tempfile::tempdir().unwrap();
        let tree = picture(folder.path());
        let resolve = |path: &str| tree.resolve(b"/", path.as_bytes(), true);
        let device = "/sys/devices/virtual/neuron_device/neuron0";
        assert_eq!(resolve("/dev/neuron0"), ours("/dev/neuron0"));
        assert_eq!(resolve("//dev/.././dev//neuron0"), ours("/dev/neuron0"));
        assert_eq!(resolve("/dev/neuron1"), ours("/dev/neuron1"), "is it there? not said");
        assert_eq!(resolve("/dev/neuron0/"), Err(Errno::NOTDIR));
        assert_eq!(resolve("/dev/neuron0/.."), Err(Errno::NOTDIR));
        assert_eq!(resolve("/dev/neuron1/x"), Err(Errno::NOENT));
        assert_eq!(resolve("/sys/class/neuron_device/neuron0"), ours(device));
        assert_eq!(
            resolve("/sys/class/neuron_device/neuron0/core_count"),
            ours(&format!("{device}/core_count"))
        );
        assert_eq!(
            resolve("/sys/class/neuron_device/neuron0/.."),
            ours("/sys/devices/virtual/neuron_device"),
            "the parent of where the link leads"
        );
        assert_eq!(resolve(&format!("{device}/loop")), Err(Errno::LOOP));
        assert_eq!(
            tree.resolve(b"/", b"/sys/class/neuron_device/neuron0", false),
            ours("/sys/class/neuron_device/neuron0")
        );
        assert_eq!(
            tree.resolve(b"/", b"/sys/class/neuron_device/neuron0/", false),
            ours(device),
            "with a slash a link is followed"
        );
    }

    #[test]
    fn a_path_that_only_passes_through_leads_out_again() {
        let folder = tempfile::tempdir().unwrap();
        let tree = picture(folder.path());
        let out = |path: &str, entered| Ok(Resolved::Elsewhere { path: path.as_bytes().to_vec(), entered });
        assert_eq!(tree.resolve(b"/", b"/sys/class/neuron_device/../net", true), out("/sys/class/net", true));
        assert_eq!(tree.resolve(b"/sys/class/neuron_device", b"../..", true), out("/sys", true));
        assert_eq!(tree.resolve(b"/home", b"neuron/x/", true), out("/home/neuron/x/", false));
        assert_eq!(tree.resolve(b"/dev", b"../../..", true), out("/", false));
        assert_eq!(tree.resolve(b"/sys/class", b"neuron_device", true), ours("/sys/class/neuron_device"));
    }

    #[test]
    fn a_path_in_the_picture_is_shown_as_what_it_is_a_picture_of() {
        let folder = tempfile::tempdir().unwrap();
        let tree = picture(folder.path());
        let root = folder.path().canonicalize().unwrap().into_os_string().into_encoded_bytes();
        let below = [&root, &b"/sys/module"[..]].concat();
        assert_eq!(tree.shown(&below), Some(b"/sys/module".to_vec()));
        assert_eq!(tree.shown(&root), Some(b"/".to_vec()));
        assert_eq!(tree.shown(&[&root, &b"x"[..]].concat()), None);
        assert_eq!(tree.shown(b"/sys/module"), None);
        assert_eq!(tree.names("/dev"), [b".".to_vec(), b"..".to_vec(), b"neuron0".to_vec()]);
    }
}
