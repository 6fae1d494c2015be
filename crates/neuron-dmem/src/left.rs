//! What an allocator that is gone left alive: the trap of its teardown, made visible
//! (seed 000 §1, `spec/dmem.md` 8).

use neuron_abi::memory::UsageType;

use crate::kind::AllocatorKind;
use crate::log::CHANNELS;
use crate::owners::{Gone, Held};
use crate::report::Hints;
use crate::report::hints::by_hint;

/// Handles whose allocator is gone. They work as before, and nobody lists them: their memory
/// stays taken until whoever holds them lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftAlive {
    /// The N of `/dev/neuronN`.
    pub device: u8,
    /// What the allocator's handles belonged to.
    pub kind: AllocatorKind,
    /// Its core.
    pub core: u32,
    /// What it was called; empty for nothing.
    pub label: String,
    /// Handles.
    pub handles: usize,
    /// Bytes by HBM, as charged.
    pub hbm: [u64; CHANNELS],
    /// Bytes of host memory.
    pub host: u64,
    /// Bytes by usage, those that have any, host memory included.
    pub usage: Vec<(UsageType, u64)>,
    /// By hint, the biggest first and no more than a report names; `unlisted_bytes` is 0.
    pub hints: Hints,
}

impl LeftAlive {
    pub(crate) fn new(device: u8, gone: &Gone, held: &[Held]) -> Self {
        let bytes = |of: &dyn Fn(&&Held) -> bool| {
            held.iter().filter(of).fold(0_u64, |sum, held| sum.saturating_add(held.bytes))
        };
        let usage = UsageType::ALL.iter().map(|&usage| (usage, bytes(&|held| held.usage == usage)));
        Self {
            device,
            kind: gone.kind,
            core: gone.core,
            label: gone.label.to_string(),
            handles: held.len(),
            hbm: std::array::from_fn(|hbm| bytes(&|held| !held.host && held.hbm as usize == hbm)),
            host: bytes(&|held| held.host),
            usage: usage.filter(|&(_, bytes)| bytes != 0).collect(),
            hints: by_hint(held.iter()),
        }
    }

    /// Whether it left nothing.
    pub const fn is_empty(&self) -> bool {
        self.handles == 0
    }

    /// Bytes of device memory.
    pub fn device_bytes(&self) -> u64 {
        self.hbm.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl std::fmt::Display for LeftAlive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            AllocatorKind::Global => "global",
            AllocatorKind::Model => "model",
        };
        let Self { device, core, handles, host, .. } = self;
        write!(f, "the {kind} allocator {:?} of neuron{device} core {core} left ", self.label)?;
        if self.is_empty() {
            return f.write_str("nothing alive");
        }
        write!(f, "{handles} handle{} alive", if *handles == 1 { "" } else { "s" })?;
        for (hbm, bytes) in self.hbm.iter().enumerate().filter(|(_, bytes)| **bytes != 0) {
            write!(f, ", {bytes} bytes on HBM {hbm}")?;
        }
        if *host != 0 {
            write!(f, ", {host} bytes on the host")?;
        }
        let hints = self.hints.biggest.iter();
        let mut separator = ": ";
        for hint in hints {
            let name = hint.hint.as_deref().unwrap_or("no hint");
            write!(f, "{separator}{name:?} ({}) {} bytes", hint.usage.name(), hint.bytes)?;
            separator = ", ";
        }
        if self.hints.other_allocations != 0 {
            write!(f, ", {} others {} bytes", self.hints.other_allocations, self.hints.other_bytes)?;
        }
        f.write_str("; drop the handles before the allocator, or their memory stays taken until they go")
    }
}
