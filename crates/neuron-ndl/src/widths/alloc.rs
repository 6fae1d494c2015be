//! Allocation: 56, 48 and 40 bytes, and number 21.

use neuron_abi::arg::{self, MemAllocV2MemType64};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;

use crate::compat::ALLOC_FORMS;
use crate::error::{Detail, NdlError};
use crate::open::OpenDevice;

const OPERATION: &str = "allocating memory";

impl OpenDevice {
    /// Allocates, and returns the driver's handle.
    ///
    /// Forms older than the 56-byte one refuse 4 GiB and more, although their size has 64 bits:
    /// the driver behind them cannot copy to all of it (our reading of `spec/ndl.md` 3). A form
    /// without a category drops it; the one without an alignment refuses any.
    pub(crate) fn allocate(&self, wanted: &MemAllocV2MemType64) -> Result<u64, NdlError> {
        let attempt = |rung| self.allocate_as(rung, wanted);
        self.compat.alloc.call(attempt, |rung| self.compat.switched(&ALLOC_FORMS, rung))
    }

    fn allocate_as(&self, rung: u8, wanted: &MemAllocV2MemType64) -> Result<u64, NdlError> {
        let MemAllocV2MemType64 {
            size, align, host_memory, dram_channel, dram_region, nc_id, mem_type, ..
        } = *wanted;
        if rung > 0 {
            self.narrow(OPERATION, size)?;
        }
        let mut handle = 0_u64;
        let mem_handle = &raw mut handle as u64;
        match rung {
            0 => {
                let argument = MemAllocV2MemType64 { mem_handle, ..*wanted };
                // SAFETY: `mem_handle` points to a local u64 that outlives the call.
                unsafe { self.call(OPERATION, cmd::MEM_ALLOC_V2MT64, argument) }?;
            }
            1 => {
                let argument = arg::MemAllocV2MemType {
                    size,
                    align,
                    host_memory,
                    dram_channel,
                    dram_region,
                    nc_id,
                    mem_type,
                    mem_handle,
                    ..Default::default()
                };
                // SAFETY: as above.
                unsafe { self.call(OPERATION, cmd::MEM_ALLOC_V2MT, argument) }?;
            }
            2 => {
                let argument = arg::MemAllocV2 {
                    size,
                    align,
                    host_memory,
                    dram_channel,
                    dram_region,
                    nc_id,
                    mem_handle,
                };
                // SAFETY: as above.
                unsafe { self.call(OPERATION, cmd::MEM_ALLOC_V2, argument) }?;
            }
            _ => {
                if align != 0 {
                    return Err(self.failed(OPERATION, Errno::EINVAL).with(Detail::NoAlignment));
                }
                let argument =
                    arg::MemAlloc { size, host_memory, dram_channel, dram_region, nc_id, mem_handle };
                // SAFETY: as above.
                unsafe { self.call(OPERATION, cmd::MEM_ALLOC, argument) }?;
            }
        }
        Ok(handle)
    }
}
