//! The recorded sessions of `golden/`: ioctls of a process, from opening the device to its
//! exit, against what ours answer. Counted and printed as in `golden.rs`.

mod golden {
    use neuron_abi::arch::Generation;
    use neuron_tests::kinds::ioctl::Checker;
    use neuron_tests::vectors::{Failures, run};

    fn sessions(file: &str, checker: Checker) -> Result<(), Failures> {
        run(file, Checker::kind, |case| checker.check(case))
    }

    /// The tests of one generation, whose files are in a folder of their own.
    macro_rules! generation {
        ($folder:ident, $generation:expr) => {
            mod $folder {
                use super::*;

                #[test]
                fn ioctl() -> Result<(), Failures> {
                    sessions(concat!(stringify!($folder), "/ioctl.jsonl"), Checker::sessions($generation))
                }

                #[test]
                fn ioctl_clean() -> Result<(), Failures> {
                    sessions(concat!(stringify!($folder), "/ioctl_clean.jsonl"), Checker::clean($generation))
                }

                #[test]
                fn ioctl_h2t() -> Result<(), Failures> {
                    sessions(concat!(stringify!($folder), "/ioctl_h2t.jsonl"), Checker::h2t($generation))
                }
            }
        };
    }

    generation!(v2, Generation::V2);
    generation!(v3, Generation::V3);
}
