//! What a device says of itself and its driver of itself, when it is opened.

use neuron_abi::arch::{CompatRange, Generation};
use neuron_abi::arg;
use neuron_abi::cmd::{self, Command};
use neuron_abi::errno::Errno;
use neuron_abi::features::Features;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::compat::Fallback;
use crate::error::{Detail, NdlError};
use crate::open::OpenDevice;
use crate::version;

/// What a device said of itself when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The N of `/dev/neuronN`.
    pub index: u8,
    /// Generation.
    pub generation: Generation,
    /// PCI revision.
    pub revision: u32,
    /// What the driver can do. None of it if the driver is too old to be asked.
    pub features: Features,
    /// Connected devices. None if the driver cannot list them, which is no failure
    /// (`spec/ndl.md` 5).
    pub neighbours: Vec<u32>,
}

impl DeviceFacts {
    /// Asks: device info, the driver's versions, its features. Tells the file's `compat`.
    ///
    /// # Errors
    /// The driver's errno; ENODEV for a generation we do not know; a driver that this program
    /// does not work with.
    pub(crate) fn ask(open: &OpenDevice) -> Result<Self, NdlError> {
        let device = device_info(open)?;
        let generation = Generation::from_raw(device.architecture)
            .ok_or_else(|| open.failed("a generation we do not know", Errno::ENODEV))?;
        let verdict = version::check(generation, versions(open)?);
        if !verdict.is_usable() {
            let operation = "checking the driver's version";
            return Err(open.failed(operation, Errno::EPROTONOSUPPORT).with(Detail::Versions(verdict)));
        }
        let features = features(open)?;
        let neighbours = device.connected_devices.into_iter().take(device.connected_device_count as usize);
        Ok(Self {
            index: open.index,
            generation,
            revision: device.revision,
            features: features.unwrap_or_default(),
            neighbours: neighbours.collect(),
        })
    }
}

/// Device info or, from a driver that has none or more neighbours than fit, the basic info.
fn device_info(open: &OpenDevice) -> Result<arg::DeviceInfo, NdlError> {
    let operation = "asking what the device is";
    if let Some(info) = if_served(open, operation, cmd::DEVICE_INFO, arg::DeviceInfo::default())? {
        return Ok(info);
    }
    // SAFETY: the argument holds no address.
    let basic = unsafe { open.call(operation, cmd::DEVICE_BASIC_INFO, arg::DeviceBasicInfo::default()) }?;
    open.compat.tell(Fallback::NoNeighbours);
    let arg::DeviceBasicInfo { architecture, revision } = basic;
    Ok(arg::DeviceInfo { architecture, revision, ..Default::default() })
}

/// The runtime ids that the driver works with; `None` if it does not say.
pub(crate) fn versions(open: &OpenDevice) -> Result<Option<CompatRange>, NdlError> {
    let operation = "asking for the driver's versions";
    let answer = if_served(open, operation, cmd::COMPATIBLE_VERSION, arg::CompatibleVersion::default())?;
    if answer.is_none() {
        open.compat.tell(Fallback::NoVersions);
    }
    Ok(answer.map(|arg::CompatibleVersion { max, min }| CompatRange { min, max }))
}

/// What the driver can do; `None` if it is too old to be asked.
fn features(open: &OpenDevice) -> Result<Option<Features>, NdlError> {
    let operation = "asking for the driver's features";
    let size = size_of::<arg::DeviceDriverInfo>() as u32;
    let argument = arg::DeviceDriverInfo { size, ..Default::default() };
    let features = if_served(open, operation, cmd::DRIVER_INFO_GET, argument)?
        .map(|info| Features::from_bits(info.feature_flags1));
    match features {
        Some(features) => open.compat.learn(features),
        None => open.compat.tell(Fallback::NoDriverInfo),
    }
    Ok(features)
}

/// Issues a discovery command whose argument holds no address. A driver that does not have it
/// says EINVAL (`spec/abi.md` 2.3): `None`.
fn if_served<T: IntoBytes + FromBytes + Immutable>(
    open: &OpenDevice,
    operation: &'static str,
    command: Command,
    argument: T,
) -> Result<Option<T>, NdlError> {
    // SAFETY: the three commands that come here have an argument without an address.
    match unsafe { open.call(operation, command, argument) } {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.errno == Errno::EINVAL => Ok(None),
        Err(error) => Err(error),
    }
}
