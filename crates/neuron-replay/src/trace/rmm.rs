//! One line of the log that RMM's logging resource adaptor writes: `Thread,Time,Action,Pointer,Size,Stream`.
//! Which device and what for it does not say: all is taken for tensors on HBM 0 of device 0, owned by
//! the thread.

use std::collections::HashMap;

use neuron_abi::memory::{MemLocation, UsageType};

use super::json::Fault;
use super::{Alloc, Event, Header};

const COLUMNS: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// Pointers that live: RMM uses them again, ids are not.
#[derive(Debug, Default)]
pub(super) struct Rmm {
    last: u64,
    living: HashMap<u64, u64>,
}

impl Rmm {
    pub(super) fn header(line: &[u8]) -> Result<Header<'static>, Fault> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line != COLUMNS.as_bytes() {
            return Err((1, format!("a log of RMM begins with the line {COLUMNS}")));
        }
        Ok(Header { source: "RMM".into(), ..Header::default() })
    }

    pub(super) fn event<'a>(&mut self, line: &'a [u8]) -> Result<Event<'a>, Fault> {
        let text = std::str::from_utf8(line)
            .map_err(|error| (error.valid_up_to() as u64 + 1, "no UTF-8".to_owned()))?;
        let text = text.strip_suffix('\r').unwrap_or(text);
        let mut fields = Fields { rest: Some(text), column: 1 };
        let (thread, time, action) = (fields.next("Thread")?, fields.next("Time")?, fields.next("Action")?);
        let (pointer, size, _stream) =
            (fields.next("Pointer")?, fields.next("Size")?, fields.next("Stream")?);
        if fields.rest.is_some() {
            return Err((fields.column, format!("more fields than {COLUMNS}")));
        }
        let time = nanoseconds(time.text);
        let refused = match action.text {
            "allocate" => false,
            "allocate failure" => true,
            "free" => {
                let id = self.living.remove(&pointer.pointer()?).ok_or_else(|| {
                    pointer.fault("a pointer that was not allocated in this log, or was freed before")
                })?;
                return Ok(Event::Free { id, time });
            }
            _ => return Err(action.fault("no action; `allocate`, `free` and `allocate failure` are")),
        };
        let size = size.text.parse().map_err(|_| size.fault("no number of bytes"))?;
        self.last += 1;
        if !refused && self.living.insert(pointer.pointer()?, self.last).is_some() {
            return Err(pointer.fault("a pointer that was allocated and not freed"));
        }
        Ok(Event::Alloc(Alloc {
            id: self.last,
            size,
            align: 0,
            location: MemLocation::Device,
            device: 0,
            hbm: 0,
            core: 0,
            usage: UsageType::Tensor,
            owner: Some(thread.text.into()),
            hint: None,
            pa: None,
            refused,
            pid: 0,
            time,
        }))
    }
}

/// A field and where it is.
#[derive(Clone, Copy)]
struct Field<'a> {
    name: &'static str,
    text: &'a str,
    column: u64,
}

impl Field<'_> {
    fn fault(self, what: &str) -> Fault {
        (self.column, format!("{} is `{}`: {what}", self.name, self.text.escape_debug()))
    }

    fn pointer(self) -> Result<u64, Fault> {
        let digits = self.text.strip_prefix("0x").unwrap_or(self.text);
        let wrong = |_| self.fault("no pointer such as 0x7f0000000000");
        u64::from_str_radix(digits, 16).map_err(wrong)
    }
}

struct Fields<'a> {
    rest: Option<&'a str>,
    column: u64,
}

impl<'a> Fields<'a> {
    fn next(&mut self, name: &'static str) -> Result<Field<'a>, Fault> {
        let missing = || (self.column, format!("no {name}; the fields are {COLUMNS}"));
        let rest = self.rest.ok_or_else(missing)?;
        let (text, behind) = match rest.split_once(',') {
            Some((text, behind)) => (text, Some(behind)),
            None => (rest, None),
        };
        let field = Field { name, text, column: self.column };
        self.column += text.len() as u64 + u64::from(behind.is_some());
        self.rest = behind;
        Ok(field)
    }
}

/// `HH:MM:SS:microseconds`, the time of day; `None` for another form.
fn nanoseconds(text: &str) -> Option<u64> {
    let mut parts = text.split(':').map(|part| part.parse::<u64>().ok());
    let mut below = |limit| parts.next()?.filter(|&part| part < limit);
    let (hours, minutes, seconds, micros) = (below(24)?, below(60)?, below(60)?, below(1_000_000)?);
    Some(((hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros) * 1000)
}
