//! The folder of cases: this package's `golden/`, or another one of the same form.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use super::Mismatch;

/// Environment variable that names another folder to run.
pub const FOLDER_VARIABLE: &str = "NEURON_MEM_GOLDEN";

/// Where the cases are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// A folder of someone else's may lack files; ours has all of them.
    may_lack_files: bool,
}

/// One line of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Line number, from 1.
    pub line: usize,
    /// The fields.
    pub fields: Map<String, Value>,
}

impl Folder {
    /// The folder that [`FOLDER_VARIABLE`] names, else this package's own.
    ///
    /// # Errors
    /// If it is no folder: a mistyped name must not look like a run without mismatch.
    pub fn from_environment() -> Result<Self, Mismatch> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = match std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) {
            // Tests run in their package's folder, people type paths in the workspace's.
            Some(path) if path.is_relative() && !path.is_dir() => Self::at(package.join("..").join(path)),
            Some(path) => Self::at(path),
            None => Self { path: package.join("golden"), may_lack_files: false },
        };
        if folder.path.is_dir() { Ok(folder) } else { Err(folder.error("not a folder")) }
    }

    /// Folder `path`, which may lack files.
    pub const fn at(path: PathBuf) -> Self {
        Self { path, may_lack_files: true }
    }

    /// The cases of a file, in its order; `None` if it doesn't exist and needn't. A name
    /// that ends in `.gz` is decompressed.
    ///
    /// # Errors
    /// If the file cannot be read or a line is no JSON object.
    pub fn read(&self, name: &str) -> Result<Option<Vec<Case>>, Mismatch> {
        let file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && self.may_lack_files => return Ok(None),
            Err(error) => return Err(self.error(error).at(name)),
        };
        let cases = match name.ends_with(".gz") {
            true => parse(BufReader::new(GzDecoder::new(file))),
            false => parse(BufReader::new(file)),
        };
        cases.map(Some).map_err(|error| self.error(error).at(name))
    }

    fn error(&self, error: impl std::fmt::Display) -> Mismatch {
        Mismatch::new(format!("{}: {error}", self.path.display()))
    }
}

fn parse(lines: impl BufRead) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (line, text) in (1..).zip(lines.lines()) {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let fields = serde_json::from_str(&text)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("line {line}: {error}")))?;
        cases.push(Case { line, fields });
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_as_an_editor_does() {
        let cases = parse(&b"{\"a\":1}\n\n{\"b\":\"0x2\"}\n"[..]).unwrap();
        let lines: Vec<_> = cases.iter().map(|case| (case.line, case.fields.len())).collect();
        assert_eq!(lines, [(1, 1), (3, 1)]);
    }

    #[test]
    fn a_broken_line_is_an_error_that_names_it() {
        let error = parse(&b"{}\n{\"a\":\n"[..]).unwrap_err();
        assert!(error.to_string().starts_with("line 2"), "{error}");
        assert!(parse(&b"[1]\n"[..]).is_err());
    }

    #[test]
    fn compressed_cases_read_like_plain_ones() {
        let folder = Folder::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("golden"));
        let cases = folder.read("v2/mempool.jsonl.gz").unwrap().unwrap();
        assert!(cases.iter().all(|case| case.fields.contains_key("case")) && !cases.is_empty());
    }

    #[test]
    fn a_missing_file_is_no_case_in_another_folder_and_an_error_in_ours() {
        let other = Folder::at(PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        assert_eq!(other.read("v9/nothing.jsonl"), Ok(None));
        let ours = Folder { may_lack_files: false, ..other };
        assert!(ours.read("v9/nothing.jsonl").is_err());
    }
}
