//! The catalogue of instance types: how many devices of which product a machine has.
//!
//! From the public product pages (`spec/arch.md`, "Instance types"). What a device looks like is
//! [`crate::geometry`]'s; this file only counts them.

use crate::config::DeviceConfig;
use crate::geometry::{Geometry, GeometryError, Product, REVISION_SILICON};

/// One instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance {
    /// Name as users write it, `trn2.48xlarge`.
    pub name: &'static str,
    /// Devices in the machine.
    pub devices: u8,
    /// Their product.
    pub product: Product,
}

/// Every instance type known.
pub const INSTANCES: &[Instance] = &[
    Instance { name: "inf2.xlarge", devices: 1, product: Product::Inf2 },
    Instance { name: "inf2.8xlarge", devices: 1, product: Product::Inf2 },
    Instance { name: "inf2.24xlarge", devices: 6, product: Product::Inf2 },
    Instance { name: "inf2.48xlarge", devices: 12, product: Product::Inf2 },
    Instance { name: "trn1.2xlarge", devices: 1, product: Product::Trn1 },
    Instance { name: "trn1.32xlarge", devices: 16, product: Product::Trn1 },
    Instance { name: "trn1n.32xlarge", devices: 16, product: Product::Trn1 },
    Instance { name: "trn2.3xlarge", devices: 1, product: Product::Trn2 },
    Instance { name: "trn2.48xlarge", devices: 16, product: Product::Trn2 },
];

impl Instance {
    /// The instance type called `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        INSTANCES.iter().find(|instance| instance.name == name)
    }

    /// Geometry of each of its devices.
    ///
    /// # Errors
    /// None in practice: silicon of a catalogued product always has a geometry.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        Geometry::new(self.product, REVISION_SILICON, 0)
    }

    /// Configuration of the device with routing id `routing_id`: serial numbers differ, everything else is
    /// the default. A machine has routing ids 0 to `devices` - 1; which node number a driver gives to an id
    /// is the driver's table.
    #[must_use]
    pub fn device_config(&self, routing_id: u8) -> DeviceConfig {
        let mut config = DeviceConfig::new(self.product);
        config.routing_id = u32::from(routing_id);
        config.serial += u64::from(routing_id);
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_all_is_the_published_figure() {
        for (name, gib) in [
            ("inf2.xlarge", 32),
            ("inf2.24xlarge", 192),
            ("inf2.48xlarge", 384),
            ("trn1.32xlarge", 512),
            ("trn2.3xlarge", 96),
            ("trn2.48xlarge", 1536),
        ] {
            let instance = Instance::by_name(name).unwrap();
            let each = instance.geometry().unwrap().hbm_bytes() >> 30;
            assert_eq!(each * u64::from(instance.devices), gib, "{name}");
        }
    }

    #[test]
    fn names_are_distinct_and_unknown_ones_are_refused() {
        for instance in INSTANCES {
            assert_eq!(Instance::by_name(instance.name), Some(instance));
        }
        assert_eq!(Instance::by_name("trn9.huge"), None);
    }

    #[test]
    fn devices_of_a_machine_differ_in_routing_id_and_serial() {
        let instance = Instance::by_name("trn1.32xlarge").unwrap();
        let (a, b) = (instance.device_config(0), instance.device_config(15));
        assert_eq!((a.routing_id, b.routing_id), (0, 15));
        assert_ne!(a.serial, b.serial);
    }
}
