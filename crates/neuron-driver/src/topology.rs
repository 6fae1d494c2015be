//! Which node number a device gets, and who its neighbours are (`spec/arch.md` 8).
//! Tables only.

use neuron_abi::arch::{Generation, Product};

const TRN1_INDEX: [u8; 16] = [0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10];
const TORUS_INDEX: [u8; 16] = [0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10];

/// Routing ids from this one on are refused.
pub const ROUTING_ID_LIMIT: u32 = 64;

/// Node number of a device by its routing id.
pub fn device_index(product: &Product, routing_id: u32) -> Option<u8> {
    if routing_id >= ROUTING_ID_LIMIT {
        return None;
    }
    let (row, id) = (routing_id as usize % 16, routing_id as u8);
    match product.instance {
        "Inf2" => Some(id),
        "Trn1" => TRN1_INDEX.get(row).map(|index| index + id / 16 * 16),
        _ => TORUS_INDEX.get(row).copied(),
    }
}

/// Routing id of a node number: the inverse of [`device_index`].
pub fn routing_id(product: &Product, index: u8) -> Option<u32> {
    (0..ROUTING_ID_LIMIT).find(|&id| device_index(product, id) == Some(index))
}

const TRN1_NEIGHBOURS: [[u8; 4]; 16] = [
    [12, 3, 4, 1],
    [13, 0, 5, 2],
    [14, 1, 6, 3],
    [15, 2, 7, 0],
    [0, 7, 8, 5],
    [1, 4, 9, 6],
    [2, 5, 10, 7],
    [3, 6, 11, 4],
    [4, 11, 12, 9],
    [5, 8, 13, 10],
    [6, 9, 14, 11],
    [7, 10, 15, 8],
    [8, 15, 0, 13],
    [9, 12, 1, 14],
    [10, 13, 2, 15],
    [11, 14, 3, 12],
];

const TORUS_NEIGHBOURS: [[u8; 4]; 16] = [
    [12, 1, 3, 4],
    [0, 13, 5, 2],
    [14, 3, 1, 6],
    [2, 15, 7, 0],
    [8, 5, 7, 0],
    [4, 9, 1, 6],
    [10, 7, 5, 2],
    [6, 11, 3, 4],
    [4, 9, 11, 12],
    [8, 5, 13, 10],
    [6, 11, 9, 14],
    [10, 7, 15, 8],
    [0, 13, 15, 8],
    [12, 1, 9, 14],
    [2, 15, 13, 10],
    [14, 3, 11, 12],
];

/// Devices connected to `index` in a machine of `count` devices; none for counts that
/// the tables do not know.
pub fn neighbours(product: &Product, index: u8, count: u8) -> Vec<u8> {
    let rows = |table: &[[u8; 4]; 16]| {
        let row = table.get(usize::from(index % 16)).copied().unwrap_or_default();
        row.map(|neighbour| neighbour | index & 0x10).to_vec()
    };
    match (product.instance, count) {
        ("Inf2", 12) => vec![(index + 11) % 12, (index + 1) % 12],
        ("Inf2", 6) => {
            let before = index.checked_sub(1);
            let after = Some(index + 1).filter(|after| *after < 6);
            before.into_iter().chain(after).collect()
        }
        ("Trn1", count) if count > 0 && count % 16 == 0 => rows(&TRN1_NEIGHBOURS),
        ("Trn2" | "Trn3", count) if count > 0 && count % 16 == 0 => rows(&TORUS_NEIGHBOURS),
        _ => Vec::new(),
    }
}

/// Physical cores of a device in logical order; which row a device uses follows from
/// bits 0 and 2 of its number.
const LOGICAL_CORES: [[u32; 8]; 4] =
    [[4, 5, 6, 7, 2, 3, 0, 1], [2, 3, 0, 1, 4, 5, 6, 7], [0, 1, 2, 3, 6, 7, 4, 5], [6, 7, 4, 5, 0, 1, 2, 3]];

/// (device, core on it) of each of 128 logical cores; none on V2.
pub fn logical_cores(generation: Generation) -> Option<impl Iterator<Item = (u32, u32)>> {
    if generation == Generation::V2 {
        return None;
    }
    Some((0..16_u32).flat_map(|device| {
        let row = (device >> 1 & 2 | device & 1) as usize;
        LOGICAL_CORES.get(row).copied().unwrap_or_default().map(|core| (device, core))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_routing_ids_are_inverse() {
        for product in Product::ALL {
            for index in 0..16 {
                let id = routing_id(product, index).unwrap();
                assert_eq!(device_index(product, id), Some(index), "{}", product.instance);
            }
            assert_eq!(device_index(product, 64), None);
        }
    }

    #[test]
    fn a_line_of_six_has_two_ends() {
        assert_eq!(neighbours(&Product::INF2, 0, 6), [1]);
        assert_eq!(neighbours(&Product::INF2, 5, 6), [4]);
        assert_eq!(neighbours(&Product::INF2, 0, 12), [11, 1]);
        assert!(neighbours(&Product::INF2, 0, 1).is_empty());
    }

    #[test]
    fn links_have_two_ends() {
        for product in [&Product::TRN1, &Product::TRN2] {
            for index in 0..16 {
                for neighbour in neighbours(product, index, 16) {
                    assert!(neighbours(product, neighbour, 16).contains(&index), "{index} {neighbour}");
                }
            }
        }
    }
}
