//! Accounts: a limit and what is in use, each. A reservation is made in all accounts that it
//! concerns or in none, before the driver is asked, and goes back when it is dropped: at
//! once if the driver refuses, else with the memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_abi::memory::UsageType;

/// Whose device memory is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    /// All of a core.
    Core(u32),
    /// All of a usage type, over all cores.
    Usage(UsageType),
    /// All of an [allocator](crate::Allocator::budget).
    Owner(OwnerId),
}

/// Names an allocator of this process, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u64);

impl OwnerId {
    /// One that was never given.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A budget and what is in use of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// Most there may be; `None` for no limit.
    pub limit: Option<u64>,
    /// Bytes as charged, allocations included that the driver is being asked for.
    pub in_use: u64,
}

/// The budgets of a device's memory. They may be set and changed at any time, from any thread.
#[derive(Debug)]
pub struct Budgets {
    pub(super) device: u8,
    pub(super) cores: u32,
    accounts: Arc<Mutex<Accounts>>,
}

/// By place where there is one: each allocation and each free passes here.
#[derive(Debug)]
struct Accounts {
    cores: Vec<Account>,
    usages: [Account; UsageType::COUNT],
    owners: BTreeMap<OwnerId, Account>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    limit: Option<u64>,
    /// Wider than a size: what the driver will refuse is in it until it does.
    in_use: u128,
    /// Of an owner that is gone: goes with its last byte.
    left: bool,
}

/// A reservation that would exceed a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) budget: Budget,
    pub(crate) limit: u64,
    pub(crate) in_use: u64,
    /// Bytes that would have been charged.
    pub(crate) charge: u64,
    /// Bytes by which it misses.
    missing: u128,
}

/// Bytes taken from budgets; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Reservation {
    accounts: Arc<Mutex<Accounts>>,
    owner: OwnerId,
    core: u32,
    usage: UsageType,
    bytes: u64,
}

/// The budgets that an allocation counts for.
const fn budgets_of(owner: OwnerId, core: u32, usage: UsageType) -> [Budget; 3] {
    [Budget::Owner(owner), Budget::Core(core), Budget::Usage(usage)]
}

fn lock(accounts: &Mutex<Accounts>) -> MutexGuard<'_, Accounts> {
    accounts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Budgets {
    /// No limits, for a device with so many cores.
    pub(crate) fn new(device: u8, cores: u32) -> Self {
        let accounts = Accounts {
            cores: vec![Account::default(); cores as usize],
            usages: Default::default(),
            owners: BTreeMap::new(),
        };
        Self { device, cores, accounts: Arc::new(Mutex::new(accounts)) }
    }

    /// Sets a limit, or lifts it.
    pub(super) fn set(&self, budget: Budget, limit: Option<u64>) {
        lock(&self.accounts).change(budget, |account| account.limit = limit);
    }

    /// A budget's limit and what is in use of it now.
    pub fn get(&self, budget: Budget) -> BudgetUse {
        let account = lock(&self.accounts).get(budget).copied().unwrap_or_default();
        BudgetUse { limit: account.limit, in_use: saturated(account.in_use) }
    }

    /// Takes bytes from the budgets of an owner's allocation, or says which has too few: the
    /// one that misses most.
    pub(crate) fn reserve(
        &self,
        owner: OwnerId,
        core: u32,
        usage: UsageType,
        bytes: u64,
    ) -> Result<Reservation, Over> {
        let budgets = budgets_of(owner, core, usage);
        let mut accounts = lock(&self.accounts);
        let over = budgets.iter().filter_map(|budget| accounts.over(*budget, bytes));
        if let Some(over) = over.max_by_key(|over| over.missing) {
            return Err(over);
        }
        for budget in budgets {
            accounts.change(budget, |account| account.in_use += u128::from(bytes));
        }
        drop(accounts);
        Ok(Reservation { accounts: Arc::clone(&self.accounts), owner, core, usage, bytes })
    }

    /// An allocator is gone: nothing more will be charged to it.
    pub(crate) fn owner_left(&self, owner: OwnerId) {
        let mut accounts = lock(&self.accounts);
        accounts.change(Budget::Owner(owner), |account| {
            account.limit = None;
            account.left = true;
        });
        accounts.forget(owner);
    }
}

impl Accounts {
    fn get(&self, budget: Budget) -> Option<&Account> {
        match budget {
            Budget::Core(core) => self.cores.get(core as usize),
            Budget::Usage(usage) => self.usages.get(usage.index()),
            Budget::Owner(owner) => self.owners.get(&owner),
        }
    }

    /// Changes an account; there is none of a core that the device has not.
    fn change(&mut self, budget: Budget, change: impl FnOnce(&mut Account)) {
        let account = match budget {
            Budget::Core(core) => self.cores.get_mut(core as usize),
            Budget::Usage(usage) => self.usages.get_mut(usage.index()),
            Budget::Owner(owner) => Some(self.owners.entry(owner).or_default()),
        };
        account.map(change);
    }

    /// Forgets an owner of whom nothing will be heard.
    fn forget(&mut self, owner: OwnerId) {
        if self.owners.get(&owner).is_some_and(|account| account.left && account.in_use == 0) {
            self.owners.remove(&owner);
        }
    }

    fn over(&self, budget: Budget, charge: u64) -> Option<Over> {
        let account = self.get(budget)?;
        let limit = account.limit?;
        let missing = (account.in_use + u128::from(charge)).checked_sub(limit.into())?;
        let over = Over { budget, limit, in_use: saturated(account.in_use), charge, missing };
        (missing > 0).then_some(over)
    }
}

fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut accounts = lock(&self.accounts);
        for budget in budgets_of(self.owner, self.core, self.usage) {
            accounts.change(budget, |account| {
                account.in_use = account.in_use.saturating_sub(self.bytes.into());
            });
        }
        accounts.forget(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Limit(Budget, Option<u64>),
        Reserve { owner: usize, core: u32, usage: UsageType, bytes: u64 },
        GiveBack(usize),
    }

    fn usage() -> impl Strategy<Value = UsageType> {
        prop::sample::select(vec![UsageType::Weight, UsageType::Tensor])
    }

    fn step() -> impl Strategy<Value = Step> {
        let limit = prop::option::of(prop_oneof![0u64..300, Just(u64::MAX)]);
        let budget = prop_oneof![
            (0u32..2).prop_map(Budget::Core),
            usage().prop_map(Budget::Usage),
            (0u64..2).prop_map(|owner| Budget::Owner(OwnerId(owner))),
        ];
        prop_oneof![
            1 => (budget, limit).prop_map(|(budget, limit)| Step::Limit(budget, limit)),
            4 => (0usize..2, 0u32..2, usage(), prop_oneof![8 => 0u64..100, 1 => Just(u64::MAX)])
                .prop_map(|(owner, core, usage, bytes)| Step::Reserve { owner, core, usage, bytes }),
            3 => (0usize..8).prop_map(Step::GiveBack),
        ]
    }

    proptest! {
        #[test]
        fn budgets_behave_like_sums_over_what_is_reserved(steps in prop::collection::vec(step(), 1..80)) {
            let budgets = Budgets::new(0, 2);
            let mut limits: HashMap<Budget, u64> = HashMap::new();
            let mut held: Vec<(Reservation, [Budget; 3], u64)> = Vec::new();
            let sum = |held: &[(Reservation, [Budget; 3], u64)], budget: Budget| -> u128 {
                held.iter().filter(|(_, of, _)| of.contains(&budget)).map(|(.., bytes)| u128::from(*bytes)).sum()
            };
            for step in steps {
                match step {
                    Step::Limit(budget, limit) => {
                        budgets.set(budget, limit);
                        match limit {
                            Some(limit) => limits.insert(budget, limit),
                            None => limits.remove(&budget),
                        };
                    }
                    Step::Reserve { owner, core, usage, bytes } => {
                        let owner = OwnerId(owner as u64);
                        let all = [Budget::Owner(owner), Budget::Core(core), Budget::Usage(usage)];
                        let misses = |budget: &Budget| {
                            let limit = u128::from(*limits.get(budget)?);
                            (sum(&held, *budget) + u128::from(bytes)).checked_sub(limit).filter(|&by| by > 0)
                        };
                        let worst = all.iter().filter_map(misses).max();
                        match budgets.reserve(owner, core, usage, bytes) {
                            Ok(reservation) => {
                                prop_assert_eq!(worst, None);
                                held.push((reservation, all, bytes));
                            }
                            Err(over) => prop_assert_eq!(misses(&over.budget), worst),
                        }
                    }
                    Step::GiveBack(index) if !held.is_empty() => {
                        held.remove(index % held.len());
                    }
                    Step::GiveBack(_) => {}
                }
                for budget in [Budget::Core(0), Budget::Core(1), Budget::Usage(UsageType::Tensor),
                    Budget::Owner(OwnerId(0)), Budget::Owner(OwnerId(1))] {
                    let expected = BudgetUse {
                        limit: limits.get(&budget).copied(),
                        in_use: saturated(sum(&held, budget)),
                    };
                    prop_assert_eq!(budgets.get(budget), expected);
                }
            }
            drop(held);
            (0..2).for_each(|owner| budgets.owner_left(OwnerId(owner)));
            let accounts = lock(&budgets.accounts);
            prop_assert!(accounts.owners.is_empty(), "no owner stays");
            let mut others = accounts.cores.iter().chain(&accounts.usages);
            prop_assert!(others.all(|account| account.in_use == 0), "nothing stays");
        }
    }

    #[test]
    fn an_owner_that_left_is_forgotten_with_its_last_byte() {
        let (budgets, owner) = (Budgets::new(0, 2), OwnerId::new());
        budgets.set(Budget::Owner(owner), Some(10));
        let reservation = budgets.reserve(owner, 0, UsageType::Tensor, 10).unwrap();
        budgets.owner_left(owner);
        assert_eq!(budgets.get(Budget::Owner(owner)), BudgetUse { limit: None, in_use: 10 });
        drop(reservation);
        assert!(lock(&budgets.accounts).owners.is_empty());
    }
}
