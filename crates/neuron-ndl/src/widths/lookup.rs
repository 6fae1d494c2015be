//! The chunk at an address: with its handle, and without.

use neuron_abi::arg::{self, MemGetMcMmapInfoV2};
use neuron_abi::cmd;
use neuron_abi::errno::Errno;

use crate::compat::LOOKUP_FORMS;
use crate::error::{Detail, NdlError};
use crate::open::OpenDevice;

const OPERATION: &str = "looking up an address";

impl OpenDevice {
    /// The chunk that holds `pa`. Its handle is 0 if the driver does not tell it.
    pub(crate) fn lookup(&self, pa: u64) -> Result<MemGetMcMmapInfoV2, NdlError> {
        let attempt = |rung| match rung {
            0 => {
                let argument = MemGetMcMmapInfoV2 { pa, ..Default::default() };
                // SAFETY: the argument holds no user address.
                unsafe { self.call(OPERATION, cmd::MEM_MC_GET_INFO_V2, argument) }
            }
            _ => {
                let argument = arg::MemGetMcMmapInfo { pa, ..Default::default() };
                // SAFETY: as above.
                let answer = unsafe { self.call(OPERATION, cmd::MEM_MC_GET_INFO, argument) }?;
                let arg::MemGetMcMmapInfo { pa, mmap_offset, size } = answer;
                Ok(MemGetMcMmapInfoV2 { pa, mmap_offset, size, mem_handle: 0 })
            }
        };
        let answer = self.compat.lookup.call(attempt, |rung| self.compat.switched(&LOOKUP_FORMS, rung));
        // What lies in no chunk is ENOMEM, so a driver that has the command never says EINVAL.
        answer.map_err(|error| match error.errno {
            Errno::EINVAL => error.with(Detail::NoCommand(cmd::MEM_MC_GET_INFO.name)),
            _ => error,
        })
    }
}
