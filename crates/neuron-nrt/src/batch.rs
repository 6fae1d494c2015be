//! Many pieces of many tensors in one call (`spec/nrt-abi.md` 4.4, 7): everything is checked before
//! anything moves. After that an error stops it, and what came before stays done.

use neuron_dmem::batch::{self, Batch, Operation};
use neuron_dmem::{Dmem, DmemError};
use neuron_ndl::HostBytes;
use vm_memory::VolatileSlice;

use crate::refusal::Refusal;
use crate::tensor::View;

/// Pieces of a tensor: offsets in it, and the host's side.
pub(crate) struct Pieces<'a> {
    pub(crate) view: View,
    pub(crate) operations: Vec<Operation<VolatileSlice<'a>>>,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Copies all of them, in order.
pub(crate) fn run(batches: &[Pieces<'_>], direction: Direction) -> Result<(), Refusal> {
    if batches.is_empty() {
        return Err(DmemError::NoBatches.into());
    }
    for (number, pieces) in batches.iter().enumerate() {
        pieces.check().map_err(|refusal| Refusal { why: format!("batch {number}: {refusal}"), ..refusal })?;
    }
    let mut rest = batches;
    while let Some((first, others)) = rest.split_first() {
        let Some(dmem) = first.view.storage.on_device() else {
            first.one_by_one(direction)?;
            rest = others;
            continue;
        };
        // As many as one call of the driver can do: those of one device.
        let device = dmem.device();
        let is_same = |pieces: &&Pieces<'_>| {
            pieces.view.storage.on_device().is_some_and(|dmem| dmem.device() == device)
        };
        let count = rest.iter().take_while(is_same).count();
        let (together, others) = rest.split_at(count);
        by_the_device(together, direction)?;
        rest = others;
    }
    Ok(())
}

impl Pieces<'_> {
    fn check(&self) -> Result<(), Refusal> {
        if self.operations.is_empty() {
            return Err(Refusal::invalid("it has no operations"));
        }
        for (number, operation) in self.operations.iter().enumerate() {
            let bytes = operation.buffer.len() as u64;
            if bytes == 0 {
                return Err(Refusal::invalid(format!("operation {number} has no bytes; leave it out")));
            }
            let inside = self.view.check(operation.offset, bytes);
            inside.map_err(|refusal| Refusal { why: format!("operation {number}: {refusal}"), ..refusal })?;
        }
        Ok(())
    }

    fn one_by_one(&self, direction: Direction) -> Result<(), Refusal> {
        self.operations.iter().try_for_each(|operation| match direction {
            Direction::Read => self.view.read(operation.offset, operation.buffer),
            Direction::Write => self.view.write(operation.offset, operation.buffer),
        })
    }

    fn on_device(&self) -> Option<(&Dmem, u64)> {
        self.view.storage.on_device().map(|dmem| (dmem, self.view.offset))
    }
}

fn by_the_device(batches: &[Pieces<'_>], direction: Direction) -> Result<(), Refusal> {
    match direction {
        Direction::Read => {
            let batches: Vec<_> = batches
                .iter()
                .filter_map(|pieces| {
                    let (dmem, offset) = pieces.on_device()?;
                    Some(Batch { dmem, offset, operations: &pieces.operations })
                })
                .collect();
            Ok(batch::copy_out(&batches)?)
        }
        Direction::Write => {
            let written: Vec<Vec<_>> = batches
                .iter()
                .map(|pieces| {
                    let operations = pieces.operations.iter();
                    operations
                        .map(|Operation { offset, buffer }| Operation {
                            offset: *offset,
                            buffer: HostBytes::Volatile(*buffer),
                        })
                        .collect()
                })
                .collect();
            let batches: Vec<_> = batches
                .iter()
                .zip(&written)
                .filter_map(|(pieces, operations)| {
                    let (dmem, offset) = pieces.on_device()?;
                    Some(Batch { dmem, offset, operations: operations.as_slice() })
                })
                .collect();
            Ok(batch::copy_in(&batches)?)
        }
    }
}
