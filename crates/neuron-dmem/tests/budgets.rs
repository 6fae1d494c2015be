//! Budgets over the whole stack: what is refused, what is told, and that every byte comes back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod recorder;

use std::sync::Arc;

use neuron_abi::memory::UsageType;
use neuron_abi::status::NrtStatus;
use neuron_dmem::budget::{Budget, BudgetRefusal, BudgetUse, OwnerBytes, Subject};
use neuron_dmem::{AllocRequest, Allocator, AllocatorKind, DeviceMemory, Dmem, DmemError};
use proptest::prelude::*;
use recorder::device;

const KIB: u64 = 1 << 10;

fn memory() -> Arc<DeviceMemory> {
    DeviceMemory::new(device("trn1.2xlarge", ""))
}

fn tensor<'a>(size: u64, hint: &'a str) -> AllocRequest<'a> {
    AllocRequest::device(size, UsageType::Tensor).hint(hint)
}

fn refusal(outcome: Result<Dmem, DmemError>) -> BudgetRefusal {
    let error = outcome.unwrap_err();
    assert_eq!(error.status(), NrtStatus::Resource);
    error.refusal().unwrap().clone()
}

/// Blocks that the driver has on HBM 0.
fn blocks(memory: &DeviceMemory) -> usize {
    memory.device().chunks(0).unwrap().len()
}

#[test]
fn a_refusal_tells_which_budget_by_how_much_and_who_is_under_it() {
    let memory = memory();
    let model = Allocator::labelled(&memory, AllocatorKind::Model, 0, "llama").unwrap();
    let runtime = Allocator::new(&memory, AllocatorKind::Global, 0).unwrap();
    let _kept = [
        model.allocate(&tensor(600 * KIB, "kv.0")).unwrap(),
        model.allocate(&tensor(100 * KIB, "kv.1")).unwrap(),
        runtime.allocate(&tensor(200 * KIB, "x\n")).unwrap(),
    ];
    memory.budgets().limit(Budget::Core(0), Some(1000 * KIB)).unwrap();
    let before = blocks(&memory);
    let error = model.allocate(&tensor(150 * KIB, "kv.2")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "neuron0: core 0 has a budget of 1,024,000 B (1000.0 KiB), of which 921,600 B (900.0 KiB) are in use; \
         153,600 B (150.0 KiB) more exceed it by 51,200 B (50.0 KiB) (most is of `kv.0` 600.0 KiB, `x\\n` 200.0 \
         KiB, `kv.1` 100.0 KiB; of the model allocator `llama` of core 0 700.0 KiB, the global allocator of core \
         0 200.0 KiB): free some of it, or raise the budget with DeviceMemory::budgets"
    );
    let refusal = error.refusal().unwrap();
    assert_eq!((refusal.missing(), &refusal.subject), (50 * KIB, &Subject::Core(0)));
    assert_eq!((refusal.request.size, refusal.request.hint.as_deref()), (150 * KIB, Some("kv.2")));
    assert_eq!(refusal.hints.unlisted_bytes, 0);
    let global = OwnerBytes { kind: AllocatorKind::Global, core: 0, label: String::new(), bytes: 200 * KIB };
    assert_eq!(refusal.owners.last(), Some(&global));
    assert_eq!(blocks(&memory), before, "the driver was not asked");
    model.allocate(&tensor(100 * KIB, "fits to the byte")).unwrap();
}

#[test]
fn each_kind_of_budget_counts_only_what_is_its_own() {
    let memory = memory();
    let [a, b] = [0, 1].map(|core| Allocator::labelled(&memory, AllocatorKind::Model, core, "m").unwrap());
    let budgets = memory.budgets();
    budgets.limit(a.budget(), Some(10)).unwrap();
    assert_eq!(
        refusal(a.allocate(&tensor(11, "t"))).subject,
        Subject::Owner { kind: AllocatorKind::Model, core: 0, label: "m".to_owned() }
    );
    let _b = b.allocate(&tensor(11, "t")).unwrap();
    budgets.limit(Budget::Usage(UsageType::Weight), Some(10)).unwrap();
    let weight = AllocRequest::device(11, UsageType::Weight);
    assert_eq!(refusal(b.allocate(&weight)).subject, Subject::Usage(UsageType::Weight));
    budgets.limit(Budget::Core(1), Some(20)).unwrap();
    assert_eq!(refusal(b.allocate(&tensor(10, "t"))).subject, Subject::Core(1));
    // Of two, the one that misses most.
    budgets.limit(b.budget(), Some(1)).unwrap();
    assert_eq!(refusal(b.allocate(&tensor(10, "t"))).budget, b.budget());
    let host = AllocRequest::host(1 << 20, UsageType::Weight);
    a.allocate(&host).unwrap();
    b.allocate(&host).unwrap();
}

#[test]
fn a_budget_below_what_is_in_use_only_refuses_what_comes() {
    let memory = memory();
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let (a, b) = (model.allocate(&tensor(100, "a")).unwrap(), model.allocate(&tensor(50, "b")).unwrap());
    memory.budgets().limit(Budget::Core(0), Some(120)).unwrap();
    a.write(0, &[1; 100]).unwrap();
    let refused = refusal(model.allocate(&tensor(1, "c")));
    assert_eq!((refused.in_use, refused.limit, refused.missing()), (150, 120, 31));
    drop(b);
    model.allocate(&tensor(20, "c")).unwrap();
    memory.budgets().limit(Budget::Core(0), None).unwrap();
    model.allocate(&tensor(1 << 20, "d")).unwrap();
}

#[test]
fn handles_without_an_allocator_still_count_for_their_core() {
    let memory = memory();
    let gone = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let handle = gone.allocate(&tensor(100, "orphan")).unwrap();
    drop(gone);
    memory.budgets().limit(Budget::Core(0), Some(110)).unwrap();
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let refused = refusal(model.allocate(&tensor(11, "t")));
    assert_eq!((refused.in_use, refused.hints.unlisted_bytes), (100, 100));
    drop(handle);
    model.allocate(&tensor(110, "t")).unwrap();
}

#[test]
fn threads_together_never_have_more_than_the_budget() {
    let memory = DeviceMemory::new(device("trn2.3xlarge", ""));
    let model = Allocator::new(&memory, AllocatorKind::Model, 0).unwrap();
    let limit = 1000;
    memory.budgets().limit(Budget::Core(0), Some(limit)).unwrap();
    let refused: u32 = std::thread::scope(|scope| {
        let threads = [7_u64, 150, 333, 600].map(|size| {
            let model = &model;
            scope.spawn(move || {
                let (mut kept, mut refused) = (Vec::new(), 0);
                for round in 0..300 {
                    match model.allocate(&tensor(size, "t")) {
                        Ok(dmem) => kept.push(dmem),
                        Err(error) => {
                            assert!(error.refusal().unwrap().in_use <= limit);
                            refused += 1;
                        }
                    }
                    if round % 3 == 2 {
                        kept.clear();
                    }
                }
                refused
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(refused > 0 && memory.statistics().core(0).peak <= limit);
    assert_eq!(memory.budgets().get(Budget::Core(0)), BudgetUse { limit: Some(limit), in_use: 0 });
}

#[derive(Clone, Debug)]
enum Step {
    Limit(usize, Option<u64>),
    /// Core, usage, size, alignment, on the host.
    Allocate(usize, UsageType, u64, u64, bool),
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let usage = prop::sample::select(vec![UsageType::Tensor, UsageType::Weight]);
    // The last fit nowhere.
    let size = prop_oneof![8 => 1u64..5000, 1 => Just(1 << 40), 1 => Just(u64::MAX)];
    let align = prop::sample::select(vec![0, 0, 64, 8192, 1 << 20, 1 << 40]);
    prop_oneof![
        1 => (0usize..6, prop::option::of(0u64..10_000)).prop_map(|(of, limit)| Step::Limit(of, limit)),
        5 => (0usize..2, usage, size, align, prop::bool::weighted(0.1))
            .prop_map(|(core, usage, size, align, host)| Step::Allocate(core, usage, size, align, host)),
        3 => (0usize..16).prop_map(Step::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is refused, by the budget or by the driver, and whatever is freed: what is in use is what lives.
    #[test]
    fn what_is_charged_is_the_sum_of_what_lives(steps in prop::collection::vec(step(), 1..60)) {
        let memory = memory();
        let models = [0, 1].map(|core| Allocator::new(&memory, AllocatorKind::Model, core).unwrap());
        let budgets = [
            Budget::Core(0),
            Budget::Core(1),
            Budget::Usage(UsageType::Tensor),
            Budget::Usage(UsageType::Weight),
            models[0].budget(),
            models[1].budget(),
        ];
        let mut limits = [None; 6];
        let mut held: Vec<(Dmem, [usize; 3])> = Vec::new();
        for step in steps {
            match step {
                Step::Limit(of, limit) => {
                    memory.budgets().limit(budgets[of], limit).unwrap();
                    limits[of] = limit;
                }
                Step::Allocate(core, usage, size, align, host) => {
                    let request = if host { AllocRequest::host(size, usage) } else { AllocRequest::device(size, usage) };
                    let concerned = [core, 2 + usize::from(usage == UsageType::Weight), 4 + core];
                    if let Ok(dmem) = models[core].allocate(&request.aligned(align))
                        && !host
                    {
                        held.push((dmem, concerned));
                    }
                }
                Step::Free(index) if !held.is_empty() => drop(held.remove(index % held.len())),
                Step::Free(_) => {}
            }
            let statistics = memory.statistics();
            for (index, budget) in budgets.into_iter().enumerate() {
                let BudgetUse { limit, in_use } = memory.budgets().get(budget);
                let counted = match index {
                    0 | 4 => statistics.core(0).current,
                    1 | 5 => statistics.core(1).current,
                    2 => statistics.core_usage(0, UsageType::Tensor).current
                        + statistics.core_usage(1, UsageType::Tensor).current,
                    _ => statistics.core_usage(0, UsageType::Weight).current
                        + statistics.core_usage(1, UsageType::Weight).current,
                };
                prop_assert_eq!((limit, in_use), (limits[index], counted));
                let asked: u64 =
                    held.iter().filter(|(_, of)| of.contains(&index)).map(|(dmem, _)| dmem.size()).sum();
                prop_assert!(asked <= in_use);
            }
        }
        drop(held);
        for budget in budgets {
            prop_assert_eq!(memory.budgets().get(budget).in_use, 0);
        }
    }
}
