//! Any bytes as a trace: run, or refused with line and column.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| neuron_fuzz::replay(data));
