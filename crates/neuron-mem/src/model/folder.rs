//! Which file in a folder is the model. Looks at names only.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::ModelError;

/// What kind of file a name promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An index of shards.
    Index,
    /// A safetensors file.
    Safetensors,
}

/// The kind of a file that the user named: `*.json` is an index, everything else is read as safetensors,
/// because stores that name files by content give them no extension.
pub(super) fn kind_of_named(path: &Path) -> Kind {
    if path.extension().is_some_and(|extension| extension == "json") {
        Kind::Index
    } else {
        Kind::Safetensors
    }
}

/// Finds the model in a folder: its only index, else its only `.safetensors` file.
///
/// Our choice: hidden files and the index of PyTorch's own format (`*.bin.index.json`), which often lies
/// beside the safetensors one, do not count.
pub(super) fn find(folder: &Path) -> Result<(PathBuf, Kind), ModelError> {
    let io =
        |source: io::Error| ModelError::Io { path: folder.to_owned(), action: "list the folder", source };
    let mut indexes = Vec::new();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name();
        // A dangling link is kept: that it leads nowhere is worth an error when it is opened.
        if entry.path().is_dir() {
            continue;
        }
        match kind_by_name(&name) {
            Some(Kind::Index) => indexes.push(name),
            Some(Kind::Safetensors) => files.push(name),
            None => {}
        }
    }
    let (mut candidates, kind) =
        if indexes.is_empty() { (files, Kind::Safetensors) } else { (indexes, Kind::Index) };
    candidates.sort();
    match candidates.as_slice() {
        [] => Err(ModelError::NoModel { folder: folder.to_owned() }),
        [only] => Ok((folder.join(only), kind)),
        several => Err(ModelError::SeveralModels {
            folder: folder.to_owned(),
            candidates: several.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        }),
    }
}

fn kind_by_name(name: &OsStr) -> Option<Kind> {
    let name = name.to_string_lossy();
    if name.starts_with('.') || name.ends_with(".bin.index.json") {
        None
    } else if name.ends_with(".index.json") {
        Some(Kind::Index)
    } else if name.ends_with(".safetensors") {
        Some(Kind::Safetensors)
    } else {
        None
    }
}
