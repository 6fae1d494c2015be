//! The PCI bus and the kernel module.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use neuron_abi::arch::{Product, VENDOR_ID};

use super::check::{Check, Status, devices};
use super::container;
use super::roots::{self, Roots};

/// PCI device ids of Inferentia1 (`spec/device.md` 1), which no driver here serves.
const INFERENTIA1: std::ops::RangeInclusive<u16> = 0x7064..=0x7067;

/// What the bus has.
#[derive(Default)]
pub(super) struct Bus {
    /// How many of each product.
    products: BTreeMap<&'static str, usize>,
    /// Devices of a generation that is not served.
    too_old: usize,
    /// Addresses that another driver has, or none, with which.
    strangers: Vec<(String, Option<String>)>,
}

impl Bus {
    pub(super) fn look(roots: &Roots) -> Self {
        let folder = roots.sys.join("bus/pci/devices");
        let mut bus = Self::default();
        for name in roots::names(&folder) {
            let at = folder.join(&name);
            let id = |file: &str| roots::first_line(&at.join(file)).and_then(|line| hexadecimal(&line));
            let (Some(vendor), Some(device)) = (id("vendor"), id("device")) else { continue };
            if vendor == VENDOR_ID && INFERENTIA1.contains(&device) {
                bus.too_old += 1;
            }
            let Some(product) = Product::from_pci(vendor, device) else { continue };
            *bus.products.entry(product.device_name).or_default() += 1;
            let driver = std::fs::read_link(at.join("driver")).ok();
            let driver = driver.as_deref().and_then(|link| link.file_name());
            if driver != Some(OsStr::new("neuron")) {
                let driver = driver.map(|driver| crate::environment::printable(&driver.to_string_lossy()));
                bus.strangers.push((crate::environment::printable(&name.to_string_lossy()), driver));
            }
        }
        bus
    }

    pub(super) fn is_empty(&self) -> bool {
        self.products.is_empty()
    }

    fn words(&self) -> String {
        let counted: Vec<String> =
            self.products.iter().map(|(name, count)| format!("{count} {name}")).collect();
        counted.join(", ")
    }
}

fn hexadecimal(line: &str) -> Option<u16> {
    u16::from_str_radix(line.strip_prefix("0x")?, 16).ok()
}

/// Whether there is a device on the bus.
pub(super) fn bus(roots: &Roots, bus: &Bus, nodes: &[u8]) -> Check {
    const NAME: &str = "pci";
    if !bus.is_empty() {
        return Check::new(NAME, Status::Ok, format!("on the PCI bus: {}", bus.words()));
    }
    if !nodes.is_empty() {
        let found = "/sys shows no Neuron device on the PCI bus, though there are nodes: it is hidden here";
        return Check::new(NAME, Status::NotApplicable, found);
    }
    if bus.too_old > 0 {
        let found = format!("on the PCI bus: {} Inferentia1, which is not supported", bus.too_old);
        return Check::new(NAME, Status::Failed, found)
            .advice("use an instance of type inf2, trn1 or trn2, or the software backend");
    }
    let advice = match container::sign(roots) {
        Some(_) => {
            "look on the host: if it has devices, they have to be passed in; else use the software backend"
        }
        None => "use an instance of type inf2, trn1 or trn2, or the software backend",
    };
    Check::new(NAME, Status::Failed, "there is no Neuron device on the PCI bus").advice(advice)
}

/// Whether the module is loaded, and which; and whether it has the devices.
pub(super) fn module(roots: &Roots, bus: &Bus, nodes: &[u8]) -> Check {
    const NAME: &str = "module";
    let at = roots.sys.join("module/neuron");
    let inside = container::sign(roots).is_some();
    if std::fs::metadata(&at).is_err() {
        let found = "the kernel module neuron is not loaded";
        if !nodes.is_empty() {
            let found = format!("/sys/module/neuron is not there, though {} is", devices(nodes));
            return Check::new(NAME, Status::Warning, found).advice(
                "if opening fails too, the node is left over: load the module with `sudo modprobe neuron`",
            );
        }
        if bus.is_empty() {
            return Check::new(
                NAME,
                Status::NotApplicable,
                format!("{found}, and there is no device for it"),
            );
        }
        let advice = match inside {
            true => "load it on the host, `sudo modprobe neuron`, and pass the nodes into the container",
            false => {
                "`sudo modprobe neuron`; if there is no such module, install the package aws-neuronx-dkms"
            }
        };
        return Check::new(NAME, Status::Failed, found).advice(advice);
    }
    let version = match roots::first_line(&at.join("version")) {
        Some(version) => format!("version {version}"),
        None => "its version is not shown".to_owned(),
    };
    match bus.strangers.first() {
        None => Check::new(NAME, Status::Ok, format!("the kernel module neuron is loaded, {version}")),
        Some((address, driver)) => {
            let (count, all) = (bus.strangers.len(), bus.products.values().sum::<usize>());
            let of =
                driver.as_deref().map_or_else(|| "no driver".to_owned(), |driver| format!("driver {driver}"));
            let found = format!(
                "the kernel module neuron is loaded, {version}, but {count} of {all} devices are not its own: {address} \
                 has {of}"
            );
            let advice = match driver {
                Some(driver) => format!(
                    "give it back: `echo {address} | sudo tee /sys/bus/pci/drivers/{driver}/unbind`, then the same \
                     with neuron/bind"
                ),
                None => "`sudo dmesg | grep -i neuron` says why the driver did not take it".to_owned(),
            };
            let status = if count == all && nodes.is_empty() { Status::Failed } else { Status::Warning };
            Check::new(NAME, status, found).advice(advice)
        }
    }
}
