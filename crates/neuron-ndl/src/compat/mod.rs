//! What is known of an older driver behind an opened device: which form of each command it
//! takes (`spec/ndl.md` 3.2). The calls in these forms are in `widths`.
//!
//! | module | what lives there |
//! |---|---|
//! | `ladder` | the form of one command, and how it is found out |
//! | `fallback` | what is done instead, and who is told |
//!
//! The feature flags decide where the driver has them. Without them EINVAL does, and only if
//! an older form then works. One thing no flag tells, whether allocations know an alignment:
//! there too an older form must work first. The first allocation on a device is its own first
//! bounce buffer, a call that cannot be wrong, so allocations are settled when it is open.

mod fallback;
mod ladder;

use std::sync::atomic::{AtomicU32, Ordering};

use neuron_abi::features::Features;

pub use fallback::{Fallback, FallbackHook};
pub(crate) use ladder::Ladder;

/// Forms of allocation, newest first.
pub(crate) const ALLOC_FORMS: [Option<Fallback>; 4] = [
    None,
    Some(Fallback::AllocWithCategory),
    Some(Fallback::AllocWithAlignment),
    Some(Fallback::AllocOldest),
];
/// Forms of copies, newest first.
pub(crate) const COPY_FORMS: [Option<Fallback>; 2] = [None, Some(Fallback::Copy32)];
/// Forms of buffer copies, newest first.
pub(crate) const BUFFER_COPY_FORMS: [Option<Fallback>; 2] = [None, Some(Fallback::BufferCopy32)];
/// Forms of fills, newest first.
pub(crate) const MEMSET_FORMS: [Option<Fallback>; 2] = [None, Some(Fallback::Memset32)];
/// Forms of asynchronous copies, newest first; the last is not asynchronous.
pub(crate) const ASYNC_FORMS: [Option<Fallback>; 3] =
    [None, Some(Fallback::AsyncCopy32), Some(Fallback::SyncCopies)];
/// Forms of the lookup by address, newest first.
pub(crate) const LOOKUP_FORMS: [Option<Fallback>; 2] = [None, Some(Fallback::LookupWithoutHandle)];

/// The forms that an opened device's driver takes.
#[derive(Debug)]
pub(crate) struct Compat {
    device: u8,
    hook: Option<FallbackHook>,
    /// One bit for each fallback that was told.
    told: AtomicU32,
    pub(crate) alloc: Ladder,
    pub(crate) copy: Ladder,
    pub(crate) buffer_copy: Ladder,
    pub(crate) memset: Ladder,
    pub(crate) async_copy: Ladder,
    pub(crate) lookup: Ladder,
}

impl Compat {
    /// Nothing known yet.
    pub(crate) fn new(device: u8, hook: Option<FallbackHook>) -> Self {
        let ladder = |forms: &[Option<Fallback>]| Ladder::new(forms.len() as u8);
        Self {
            device,
            hook,
            told: AtomicU32::new(0),
            alloc: ladder(&ALLOC_FORMS),
            copy: ladder(&COPY_FORMS),
            buffer_copy: ladder(&BUFFER_COPY_FORMS),
            memset: ladder(&MEMSET_FORMS),
            async_copy: ladder(&ASYNC_FORMS),
            lookup: ladder(&LOOKUP_FORMS),
        }
    }

    /// Takes what the driver said it has.
    pub(crate) fn learn(&self, features: Features) {
        let wide = features.contains(Features::MEM_ALLOC64);
        let start = |ladder: &Ladder, rung: u8, settled: bool, forms: &[Option<Fallback>]| {
            ladder.start(rung, settled);
            self.switched(forms, rung);
        };
        match (wide, features.contains(Features::MEM_ALLOC_TYPE)) {
            (true, _) => start(&self.alloc, 0, true, &ALLOC_FORMS),
            (false, true) => start(&self.alloc, 1, true, &ALLOC_FORMS),
            // No flag tells whether it knows an alignment.
            (false, false) => start(&self.alloc, 2, false, &ALLOC_FORMS),
        }
        let narrow = u8::from(!wide);
        start(&self.copy, narrow, true, &COPY_FORMS);
        start(&self.buffer_copy, narrow, true, &BUFFER_COPY_FORMS);
        start(&self.memset, narrow, true, &MEMSET_FORMS);
        let rung = if features.contains(Features::ASYNC_DMA) { narrow } else { 2 };
        start(&self.async_copy, rung, true, &ASYNC_FORMS);
    }

    /// Tells that a form is used from now on.
    pub(crate) fn switched(&self, forms: &[Option<Fallback>], rung: u8) {
        if let Some(Some(fallback)) = forms.get(usize::from(rung)) {
            self.tell(*fallback);
        }
    }

    /// Tells of a fallback, if nobody was told.
    pub(crate) fn tell(&self, fallback: Fallback) {
        let bit = 1 << fallback as u32;
        if self.told.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        tracing::info!(device = self.device, "{fallback}");
        if let Some(hook) = &self.hook {
            hook.call(self.device, fallback);
        }
    }
}
