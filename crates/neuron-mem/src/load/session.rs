//! The device work of `load`: every tensor gets a dmem, its bytes are copied there and
//! read back, and all of it is freed when the session's run ends, however it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use neuron_abi::memory::{Aggregate, UsageType};
use neuron_dmem::report::DumpOptions;
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, DmemError};

use crate::bytes::exact_and_human;
use crate::digest::Digest;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::model::{Model, Tensor};
use crate::progress::Progress;
use crate::render::load::{Usage, Verification};
use crate::shown::{Shown, bounded};
use crate::spread::spread;

/// Bytes copied between two looks at whether to stop.
const PIECE: usize = 8 << 20;

/// What the work needs.
pub(super) struct Session<'a> {
    pub(super) memory: &'a Arc<DeviceMemory>,
    pub(super) model: &'a Model,
    pub(super) stop: &'a dyn Fn() -> bool,
    pub(super) progress: &'a Progress,
}

/// What the work found.
pub(super) struct Outcome {
    /// Time spent copying to the device.
    pub(super) copying: Duration,
    /// The driver's bytes while everything was loaded.
    pub(super) peak: u64,
    /// Bytes by core and category while everything was loaded.
    pub(super) usage: Vec<Usage>,
    /// What reading back said.
    pub(super) verification: Verification,
}

/// A tensor and its memory; a zero-sized one has none.
struct Placed<'a> {
    tensor: &'a Tensor,
    dmem: Option<Dmem>,
}

impl Session<'_> {
    /// Bytes the driver counts as allocated: all device memory, whoever holds it, and this
    /// process's host memory. A driver that is too old to list device memory says how much this
    /// process has.
    pub(super) fn driver_bytes(&self) -> Result<u64, Failure> {
        let device = self.memory.device();
        let failed = |error| Failure::new(Exit::Device, error);
        let own = std::process::id().cast_signed();
        let processes = device.processes().map_err(failed)?;
        let own = processes.iter().filter(|app| app.pid == own);
        let (host, own_device) =
            own.fold((0, 0), |(host, device), app| (host + app.host_mem_size, device + app.device_mem_size));
        let mut bytes = host;
        for hbm in (0..).take(device.geometry().hbm.len()) {
            match device.chunks(hbm) {
                Ok(chunks) => bytes += chunks.iter().map(|chunk| chunk.size).sum::<u64>(),
                Err(error) if error.is_unsupported() => return Ok(host + own_device),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(bytes)
    }

    /// Allocates all tensors, then copies, then reads back. Allocating first means that a
    /// model that does not fit is refused before its bytes are touched.
    pub(super) fn run(&self, cores: &[u32], verify: bool) -> Result<Outcome, Failure> {
        let placed = self.place(cores)?;
        let start = Instant::now();
        for tensor in &placed {
            self.copy(tensor)?;
        }
        let copying = start.elapsed();
        let (peak, usage) = (self.driver_bytes()?, self.usage());
        let verification = if verify { self.verify(&placed)? } else { Verification::Skipped };
        Ok(Outcome { copying, peak, usage, verification })
    }

    fn place(&self, cores: &[u32]) -> Result<Vec<Placed<'_>>, Failure> {
        // Fit for a terminal already, but in quotes; reports have their own.
        let source = self.model.source().to_string();
        let label = source.replace('`', "");
        let allocators = cores
            .iter()
            .map(|&core| Allocator::labelled(self.memory, AllocatorKind::Model, core, &label))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        let tensors = self.model.tensors();
        let sizes: Vec<u64> = tensors.iter().map(Tensor::bytes).collect();
        tensors
            .iter()
            .zip(spread(&sizes, allocators.len()))
            .map(|(tensor, place)| {
                self.go_on()?;
                let dmem = match (tensor.bytes(), allocators.get(place)) {
                    (0, _) | (_, None) => None,
                    (bytes, Some(allocator)) => {
                        // Errors repeat the hint, so it is as fit for a terminal as they are.
                        let hint = bounded(&tensor.name());
                        let request = AllocRequest::device(bytes, UsageType::Weight).hint(&hint);
                        Some(allocator.allocate(&request).map_err(|error| self.refused(tensor, error))?)
                    }
                };
                Ok(Placed { tensor, dmem })
            })
            .collect()
    }

    /// A tensor without memory: told with the runtime's report, whose files are written while
    /// everything that fills the device is still there.
    fn refused(&self, tensor: &Tensor, error: DmemError) -> Failure {
        let exit = match error {
            DmemError::OutOfDeviceMemory { .. } => Exit::DoesNotFit,
            _ => Exit::Device,
        };
        let why = format!(
            "tensor {} ({}) cannot be allocated",
            Shown(tensor.name()),
            exact_and_human(tensor.bytes())
        );
        let report = error.report().map(|report| {
            let files = report.write_files(&self.memory.events(), &DumpOptions::from_env());
            report.human() + &files.human()
        });
        let failure = Failure::because(exit, why, error);
        match report {
            Some(report) => failure.with_report(report),
            None => failure,
        }
    }

    fn copy(&self, placed: &Placed<'_>) -> Result<(), Failure> {
        let (Some(dmem), Some(data)) = (&placed.dmem, placed.tensor.data()) else { return Ok(()) };
        self.progress.tensor(placed.tensor.name());
        placed.tensor.check_still_there()?;
        for (offset, len) in pieces(data.len()) {
            self.go_on()?;
            let piece = data.subslice(offset, len).map_err(|error| Failure::new(Exit::Input, error))?;
            dmem.write_volatile(offset as u64, piece).map_err(|error| transfer(placed.tensor, error))?;
            self.progress.advance(len as u64);
        }
        Ok(())
    }

    /// Compares digests, tensor by tensor.
    fn verify(&self, placed: &[Placed<'_>]) -> Result<Verification, Failure> {
        let mut buffer = vec![0; PIECE];
        let (mut source, mut loaded) = (Digest::new(), Digest::new());
        let (mut equal, mut different) = (0, Vec::new());
        for Placed { tensor, dmem } in placed {
            let (Some(dmem), Some(data)) = (dmem, tensor.data()) else { continue };
            self.progress.tensor(tensor.name());
            tensor.check_still_there()?;
            for (offset, len) in pieces(data.len()) {
                self.go_on()?;
                let Some(back) = buffer.get_mut(..len) else { continue };
                dmem.read(offset as u64, back).map_err(|error| transfer(tensor, error))?;
                loaded.update(back);
                let piece = data.subslice(offset, len).map_err(|error| Failure::new(Exit::Input, error))?;
                source.update_volatile(piece);
                self.progress.advance(len as u64);
            }
            match source.finish() == loaded.finish() {
                true => equal += 1,
                false => different.push(tensor.name().to_owned()),
            }
        }
        Ok(if different.is_empty() { Verification::Equal(equal) } else { Verification::Different(different) })
    }

    /// This process's device memory by core and category, as it was asked for.
    fn usage(&self) -> Vec<Usage> {
        let device = self.memory.device();
        let usage = self.memory.usage();
        let of = |core: u32, category: Aggregate| -> u64 {
            let usages = UsageType::ALL.iter().filter(|usage| usage.aggregate() == category);
            usages.map(|&usage_type| usage.core_usage(core, usage_type)).sum()
        };
        (0..device.geometry().cores)
            .flat_map(|core| Aggregate::ALL.iter().map(move |&category| (core, category)))
            .map(|(core, category)| Usage {
                device: device.facts().index.into(),
                hbm: device.geometry().hbm_of_core(core),
                core: Some(core),
                category: category.name().to_owned(),
                bytes: of(core, category),
            })
            .filter(|usage| usage.bytes > 0)
            .collect()
    }

    fn go_on(&self) -> Result<(), Failure> {
        if (self.stop)() { Err(Failure::new(Exit::Interrupted, "interrupted")) } else { Ok(()) }
    }
}

/// (offset, length) of the parts that are copied at a time.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len).step_by(PIECE).map(move |offset| (offset, PIECE.min(len - offset)))
}

fn transfer(tensor: &Tensor, error: DmemError) -> Failure {
    Failure::because(Exit::Device, format!("tensor {} cannot be copied", Shown(tensor.name())), error)
}
