//! The driver and the device read the sheets independently. Here they are held against
//! each other: same registers, same memory, same tags.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use neuron_driver::arch::Arch;
use neuron_softdev::geometry::{Geometry, QUEUES_PER_ENGINE, REVISION_SILICON, VENDOR_ID};
use neuron_softdev::{INSTANCES, Product};

fn both(product: Product) -> (&'static Arch, Geometry) {
    let driver = neuron_abi::arch::Product::from_pci(VENDOR_ID, product.device_id()).unwrap();
    (Arch::of(driver.generation), Geometry::new(product, REVISION_SILICON, 0).unwrap())
}

#[test]
fn engines_are_where_the_driver_looks_for_them() {
    for product in [Product::Trn1, Product::Inf2, Product::Trn2, Product::Trn3] {
        let (driver, device) = both(product);
        assert_eq!(driver.engines(), u32::from(device.engine_count()));
        for engine in 0..driver.engines() {
            let number = u16::try_from(engine).unwrap();
            let base = driver.engine_base(engine);
            assert_eq!(base, device.engine_base(number), "{product:?} engine {engine}");
            assert_eq!(device.engine_at(base.unwrap() + 0x1038), Some((number, 0x1038)));
            let wrapper = driver.engine_params(engine).unwrap().wrapper.unwrap();
            assert_eq!(device.engine_owning(wrapper), Some(number), "{product:?} wrapper {engine}");
        }
        assert_eq!(u32::from(QUEUES_PER_ENGINE), neuron_driver::arch::QUEUES);
        assert_eq!(driver.misc_ram, device.misc_ram);
    }
}

#[test]
fn memory_is_where_the_driver_allocates_it() {
    for product in [Product::Trn1, Product::Trn2, Product::Trn3] {
        let (driver, device) = both(product);
        let shared = driver.geometry();
        assert_eq!(shared.cores, u32::from(device.cores));
        assert_eq!(shared.hbm.len(), device.hbm.len());
        for (ours, theirs) in shared.hbm.iter().zip(&device.hbm) {
            assert_eq!((ours.base, ours.size), (theirs.address, theirs.size));
            assert_eq!(shared.bar4_offset(ours.base, ours.size), Some(theirs.bar4));
        }
        assert_eq!((shared.host_base, shared.host_mask), (device.host_tag, device.host_mask));
        let tagged = 0x1234_5000 | shared.host_base;
        assert!(shared.is_host_address(tagged));
        assert_eq!(device.host_address(tagged), Some(0x1234_5000));
    }
}

/// What PROGRAM_ENGINE may write is what the bus decodes, HBM aside.
#[test]
fn on_chip_regions_are_what_the_bus_decodes() {
    for product in [Product::Trn1, Product::Trn2] {
        let (driver, device) = both(product);
        let decoded = |address: u64| {
            device
                .on_chip
                .iter()
                .any(|block| block.bus.is_some_and(|bus| (bus..bus + block.size).contains(&address)))
        };
        for region in driver.geometry().on_chip {
            for address in [region.base, region.base + region.size - 1] {
                assert!(decoded(address), "{product:?} {address:#x}");
            }
            assert!(
                !decoded(region.base + region.size)
                    || driver.geometry().may_program(region.base + region.size, 1)
            );
        }
    }
}

#[test]
fn every_instance_type_has_a_driver() {
    for instance in INSTANCES {
        let product = neuron_abi::arch::Product::from_pci(VENDOR_ID, instance.product.device_id()).unwrap();
        for index in 0..instance.devices {
            assert!(neuron_driver::topology::routing_id(product, index).is_some(), "{}", instance.name);
        }
    }
}
