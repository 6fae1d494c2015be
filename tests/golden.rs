//! The recorded cases of `golden/`: what the shipped driver did, against what we do.
//!
//! `cargo test --workspace golden` runs these tests and no others. `NEURON_MEM_GOLDEN`
//! names another folder of the same form. Each test prints how many cases of which kind
//! it compared, which differ on purpose and why, and which wait for a part that does not
//! exist yet.

mod golden {
    use neuron_abi::arch::Generation;
    use neuron_tests::kinds;
    use neuron_tests::kinds::memcpy::Group;
    use neuron_tests::kinds::ring::claims::session::Form;
    use neuron_tests::vectors::{Failures, run};

    #[test]
    fn descriptor_count() -> Result<(), Failures> {
        run("desc_count.jsonl", |_| Some("ring size".to_owned()), kinds::descriptor_count::check)
    }

    fn arch(file: &str, generation: Generation) -> Result<(), Failures> {
        let checker = kinds::arch::Checker::new(generation)?;
        run(file, |case| case.text("kind").ok().map(str::to_owned), |case| checker.check(case))
    }

    fn engine_init(file: &str, generation: Generation) -> Result<(), Failures> {
        run(file, |_| Some("engine".to_owned()), |case| kinds::engine::check(generation, case))
    }

    fn queue_init(file: &str, generation: Generation) -> Result<(), Failures> {
        run(file, |_| Some("queue".to_owned()), |case| kinds::queue::check(generation, case))
    }

    fn memcpy(file: &str, generation: Generation, group: Group) -> Result<(), Failures> {
        let checker = kinds::memcpy::Checker::new(generation)?;
        run(file, |case| group.kind(case), |case| checker.check(case))
    }

    fn mempool(file: &str, generation: Generation) -> Result<(), Failures> {
        let checker = kinds::mempool::Checker::new(generation)?;
        run(file, kinds::mempool::kind, |case| checker.check(case))
    }

    fn ring(file: &str, generation: Generation) -> Result<(), Failures> {
        let checker = kinds::ring::Checker::new(generation, file)?;
        run(file, |case| case.text("case").ok().map(str::to_owned), |case| checker.check(case))
    }

    fn claims(file: &str, generation: Generation, form: Form) -> Result<(), Failures> {
        let checker = kinds::ring::claims::Checker::new(generation, form)?;
        run(file, |case| case.text("case").ok().map(str::to_owned), |case| checker.check(case))
    }

    /// The tests of one generation, whose files are in a folder of their own.
    macro_rules! generation {
        ($folder:ident, $generation:expr) => {
            mod $folder {
                use super::*;

                #[test]
                fn arch() -> Result<(), Failures> {
                    super::arch(concat!(stringify!($folder), "/arch.jsonl"), $generation)
                }

                #[test]
                fn ioctl_numbers() -> Result<(), Failures> {
                    let file = concat!(stringify!($folder), "/ioctl_numbers.jsonl");
                    run(file, kinds::numbers::kind, kinds::numbers::check)
                }

                #[test]
                fn engine_init() -> Result<(), Failures> {
                    super::engine_init(concat!(stringify!($folder), "/engine_init.jsonl"), $generation)
                }

                #[test]
                fn queue_init() -> Result<(), Failures> {
                    super::queue_init(concat!(stringify!($folder), "/queue_init.jsonl"), $generation)
                }

                #[test]
                fn mempool() -> Result<(), Failures> {
                    super::mempool(concat!(stringify!($folder), "/mempool.jsonl.gz"), $generation)
                }

                #[test]
                fn ring() -> Result<(), Failures> {
                    super::ring(concat!(stringify!($folder), "/ring.jsonl"), $generation)
                }

                #[test]
                fn ring_dynamic() -> Result<(), Failures> {
                    claims(concat!(stringify!($folder), "/ring_dynamic.jsonl"), $generation, Form::Dynamic)
                }

                #[test]
                fn ring_clean() -> Result<(), Failures> {
                    claims(concat!(stringify!($folder), "/ring_clean.jsonl"), $generation, Form::Clean)
                }

                const MEMCPY: &str = concat!(stringify!($folder), "/memcpy.jsonl");

                #[test]
                fn memcpy_copies() -> Result<(), Failures> {
                    memcpy(MEMCPY, $generation, Group::Copies)
                }

                #[test]
                fn memcpy_async() -> Result<(), Failures> {
                    memcpy(MEMCPY, $generation, Group::Asynchronous)
                }

                #[test]
                fn memcpy_wrap() -> Result<(), Failures> {
                    memcpy(MEMCPY, $generation, Group::Wrap)
                }

                #[test]
                fn memcpy_rest() -> Result<(), Failures> {
                    memcpy(MEMCPY, $generation, Group::Rest)
                }
            }
        };
    }

    generation!(v2, Generation::V2);
    generation!(v3, Generation::V3);
}
