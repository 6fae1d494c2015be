//! `load --trace` and `NEURON_MEM_TRACE`: the trace of events that `replay` reads, however the load ends.

use std::sync::Arc;

use neuron_dmem::Setup;
use neuron_dmem::trace::events::{EventTrace, Header};

use crate::cli::LoadArgs;
use crate::failure::Failure;
use crate::render::load::Timeline as Written;
use crate::shown::Shown;

/// The trace of a load, if one was asked for.
pub(super) struct Events(Option<Arc<EventTrace>>);

impl Events {
    /// Makes the file: the argument's, else the environment's.
    ///
    /// # Errors
    /// [`Exit::Usage`](crate::exit::Exit::Usage) for a name that something else has;
    /// [`Exit::Output`](crate::exit::Exit::Output) if it cannot be made.
    pub(super) fn begin(args: &LoadArgs, instance: Option<&str>) -> Result<Self, Failure> {
        let path = args.trace.clone().or_else(EventTrace::environment_path);
        let header = Header::of("neuron-mem load", instance);
        let trace = path.map(|path| EventTrace::create(path, &header)).transpose()?;
        Ok(Self(trace.map(Arc::new)))
    }

    /// Has the device's memory traced.
    pub(super) fn attach(&self, setup: Setup) -> Setup {
        match &self.0 {
            Some(sink) => setup.trace(Arc::clone(sink) as _),
            None => setup,
        }
    }

    /// Writes what is left. All that was traced is over.
    ///
    /// # Errors
    /// [`Exit::Output`](crate::exit::Exit::Output) if something could not be written, now or before.
    pub(super) fn finish(&self) -> Result<Option<Written>, Failure> {
        let Some(sink) = &self.0 else { return Ok(None) };
        let written = sink.finish()?;
        let file = written.path.to_string_lossy().into_owned();
        Ok(Some(Written { file, events: written.events }))
    }
}

/// A failed load tells of its trace, too.
pub(super) fn note(failure: Failure, written: &Result<Option<Written>, Failure>) -> Failure {
    match written {
        Ok(None) => failure,
        Ok(Some(Written { file, .. })) => failure.with_note(&format!("its trace is in {}", Shown(file))),
        Err(error) => failure.with_note(&error.to_string().replace("\n  ", "; ")),
    }
}
