//! Copies between a chunk and user pages.

use neuron_abi::{arg, cmd, limits};
use vm_memory::Bytes;

use super::copies::same_bytes;
use super::{By, Outcome, Run, same};
use crate::machine::NOWHERE;
use crate::operation::Part;

const EFAULT: i64 = -14;
/// Where in a page the user's bytes start.
const START: u64 = 1234;
/// Bytes that go through the HBM window at most.
const DIRECT_MAX: u64 = 8192;

/// A zero-copy as a process asks for it.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) part: Part,
    pub(super) len: u32,
    pub(super) to_device: bool,
    pub(super) queue: Option<u8>,
    pub(super) direct: u16,
    pub(super) mapped: bool,
}

impl Run {
    pub(super) fn zero_copy(&mut self, by: By, asked: Asked, bytes: &[u8]) -> Outcome {
        let Asked { part, len, to_device, queue, direct, mapped } = asked;
        let fresh = if to_device { bytes.to_vec() } else { vec![0; bytes.len()] };
        let user = self.machine.pages.bytes(START, len.into()).map_err(|error| error.to_string())?;
        user.write_slice(&fresh, 0).map_err(|error| error.to_string())?;
        let argument = arg::MemBufCopy64Zc {
            mem_handle: self.handle(part.chunk),
            buffer: if mapped { self.machine.pages.address() + START } else { NOWHERE },
            size: len.into(),
            offset: part.offset.into(),
            is_copy_to_device: to_device.into(),
            bar4_wr_threshold: direct.into(),
            h2t_qid: queue.map_or(limits::DEFAULT_H2T_QUEUE, i32::from),
            dummy: 0,
        };
        let ret = self.call_with_pages(by, &cmd::MEM_BUF_ZEROCOPY64, &argument);
        let place = self.zero_copy_place(by, asked);
        same("zero-copy", ret, place.map_or_else(|errno| errno, |_| 0))?;
        same("pages that stay pinned", self.machine.pages.pinned(), 0)?;
        let Ok(pa) = place else { return Ok(()) };
        if to_device {
            let bytes: Vec<u16> = bytes.iter().map(|&byte| byte.into()).collect();
            self.model.memory.write(pa, &bytes);
            return Ok(());
        }
        let mut read = vec![0; len as usize];
        let user = self.machine.pages.bytes(START, len.into()).map_err(|error| error.to_string())?;
        user.read_slice(&mut read, 0).map_err(|error| error.to_string())?;
        same_bytes("bytes read without a bounce", pa, &read, &self.model.memory.read(pa, len.into()))
    }

    /// What a zero-copy should answer, and where in the chunk it is.
    fn zero_copy_place(&mut self, by: By, asked: Asked) -> Result<u64, i64> {
        let Asked { part, len, to_device, queue, direct, mapped } = asked;
        self.refusal(by, true)?;
        let (offset, len) = (u64::from(part.offset), u64::from(len));
        let chunk = self.model.memory.part(self.handle(part.chunk), offset, len)?;
        if !mapped {
            return Err(EFAULT);
        }
        let window = to_device && !chunk.wanted.host && len <= DIRECT_MAX.min(direct.into());
        if !(window && len % 4 == 0 && offset % 4 == 0) {
            self.model.queues.zero_copy(chunk.wanted.core, queue.map(u32::from))?;
        }
        Ok(chunk.pa + offset)
    }
}
