//! One recorded ioctl: what the process asked with, what came back.

use std::ops::Range;

use serde_json::Value;

use crate::machine::Access;
use crate::vectors::object::{bytes, number};
use crate::vectors::{Mismatch, Object, equal, equal_hex, fnv};

/// A recorded ioctl.
pub struct Step<'a> {
    /// The command's name; of a word that is no command, what the recorder called it.
    pub name: &'a str,
    /// Which of the session's open files.
    pub file: usize,
    /// Calling process.
    pub pid: i32,
    /// Command word.
    pub word: u32,
    /// User address of the argument; no memory if [`arg`](Self::arg) is empty.
    pub argument: u64,
    /// The argument's bytes before the call.
    pub arg: Vec<u8>,
    /// Other memory before the call.
    pub inputs: Vec<(u64, Vec<u8>)>,
    /// How it ended.
    pub end: End,
    /// Register accesses.
    pub accesses: Vec<Access>,
    /// Memory that the call changed, the argument's included.
    pub outputs: Vec<(u64, Content)>,
    /// Addresses that are not to be compared.
    pub ignored: Vec<Range<u64>>,
}

/// How a recorded call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned this.
    Returned(i64),
    /// An assertion stopped the driver.
    Asserted,
    /// A null pointer stopped it.
    Faulted,
}

/// Recorded memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// Their number and hash.
    Hash {
        /// Bytes.
        len: usize,
        /// FNV-1a 64.
        fnv: u64,
    },
}

impl Content {
    /// Bytes.
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Hash { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Compares memory with it.
    ///
    /// # Errors
    /// If they differ.
    pub fn compare(&self, what: &str, ours: &[u8]) -> Result<(), Mismatch> {
        match self {
            Self::Hash { fnv, .. } => equal_hex(format!("hash of {what}"), fnv::of_bytes(ours), *fnv),
            Self::Bytes(recorded) if recorded == ours => Ok(()),
            Self::Bytes(recorded) => {
                let at = ours.iter().zip(recorded).take_while(|(ours, recorded)| ours == recorded).count();
                let show = |bytes: &[u8]| -> String {
                    bytes.iter().skip(at).take(16).map(|byte| format!("{byte:02x}")).collect()
                };
                let (len, ours, recorded) = (recorded.len(), show(ours), show(recorded));
                Err(Mismatch::new(format!("{what}: byte {at} of {len}: ours {ours}, recorded {recorded}")))
            }
        }
    }
}

impl<'a> Step<'a> {
    /// Reads a step.
    ///
    /// # Errors
    /// If a field is missing or of the wrong form.
    pub fn read(fields: &Object<'a>) -> Result<Self, Mismatch> {
        let argument = fields.number("arg_addr")?;
        let end = match (fields.has("driver_asserts"), fields.has("driver_faults")) {
            (false, false) => End::Returned(fields.signed("ret")?),
            (true, false) => fields.flag("driver_asserts").map(|_| End::Asserted)?,
            (_, true) => fields.flag("driver_faults").map(|_| End::Faulted)?,
        };
        let mut outputs = Vec::new();
        if fields.has("arg_out") {
            outputs.push((argument, Content::Bytes(fields.raw("arg_out")?)));
        }
        for value in optional(fields, "mem_out")? {
            outputs.push(area(value, content)?);
        }
        let ignored = optional(fields, "arg_out_ignore")?.iter().map(|value| ignored(argument, value));
        let step = Self {
            name: fields.text("ioctl")?,
            file: fields.word("file")? as usize,
            pid: fields.word("pid")?.cast_signed(),
            word: fields.word("cmd")?,
            argument,
            arg: fields.raw("arg")?,
            inputs: optional(fields, "mem_in")?
                .iter()
                .map(|value| area(value, input))
                .collect::<Result<_, _>>()?,
            end,
            accesses: if fields.has("mmio") { fields.accesses("mmio")? } else { Vec::new() },
            outputs,
            ignored: ignored.collect::<Result<_, _>>()?,
        };
        // What the recorder looked at is all that a call may change.
        for (address, content) in &step.outputs {
            let end = *address + content.len() as u64;
            let watched = step.areas().any(|area| area.start <= *address && end <= area.end);
            equal(format!("output at {address:#x} is of a watched area"), watched, true)?;
        }
        Ok(step)
    }

    /// All memory that the recorder looked at: the argument and the inputs.
    pub fn areas(&self) -> impl Iterator<Item = Range<u64>> {
        let inputs = self.inputs.iter().map(|(address, bytes)| (*address, bytes.len()));
        std::iter::once((self.argument, self.arg.len()))
            .chain(inputs)
            .map(|(address, len)| address..address + len as u64)
    }
}

fn optional<'a>(fields: &Object<'a>, key: &str) -> Result<&'a [Value], Mismatch> {
    if fields.has(key) { fields.list(key) } else { Ok(&[]) }
}

/// `[address, content]`.
fn area<T>(value: &Value, content: impl Fn(&Value) -> Option<T>) -> Result<(u64, T), Mismatch> {
    match value.as_array().map(Vec::as_slice) {
        Some([address, bytes]) => number(address).zip(content(bytes)),
        _ => None,
    }
    .ok_or_else(|| Mismatch::new(format!("no memory: {value}")))
}

/// `[start, length]` in the argument.
fn ignored(argument: u64, value: &Value) -> Result<Range<u64>, Mismatch> {
    match value.as_array().map(Vec::as_slice) {
        Some([start, len]) => number(start).zip(number(len)),
        _ => None,
    }
    .map(|(start, len)| argument + start..argument + start + len)
    .ok_or_else(|| Mismatch::new(format!("no range: {value}")))
}

/// Hex, or a length and the start of the pattern.
fn input(value: &Value) -> Option<Vec<u8>> {
    let Some(fields) = value.as_object() else { return bytes(value) };
    let (len, fill) = (number(fields.get("len")?)?, number(fields.get("fill")?)?);
    Some((0..len).map(|i| (fill + 31 * i + i / 256) as u8).collect())
}

/// Hex, or a length and a hash.
fn content(value: &Value) -> Option<Content> {
    let Some(fields) = value.as_object() else { return bytes(value).map(Content::Bytes) };
    let (len, fnv) = (number(fields.get("len")?)?, number(fields.get("fnv")?)?);
    Some(Content::Hash { len: usize::try_from(len).ok()?, fnv })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pattern_counts_by_31_and_by_the_page_of_256() {
        let bytes = input(&json!({"len": 300, "fill": 250})).unwrap();
        assert_eq!((bytes.len(), &bytes[..2]), (300, &[250, 25][..]));
        assert_eq!(bytes[256], (250 + 31 * 256 + 1_u32) as u8);
        assert_eq!(input(&json!("0a0b")), Some(vec![10, 11]));
        assert_eq!(input(&json!({"len": 3})), None);
    }

    #[test]
    fn content_is_compared_by_bytes_or_by_hash() {
        let hash = content(&json!({"len": 6, "fnv": "0x85944171f73967e8"})).unwrap();
        assert_eq!(hash.compare("text", b"foobar"), Ok(()));
        assert!(hash.compare("text", b"foobas").is_err());
        let told = content(&json!("010203")).unwrap().compare("text", &[1, 2, 4]).unwrap_err();
        assert_eq!(told.to_string(), "text: byte 2 of 3: ours 04, recorded 03");
    }

    #[test]
    fn an_output_outside_all_inputs_is_no_step() {
        let mut value = json!({
            "ioctl": "MEM_GET_PA", "file": 0, "pid": 1, "cmd": 0, "arg_addr": 16, "arg": "0000", "ret": 0,
            "mem_in": [[64, "0000"]], "mem_out": [[65, "01"]], "arg_out_ignore": [[1, 1]],
        });
        let step = |value: &Value| Step::read(&Object::new(value.as_object().unwrap())).map(drop);
        assert_eq!(step(&value), Ok(()));
        value["mem_out"] = json!([[65, "0102"]]);
        assert!(step(&value).is_err());
    }
}
