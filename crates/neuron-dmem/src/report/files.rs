//! The files that a failure leaves behind (`spec/report.md` 3.2; `spec/ndl.md` 7): both CSVs,
//! the usage table, and the report as JSON (the last is ours).
//!
//! Nothing here fails: what cannot be written is told beside the failure it was about.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::column::Form;
use super::records::{Chunk, Event};
use super::snapshot::OomReport;

const DIRECTORY: &str = "NEURON_RT_OOM_DUMP_DIRECTORY";
const VERBOSE: &str = "NEURON_RT_DBG_VERBOSE_DEV_MEM";
const DEFAULT_DIRECTORY: &str = "/tmp";
/// Characters of the directory that the runtime takes.
const LONGEST: usize = 200;

/// Where files go, and with which table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// Folder; `None` for no files.
    pub directory: Option<PathBuf>,
    /// Form of the table.
    pub form: Form,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The process's events.
    pub events: Option<PathBuf>,
    /// The HBM's chunks.
    pub chunks: Option<PathBuf>,
    /// The usage table.
    pub table: Option<PathBuf>,
    /// The report as JSON.
    pub report: Option<PathBuf>,
    /// What could not be written, and why: a sentence each.
    pub problems: Vec<String>,
}

impl DumpOptions {
    /// As the environment has it: `NEURON_RT_OOM_DUMP_DIRECTORY`, `/tmp` unless set, none if
    /// set to nothing (our choice); the verbose table if `NEURON_RT_DBG_VERBOSE_DEV_MEM` is
    /// set and not 0.
    pub fn from_env() -> Self {
        Self::from_values(std::env::var_os(DIRECTORY), std::env::var_os(VERBOSE).as_deref())
    }

    fn from_values(directory: Option<OsString>, verbose: Option<&OsStr>) -> Self {
        let directory = match directory {
            None => Some(DEFAULT_DIRECTORY.into()),
            Some(directory) if directory.is_empty() => None,
            Some(directory) => Some(directory.into()),
        };
        let verbose = verbose.is_some_and(|value| !value.is_empty() && value != "0");
        Self { directory, form: if verbose { Form::Verbose } else { Form::Categories } }
    }

    /// Why no file can be written there, whatever the failure: a sentence.
    pub fn problem(&self) -> Option<String> {
        let length = self.directory.as_ref()?.as_os_str().len();
        (length > LONGEST)
            .then(|| format!("{DIRECTORY} has more than {LONGEST} characters: no files written"))
    }
}

impl OomReport {
    /// Writes the files of this failure. `events` is the process's event log.
    ///
    /// A file of the same name is replaced, never followed if it is a link: the names can be
    /// foreseen, and the folder may be everybody's.
    pub fn write_files<'a>(
        &self,
        events: impl IntoIterator<Item = &'a Event>,
        options: &DumpOptions,
    ) -> Files {
        let mut files = Files::default();
        let Some(directory) = &options.directory else { return files };
        if let Some(problem) = options.problem() {
            files.problems.push(problem);
            return files;
        }
        let (device, time) = (self.device, self.time.seconds);
        let problems = &mut files.problems;
        let mut file = |name: String, fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>| {
            let path = directory.join(name);
            match replace(&path, fill) {
                Ok(()) => Some(path),
                Err(error) => {
                    problems.push(format!("cannot write {}: {error}", path.display()));
                    None
                }
            }
        };

        let mut events = events.into_iter();
        let name = format!("nrt_mem_log_device_{device}_{time:x}.csv");
        files.events = file(name, &mut |out| Event::write_csv(events.by_ref(), out));
        if let Some(state) = &self.hbm {
            let name = format!("neuron_mem_log_device_{device}_hbm_{}_{time:x}.csv", state.hbm);
            // Without a list of chunks an empty file would say that the HBM is empty.
            if state.room.is_some() {
                files.chunks = file(name, &mut |out| Chunk::write_csv(&state.chunks, out));
            }
            let name = format!("neuron_mem_table_device_{device}_nc_{}.log", self.request.core);
            let table = state.table(device, options.form).document();
            files.table = file(name, &mut |out| out.write_all(table.as_bytes()));
        }
        let name = format!("neuron_mem_report_device_{device}_{time:x}.json");
        files.report = file(name, &mut |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        });
        files
    }
}

fn replace(path: &Path, fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(path)?);
    fill(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_folder_and_form() {
        let options = |directory: Option<&str>, verbose: Option<&str>| {
            DumpOptions::from_values(directory.map(Into::into), verbose.map(OsStr::new))
        };
        assert_eq!(options(None, None).directory, Some("/tmp".into()));
        assert_eq!(options(Some("x/y"), None).directory, Some("x/y".into()));
        assert_eq!(options(Some(""), None).directory, None);
        assert_eq!(options(None, None).form, Form::Categories);
        assert_eq!(options(None, Some("0")).form, Form::Categories);
        assert_eq!(options(None, Some("1")).form, Form::Verbose);
    }
}
