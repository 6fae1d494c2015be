//! A whole trace, from its reader to what came of it.

use std::io::BufRead;

use neuron_dmem::trace::Sink;

use crate::outcome::Outcome;
use crate::replay::{Options, Replay};
use crate::scenario::Scenario;
use crate::timeline::Timeline;
use crate::trace::{Reader, TraceError};

/// Runs a whole trace. The first scenario is shown to `timeline`, if there is one.
///
/// # Errors
/// [`TraceError`] with line and column.
pub fn run<R: BufRead>(
    reader: &mut Reader<R>,
    scenarios: &[Scenario],
    options: &Options,
    timeline: Option<&dyn Sink>,
) -> Result<Outcome, TraceError> {
    let mut replay = Replay::new(scenarios, *options);
    let mut timeline = timeline.map(Timeline::new);
    let (source, dropped) = (reader.header().source.clone().into_owned(), reader.header().dropped);
    let mut stopped = false;
    loop {
        let line = reader.line() + 1;
        let Some(event) = reader.next_event()? else { break };
        let applied = match &mut timeline {
            None => replay.apply(line, &event),
            Some(timeline) => timeline.apply(&mut replay, line, &event),
        };
        applied.map_err(|wrong| reader.wrong(&wrong))?;
        if replay.is_over() {
            stopped = true;
            break;
        }
    }
    Ok(Outcome { source, dropped, stopped, ..replay.finish() })
}
