//! What the caller of a refused allocation is told: which budget, its figures, who is under
//! it, and what to do.

use std::fmt;

use neuron_abi::memory::UsageType;

use super::account::{Budget, Over, OwnerId};
use crate::kind::AllocatorKind;
use crate::owners::{Held, Owner, Owners};
use crate::report::figures::{bytes, quoted, short};
use crate::report::hints::by_hint;
use crate::report::{Asked, Hints};

/// Names in a message (our choice).
const NAMED: usize = 3;

/// An allocation that would have exceeded a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRefusal {
    /// The N of `/dev/neuronN`.
    pub device: u8,
    /// Which budget.
    pub budget: Budget,
    /// Whose that is.
    pub subject: Subject,
    /// Bytes that it allows.
    pub limit: u64,
    /// Bytes in use when it was asked, allocations included that the driver was being asked for.
    pub in_use: u64,
    /// Bytes that would have been charged: those asked for, and what alignment adds.
    pub charge: u64,
    /// What was asked for.
    pub request: Asked,
    /// Living allocations under the budget by hint, the biggest first, a moment later.
    pub hints: Hints,
    /// Living allocators that have memory under the budget, the biggest first.
    pub owners: Vec<OwnerBytes>,
    /// Times that it was tried again, because the failure handler said so.
    pub retries: u32,
}

/// Whose budget it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A core's.
    Core(u32),
    /// A usage type's.
    Usage(UsageType),
    /// An allocator's.
    Owner {
        /// What its handles belong to.
        kind: AllocatorKind,
        /// Its core.
        core: u32,
        /// What it was called; empty for nothing.
        label: String,
    },
}

/// Device memory of a living allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerBytes {
    /// What its handles belong to.
    pub kind: AllocatorKind,
    /// Its core.
    pub core: u32,
    /// What it was called; empty for nothing.
    pub label: String,
    /// Bytes.
    pub bytes: u64,
}

impl BudgetRefusal {
    /// Bytes that have to be freed, or the budget to be raised by.
    pub fn missing(&self) -> u64 {
        self.in_use.saturating_add(self.charge).saturating_sub(self.limit)
    }

    /// The refusal of a request, with a look at what lives.
    pub(crate) fn capture(device: u8, owners: &Owners, asking: OwnerId, over: Over, request: Asked) -> Self {
        let owners = owners.living();
        let asked = owners.iter().find(|owner| owner.id == asking);
        let subject = match over.budget {
            Budget::Core(core) => Subject::Core(core),
            Budget::Usage(usage) => Subject::Usage(usage),
            Budget::Owner(_) => Subject::Owner {
                kind: asked.map_or(AllocatorKind::Global, |owner| owner.kind),
                core: request.core,
                label: asked.map(|owner| owner.label.clone()).unwrap_or_default(),
            },
        };
        let under = |owner: &Owner, held: &&Held| {
            !held.host
                && match over.budget {
                    Budget::Core(core) => owner.core == core,
                    Budget::Usage(usage) => held.usage == usage,
                    Budget::Owner(id) => owner.id == id,
                }
        };
        let all = owners.iter().flat_map(|owner| owner.live.iter().filter(|held| under(owner, held)));
        let mut hints = by_hint(all);
        let of_owner = |owner: &Owner| -> u64 {
            owner.live.iter().filter(|held| under(owner, held)).map(|held| held.bytes).sum()
        };
        let mut shares: Vec<OwnerBytes> = owners
            .iter()
            .map(|owner| OwnerBytes {
                kind: owner.kind,
                core: owner.core,
                label: owner.label.clone(),
                bytes: of_owner(owner),
            })
            .filter(|owner| owner.bytes > 0)
            .collect();
        let listed = shares.iter().fold(0_u64, |sum, owner| sum.saturating_add(owner.bytes));
        hints.unlisted_bytes = over.in_use.saturating_sub(listed);
        shares.sort_by_key(|owner| std::cmp::Reverse(owner.bytes));
        Self {
            device,
            budget: over.budget,
            subject,
            limit: over.limit,
            in_use: over.in_use,
            charge: over.charge,
            request,
            hints,
            owners: shares,
            retries: 0,
        }
    }

    /// Who has most of it, as far as it is known.
    fn who(&self) -> Option<String> {
        let hints = self.hints.biggest.iter().take(NAMED).map(|it| {
            format!("{} {}", it.hint.as_deref().map_or_else(|| "no hint".to_owned(), quoted), short(it.bytes))
        });
        let hints: Vec<_> = hints.collect();
        let owners: Vec<_> = match self.budget {
            Budget::Owner(_) => Vec::new(),
            _ => self.owners.iter().take(NAMED).map(|it| format!("{it} {}", short(it.bytes))).collect(),
        };
        let parts: Vec<_> =
            [hints, owners].iter().filter(|part| !part.is_empty()).map(|part| part.join(", ")).collect();
        (!parts.is_empty()).then(|| parts.join("; of "))
    }
}

fn owner(kind: AllocatorKind, core: u32, label: &str) -> String {
    let kind = match kind {
        AllocatorKind::Global => "global allocator",
        AllocatorKind::Model => "model allocator",
    };
    let name = if label.is_empty() { String::new() } else { format!(" {}", quoted(label)) };
    format!("the {kind}{name} of core {core}")
}

impl fmt::Display for OwnerBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&owner(self.kind, self.core, &self.label))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(core) => write!(f, "core {core}"),
            Self::Usage(usage) => write!(f, "usage {}", usage.name()),
            Self::Owner { kind, core, label } => f.write_str(&owner(*kind, *core, label)),
        }
    }
}

/// One sentence, fit for a terminal.
impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, subject, limit, in_use, charge, .. } = self;
        write!(
            f,
            "neuron{device}: {subject} has a budget of {}, of which {} are in use; {} more exceed it by {}",
            bytes(*limit),
            bytes(*in_use),
            bytes(*charge),
            bytes(self.missing()),
        )?;
        if let Some(who) = self.who() {
            write!(f, " (most is of {who})")?;
        }
        f.write_str(": free some of it, or raise the budget with DeviceMemory::budgets")
    }
}
