//! The header read without a compiler: one declaration a line, as it is written. A line that is none of those is
//! a failure, so that nothing is passed over.

use std::collections::BTreeMap;

/// Name, bytes, and name, offset and bytes of each field.
pub(crate) type Struct = (String, usize, Vec<(String, usize, usize)>);

/// What the header says.
#[derive(Debug, Default)]
pub(crate) struct Header {
    /// Name and word, without the names' prefix.
    pub(crate) commands: Vec<(String, u32)>,
    pub(crate) structs: Vec<Struct>,
    /// Enumerators and macros that are numbers. A macro with an argument is there as it is with 2.
    pub(crate) constants: Vec<(String, i128)>,
}

/// Macros that say how words are made, and the guard.
const MACHINERY: [&str; 6] = [
    "NEURON_MEM_IOCTL_H",
    "NEURON_IOC_BASE",
    "NEURON_IOC_WORD_",
    "NEURON_IOC_NONE_",
    "NEURON_IOC_VALUE_",
    "NEURON_IOC_POINTER_",
];

impl Header {
    pub(crate) fn parse(text: &str) -> Self {
        let mut header = Self::default();
        let mut sizes: BTreeMap<String, (usize, usize)> = [
            ("uint8_t", 1),
            ("int8_t", 1),
            ("uint16_t", 2),
            ("uint32_t", 4),
            ("int32_t", 4),
            ("uint64_t", 8),
        ]
        .into_iter()
        .chain([("int64_t", 8)])
        .map(|(name, size)| (name.to_owned(), (size, size)))
        .collect();
        let code = without_comments(text).replace("\\\n", " ");
        let mut lines = code.lines().map(str::trim).filter(|line| !line.is_empty());
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("struct ").and_then(|line| line.strip_suffix(" {")) {
                let members: Vec<_> = lines.by_ref().take_while(|line| *line != "};").collect();
                let (parsed, align) = structure(name, &members, &sizes);
                sizes.insert(format!("struct {name}"), (parsed.1, align));
                header.structs.push(parsed);
            } else if line == "enum {" {
                for member in lines.by_ref().take_while(|line| *line != "};") {
                    let (name, value) = member.trim_end_matches(',').split_once(" = ").unwrap();
                    header.constants.push((name.to_owned(), number(value)));
                }
            } else if let Some(define) = line.strip_prefix("#define ") {
                header.define(define, &sizes);
            } else {
                let known = ["#if", "#endif", "#error", "#include ", "extern \"C\" {", "}"];
                assert!(known.iter().any(|start| line.starts_with(start)), "what is `{line}`?");
            }
        }
        header
    }

    fn define(&mut self, define: &str, sizes: &BTreeMap<String, (usize, usize)>) {
        let (name, value) = define.split_once(' ').unwrap_or((define, ""));
        let plain = name.split('(').next().unwrap();
        if MACHINERY.contains(&plain) {
            return;
        }
        if let Some(command) = name.strip_prefix("NEURON_IOC_") {
            self.commands.push((command.to_owned(), word(value, sizes)));
        } else if plain != name {
            assert_eq!(name, format!("{plain}(lap)"));
            let value = value.replace("((uint32_t)(lap) & 3)", "2");
            self.constants.push((format!("{plain}(2)"), number(&value)));
        } else {
            self.constants.push((name.to_owned(), number(value)));
        }
    }
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |code, part| code + part.split_once("*/").unwrap().1)
}

/// Lays the members out as C does, each at its alignment.
fn structure(name: &str, members: &[&str], sizes: &BTreeMap<String, (usize, usize)>) -> (Struct, usize) {
    let (mut at, mut align, mut fields) = (0_usize, 1, Vec::new());
    for member in members {
        let (kind, declared) = member.trim_end_matches(';').rsplit_once(' ').unwrap();
        let (size, aligned) = sizes[kind];
        let mut parts = declared.split('[');
        let field = parts.next().unwrap().to_owned();
        let count: usize = parts.map(|part| part.trim_end_matches(']').parse::<usize>().unwrap()).product();
        at = at.next_multiple_of(aligned);
        fields.push((field, at, size * count));
        at += size * count;
        align = align.max(aligned);
    }
    ((name.to_owned(), at.next_multiple_of(align), fields), align)
}

/// `NEURON_IOC_VALUE_(dir, nr, type)` and its like.
fn word(value: &str, sizes: &BTreeMap<String, (usize, usize)>) -> u32 {
    let (form, arguments) = value.trim().trim_end_matches(')').split_once('(').unwrap();
    let arguments: Vec<_> = arguments.split(", ").collect();
    let size = |kind: &str| match kind.split_once('[') {
        Some((element, count)) => sizes[element].0 * count.trim_end_matches(']').parse::<usize>().unwrap(),
        None => sizes[kind].0,
    };
    let (dir, bytes, nr) = match (form, &arguments[..]) {
        ("NEURON_IOC_NONE_", [nr]) => ("0", 0, nr),
        ("NEURON_IOC_VALUE_", [dir, nr, kind]) => (*dir, size(kind), nr),
        ("NEURON_IOC_POINTER_", [dir, nr, kind]) => {
            assert!(size(kind) > 0);
            (*dir, 8, nr)
        }
        _ => panic!("no word: {value}"),
    };
    let parse = |text: &str| text.parse::<u32>().unwrap();
    parse(dir) << 30 | (bytes as u32) << 16 | 0x4e << 8 | parse(nr)
}

/// A number, a shift of numbers, or a way to open a file.
fn number(text: &str) -> i128 {
    let text = text.trim().replace("UINT32_C", "").replace("UINT64_C", "").replace(['(', ')'], "");
    if let Some((value, shift)) = text.split_once(" << ") {
        return number(value) << number(shift);
    }
    match text.as_str() {
        "O_RDWR" => 2,
        "O_WRONLY" => 1,
        text => match text.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).unwrap(),
            None => text.parse().unwrap(),
        },
    }
}
