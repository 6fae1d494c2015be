//! Reading traces: one event at a time, from anything that can be read.
//!
//! | module | what lives there |
//! |---|---|
//! | `reader` | [`Reader`]: lines, their numbers, and what holds across them |
//! | `json` | a line of our own format |
//! | `compact` | the same, quickly, of a line as this project writes it |
//! | `rmm` | a line of the log of RMM, the RAPIDS memory manager |
//! | `error` | [`TraceError`]: line, column, and what was expected |
//!
//! Writing is `neuron_dmem::trace::events`'s, and so are the types of events.

mod compact;
mod error;
mod json;
mod reader;
mod rmm;

pub use error::{TraceError, Wrong};
pub use neuron_dmem::trace::events::{Alloc, Copy, Direction, Event, Header, VERSION};
pub use reader::{Format, MAX_LINE, Reader};
