//! Which paths are the server's, and what is there (`spec/sysfs.md` 8).

/// A directory of the machine in which names of the server's are shown, and the machine's hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// `/dev`, in which there is `neuronN`.
    Dev,
    /// `/sys/class`.
    Class,
    /// `/sys/devices/virtual`.
    Virtual,
    /// `/sys/module`.
    Module,
}

impl Parent {
    pub(crate) const ALL: [Self; 4] = [Self::Dev, Self::Class, Self::Virtual, Self::Module];

    /// Its path.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Dev => "/dev",
            Self::Class => "/sys/class",
            Self::Virtual => "/sys/devices/virtual",
            Self::Module => "/sys/module",
        }
    }

    /// Whether a name in it is the server's.
    pub(crate) fn has(self, name: &[u8]) -> bool {
        match self {
            Self::Dev => device(name).is_some(),
            Self::Class | Self::Virtual => name == b"neuron_device",
            Self::Module => name == b"neuron",
        }
    }
}

/// What every path of the server's contains: by it most others are told apart at once.
pub(crate) const MARK: &std::ffi::CStr = c"neuron";

/// The number of `neuronN`: any, of a name that is one.
fn device(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(b"neuron")?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // A number that does not fit is a name that the picture has not.
    Some(std::str::from_utf8(digits).ok()?.parse().unwrap_or(u32::MAX))
}

/// Whether an absolute path without `.`, `..` and doubled slashes is the server's.
pub(crate) fn is_ours(path: &[u8]) -> bool {
    Parent::ALL.iter().any(|parent| {
        path.strip_prefix(parent.path().as_bytes())
            .and_then(|rest| rest.strip_prefix(b"/"))
            .and_then(|rest| rest.split(|&byte| byte == b'/').next())
            .is_some_and(|name| parent.has(name))
    })
}

/// A path of the server's as the kernel would know it: absolute, no links on the way, no dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(Vec<u8>);

impl Place {
    /// A path for which [`is_ours`] holds.
    pub(crate) const fn new(path: Vec<u8>) -> Self {
        Self(path)
    }

    /// The node of a device.
    pub(crate) fn of_device(index: u32) -> Self {
        Self(format!("/dev/neuron{index}").into_bytes())
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.0
    }

    /// Relative to the root.
    pub(crate) fn relative(&self) -> &[u8] {
        self.0.strip_prefix(b"/").unwrap_or(&self.0)
    }

    /// The device's number, of a node of a device.
    pub(crate) fn device(&self) -> Option<u32> {
        device(self.0.strip_prefix(b"/dev/")?)
    }

    /// What a file system there would be mounted at.
    pub(crate) fn mount(&self) -> &'static std::ffi::CStr {
        if self.0.starts_with(b"/dev/") { c"/dev" } else { c"/sys" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_paths_are_those_of_the_page_and_what_is_below() {
        for path in [
            "/dev/neuron0",
            "/dev/neuron63",
            "/dev/neuron0/x",
            "/sys/class/neuron_device",
            "/sys/class/neuron_device/neuron0",
            "/sys/devices/virtual/neuron_device/neuron3/neuron_core0/stats",
            "/sys/module/neuron",
            "/sys/module/neuron/version",
        ] {
            assert!(is_ours(path.as_bytes()), "{path}");
        }
        for path in [
            "/",
            "/dev",
            "/dev/neuron",
            "/dev/neuronx",
            "/dev/neuron1x",
            "/dev/x/neuron0",
            "/sys/class/neuron_devices",
            "/sys/class",
            "/sys/module/neuronx",
            "/home/neuron0",
            "/sys/class/net/neuron_device",
        ] {
            assert!(!is_ours(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_device_has_its_number_and_one_that_is_no_number_is_none_there_is() {
        assert_eq!(Place::new(b"/dev/neuron12".to_vec()).device(), Some(12));
        assert_eq!(Place::of_device(7), Place::new(b"/dev/neuron7".to_vec()));
        assert_eq!(Place::new(b"/dev/neuron99999999999".to_vec()).device(), Some(u32::MAX));
        assert_eq!(Place::new(b"/sys/class/neuron_device/neuron0".to_vec()).device(), None);
    }
}
