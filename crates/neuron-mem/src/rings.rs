//! `neuron-mem rings`: the queues of a device's engines.
//!
//! State of engines and queues comes through the ioctls that show it, on every backend. Who has a queue, and
//! where software's cursors are, no ioctl shows: that is the backend's introspection, if it has one.

use std::io::Write;

use neuron_abi::arg::DmaQueueState;
use neuron_abi::errno::Errno;
use neuron_ndl::introspect::{FlavourView, Introspection, QueueView, RingView};
use neuron_ndl::software::MachineOptions;
use neuron_ndl::{Device, NdlError};

use crate::cli::RingsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::machine::{self, Machine};
use crate::render::rings::{Cursor, Engine, Owner, Queue, Ring, RingsReport, Selection};
use crate::render::write_json;

/// Runs the command and writes its result to `out`.
///
/// # Errors
/// See [`Exit`] for which failure has which code.
pub fn run(args: &RingsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = machine::device_index(args.device)?;
    let machine = Machine::choose(&args.machine, MachineOptions::default())?;
    let device = machine.open(index)?;
    let report = report(args, &machine, &device)?;
    if args.json {
        write_json(out, &report).map_err(Failure::output)
    } else {
        out.write_all(report.text().as_bytes()).map_err(Failure::output)
    }
}

/// Looks at a device of the machine, which may be open on any backend.
///
/// # Errors
/// [`Exit::Usage`] for an engine the device does not have, [`Exit::Device`] with the ioctl that failed.
pub fn report(args: &RingsArgs, machine: &Machine, device: &Device) -> Result<RingsReport, Failure> {
    let count = device.geometry().engines();
    let engines = match args.engine {
        Some(engine) if engine < count => engine..engine + 1,
        Some(engine) => {
            let (device, last) = (device.facts().index, count.saturating_sub(1));
            let why = format!("neuron{device} has engines 0 to {last}, so there is no engine {engine}");
            return Err(Failure::new(Exit::Usage, why));
        }
        None => 0..count,
    };
    let inside = device.introspect();
    let selection = match (args.all, &inside) {
        (true, _) => Selection::All,
        (false, Some(_)) => Selection::InUse,
        (false, None) => Selection::Programmed,
    };
    let mut report = RingsReport {
        backend: machine.name().to_string(),
        instance: machine.instance().map(str::to_owned),
        device: args.device,
        selection,
        owners_shown: inside.is_some(),
        engine_count: 0,
        queue_count: 0,
        engines: Vec::new(),
    };
    for id in engines {
        let found = engine(device, id, inside.as_ref(), selection);
        if let Some((queues, engine)) = found.map_err(|error| Failure::new(Exit::Device, error))? {
            report.engine_count += 1;
            report.queue_count += queues;
            report.engines.extend(Some(engine).filter(|engine| !engine.queues.is_empty()));
        }
    }
    Ok(report)
}

/// How many queues an engine has, and those selected; `None` if it was never initialised.
fn engine(
    device: &Device,
    id: u32,
    inside: Option<&Introspection>,
    selection: Selection,
) -> Result<Option<(u32, Engine)>, NdlError> {
    let state = match device.engine_state(id) {
        Err(error) if error.errno == Errno::EINVAL => return Ok(None),
        state => state?,
    };
    let mut queues = Vec::new();
    for number in 0..state.num_queues {
        let view = inside.and_then(|inside| inside.queue(id, number));
        if selection == Selection::InUse && view.is_none_or(|view| view.flavour == FlavourView::Unused) {
            continue;
        }
        let state = device.queue_state(id, number)?;
        if selection == Selection::Programmed && state.tx.length == 0 && state.rx.length == 0 {
            continue;
        }
        queues.push(Queue {
            queue: number,
            owner: view.map(owner),
            tx: ring(&state.tx, view.map(|view| &view.tx)),
            rx: ring(&state.rx, view.map(|view| &view.rx)),
        });
    }
    let engine = Engine { engine: id, tx_state: state.tx_state, rx_state: state.rx_state, queues };
    Ok(Some((state.num_queues, engine)))
}

fn owner(view: &QueueView) -> Owner {
    Owner {
        flavour: view.flavour.into(),
        owner: view.owner,
        held_by: view.held_by,
        core: view.core,
        is_h2t: view.is_h2t,
        is_allocated: view.is_allocated,
        is_owner_core: view.is_owner_core,
        is_nx: view.is_nx,
    }
}

/// A ring as the registers show it, with the driver's cursors if they are shown.
pub(crate) fn ring(state: &DmaQueueState, view: Option<&RingView>) -> Ring {
    Ring {
        size: state.length,
        base: state.base_addr,
        head: state.head_pointer,
        tail: state.tail_pointer,
        hw_status: state.hw_status,
        sw_status: state.sw_status,
        cursor: view.map(|view| Cursor {
            driver_fills: view.driver_fills,
            next: view.next,
            completed: view.completed,
            ring_id: view.ring_id,
            available: view.available,
            in_flight: view.in_flight,
        }),
    }
}
