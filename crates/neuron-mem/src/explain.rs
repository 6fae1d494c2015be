//! `neuron-mem explain`: why memory ran out, by a log that it left.
//!
//! Reading and explaining are `neuron-explain`'s. Here: which input, and which dumps lie beside it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::Path;

use neuron_abi::arch::Generation;
use neuron_explain::{Dump, Explanation, Facts, Options, Stack, read};

use crate::cli::{Arch, ExplainArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::page;
use crate::render::paint::Paint;
use crate::render::{explain as report, write_json};
use crate::shown::{Shown, ShownPath};

/// Bytes of a dump at most: an HBM has less than a million blocks.
const LARGEST_DUMP: u64 = 64 << 20;
/// Bytes that are taken from the input at once.
const BUFFER: usize = 1 << 20;

/// Runs the command and writes its result to `out`, as text in colours if `paint` has some.
///
/// # Errors
/// [`Exit::Input`] if the log or a dump cannot be read, or the log has nothing known in it;
/// [`Exit::Usage`] for an unknown instance; [`Exit::Output`] if the answer or its page cannot be written.
pub fn run(args: &ExplainArgs, paint: Paint, out: &mut dyn Write) -> Result<(), Failure> {
    let generation = generation(args)?;
    let file = args.file.as_deref().filter(|file| *file != Path::new("-"));
    let facts = facts(file)?;
    if facts.is_empty() {
        let what = file.map_or_else(|| "standard input".to_owned(), |file| ShownPath(file).to_string());
        let nothing =
            format!("nothing in {what} is a line that the Neuron runtime or driver is known to write");
        return Err(Failure::new(Exit::Input, nothing).with_note(
            "what is read: failures to allocate, usage tables and lists, loads of models, nrt_infodump, the driver's lines in dmesg",
        ));
    }
    let mut notes = Vec::new();
    let dumps = match &args.chunks {
        Some(path) => vec![dump(path, true).map_err(|error| Failure::new(Exit::Input, error))?],
        None => file.map_or_else(Vec::new, |file| beside(file, &facts, &mut notes)),
    };
    let options = Options { generation, dumps };
    let mut explanation = Explanation::of(facts, &options);
    explanation.notes.extend(notes);
    if args.json {
        write_json(out, &explanation).map_err(Failure::output)?;
    } else {
        out.write_all(report::text(&explanation, paint).as_bytes()).map_err(Failure::output)?;
    }
    let Some(path) = &args.html else { return Ok(()) };
    let stack = Stack::of(&explanation.facts, generation);
    let name = file.map_or_else(|| "standard input".into(), |file| file.to_string_lossy());
    let page = page::explain::page(&explanation, stack.as_ref(), &options.dumps, &name).html();
    let inputs: Vec<&Path> = file.into_iter().chain(args.chunks.as_deref()).collect();
    page::file::write(path, &page, &inputs)
}

fn generation(args: &ExplainArgs) -> Result<Option<Generation>, Failure> {
    if let Some(arch) = args.arch {
        return Ok(Some(match arch {
            Arch::V2 => Generation::V2,
            Arch::V3 => Generation::V3,
            Arch::V4 => Generation::V4,
        }));
    }
    args.instance.as_deref().map(generation_of).transpose()
}

/// By the family alone: logs come from more types than the software backend presents (our choice).
fn generation_of(instance: &str) -> Result<Generation, Failure> {
    let families = [
        ("inf2", Generation::V2),
        ("trn1", Generation::V2),
        ("trn2", Generation::V3),
        ("trn3", Generation::V4),
    ];
    let family = families.into_iter().find(|(family, _)| instance.starts_with(family));
    let known = family.filter(|_| instance.contains('.'));
    known.map(|(_, generation)| generation).ok_or_else(|| {
        let what = format!(
            "unknown instance type {}; known are those of inf2, trn1, trn2 and trn3",
            Shown(instance)
        );
        Failure::new(Exit::Usage, what)
    })
}

fn facts(file: Option<&Path>) -> Result<Facts, Failure> {
    let read = |input: &mut dyn BufRead| read(input);
    match file {
        Some(path) => File::open(path)
            .and_then(|file| read(&mut BufReader::with_capacity(BUFFER, file)))
            .map_err(|error| {
                Failure::because(Exit::Input, format!("log {} cannot be read", ShownPath(path)), error)
            }),
        None => read(&mut BufReader::with_capacity(BUFFER, io::stdin().lock())).map_err(|error| {
            Failure::because(Exit::Input, "standard input cannot be read".to_owned(), error)
        }),
    }
}

/// Dumps that the log names, in its own folder: the folder that it names was another machine's.
fn beside(log: &Path, facts: &Facts, notes: &mut Vec<String>) -> Vec<Dump> {
    let folder = log.parent().unwrap_or(Path::new(""));
    let names = facts.dump_files.iter().filter_map(|path| path.rsplit('/').next());
    let chunks = names.filter(|name| name.starts_with("neuron_mem_log_device_"));
    let present = chunks.map(|name| folder.join(name)).filter(|path| path.is_file());
    present
        .filter_map(|path| match dump(&path, false) {
            Ok(dump) => Some(dump),
            Err(error) => {
                notes.push(error);
                None
            }
        })
        .collect()
}

fn dump(path: &Path, given: bool) -> Result<Dump, String> {
    let problem = |error: &dyn std::fmt::Display| format!("dump {} cannot be read: {error}", ShownPath(path));
    let size = fs::metadata(path).map_err(|error| problem(&error))?.len();
    if size > LARGEST_DUMP {
        return Err(problem(&format_args!("{size} bytes are more than a dump has")));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| problem(&error))?;
    file.take(LARGEST_DUMP).read_to_string(&mut text).map_err(|error| problem(&error))?;
    Dump::parse(&path.to_string_lossy(), &text, given).map_err(|error| problem(&error))
}
