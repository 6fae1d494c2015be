//! The allocators of a device, for reports: who lists what, what those that are gone left
//! alive, and when the last load began. Holds no handle and no allocator alive.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_abi::memory::UsageType;

use crate::budget::OwnerId;
use crate::kind::AllocatorKind;
use crate::report::{Model, UsageBytes};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Number of the first MODEL allocator (`spec/report.md` 3.3, our choice).
const FIRST_MODEL: u64 = 1001;

/// The allocators of a device.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    models: u64,
    entries: Vec<Entry>,
    /// Allocators that are gone, oldest first, with what they left alive.
    left: Vec<(Gone, Arc<dyn Listed>)>,
    /// The newest MODEL allocator of each core.
    loads: BTreeMap<u32, Load>,
}

#[derive(Debug)]
struct Entry {
    id: OwnerId,
    kind: AllocatorKind,
    label: String,
    model: Option<Model>,
    core: u32,
    live: Arc<dyn Listed>,
}

/// An allocator that is gone.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    pub(crate) kind: AllocatorKind,
    pub(crate) core: u32,
    pub(crate) label: Box<str>,
}

/// Handles that are known and not held: of an allocator's list, which is not known here.
pub(crate) trait Listed: std::fmt::Debug + Send + Sync {
    /// Whether there is anything to look at, now or later.
    fn lives(&self) -> bool;

    /// What lives, in order of allocation.
    fn held(&self) -> Vec<Held>;
}

/// What a report needs of a handle.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) usage: UsageType,
    /// Bytes charged.
    pub(crate) bytes: u64,
    pub(crate) host: bool,
    pub(crate) hbm: u32,
    pub(crate) hint: Option<Box<str>>,
}

/// An allocator and the handles it lists.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) id: OwnerId,
    pub(crate) kind: AllocatorKind,
    pub(crate) label: String,
    /// `None` for a GLOBAL one.
    pub(crate) model: Option<Model>,
    pub(crate) core: u32,
    pub(crate) live: Vec<Held>,
}

/// The begin of a load: a MODEL allocator was made.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) model: Model,
    /// What each core had, by number.
    before: Vec<UsageBytes>,
}

impl Load {
    /// What a core had.
    pub(crate) fn before(&self, core: u32) -> UsageBytes {
        self.before.get(core as usize).copied().unwrap_or_default()
    }
}

impl Owners {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists an allocator; `before` is what each core has now. Answers how reports call a
    /// MODEL one.
    pub(crate) fn register(
        &self,
        id: OwnerId,
        kind: AllocatorKind,
        core: u32,
        label: &str,
        live: Arc<dyn Listed>,
        before: Vec<UsageBytes>,
    ) -> Option<Model> {
        let mut state = self.lock();
        state.entries.retain(|entry| entry.live.lives());
        let model = (kind == AllocatorKind::Model).then(|| {
            let id = FIRST_MODEL + state.models;
            state.models += 1;
            Model { id, name: label.to_owned() }
        });
        if let Some(model) = &model {
            state.loads.insert(core, Load { model: model.clone(), before });
        }
        let label = label.to_owned();
        state.entries.push(Entry { id, kind, label, model: model.clone(), core, live });
        model
    }

    /// Allocators that live, oldest first, with their handles.
    pub(crate) fn living(&self) -> Vec<Owner> {
        // A handle may be the last of its kind when it is looked at, and freeing takes other
        // locks.
        let entries: Vec<_> = {
            let state = self.lock();
            let living = |entry: &Entry| {
                let Entry { id, kind, core, .. } = *entry;
                let (label, model) = (entry.label.clone(), entry.model.clone());
                (Arc::clone(&entry.live), Owner { id, kind, label, model, core, live: Vec::new() })
            };
            state.entries.iter().filter(|entry| entry.live.lives()).map(living).collect()
        };
        entries.into_iter().map(|(live, owner)| Owner { live: live.held(), ..owner }).collect()
    }

    /// Keeps in view what an allocator left alive.
    pub(crate) fn leave(&self, gone: Gone, handles: Arc<dyn Listed>) {
        let mut state = self.lock();
        state.left.retain(|(_, handles)| handles.lives());
        state.left.push((gone, handles));
    }

    /// What allocators that are gone left alive and is so still, oldest first.
    pub(crate) fn left(&self) -> Vec<(Gone, Vec<Held>)> {
        let left = {
            let mut state = self.lock();
            state.left.retain(|(_, handles)| handles.lives());
            state.left.clone()
        };
        left.into_iter().map(|(gone, handles)| (gone, handles.held())).collect()
    }

    /// The newest load on any of these cores.
    pub(crate) fn last_load(&self, cores: &[u32]) -> Option<Load> {
        let state = self.lock();
        let on_cores = cores.iter().filter_map(|core| state.loads.get(core));
        on_cores.max_by_key(|load| load.model.id).cloned()
    }
}
