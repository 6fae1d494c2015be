//! `neuron-mem plan`: whether models fit, without loading them.
//!
//! Planning is `neuron-plan`'s. Here: headers in, answer out.

use std::io::Write;
use std::path::{Path, PathBuf};

use neuron_dmem::trace::events::EventTrace;
use neuron_plan::{Answer, Ask, Costs, Model as Planned, PlanError, Tensor as PlannedTensor, plan};
use serde::Serialize;

use crate::bytes::{human, plural};
use crate::cli::{CoreSelection, Era, Placement, PlanArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::model::Model;
use crate::page;
use crate::render::load::Timeline as Written;
use crate::render::paint::Paint;
use crate::render::{plan as report, write_json};
use crate::shown::{Shown, bounded};

/// Runs the command and writes its result to `out`, as text in colours if `paint` has some. Only what is asked
/// counts: the environment is this machine's, and the plan may be for another.
///
/// # Errors
/// [`Exit::Input`] for a model that cannot be read; [`Exit::Usage`] for an instance or cores that are not there;
/// [`Exit::Output`] if the answer, its page or its trace cannot be written; [`Exit::DoesNotFit`], after all were, if
/// the answer is no.
pub fn run(args: &PlanArgs, paint: Paint, out: &mut dyn Write) -> Result<(), Failure> {
    let opened = args.models.iter().map(|path| Model::open(path)).collect::<Result<Vec<_>, _>>()?;
    let notes: Vec<String> = opened.iter().flat_map(|model| model.notes()).cloned().collect();
    let models: Vec<Planned> = opened.iter().map(planned).collect();
    // Files and mappings are of no use any more.
    drop(opened);
    let ask = ask(args);
    let planned = plan(&models, &ask).map_err(failure)?;
    let trace = args.trace.as_ref().map(|path| trace(path, &models, &ask, &planned)).transpose()?;
    let answer = &planned.answer;
    if args.json {
        write_json(out, &Report { answer, trace }).map_err(Failure::output)?;
    } else {
        let mut text = report::text(answer, &notes, costs_from(args), paint);
        if let Some(Written { file, events }) = &trace {
            text += &format!("\ntrace     {} in {}\n", plural(*events, "event"), Shown(file));
        }
        out.write_all(text.as_bytes()).map_err(Failure::output)?;
    }
    if let Some(path) = &args.html {
        let page = page::plan::page(&planned, &models, &notes, costs_from(args)).html();
        // The shards of an index lie beside it.
        let folders = args.models.iter().filter(|path| path.extension().is_some_and(|it| it == "json"));
        let folders = folders.filter_map(|path| path.parent());
        let inputs: Vec<&Path> = args.models.iter().map(PathBuf::as_path).chain(folders).collect();
        page::file::write(path, &page, &inputs)?;
    }
    if answer.fits {
        return Ok(());
    }
    let why = format!("does not fit on {}: {} short", answer.instance, human(answer.short_bytes));
    Err(Failure::new(Exit::DoesNotFit, why))
}

/// The answer, and the trace if one was asked for.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Written>,
}

/// Writes what is wanted as a trace.
fn trace(
    path: &Path,
    models: &[Planned],
    ask: &Ask,
    planned: &neuron_plan::Planned,
) -> Result<Written, Failure> {
    let trace = EventTrace::create(path, &neuron_plan::trace::header(ask))?;
    neuron_plan::trace::events(models, ask, planned, &mut |event| trace.push(event)).map_err(failure)?;
    let written = trace.close()?;
    Ok(Written { file: written.path.to_string_lossy().into_owned(), events: written.events })
}

/// A model as planning takes it: named as `load` names it in reports.
#[must_use]
pub fn planned(model: &Model) -> Planned {
    let tensor = |tensor: &crate::model::Tensor| PlannedTensor {
        name: bounded(&tensor.name()),
        dtype: tensor.dtype(),
        shape: tensor.shape().to_vec(),
        bytes: tensor.bytes(),
    };
    Planned {
        name: model.source().to_string().replace('`', ""),
        tensors: model.tensors().iter().map(tensor).collect(),
    }
}

fn ask(args: &PlanArgs) -> Ask {
    Ask {
        tp: args.tp,
        lnc: args.lnc,
        placement: args.placement.map(|placement| match placement {
            Placement::Shard => neuron_plan::Placement::Shard,
            Placement::Replicate => neuron_plan::Placement::Replicate,
            Placement::RoundRobin => neuron_plan::Placement::RoundRobin,
        }),
        cores: match &args.cores {
            Some(CoreSelection::Only(cores)) => Some(cores.clone()),
            Some(CoreSelection::All) | None => None,
        },
        kv: args.kv_bytes.0,
        scratchpad_page: args.scratchpad_page.0,
        scratchpad_private: args.scratchpad_private.0,
        code: args.code_bytes.map(|size| size.0),
        costs: costs(args),
        align: args.align.0,
        ..Ask::on(&args.instance)
    }
}

fn costs(args: &PlanArgs) -> Costs {
    let era = match args.era {
        Era::Of2025 => Costs::OF_2025,
        Era::Of2026 => Costs::OF_2026,
    };
    Costs {
        microcode: args.microcode_bytes.map_or(era.microcode, |size| size.0),
        runtime: args.runtime_bytes.map_or(era.runtime, |size| size.0),
        rings: args.rings_bytes.map_or(era.rings, |size| size.0),
        collectives: args.collectives_bytes.map_or(era.collectives, |size| size.0),
    }
}

/// Where the figures of a core are from.
fn costs_from(args: &PlanArgs) -> &'static str {
    let given = [args.microcode_bytes, args.runtime_bytes, args.rings_bytes, args.collectives_bytes];
    match (given.iter().flatten().count(), args.era) {
        (4, _) => "as given",
        (0, Era::Of2025) => "samples from logs of 2025",
        (0, Era::Of2026) => "samples from logs of 2026",
        (_, Era::Of2025) => "as given, else samples from logs of 2025",
        (_, Era::Of2026) => "as given, else samples from logs of 2026",
    }
}

fn failure(error: PlanError) -> Failure {
    let exit = if error.is_usage() { Exit::Usage } else { Exit::Device };
    Failure::new(exit, error)
}
