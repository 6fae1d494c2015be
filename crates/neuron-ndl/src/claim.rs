//! Cores claimed for a process, so that no other one takes them (`spec/abi.md` 8,
//! `spec/nrt-abi.md` 4.1), and the numbers that a machine's devices have.

use std::ops::Range;

use neuron_abi::arg;
use neuron_abi::cmd;
use neuron_abi::errno::Errno;
use zerocopy::IntoBytes as _;

use crate::backend::{Backend, Lane};
use crate::compat::Compat;
use crate::device::Device;
use crate::error::{Detail, NdlError};
use crate::open::OpenDevice;

/// Physical cores that are claimed, until it is dropped or the process ends.
#[derive(Debug)]
pub struct CoreClaim {
    cores: Range<u32>,
    /// Closing it gives the cores back.
    _open: OpenDevice,
}

/// Why cores were not claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Others have them.
    #[error(
        "{wanted} cores in a row are not free: others have some, and the longest free run is of {longest}"
    )]
    Busy {
        /// Cores asked for.
        wanted: u32,
        /// Cores of the longest free run.
        longest: u32,
    },
    /// Claiming failed.
    #[error(transparent)]
    Driver(#[from] NdlError),
}

impl CoreClaim {
    /// Claims the first free run of `count` of these physical cores. Cores are counted from core 0
    /// of the device `first`, which is asked on the lane that takes no process slot.
    ///
    /// # Errors
    /// [`ClaimError::Busy`] if there is no such run; EINVAL with [`Detail::NoCommand`] for cores
    /// that are not there, which a driver without the command says of all.
    pub fn take(
        backend: &dyn Backend,
        first: u8,
        within: Range<u32>,
        count: u32,
    ) -> Result<Self, ClaimError> {
        let operation = "claiming cores";
        let failed = |errno| NdlError::new(first, operation, errno);
        let file = backend.open(first, Lane::Misc).map_err(failed)?;
        let open = OpenDevice { file, index: first, compat: Compat::new(first, None) };
        let end = within.end.checked_sub(1).ok_or_else(|| failed(Errno::EINVAL))?;
        let mut asked = arg::CrwlNcMapExt { nc_count: count, start: within.start, end, ..Default::default() };
        // SAFETY: the argument holds no address.
        let claimed =
            unsafe { open.call_bytes(operation, cmd::CRWL_NC_RANGE_MARK_EXT0, asked.as_mut_bytes()) };
        match claimed {
            Ok(()) => {}
            Err(NdlError { errno: Errno::EBUSY, .. }) => {
                return Err(ClaimError::Busy { wanted: count, longest: asked.max_nc_available });
            }
            Err(error) if matches!(error.errno, Errno::EINVAL | Errno::ENOTTY) => {
                return Err(error.with(Detail::NoCommand(cmd::CRWL_NC_RANGE_MARK_EXT0.name)).into());
            }
            Err(error) => return Err(error.into()),
        }
        let is_set = |core: &u32| {
            let word = asked.bitmap.get(*core as usize / 64).copied().unwrap_or(0);
            word >> (core % 64) & 1 == 1
        };
        let start = within.clone().find(is_set).unwrap_or(within.start);
        Ok(Self { cores: start..start.saturating_add(count), _open: open })
    }

    /// The cores.
    pub const fn cores(&self) -> &Range<u32> {
        &self.cores
    }
}

impl Device {
    /// The number that the driver gives to this device (`HOST_DEVICE_ID`).
    ///
    /// # Errors
    /// The driver's errno.
    pub fn host_device_id(&self) -> Result<u32, NdlError> {
        // SAFETY: the argument holds no address.
        unsafe { self.open_file().call("asking for the device's number", cmd::HOST_DEVICE_ID, 0_u32) }
    }

    /// The routing ids of the machine's devices, by the numbers that the driver gives to them
    /// (`HOST_DEVICE_ID_TO_RID_MAP`).
    ///
    /// # Errors
    /// The driver's errno.
    pub fn routing_ids(&self) -> Result<Vec<u32>, NdlError> {
        let argument = arg::HostDeviceIdToRidMap::default();
        let operation = "asking for routing ids";
        // SAFETY: the argument holds no address.
        let answer = unsafe { self.open_file().call(operation, cmd::HOST_DEVICE_ID_TO_RID_MAP, argument) }?;
        Ok(answer.map.into_iter().take(answer.count as usize).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::software::Machine;

    #[test]
    fn claimed_cores_are_nobody_elses_until_the_claim_goes() {
        let machine = Machine::new("trn2.48xlarge").unwrap();
        let first = CoreClaim::take(&machine, 0, 0..128, 4).unwrap();
        assert_eq!(first.cores(), &(0..4));
        let beyond_a_word = CoreClaim::take(&machine, 0, 4..128, 100).unwrap();
        assert_eq!(beyond_a_word.cores(), &(4..104));
        let busy = CoreClaim::take(&machine, 0, 2..6, 2).unwrap_err();
        assert_eq!(busy, ClaimError::Busy { wanted: 2, longest: 0 });
        drop(first);
        assert_eq!(CoreClaim::take(&machine, 0, 0..128, 2).unwrap().cores(), &(0..2));
        for (within, count) in [(0..0, 1), (0..129, 1), (0..4, 0)] {
            let refused = CoreClaim::take(&machine, 0, within, count);
            assert!(matches!(refused, Err(ClaimError::Driver(error)) if error.errno == Errno::EINVAL));
        }
    }

    #[test]
    fn a_device_knows_its_number_and_the_routing_ids_of_all() {
        let machine = Machine::new("trn1.32xlarge").unwrap();
        let device = Device::open(&machine, 3).unwrap();
        assert_eq!(device.host_device_id(), Ok(3));
        let mut ids = device.routing_ids().unwrap();
        ids.sort_unstable();
        assert_eq!(ids, (0..16).collect::<Vec<_>>());
    }
}
