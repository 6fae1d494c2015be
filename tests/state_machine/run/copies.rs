//! Copies, fills, buffers, waits.

use neuron_abi::{arg, cmd};

use super::zero_copy::Asked;
use super::{By, Outcome, Run, same};
use crate::machine::{BUFFER, NOWHERE};
use crate::model::memory::ANY;
use crate::model::{Ends, Trouble};
use crate::operation::{Operation, Part};

const EFAULT: i64 = -14;

/// Both ends of a copy as a process names them.
#[derive(Clone, Copy)]
struct Named {
    handles: [u64; 2],
    offsets: [u64; 2],
    len: u32,
}

fn answer(result: Result<(), i64>) -> i64 {
    result.map_or_else(|errno| errno, |()| 0)
}

impl Run {
    pub(super) fn copies(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Write { by, to, len, seed, wide, mapped } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.write(by, to, &pattern(seed, len), wide, mapped)
            }
            Operation::ZeroCopy { by, part, len, seed, to_device, queue, direct, mapped } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                let asked = Asked { part, len, to_device, queue, direct, mapped };
                self.zero_copy(by, asked, &pattern(seed, len))
            }
            Operation::Read { by, from, len, wide } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.read(by, from, len, wide)
            }
            Operation::Fill { by, to, len, value, wide } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.fill(by, to, len, value, wide)
            }
            Operation::Copy { by, from, to, len, wide, trouble } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.copy(by, self.named(from, to, len), wide, trouble)
            }
            Operation::CopyAsync { by, from, to, len, previous, wide } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.copy_async(by, self.named(from, to, len), previous, wide).map(drop)
            }
            Operation::Troubled { by, from, to, len, trouble } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.troubled(by, self.named(from, to, len), trouble)
            }
            Operation::Wait { by, chunks, handle } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.wait(by, chunks.map(|pick| self.handle(pick)), handle, None)
            }
            _ => Ok(()),
        }
    }

    fn named(&self, from: Part, to: Part, len: u32) -> Named {
        let handles = [from, to].map(|part| self.handle(part.chunk));
        Named { handles, offsets: [from.offset.into(), to.offset.into()], len }
    }

    fn buffer(&self, by: By, to: Part, buffer: u64, size: u32, wide: bool, copy_to_mem_handle: u32) -> i64 {
        let (mem_handle, offset) = (self.handle(to.chunk), to.offset.into());
        if wide {
            let size = size.into();
            let mut argument = arg::MemBufCopy64 {
                mem_handle,
                buffer,
                size,
                offset: u64::from(offset),
                copy_to_mem_handle,
                ..Default::default()
            };
            return self.call(by, &cmd::MEM_BUF_COPY64, &mut argument);
        }
        let mut argument =
            arg::MemBufCopy { mem_handle, buffer, size, offset, copy_to_mem_handle, ..Default::default() };
        self.call(by, &cmd::MEM_BUF_COPY, &mut argument)
    }

    /// What a copy between a buffer and a chunk should answer, and where in the chunk it is.
    /// Device memory takes the core's ring, host memory none.
    fn buffer_place(&self, by: By, part: Part, len: u32, mapped: bool) -> Result<u64, i64> {
        self.refusal(by, true)?;
        let chunk = self.model.memory.part(self.handle(part.chunk), part.offset.into(), len.into())?;
        if len > 0 && !mapped {
            return Err(EFAULT);
        }
        if len > 0 && !chunk.wanted.host {
            self.model.queues.copy_ring(chunk.wanted.core)?;
        }
        Ok(chunk.pa + u64::from(part.offset))
    }

    fn write(&mut self, by: By, to: Part, bytes: &[u8], wide: bool, mapped: bool) -> Outcome {
        self.machine.space.map(BUFFER, bytes.to_vec());
        let len = bytes.len() as u32;
        let ret = self.buffer(by, to, if mapped { BUFFER } else { NOWHERE }, len, wide, 1);
        let place = self.buffer_place(by, to, len, mapped);
        same("writing", ret, answer(place.map(drop)))?;
        if let Ok(pa) = place {
            let bytes: Vec<u16> = bytes.iter().map(|&byte| byte.into()).collect();
            self.model.memory.write(pa, &bytes);
        }
        Ok(())
    }

    fn read(&self, by: By, from: Part, len: u32, wide: bool) -> Outcome {
        self.machine.space.map(BUFFER, vec![0; len as usize]);
        let ret = self.buffer(by, from, BUFFER, len, wide, 0);
        let place = self.buffer_place(by, from, len, true);
        same("reading", ret, answer(place.map(drop)))?;
        let Ok(pa) = place else { return Ok(()) };
        let bytes = self.machine.space.bytes(BUFFER, len as usize).map_err(|errno| errno.to_string())?;
        same_bytes("bytes read", pa, &bytes, &self.model.memory.read(pa, len.into()))
    }

    fn fill(&mut self, by: By, to: Part, len: u32, value: u32, wide: bool) -> Outcome {
        let (mem_handle, offset) = (self.handle(to.chunk), to.offset.into());
        let ret = if wide {
            let size = len.into();
            let mut argument = arg::Memset64 { mem_handle, offset, value, size, ..Default::default() };
            self.call(by, &cmd::MEMSET64, &mut argument)
        } else {
            let mut argument = arg::Memset { mem_handle, offset, value, size: len };
            self.call(by, &cmd::MEMSET, &mut argument)
        };
        let place = self.refusal(by, true).and_then(|()| {
            let chunk = self.model.memory.part(mem_handle, offset, len.into())?;
            // Host memory too is filled by an engine.
            if len > 0 {
                self.model.queues.copy_ring(chunk.wanted.core)?;
            }
            Ok(chunk.pa + offset)
        });
        same("filling", ret, answer(place.map(drop)))?;
        if let Ok(pa) = place {
            self.model.memory.write(pa, &vec![u16::from(value as u8); len as usize]);
        }
        Ok(())
    }

    fn ends(&self, by: By, named: Named) -> Result<Ends, i64> {
        self.refusal(by, true)?;
        self.model.ends(named.handles, named.offsets, named.len.into())
    }

    fn copy(&mut self, by: By, named: Named, wide: bool, trouble: Option<Trouble>) -> Outcome {
        let Named { handles: [src_mem_handle, dst_mem_handle], offsets: [src_offset, dst_offset], len } =
            named;
        let (ends, now) = (self.ends(by, named), self.machine.now());
        let (core, expected) = match ends {
            Ok(ends) => {
                let core = self.model.sync_core(ends.chunks);
                (core, self.model.copy(core, &ends, trouble, now))
            }
            Err(errno) => (0, errno),
        };
        let fault = trouble.map(|trouble| self.machine.trouble(self.model.queues.ring(core), trouble));
        let ret = if wide {
            let size = len.into();
            let mut argument =
                arg::MemCopy64 { src_mem_handle, dst_mem_handle, size, src_offset, dst_offset };
            self.call(by, &cmd::MEM_COPY64, &mut argument)
        } else {
            let (src_offset, dst_offset) = (src_offset as u32, dst_offset as u32);
            let mut argument = arg::MemCopy {
                src_mem_handle,
                dst_mem_handle,
                size: len,
                src_offset,
                dst_offset,
                ..Default::default()
            };
            self.call(by, &cmd::MEM_COPY, &mut argument)
        };
        fault.map(|fault| self.machine.engines.faults().remove(fault));
        same("copy", ret, expected)
    }

    /// Starts a copy and returns its handle, `None` if it was refused.
    fn copy_async(&mut self, by: By, named: Named, previous: u32, wide: bool) -> Result<Option<u32>, String> {
        let Named { handles: [src_mem_handle, dst_mem_handle], offsets: [src_offset, dst_offset], len } =
            named;
        let expected = match self.ends(by, named) {
            Ok(ends) => self.model.copy_async(&ends, previous, by.pid),
            Err(errno) => (errno, 0),
        };
        let (ret, handle) = if wide {
            let mut argument = arg::MemCopyAsync64 {
                src_mem_handle,
                dst_mem_handle,
                size: len.into(),
                src_offset,
                dst_offset,
                pwait_handle: previous,
                ..Default::default()
            };
            (self.call(by, &cmd::MEM_COPY_ASYNC64, &mut argument), argument.wait_handle)
        } else {
            let (src_offset, dst_offset) = (src_offset as u32, dst_offset as u32);
            let mut argument = arg::MemCopyAsync {
                src_mem_handle,
                dst_mem_handle,
                size: len,
                src_offset,
                dst_offset,
                pwait_handle: previous,
                ..Default::default()
            };
            (self.call(by, &cmd::MEM_COPY_ASYNC, &mut argument), argument.wait_handle)
        };
        same("asynchronous copy", (ret, handle), expected)?;
        Ok((ret == 0).then_some(handle))
    }

    fn wait(&mut self, by: By, handles: [u64; 2], handle: u32, trouble: Option<(Trouble, u64)>) -> Outcome {
        let [src_mem_handle, dst_mem_handle] = handles;
        let mut argument = arg::MemCopyAsyncWait {
            src_mem_handle,
            dst_mem_handle,
            pwait_handle: handle,
            ..Default::default()
        };
        let ret = self.call(by, &cmd::MEM_COPY_ASYNC_WAIT, &mut argument);
        let chunks = self.refusal(by, true).and_then(|()| self.model.ends(handles, [0; 2], 0));
        let (trouble, started) = trouble.unzip();
        let expected = match chunks {
            Ok(ends) => self.model.wait(ends.chunks, handle, by.pid, trouble, started.unwrap_or_default()),
            Err(errno) => errno,
        };
        same("wait", ret, expected)
    }

    /// A copy that meets trouble, and the wait that finds out.
    fn troubled(&mut self, by: By, named: Named, trouble: Trouble) -> Outcome {
        let Ok(ends) = self.ends(by, named) else { return Ok(()) };
        let ring = self.model.queues.ring(self.model.async_core(ends.chunks));
        let (fault, started) = (self.machine.trouble(ring, trouble), self.machine.now());
        let outcome = self.copy_async(by, named, u32::MAX, true).and_then(|handle| match handle {
            Some(handle) => self.wait(by, named.handles, handle, Some((trouble, started))),
            None => Ok(()),
        });
        self.machine.engines.faults().remove(fault);
        outcome
    }
}

/// Bytes that tell where they come from.
fn pattern(seed: u8, len: u32) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed).collect()
}

/// Bytes are what the model says, where it says anything.
pub(super) fn same_bytes(what: &str, pa: u64, ours: &[u8], model: &[u16]) -> Outcome {
    let wrong = ours.iter().zip(model).position(|(&ours, &model)| model != ANY && u16::from(ours) != model);
    match wrong {
        None => Ok(()),
        Some(at) => {
            Err(format!("{what}, {:#x}: driver {:#x}, model {:#x}", pa + at as u64, ours[at], model[at]))
        }
    }
}
