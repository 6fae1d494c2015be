//! Any sequence of calls against a naive model: plain bytes, shared by those that share memory.

use std::cell::RefCell;
use std::rc::Rc;

use nrt::calls::{tensors, transfers};
use proptest::prelude::*;

use crate::common::*;

/// Bytes of the longest tensor: more than a staged copy's first threshold.
const MOST: usize = 40_000;

#[derive(Clone, Debug)]
enum Step {
    Allocate { placement: i32, core: i32, size: usize },
    Slice { of: usize, offset: usize, size: usize },
    Free { which: usize },
    Write { which: usize, offset: usize, len: usize, seed: u8 },
    Store { which: usize, at: usize, seed: u8 },
    Fill { which: usize, offset: usize, len: usize, value: u8 },
    Copy { from: usize, from_offset: usize, to: usize, to_offset: usize, len: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (which, place, len) = (0_usize..12, 0..MOST, 0..MOST);
    prop_oneof![
        2 => (prop_oneof![Just(DEVICE), Just(HOST), Just(VIRTUAL)], 0..2, 1..MOST)
            .prop_map(|(placement, core, size)| Step::Allocate { placement, core, size }),
        2 => (which.clone(), place.clone(), len.clone())
            .prop_map(|(of, offset, size)| Step::Slice { of, offset, size }),
        1 => which.clone().prop_map(|which| Step::Free { which }),
        2 => (which.clone(), place.clone(), len.clone(), any::<u8>())
            .prop_map(|(which, offset, len, seed)| Step::Write { which, offset, len, seed }),
        1 => (which.clone(), place.clone(), any::<u8>()).prop_map(|(which, at, seed)| Step::Store { which, at, seed }),
        1 => (which.clone(), place.clone(), len.clone(), any::<u8>())
            .prop_map(|(which, offset, len, value)| Step::Fill { which, offset, len, value }),
        3 => (which.clone(), place.clone(), which, place, len).prop_map(|(from, from_offset, to, to_offset, len)| {
            Step::Copy { from, from_offset, to, to_offset, len }
        }),
    ]
}

/// A tensor as the model has it.
#[derive(Clone)]
struct Known {
    handle: Handle,
    bytes: Rc<RefCell<Vec<u8>>>,
    start: usize,
    size: usize,
    on_device: Option<i32>,
}

impl Known {
    fn holds(&self, offset: usize, len: usize) -> bool {
        offset + len <= self.size
    }

    fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        self.bytes.borrow()[self.start + offset..][..len].to_vec()
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[self.start + offset..][..bytes.len()].copy_from_slice(bytes);
    }
}

fn expected(fits: bool) -> i32 {
    if fits { SUCCESS } else { INVALID }
}

fn run(known: &mut Vec<Known>, step: &Step) {
    let at = |which: usize| known.get(which % known.len().max(1)).cloned();
    match *step {
        Step::Allocate { placement, core, size } => {
            let handle = allocate(placement, core, size);
            assert_eq!(transfers::nrt_tensor_memset(handle, 0, 0, size), SUCCESS);
            let (bytes, on_device) =
                (Rc::new(RefCell::new(vec![0; size])), (placement == DEVICE).then_some(core));
            known.push(Known { handle, bytes, start: 0, size, on_device });
        }
        Step::Slice { of, offset, size } => {
            let Some(of) = at(of) else { return };
            let fits = size > 0 && of.holds(offset, size);
            let made = try_slice(of.handle, offset, size);
            assert_eq!(made.is_ok(), fits);
            if let Ok(handle) = made {
                known.push(Known { handle, start: of.start + offset, size, ..of });
            }
        }
        Step::Free { which } => {
            if !known.is_empty() {
                let gone = known.swap_remove(which % known.len());
                free(gone.handle);
                assert_eq!(tensors::nrt_tensor_get_size(gone.handle), 0);
            }
        }
        Step::Write { which, offset, len, seed } => {
            let Some(tensor) = at(which) else { return };
            let bytes = pattern(len, seed);
            let fits = tensor.holds(offset, len);
            assert_eq!(write(tensor.handle, offset, &bytes), expected(fits));
            if fits {
                tensor.write(offset, &bytes);
            }
        }
        Step::Store { which, at: place, seed } => {
            let Some(tensor) = at(which) else { return };
            let offset = place % tensor.size;
            at_address(tensor.handle)[offset] = seed;
            tensor.write(offset, &[seed]);
        }
        Step::Fill { which, offset, len, value } => {
            let Some(tensor) = at(which) else { return };
            let fits = tensor.holds(offset, len);
            let filled = transfers::nrt_tensor_memset(tensor.handle, offset as u64, value.into(), len);
            assert_eq!(filled, expected(fits));
            if fits {
                tensor.write(offset, &vec![value; len]);
            }
        }
        Step::Copy { from, from_offset, to, to_offset, len } => {
            let (Some(from), Some(to)) = (at(from), at(to)) else { return };
            let apart = matches!((from.on_device, to.on_device), (Some(one), Some(other)) if one != other);
            let fits = from.holds(from_offset, len) && to.holds(to_offset, len) && (!apart || len == 0);
            let copied = transfers::nrt_tensor_copy(from.handle, from_offset, to.handle, to_offset, len);
            assert_eq!(copied, expected(fits));
            if fits {
                to.write(to_offset, &from.read(from_offset, len));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_sequence_of_calls_leaves_the_bytes_of_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let _library = Library::on("trn1.2xlarge");
        let mut known = Vec::new();
        for step in &steps {
            run(&mut known, step);
        }
        for tensor in &known {
            prop_assert_eq!(tensors::nrt_tensor_get_size(tensor.handle), tensor.size);
            prop_assert!(read(tensor.handle, 0, tensor.size) == tensor.read(0, tensor.size));
            prop_assert!(at_address(tensor.handle) == tensor.read(0, tensor.size));
        }
    }
}
