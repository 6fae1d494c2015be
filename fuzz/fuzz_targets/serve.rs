//! A client of a server, whose packets and whose memory are the fuzzer's bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| neuron_fuzz::serve(data));
