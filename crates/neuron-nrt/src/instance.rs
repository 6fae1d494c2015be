//! Family and size of an instance type, as C numbers them (`spec/nrt-abi.md` 2, 7).

use neuron_abi::arch::Generation;

/// `NRT_INSTANCE_TRN1` and its neighbours that a device here can be.
pub(crate) mod family {
    pub(crate) const TRN1: u32 = 2;
    pub(crate) const TRN1N: u32 = 3;
    pub(crate) const INF2: u32 = 4;
    pub(crate) const TRN2: u32 = 5;
    pub(crate) const TRN3: u32 = 14;
}

/// `NRT_INSTANCE_SIZE_UNKNOWN`.
const SIZE_UNKNOWN: u32 = 9;

/// Family and size of an instance type by its name.
const BY_NAME: [(&str, u32, u32); 9] = [
    ("inf2.xlarge", family::INF2, 0),
    ("inf2.8xlarge", family::INF2, 4),
    ("inf2.24xlarge", family::INF2, 5),
    ("inf2.48xlarge", family::INF2, 7),
    ("trn1.2xlarge", family::TRN1, 1),
    ("trn1.32xlarge", family::TRN1, 6),
    ("trn1n.32xlarge", family::TRN1N, 6),
    ("trn2.3xlarge", family::TRN2, 8),
    ("trn2.48xlarge", family::TRN2, 7),
];

/// Family and size of a software machine.
pub(crate) fn named(name: &str) -> (u32, u32) {
    let found = BY_NAME.iter().find(|(known, ..)| *known == name);
    found.map_or((0, SIZE_UNKNOWN), |(_, family, size)| (*family, *size))
}

/// Family and size of a machine of which the product is known, as far as the driver tells it, and how
/// many devices there are. Where types differ in neither, the size is unknown (our choice).
pub(crate) fn counted(product: Option<&str>, generation: Generation, devices: usize) -> (u32, u32) {
    let family = match (generation, product) {
        (Generation::V2, Some("Inf2")) => family::INF2,
        (Generation::V2, _) => family::TRN1,
        (Generation::V3, _) => family::TRN2,
        (Generation::V4, _) => family::TRN3,
    };
    let size = match (family, devices) {
        (family::TRN1, 1) => 1,
        (family::TRN1, 16) => 6,
        (family::INF2, 6) => 5,
        (family::INF2, 12) => 7,
        (family::TRN2, 1) => 8,
        (family::TRN2, 16) => 7,
        _ => SIZE_UNKNOWN,
    };
    (family, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_software_machine_has_a_family_and_a_size() {
        for instance in neuron_ndl::software::INSTANCES {
            let (family, size) = named(instance.name);
            assert!(family != 0 && size != SIZE_UNKNOWN, "{}", instance.name);
        }
        assert_eq!(named("trn9.huge"), (0, SIZE_UNKNOWN));
    }

    #[test]
    fn a_machine_of_the_kernel_is_told_by_product_and_count() {
        assert_eq!(counted(Some("Trn1"), Generation::V2, 16), named("trn1.32xlarge"));
        assert_eq!(counted(Some("Inf2"), Generation::V2, 12), named("inf2.48xlarge"));
        assert_eq!(counted(Some("Inf2"), Generation::V2, 1), (family::INF2, SIZE_UNKNOWN));
        assert_eq!(counted(None, Generation::V3, 16), named("trn2.48xlarge"));
        assert_eq!(counted(Some("Trn3"), Generation::V4, 16), (family::TRN3, SIZE_UNKNOWN));
    }
}
