//! What seed 000 says of the process's settings.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::ffi::OsString;

use neuron_abi::arch::Generation;
use neuron_ndl::environment::Environment;

fn environment(set: &[(&str, &str)]) -> Environment {
    let value = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
    Environment::from_variables(value).unwrap()
}

/// Seed 000 §3, dispatch of copies in: the zero-copy flag and the direct write size are two settings of the
/// process (`test_zerocopy`, `direct_bar4_write_size`). One does not turn the other on or off.
#[test]
fn seed_000_the_zero_copy_flag_and_the_direct_write_size_are_two_settings() {
    let flag = environment(&[("NEURON_RT_DBG_ZEROCOPY", "1")]);
    assert_eq!((flag.zero_copy, flag.direct_write), (Some(true), None));
    let size = environment(&[("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", "0x800")]);
    assert_eq!((size.zero_copy, size.direct_write), (None, Some(0x800)));
    for generation in [Generation::V2, Generation::V3] {
        let off = environment(&[("NEURON_RT_DBG_ZEROCOPY", "0")]);
        assert_eq!(off.direct_write(generation), Environment::default().direct_write(generation));
        assert_eq!(size.direct_write(generation), 0x800);
    }
}
