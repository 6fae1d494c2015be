//! Logs of any bytes: explained within a screen, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| neuron_fuzz::explain(data));
