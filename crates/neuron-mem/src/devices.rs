//! `neuron-mem devices`: what each device of the instance has.

use std::io::Write;

use neuron_abi::memory::Category;
use neuron_ndl::software::MachineOptions;
use neuron_ndl::{Device, NdlError};

use crate::cli::DevicesArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::render::devices::{self as report, DevicesReport, H2tRing, Hbm, SysfsTree};
use crate::render::write_json;
use crate::tree;

/// Runs the command and writes its result to `out`. The `/sys` tree, if asked for, is written first, as it is
/// while nobody has a device open.
///
/// # Errors
/// See [`Exit`] for which failure has which code.
pub fn run(args: &DevicesArgs, out: &mut dyn Write) -> Result<(), Failure> {
    on(&Machine::choose(&args.machine, MachineOptions::default())?, args, out)
}

/// As [`run`], on this machine.
///
/// # Errors
/// As [`run`].
pub fn on(machine: &Machine, args: &DevicesArgs, out: &mut dyn Write) -> Result<(), Failure> {
    // Taken before a device is opened: our own buffers would be counted.
    let sysfs = match &args.sysfs {
        Some(folder) => {
            let sysfs = machine.sysfs("--sysfs")?;
            tree::write(&sysfs, folder)?;
            let folder = folder.to_string_lossy().into_owned();
            Some(SysfsTree { folder, files: sysfs.files.len() as u64, links: sysfs.links.len() as u64 })
        }
        None => None,
    };
    let mut report = DevicesReport {
        backend: machine.name().to_string(),
        instance: machine.instance().map(str::to_owned),
        generation: String::new(),
        devices: Vec::new(),
        sysfs,
    };
    for &index in machine.some_devices()? {
        let device = machine.open(index)?;
        report.generation = format!("{:?}", device.facts().generation);
        report.devices.push(describe(&device).map_err(|error| Failure::new(Exit::Device, error))?);
    }
    if args.json {
        write_json(out, &report).map_err(Failure::output)
    } else {
        out.write_all(report.text().as_bytes()).map_err(Failure::output)
    }
}

fn describe(device: &Device) -> Result<report::Device, NdlError> {
    let geometry = device.geometry();
    let hbms = (0..)
        .zip(geometry.hbm)
        .map(|(index, range)| {
            let (main, small) = (range.main_pool(), range.small_pool());
            Ok(Hbm {
                index,
                base: range.base,
                size: range.size,
                firmware_reserve: firmware_reserve(device, index, range.base)?,
                main_pool: main.end - main.start,
                small_pool: small.end - small.start,
            })
        })
        .collect::<Result<_, NdlError>>()?;
    let h2t_rings = (0..geometry.cores)
        .map(|core| {
            let (engine, queue) = geometry.h2t_ring(core);
            H2tRing { core, engine, queue }
        })
        .collect();
    Ok(report::Device {
        index: device.facts().index.into(),
        cores: geometry.cores,
        hbms,
        engines: geometry.engines(),
        h2t_rings,
    })
}

/// The block that the driver itself holds at the start of the HBM; `None` where it is too old to list its memory.
fn firmware_reserve(device: &Device, hbm: u32, base: u64) -> Result<Option<u64>, NdlError> {
    let own = Category::NcdevDevice as u32;
    let chunks = match device.chunks(hbm) {
        Err(error) if error.is_unsupported() => return Ok(None),
        chunks => chunks?,
    };
    let reserve = chunks.iter().find(|chunk| chunk.pa == base && chunk.mem_type == own);
    Ok(Some(reserve.map_or(0, |chunk| chunk.size)))
}
