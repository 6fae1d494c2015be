//! The file of a page. Whoever opens it sees the page that was there before or the new one, whole:
//! the new one is written beside it and takes its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::shown::ShownPath;

/// Names that are tried for the new file, which others may have taken.
const TRIES: u32 = 100;

/// Writes a page into a file, which is made or replaced, unless it is one of `inputs` or, not being a page, in
/// a folder that is. What is no
/// file and no folder, a pipe say, is written into.
///
/// # Errors
/// [`Exit::Usage`] for an input or a folder; [`Exit::Output`] if it cannot be written, and then what
/// was there is as it was.
pub fn write(path: &Path, page: &str, inputs: &[&Path]) -> Result<(), Failure> {
    // What a link leads to is replaced, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if inputs.iter().any(|input| is_of(input, &target)) {
        let what = format!("page {} would replace what it is of; name another file", ShownPath(path));
        return Err(Failure::new(Exit::Usage, what));
    }
    let problem = |error: io::Error| {
        Failure::because(Exit::Output, format!("page {}: cannot write it", ShownPath(path)), error)
    };
    match fs::metadata(&target) {
        Ok(about) if about.is_dir() => {
            let what = format!("page {}: a folder has this name; name a file", ShownPath(path));
            Err(Failure::new(Exit::Usage, what))
        }
        Ok(about) if !about.is_file() => {
            let file = OpenOptions::new().write(true).open(&target);
            file.and_then(|mut file| file.write_all(page.as_bytes())).map_err(problem)
        }
        Ok(about) => replace(&target, page, Some(about.permissions())).map_err(problem),
        Err(_) => replace(&target, page, None).map_err(problem),
    }
}

/// Whether a file is an input, or lies in a folder that is one and is no page.
fn is_of(input: &Path, target: &Path) -> bool {
    let Ok(input) = fs::canonicalize(input) else { return false };
    let is_page = target.extension().is_some_and(|extension| extension == "html" || extension == "htm");
    input == target || target.exists() && !is_page && target.parent() == Some(&input)
}

fn replace(target: &Path, page: &str, permissions: Option<fs::Permissions>) -> io::Result<()> {
    let (beside, mut file) = beside(target)?;
    let written = file
        .write_all(page.as_bytes())
        .and_then(|()| permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions)))
        // What a full disk or another machine reports late.
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, target));
    if written.is_err() {
        // The error that is told is the first.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file beside another.
fn beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for number in 0..TRIES {
        let mut new = std::ffi::OsString::from(".");
        new.push(name);
        new.push(format!(".{}-{number}.new", std::process::id()));
        let path = target.with_file_name(new);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
