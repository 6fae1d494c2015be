//! `load --timeline`: a file that shows what happened when, however the load ends.

use std::sync::Arc;

use neuron_dmem::Setup;
use neuron_dmem::trace::chrome::ChromeTrace;

use crate::cli::LoadArgs;
use crate::failure::Failure;
use crate::render::load::Timeline as Written;
use crate::shown::Shown;

/// The timeline of a load, if one was asked for.
pub(super) struct Timeline(Option<Arc<ChromeTrace>>);

impl Timeline {
    /// Makes the file.
    ///
    /// # Errors
    /// [`Exit::Usage`](crate::exit::Exit::Usage) for a name that something else has; [`Exit::Output`](crate::exit::Exit::Output) if it cannot be made.
    pub(super) fn begin(args: &LoadArgs) -> Result<Self, Failure> {
        let create = |path| ChromeTrace::create(path).map(Arc::new).map_err(Failure::from);
        args.timeline.as_ref().map(create).transpose().map(Self)
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

/// A failed load tells of its timeline, too.
pub(super) fn note(failure: Failure, written: &Result<Option<Written>, Failure>) -> Failure {
    match written {
        Ok(None) => failure,
        Ok(Some(Written { file, .. })) => failure.with_note(&format!("its timeline is in {}", Shown(file))),
        Err(error) => failure.with_note(&error.to_string().replace("\n  ", "; ")),
    }
}
