//! `/dev` and `/sys` as a directory: what there is, with its modes and links, for programs that
//! look around. Files are empty, since their contents change: those are read from the server.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use neuron_ndl::software::Sysfs;

/// Folder of the picture in the server's folder.
const TREE: &str = "tree";
/// Stands in the picture, so that nothing else is ever taken for one.
const MARK: &str = ".neuron-mem-tree";

/// The picture. Dropping it takes it away.
#[derive(Debug)]
pub(crate) struct Picture {
    root: PathBuf,
}

impl Picture {
    /// Draws it in a folder, over the one that a killed server left there.
    ///
    /// # Errors
    /// It cannot be written, or the place is taken by something else.
    pub(crate) fn draw(folder: &Path, sysfs: &Sysfs, devices: u8) -> io::Result<Self> {
        let root = folder.join(TREE);
        if root.symlink_metadata().is_ok() {
            if !root.join(MARK).exists() {
                let what = format!("{} is there already, and is no picture of devices", root.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            fs::remove_dir_all(&root)?;
        }
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&root)?;
        let picture = Self { root };
        picture.file(MARK, 0o444)?;
        for device in 0..devices {
            picture.file(&format!("dev/neuron{device}"), 0o666)?;
        }
        for file in &sysfs.files {
            picture.file(&file.path, file.mode)?;
        }
        for link in &sysfs.links {
            symlink(&link.target, picture.place(&link.path)?)?;
        }
        Ok(picture)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a path is in it, its folder made.
    fn place(&self, path: &str) -> io::Result<PathBuf> {
        let place = self.root.join(path);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(place)
    }

    fn file(&self, path: &str, mode: u32) -> io::Result<()> {
        let place = self.place(path)?;
        fs::write(&place, [])?;
        fs::set_permissions(&place, fs::Permissions::from_mode(mode))
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.root);
    }
}
