//! A driver's `/sys` tree as files below a folder: paths, permissions and contents as `spec/sysfs.md` has them.
//!
//! What the tree says is the driver's business. Here it is written, and only where nothing else gets hurt:
//! into a new or empty folder, or in place of a tree written before, which a manifest beside it names file by
//! file.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use neuron_ndl::software::Sysfs;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::shown::ShownPath;

/// The file that tells a tree of ours from a folder of somebody else: it lists every file and link, one path a
/// line. Beside `sys`, so not part of what the driver shows.
pub const MANIFEST: &str = ".neuron-mem-tree";

/// Why a tree was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Something else is where the folder shall be.
    #[error("{} is not a folder", ShownPath(.0))]
    NotAFolder(PathBuf),
    /// The folder holds something that no tree written here has.
    #[error(
        "{} is not empty: it has {}, which this command did not write; name a new or an empty folder",
        ShownPath(.folder),
        ShownPath(.found)
    )]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// What is in it, relative to it.
        found: PathBuf,
    },
    /// The system refused.
    #[error("cannot {action} {}", ShownPath(.path))]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Self {
        let exit = match error {
            TreeError::NotAFolder(_) | TreeError::Foreign { .. } => Exit::Usage,
            TreeError::Io { .. } => Exit::Output,
        };
        Self::new(exit, error)
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    let path = path.to_owned();
    move |source| TreeError::Io { action, path, source }
}

/// Writes the tree into `folder`, which is made if there is none. A tree written there before is removed
/// first; nothing else ever is. An error in the middle leaves part of a tree, which the next call replaces.
///
/// # Errors
/// See [`TreeError`]. Only [`TreeError::Io`] may come after something was changed.
pub fn write(tree: &Sysfs, folder: &Path) -> Result<(), TreeError> {
    match fs::metadata(folder) {
        Ok(about) if about.is_dir() => clear(folder)?,
        Ok(_) => return Err(TreeError::NotAFolder(folder.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error("look at", folder)(error)),
    }
    make_folder(folder)?;
    let paths = tree.files.iter().map(|file| &file.path).chain(tree.links.iter().map(|link| &link.path));
    let manifest: String = paths.map(|path| format!("{path}\n")).collect();
    // First, so that whatever happens next is known for ours.
    write_file(&folder.join(MANIFEST), 0o644, &manifest)?;
    for file in &tree.files {
        let path = folder.join(&file.path);
        path.parent().map_or(Ok(()), make_folder)?;
        write_file(&path, file.mode, &file.content)?;
    }
    for link in &tree.links {
        let path = folder.join(&link.path);
        path.parent().map_or(Ok(()), make_folder)?;
        symlink(&link.target, &path).map_err(io_error("create", &path))?;
    }
    Ok(())
}

fn make_folder(path: &Path) -> Result<(), TreeError> {
    fs::create_dir_all(path).map_err(io_error("create", path))
}

/// A new file of exactly this mode, whatever the umask.
fn write_file(path: &Path, mode: u32, content: &str) -> Result<(), TreeError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(io_error("create", path))?;
    file.write_all(content.as_bytes()).map_err(io_error("write", path))?;
    file.set_permissions(Permissions::from_mode(mode)).map_err(io_error("set the permissions of", path))
}

/// Removes what the folder's manifest names, after a look at everything that is there.
fn clear(folder: &Path) -> Result<(), TreeError> {
    let at = folder.join(MANIFEST);
    let ours: BTreeSet<PathBuf> = match fs::read_to_string(&at) {
        Ok(manifest) => manifest.lines().chain([MANIFEST]).map(PathBuf::from).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => return Err(io_error("read", &at)(error)),
    };
    let mut found = Vec::new();
    list(folder, Path::new(""), &mut found)?;
    let is_ours = |entry: &Entry| match entry.is_folder {
        // Paths are ordered part by part: what is below a folder comes next after it.
        true => ours.range(entry.path.clone()..).next().is_some_and(|path| path.starts_with(&entry.path)),
        false => ours.contains(&entry.path),
    };
    if let Some(foreign) = found.iter().find(|entry| !is_ours(entry)) {
        return Err(TreeError::Foreign { folder: folder.to_owned(), found: foreign.path.clone() });
    }
    // The manifest goes last: an interrupted removal can be taken up again.
    found.sort_by_key(|entry| entry.path == Path::new(MANIFEST));
    for entry in &found {
        let path = folder.join(&entry.path);
        let removed = if entry.is_folder { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        removed.map_err(io_error("remove", &path))?;
    }
    Ok(())
}

/// Something below a folder, by its path from there.
struct Entry {
    path: PathBuf,
    is_folder: bool,
}

/// Lists what is below `root` at `below`, a folder after what is in it. Links are not followed.
fn list(root: &Path, below: &Path, found: &mut Vec<Entry>) -> Result<(), TreeError> {
    let at = root.join(below);
    let entries = fs::read_dir(&at).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(io_error("list", &at))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let is_folder = entry.file_type().map_err(io_error("look at", &root.join(&path)))?.is_dir();
        if is_folder {
            list(root, &path, found)?;
        }
        found.push(Entry { path, is_folder });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_ndl::software::{SysfsFile, SysfsLink};

    fn file(path: &str, mode: u32, content: &str) -> SysfsFile {
        SysfsFile { path: path.to_owned(), mode, content: content.to_owned() }
    }

    fn tree(files: &[(&str, u32, &str)]) -> Sysfs {
        Sysfs {
            files: files.iter().map(|(path, mode, content)| file(path, *mode, content)).collect(),
            links: vec![SysfsLink { path: "sys/class/n0".into(), target: "../devices/n0".into() }],
        }
    }

    fn content(folder: &Path, path: &str) -> String {
        fs::read_to_string(folder.join(path)).unwrap()
    }

    #[test]
    fn files_have_their_content_and_mode_and_links_their_target() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("new/tree");
        write(&tree(&[("sys/devices/n0/cores", 0o400, "2"), ("sys/devices/n0/s/peak", 0o644, "0\n")]), &root)
            .unwrap();
        assert_eq!(content(&root, "sys/devices/n0/s/peak"), "0\n");
        // Through the link.
        assert_eq!(content(&root, "sys/class/n0/cores"), "2");
        for (path, mode) in [("cores", 0o400), ("s/peak", 0o644)] {
            let about = fs::metadata(root.join("sys/devices/n0").join(path)).unwrap();
            assert_eq!(about.permissions().mode() & 0o7777, mode, "{path}");
        }
        assert_eq!(content(&root, MANIFEST), "sys/devices/n0/cores\nsys/devices/n0/s/peak\nsys/class/n0\n");
    }

    #[test]
    fn a_tree_of_ours_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        write(
            &tree(&[("sys/devices/n0/old/file", 0o400, "old"), ("sys/devices/n0/both", 0o444, "1")]),
            folder.path(),
        )
        .unwrap();
        write(&tree(&[("sys/devices/n0/both", 0o600, "2")]), folder.path()).unwrap();
        assert_eq!(content(folder.path(), "sys/devices/n0/both"), "2");
        assert!(!folder.path().join("sys/devices/n0/old").exists());
    }

    #[test]
    fn a_tree_that_was_written_in_part_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let broken = tree(&[("sys/devices/n0", 0o444, "1"), ("sys/devices/n0/below", 0o444, "2")]);
        let error = write(&broken, folder.path()).unwrap_err();
        let at = folder.path().join("sys/devices/n0");
        assert_eq!(error.to_string(), format!("cannot create `{}`", at.display()), "names what failed");
        write(&tree(&[("sys/devices/n0/below", 0o444, "3")]), folder.path()).unwrap();
        assert_eq!(content(folder.path(), "sys/devices/n0/below"), "3");
    }

    #[test]
    fn what_others_put_there_is_never_touched() {
        let ours = tree(&[("sys/devices/n0/cores", 0o400, "2")]);
        // In a folder without a tree, beside one, within one; a file, a link, an empty folder.
        for (written, foreign) in [
            (false, "notes.txt"),
            (true, "notes.txt"),
            (true, "sys/devices/n0/notes.txt"),
            (true, "sys/empty/"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            if written {
                write(&ours, folder.path()).unwrap();
            }
            let at = folder.path().join(foreign);
            match foreign.strip_suffix('/') {
                Some(_) => fs::create_dir(&at).unwrap(),
                None => fs::write(&at, "mine").unwrap(),
            }
            let error = write(&ours, folder.path()).unwrap_err();
            let TreeError::Foreign { found, .. } = &error else { panic!("{error}") };
            assert_eq!(found, &PathBuf::from(foreign));
            assert!(at.exists());
            assert_eq!(folder.path().join("sys/devices/n0/cores").exists(), written, "the tree stays");
            assert_eq!(Failure::from(error).exit(), Exit::Usage);
        }
    }

    #[test]
    fn a_link_out_of_the_tree_is_not_followed() {
        let (outside, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("cores"), "mine").unwrap();
        let ours = tree(&[("sys/devices/n0/cores", 0o400, "2")]);
        write(&ours, folder.path()).unwrap();
        fs::remove_file(folder.path().join("sys/devices/n0/cores")).unwrap();
        fs::remove_dir(folder.path().join("sys/devices/n0")).unwrap();
        symlink(outside.path(), folder.path().join("sys/devices/n0")).unwrap();
        assert!(matches!(write(&ours, folder.path()), Err(TreeError::Foreign { .. })));
        assert_eq!(content(outside.path(), "cores"), "mine");
    }

    #[test]
    fn a_manifest_names_nothing_outside_its_folder() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("tree");
        fs::create_dir(&folder).unwrap();
        fs::write(outer.path().join("victim"), "mine").unwrap();
        fs::write(folder.join(MANIFEST), "../victim\n").unwrap();
        write(&tree(&[]), &folder).unwrap();
        assert_eq!(content(outer.path(), "victim"), "mine");
    }

    #[test]
    fn what_is_no_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("file");
        fs::write(&at, "").unwrap();
        let error = write(&tree(&[]), &at).unwrap_err();
        assert!(matches!(error, TreeError::NotAFolder(_)));
        assert_eq!(Failure::from(error).exit(), Exit::Usage);
        let below = write(&tree(&[]), &at.join("below")).unwrap_err();
        assert!(matches!(below, TreeError::Io { .. }));
        assert_eq!(Failure::from(below).exit(), Exit::Output);
    }
}
