//! Allocation, free, lookup, mappings.

use neuron_abi::{arg, cmd};

use super::{By, Outcome, Run, same};
use crate::machine::{NOWHERE, RESULT};
use crate::model::memory::Wanted;
use crate::operation::{Form, Operation};

const EPERM: i64 = -1;
const ENOMEM: i64 = -12;
const EFAULT: i64 = -14;

impl Run {
    pub(super) fn memory(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Allocate { by, form, host, channel, core, size, align, category, told } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                let align = if matches!(form, Form::Oldest) { 0 } else { align.into() };
                let untyped = matches!(form, Form::Oldest | Form::Aligned);
                let category = if !untyped { category.into() } else { if host { 0 } else { 7 } };
                // Host memory by the gigabyte would be the machine's limit, not the driver's.
                let size = if host && (1 << 26..1 << 32).contains(&size) { size & 0xffff } else { size };
                let (channel, core) = (channel.into(), core.into());
                self.allocate(by, form, Wanted { size, align, host, channel, core, category }, told)
            }
            Operation::Free { by, chunk } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                let mem_handle = self.handle(chunk);
                let ret = self.call(by, &cmd::MEM_FREE, &mut arg::MemFree { mem_handle });
                let freed = self.refusal(by, true).and_then(|()| self.model.memory.free(mem_handle));
                same("free", ret, freed.map_or_else(|errno| errno, |()| 0))
            }
            Operation::Info { by, chunk } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.info(by, self.handle(chunk))
            }
            Operation::Locate { by, part } => {
                let Some(by) = self.by(by) else { return Ok(()) };
                self.locate(by, usize::from(part.chunk), part.offset.into())
            }
            Operation::Map { file, chunk, whole } => self.map(file, self.handle(chunk), whole),
            Operation::Unmap { mapping } => {
                if let Some(index) = usize::from(mapping).checked_rem(self.mappings.len()) {
                    let (id, mapped) = self.mappings.swap_remove(index);
                    drop(mapped);
                    self.model.memory.let_go(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn allocate(&mut self, by: By, form: Form, wanted: Wanted, told: bool) -> Outcome {
        self.machine.space.map(RESULT, vec![0; 8]);
        let Wanted { size, align, channel, core, category, .. } = wanted;
        let (host_memory, dram_channel, nc_id, mem_type) = (wanted.host.into(), channel, core, category);
        let mem_handle = if told { RESULT } else { NOWHERE };
        let ret = match form {
            Form::Oldest => {
                let mut argument = arg::MemAlloc {
                    size,
                    host_memory,
                    dram_channel,
                    nc_id,
                    mem_handle,
                    ..Default::default()
                };
                self.call(by, &cmd::MEM_ALLOC, &mut argument)
            }
            Form::Aligned => {
                let mut argument = arg::MemAllocV2 {
                    size,
                    align,
                    host_memory,
                    dram_channel,
                    nc_id,
                    mem_handle,
                    ..Default::default()
                };
                self.call(by, &cmd::MEM_ALLOC_V2, &mut argument)
            }
            Form::Typed => {
                let mut argument = arg::MemAllocV2MemType {
                    size,
                    align,
                    host_memory,
                    dram_channel,
                    nc_id,
                    mem_type,
                    mem_handle,
                    ..Default::default()
                };
                self.call(by, &cmd::MEM_ALLOC_V2MT, &mut argument)
            }
            Form::Wide => {
                let mut argument = arg::MemAllocV2MemType64 {
                    size,
                    align,
                    host_memory,
                    dram_channel,
                    nc_id,
                    mem_type,
                    mem_handle,
                    ..Default::default()
                };
                self.call(by, &cmd::MEM_ALLOC_V2MT64, &mut argument)
            }
        };
        let placed = self.refusal(by, true).and_then(|()| self.model.memory.place(&wanted));
        let place = match placed {
            Ok(place) if told => place,
            Ok(_) => return same("allocation whose handle cannot be told", ret, EFAULT),
            Err(errno) => return same("allocation", ret, errno),
        };
        same("allocation", ret, 0)?;
        let handle = self.machine.result();
        same("handle", handle, self.model.memory.next_handle())?;
        let chunk = self.machine.device.pools().lookup(handle).map_err(|errno| errno.to_string())?;
        match place {
            Some(pa) => same("place", chunk.pa(), pa)?,
            None => self.host_place(chunk.pa(), chunk.size())?,
        }
        self.model.memory.insert(wanted, chunk.pa(), by.pid);
        Ok(())
    }

    /// The system places host memory: by the page, tagged, and nowhere that is taken.
    fn host_place(&self, pa: u64, size: u64) -> Outcome {
        let geometry = self.machine.device.geometry();
        let apart =
            self.model.memory.chunks().all(|chunk| pa + size <= chunk.pa || chunk.pa + chunk.size <= pa);
        let good = pa.is_multiple_of(4096) && geometry.is_host_address(pa) && apart;
        if good { Ok(()) } else { Err(format!("host memory at {pa:#x}")) }
    }

    fn info(&self, by: By, mem_handle: u64) -> Outcome {
        let mut info = arg::MemGetExtendedInfo { mem_handle, ..Default::default() };
        let ret = self.call(by, &cmd::MEM_GET_EXTENDED_INFO, &mut info);
        let chunk = self.refusal(by, false).and_then(|()| self.model.memory.by_handle(mem_handle));
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(errno) => return same("information", ret, errno),
        };
        let expected = arg::MemGetExtendedInfo {
            mem_handle,
            version: 0,
            host_memory: chunk.wanted.host.into(),
            mmap_offset: chunk.pa,
            pa: chunk.pa,
            pid: u64::from(chunk.pid.cast_unsigned()),
            size: chunk.size,
        };
        same("information", (ret, info), (0, expected))
    }

    /// Any chunk that lives is found by its addresses; one that was freed has no handle to give.
    fn locate(&self, by: By, pick: usize, offset: u64) -> Outcome {
        let living: Vec<_> = self.model.memory.chunks().copied().collect();
        let Some(index) = pick.checked_rem(living.len()) else { return Ok(()) };
        let chunk = living[index];
        let mut info = arg::MemGetMcMmapInfoV2 { pa: chunk.pa + offset % chunk.size, ..Default::default() };
        let asked = info;
        let ret = self.call(by, &cmd::MEM_MC_GET_INFO_V2, &mut info);
        match self.refusal(by, false) {
            Err(errno) => same("chunk by address", ret, errno),
            Ok(()) if chunk.handle == 0 => same("freed chunk by address", ret, ENOMEM),
            Ok(()) => {
                let expected = arg::MemGetMcMmapInfoV2 {
                    mmap_offset: chunk.pa,
                    size: chunk.size,
                    mem_handle: chunk.handle,
                    ..asked
                };
                same("chunk by address", (ret, info), (0, expected))
            }
        }
    }

    fn map(&mut self, file: u8, handle: u64, whole: bool) -> Outcome {
        let Some(index) = usize::from(file).checked_rem(self.files.len()) else { return Ok(()) };
        let Ok(chunk) = self.model.memory.by_handle(handle) else { return Ok(()) };
        let file = &self.files[index].file;
        let bytes = if whole { chunk.size } else { chunk.size + 4096 };
        match file.mmap(chunk.pa, bytes) {
            Ok(mapped) if whole => {
                same("may be written", mapped.writable, chunk.pid == file.pid())?;
                self.model.memory.hold(chunk.id);
                self.mappings.push((chunk.id, mapped));
                Ok(())
            }
            // Of the scratchpad more than a page may be mapped at once.
            Ok(_) if chunk.wanted.category == 19 => Ok(()),
            Ok(_) => Err("more than a chunk was mapped".to_owned()),
            Err(errno) => same("mapping", (i64::from(errno.negated()), whole), (EPERM, false)),
        }
    }
}
