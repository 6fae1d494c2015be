//! Which hints have the most bytes, the biggest first, and no more of them than people read.

use std::collections::HashMap;

use neuron_abi::memory::UsageType;

use super::snapshot::{HintUsage, Hints};
use crate::owners::Held;

/// Handles by hint and usage; equal ones by name, so that a report is the same each time.
pub(crate) fn by_hint<'a>(held: impl Iterator<Item = &'a Held>) -> Hints {
    let mut by_hint: HashMap<(Option<&str>, UsageType), (u64, u64)> = HashMap::new();
    for held in held {
        let (bytes, allocations) = by_hint.entry((held.hint.as_deref(), held.usage)).or_default();
        *bytes = bytes.saturating_add(held.bytes);
        *allocations += 1;
    }
    let mut all: Vec<_> = by_hint.into_iter().collect();
    all.sort_by(|(hint, (bytes, _)), (other, (other_bytes, _))| {
        other_bytes.cmp(bytes).then_with(|| hint.cmp(other))
    });
    let (shown, rest) = all.split_at(all.len().min(Hints::SHOWN));
    let biggest = shown.iter().map(|((hint, usage), (bytes, allocations))| HintUsage {
        hint: hint.map(str::to_owned),
        usage: *usage,
        bytes: *bytes,
        allocations: *allocations,
    });
    Hints {
        biggest: biggest.collect(),
        other_bytes: rest.iter().fold(0, |sum, (_, (bytes, _))| sum.saturating_add(*bytes)),
        other_allocations: rest.iter().map(|(_, (_, allocations))| allocations).sum(),
        unlisted_bytes: 0,
    }
}
