//! Data stores: memory in which a runtime counts for whoever watches it (`spec/abi.md` 10,
//! 12). One for each process slot, allocated with the device; what is in one is between
//! runtime and watcher.

use neuron_abi::errno::Errno;

use crate::pool::ChunkRef;
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The data stores of a device.
#[derive(Debug)]
pub(crate) struct DataStores {
    stores: Mutex<Vec<Store>>,
}

#[derive(Debug)]
struct Store {
    chunk: ChunkRef,
    owner: Option<i32>,
}

impl DataStores {
    /// Stores of this memory, all free.
    pub(crate) fn new(chunks: Vec<ChunkRef>) -> Self {
        let stores = chunks.into_iter().map(|chunk| Store { chunk, owner: None }).collect();
        Self { stores: Mutex::new(stores) }
    }

    fn stores(&self) -> MutexGuard<'_, Vec<Store>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process's own store; a new one is all zeros.
    ///
    /// # Errors
    /// ENOMEM if it has none and all are taken.
    pub(crate) fn acquire_own(&self, pid: i32) -> Result<ChunkRef, Errno> {
        let mut stores = self.stores();
        if let Some(store) = stores.iter().find(|store| store.owner == Some(pid)) {
            return Ok(store.chunk.clone());
        }
        let free = stores.iter_mut().find(|store| store.owner.is_none()).ok_or(Errno::ENOMEM)?;
        if let Some(memory) = free.chunk.host_memory() {
            memory.fill(0);
        }
        free.owner = Some(pid);
        Ok(free.chunk.clone())
    }

    /// Another process's store.
    ///
    /// # Errors
    /// ENOENT if it has none.
    pub(crate) fn of(&self, pid: i32) -> Result<ChunkRef, Errno> {
        let stores = self.stores();
        let store = stores.iter().find(|store| store.owner == Some(pid)).ok_or(Errno::ENOENT)?;
        Ok(store.chunk.clone())
    }

    /// Gives a process's store back, if it has one.
    pub(crate) fn release(&self, pid: i32) {
        let mut stores = self.stores();
        stores.iter_mut().filter(|store| store.owner == Some(pid)).for_each(|store| store.owner = None);
    }
}
