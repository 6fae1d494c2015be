//! Tensor sets: handles of tensors by name. They hold no tensor alive and free none.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::refusal::Refusal;

/// A set (`nrt_tensor_set_t`).
#[derive(Debug, Default)]
pub(crate) struct TensorSet {
    tensors: Mutex<BTreeMap<Vec<u8>, u64>>,
}

impl TensorSet {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, u64>> {
        self.tensors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a tensor under a name, in the place of one that is there.
    pub(crate) fn put(&self, name: &[u8], tensor: u64) {
        self.lock().insert(name.to_vec(), tensor);
    }

    /// The tensor under a name.
    pub(crate) fn get(&self, name: &[u8]) -> Result<u64, Refusal> {
        let missing =
            || Refusal::invalid(format!("no tensor in the set is called `{}`", name.escape_ascii()));
        self.lock().get(name).copied().ok_or_else(missing)
    }
}
