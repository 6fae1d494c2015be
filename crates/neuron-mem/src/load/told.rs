//! `load --timeline`, `load --trace` and `NEURON_MEM_TRACE`: files that tell what happened when, however the
//! load ends.

use std::path::Path;
use std::sync::Arc;

use neuron_dmem::Setup;
use neuron_dmem::trace::Sink;
use neuron_dmem::trace::chrome::ChromeTrace;
use neuron_dmem::trace::events::{EventTrace, Header};

use crate::cli::LoadArgs;
use crate::failure::Failure;
use crate::render::load::Timeline as Written;
use crate::shown::Shown;

/// Something that events are written to.
pub(super) trait Teller: Sink + 'static {
    /// What it is called.
    const NAME: &'static str;

    /// Writes what is left.
    ///
    /// # Errors
    /// [`Exit::Output`](crate::exit::Exit::Output) if something could not be written, now or before.
    fn end(&self) -> Result<Written, Failure>;
}

fn written(path: &Path, events: u64) -> Written {
    Written { file: path.to_string_lossy().into_owned(), events }
}

impl Teller for ChromeTrace {
    const NAME: &'static str = "timeline";

    fn end(&self) -> Result<Written, Failure> {
        let timeline = self.finish()?;
        Ok(written(&timeline.path, timeline.events))
    }
}

impl Teller for EventTrace {
    const NAME: &'static str = "trace";

    fn end(&self) -> Result<Written, Failure> {
        let trace = self.finish()?;
        Ok(written(&trace.path, trace.events))
    }
}

/// The file of a load, if one was asked for.
pub(super) struct Told<T>(Option<Arc<T>>);

impl Told<ChromeTrace> {
    /// Makes the file of a timeline.
    ///
    /// # Errors
    /// [`Exit::Usage`](crate::exit::Exit::Usage) for a name that something else has;
    /// [`Exit::Output`](crate::exit::Exit::Output) if it cannot be made.
    pub(super) fn timeline(args: &LoadArgs) -> Result<Self, Failure> {
        let timeline = args.timeline.as_ref().map(ChromeTrace::create).transpose()?;
        Ok(Self(timeline.map(Arc::new)))
    }
}

impl Told<EventTrace> {
    /// Makes the file of a trace: the argument's, else the environment's.
    ///
    /// # Errors
    /// As [`timeline`](Told::timeline).
    pub(super) fn trace(args: &LoadArgs, instance: Option<&str>) -> Result<Self, Failure> {
        let path = args.trace.clone().or_else(EventTrace::environment_path);
        let header = Header::of("neuron-mem load", instance);
        let trace = path.map(|path| EventTrace::create(path, &header)).transpose()?;
        Ok(Self(trace.map(Arc::new)))
    }
}

impl<T: Teller> Told<T> {
    /// Has the device's memory traced.
    pub(super) fn attach(&self, setup: Setup) -> Setup {
        match &self.0 {
            Some(sink) => setup.trace(Arc::clone(sink) as _),
            None => setup,
        }
    }

    /// Ends it. All that was traced is over.
    ///
    /// # Errors
    /// As [`Teller::end`].
    pub(super) fn finish(&self) -> Result<Option<Written>, Failure> {
        self.0.as_ref().map(|sink| sink.end()).transpose()
    }

    /// A failed load tells of its file, too.
    pub(super) fn note(&self, failure: Failure, written: &Result<Option<Written>, Failure>) -> Failure {
        match written {
            Ok(None) => failure,
            Ok(Some(Written { file, .. })) => {
                failure.with_note(&format!("its {} is in {}", T::NAME, Shown(file)))
            }
            Err(error) => failure.with_note(&error.to_string().replace("\n  ", "; ")),
        }
    }
}
