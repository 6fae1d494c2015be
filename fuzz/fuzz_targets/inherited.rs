//! Processes that only inherited a file: whatever they call, the victim does not notice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use neuron_tests::hostile::Attachment;

fuzz_target!(|data: &[u8]| neuron_fuzz::run(Attachment::Inherited, data));
