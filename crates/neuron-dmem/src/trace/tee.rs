//! Two sinks as one.

use std::sync::Arc;

use super::note::Note;
use super::record::{Record, Sink};

/// Gives both what it gets.
pub(crate) struct Both(pub(crate) Arc<dyn Sink>, pub(crate) Arc<dyn Sink>);

impl Sink for Both {
    fn record(&self, record: &Record<'_>) {
        self.0.record(record);
        self.1.record(record);
    }

    fn follows_memory(&self) -> bool {
        self.0.follows_memory() || self.1.follows_memory()
    }

    fn memory(&self, note: &Note<'_>) {
        self.0.memory(note);
        self.1.memory(note);
    }
}
