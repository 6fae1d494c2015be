//! Products: PCI ids, the generation behind them, and the strings a device shows (spec/arch.md 1).

use super::Generation;

/// PCI vendor id of all products.
pub const VENDOR_ID: u16 = 0x1D0F;

/// One product line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// PCI device ids.
    pub device_ids: &'static [u16],
    /// Hardware generation.
    pub generation: Generation,
    /// Suffix of the device's `arch_type`: "v2" shows as "NDv2".
    pub device_arch: &'static str,
    /// Suffix of a core's `arch_type`: "v2" shows as "NCv2".
    pub core_arch: &'static str,
    /// `instance_type`.
    pub instance: &'static str,
    /// `device_name`.
    pub device_name: &'static str,
}

impl Product {
    /// Trainium1.
    pub const TRN1: Product = Product {
        device_ids: &[0x7164],
        generation: Generation::V2,
        device_arch: "v2",
        core_arch: "v2",
        instance: "Trn1",
        device_name: "Trainium1",
    };

    /// Inferentia2: generation V2, although its device string says v3.
    pub const INF2: Product = Product {
        device_ids: &[0x7264],
        generation: Generation::V2,
        device_arch: "v3",
        core_arch: "v2",
        instance: "Inf2",
        device_name: "Inferentia2",
    };

    /// Trainium2.
    pub const TRN2: Product = Product {
        device_ids: &[0x7364],
        generation: Generation::V3,
        device_arch: "v3",
        core_arch: "v3",
        instance: "Trn2",
        device_name: "Trainium2",
    };

    /// Trainium3.
    pub const TRN3: Product = Product {
        device_ids: &[0x7564, 0x7565],
        generation: Generation::V4,
        device_arch: "v4",
        core_arch: "v4",
        instance: "Trn3",
        device_name: "Trainium3",
    };

    /// Every product.
    pub const ALL: &[Product] = &[Product::TRN1, Product::INF2, Product::TRN2, Product::TRN3];

    /// The product with these PCI ids.
    pub fn from_pci(vendor: u16, device: u16) -> Option<&'static Product> {
        if vendor != VENDOR_ID {
            return None;
        }
        Product::ALL.iter().find(|product| product.device_ids.contains(&device))
    }
}

/// What implements the device, told by the PCI revision id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// The chip.
    Silicon,
    /// The hardware emulator, revision 240.
    Emulator,
    /// The qemu model, revision 255.
    Qemu,
}

impl Target {
    /// Target behind a revision, as `revision` in the info structs carries it.
    pub const fn from_revision(revision: u32) -> Target {
        match revision {
            240 => Target::Emulator,
            255 => Target::Qemu,
            _ => Target::Silicon,
        }
    }
}
