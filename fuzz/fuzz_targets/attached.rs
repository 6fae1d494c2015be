//! Processes that hold a slot, and call whatever the fuzzer's bytes say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use neuron_tests::hostile::Attachment;

fuzz_target!(|data: &[u8]| neuron_fuzz::run(Attachment::Attached, data));
