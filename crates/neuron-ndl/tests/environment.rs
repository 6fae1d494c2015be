//! The environment as a process finds it: what each variable may hold, what a wrong one says, and what follows
//! where nothing is set.

#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up should stop")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use neuron_abi::arch::Generation;
use neuron_ndl::environment::{BackendName, CoreLayout, Environment, EnvironmentError, Reading, VARIABLES};
use proptest::prelude::*;

/// Two devices of 2 cores.
const TRN1: CoreLayout = CoreLayout { devices: 2, cores_per_device: 2, logical_size: 1 };
/// Sixteen devices of 8 cores, two to a logical core.
const TRN2: CoreLayout = CoreLayout { devices: 16, cores_per_device: 8, logical_size: 2 };

fn read(set: &[(&str, &str)]) -> Reading {
    Environment::read(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
}

fn environment(variable: &str, value: &str) -> Result<Environment, EnvironmentError> {
    Environment::from_variables(|name| (name == variable).then(|| value.into()))
}

fn visible(list: &str, layout: CoreLayout) -> Result<std::ops::Range<u32>, EnvironmentError> {
    environment("NEURON_RT_VISIBLE_CORES", list)?.visible(layout)
}

#[test]
fn nothing_set_asks_for_nothing() {
    assert_eq!(Environment::from_variables(|_| None), Ok(Environment::default()));
    assert_eq!(Environment::from_variables(|_| Some(OsString::new())), Ok(Environment::default()), "empty");
    let unset = Environment::default();
    assert_eq!(unset.visible(TRN2), Ok(0..64));
    for (generation, size, direct) in
        [(Generation::V2, 1, 0), (Generation::V3, 2, 0x1000), (Generation::V4, 2, 0x1000)]
    {
        assert_eq!((unset.logical_size(generation), unset.direct_write(generation)), (size, direct));
    }
}

#[test]
fn each_variable_has_its_type() {
    let set = [
        ("NEURON_MEM_BACKEND", "kernel"),
        ("NEURON_MEM_INSTANCE", "trn2.3xlarge"),
        ("NEURON_RT_VISIBLE_CORES", " 1 - 2 , 3"),
        ("NEURON_RT_NUM_CORES", "4"),
        ("NEURON_LOGICAL_NC_CONFIG", "1"),
        ("NEURON_RT_VIRTUAL_CORE_SIZE", "1"),
        ("NEURON_RT_RESET_CORES", "0"),
        ("NEURON_RT_MAP_HBM", "True"),
        ("NEURON_RT_DBG_ZEROCOPY", "1"),
        ("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", "0x800"),
        ("NEURON_SCRATCHPAD_PAGE_SIZE", "1024"),
        ("NEURON_RT_CONTIGUOUS_SCRATCHPAD", "false"),
    ];
    assert_eq!(set.map(|(name, _)| name), VARIABLES, "one of each");
    let Reading { environment, errors, set: shown } = read(&set);
    assert_eq!(errors, []);
    assert_eq!(shown.len(), set.len());
    assert_eq!(environment.backend, Some(BackendName::Kernel));
    assert_eq!(environment.instance.map(|instance| instance.name), Some("trn2.3xlarge"));
    assert_eq!(environment.visible_cores.as_ref().map(ToString::to_string).as_deref(), Some("1-2,3"));
    assert_eq!((environment.num_cores, environment.logical_size), (Some(4), Some(1)));
    assert_eq!((environment.reset_cores, environment.map_hbm), (Some(false), Some(true)));
    assert_eq!((environment.zero_copy, environment.direct_write), (Some(true), Some(0x800)));
    assert_eq!(environment.scratchpad_page, Some(1 << 30));
    assert_eq!(environment.contiguous_scratchpad, Some(false));
}

#[test]
fn a_wrong_value_names_the_variable_the_value_and_what_is_accepted() {
    for (variable, values, accepted) in [
        ("NEURON_MEM_BACKEND", &["hardware", "Kernel", "kernel,software"][..], "software, kernel"),
        ("NEURON_MEM_INSTANCE", &["trn9.huge", "TRN1.2xlarge", "trn2"], "trn2.3xlarge and trn2.48xlarge"),
        ("NEURON_RT_NUM_CORES", &["-1", "two", "4294967296", "1.5", "+1"], "a number of cores, or 0 for all"),
        ("NEURON_LOGICAL_NC_CONFIG", &["0", "3", "x"], "1 or 2"),
        ("NEURON_RT_VIRTUAL_CORE_SIZE", &["4"], "1 or 2"),
        ("NEURON_RT_RESET_CORES", &["2", "yes"], "1 or true, or 0 or false"),
        ("NEURON_RT_MAP_HBM", &["on"], "1 or true, or 0 or false"),
        ("NEURON_RT_DBG_ZEROCOPY", &["-1", "１"], "1 or true, or 0 or false"),
        ("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", &["4K", "-4", "0x", "0xg", "٣"], "a number of bytes"),
        ("NEURON_SCRATCHPAD_PAGE_SIZE", &["0", "513", "511", "4096", "512M"], "a multiple of 512 up to 3584"),
        ("NEURON_RT_CONTIGUOUS_SCRATCHPAD", &["maybe"], "1 or true, or 0 or false"),
    ] {
        for value in values {
            let error = environment(variable, value).unwrap_err();
            assert_eq!(error.variable(), variable);
            let message = error.to_string();
            for word in [variable, value, accepted] {
                assert!(message.contains(word), "no {word} in {message}");
            }
        }
    }
}

#[test]
fn a_backend_is_read_as_it_is_written() {
    let server = environment("NEURON_MEM_BACKEND", "unix:/run/neuron.sock").unwrap().backend.unwrap();
    assert!(matches!(&server, BackendName::Unix(address) if address.path() == Path::new("/run/neuron.sock")));
    for backend in BackendName::LOCAL.into_iter().chain([server]) {
        assert_eq!(backend.to_string().parse(), Ok(backend));
    }
    assert!("cuda".parse::<BackendName>().unwrap_err().to_string().contains("software, kernel, unix:PATH"));
}

#[test]
fn an_address_that_is_none_is_refused_with_what_one_is() {
    for value in ["unix:", "unix", "tcp:host:1", &format!("unix:/{}", "x".repeat(200))] {
        let error = environment("NEURON_MEM_BACKEND", value).unwrap_err().to_string();
        for word in ["NEURON_MEM_BACKEND", "unix:PATH"] {
            assert!(error.contains(word), "{error}");
        }
    }
}

#[test]
fn a_direct_write_size_beyond_32_bits_is_the_most_that_fits() {
    for (value, bytes) in [
        ("4294967295", u32::MAX),
        ("4294967296", u32::MAX),
        ("0xffffffffffffffff", u32::MAX),
        ("99999999999999999999999", u32::MAX),
        ("0", 0),
    ] {
        let environment = environment("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", value).unwrap();
        assert_eq!(environment.direct_write, Some(bytes), "{value}");
        assert_eq!(environment.direct_write(Generation::V2), bytes, "set is set, on V2 too");
    }
}

#[test]
fn cores_are_a_list_of_cores_and_ranges() {
    for (list, range) in
        [("0", 0..1), ("0-3", 0..4), ("1,2", 1..3), ("0-1,2-3", 0..4), ("3-3", 3..4), ("01", 1..2)]
    {
        assert_eq!(visible(list, TRN1), Ok(range), "{list}");
    }
    assert_eq!(visible("60-62,63", TRN2), Ok(60..64));
}

#[test]
fn an_entry_that_cannot_be_followed_is_named() {
    for (list, entry, problem) in [
        ("", "", ""),
        ("0,", "", "is no core"),
        (",", "", "is no core"),
        ("a", "a", "is no core"),
        ("0,-1", "-1", "is no core"),
        ("0,1-", "1-", "is no core"),
        ("0,1-2-3", "1-2-3", "is no core"),
        ("0;1", "0;1", "is no core"),
        ("0x1", "0x1", "is no core"),
        ("٣", "٣", "is no core"),
        ("0,核心", "核心", "is no core"),
        ("0,4294967296", "4294967296", "is no core"),
        ("0-99999999999999999999", "0-99999999999999999999", "is no core"),
        ("3-1", "3-1", "is reversed; write 1-3"),
        // A gap, a core named twice, ranges that overlap, descending.
        ("0,2", "2", "so 1 has to be next"),
        ("0-1,3-4", "3-4", "so 2 has to be next"),
        ("0,0", "0", "so 1 has to be next"),
        ("0-2,2-3", "2-3", "so 3 has to be next"),
        ("0-3,1", "1", "so 4 has to be next"),
        ("1,0", "0", "so 2 has to be next"),
        ("4294967295,0", "0", "so 4294967296 has to be next"),
        // Not there.
        ("0-3,4", "4", "names a core that is not there: cores 0 to 3 on 2 devices"),
        ("2-4", "2-4", "names a core that is not there"),
        ("0-4294967295", "0-4294967295", "names a core that is not there"),
    ] {
        if list.is_empty() {
            assert_eq!(visible(list, TRN1), Ok(0..4), "empty counts as not set");
            continue;
        }
        let error = visible(list, TRN1).unwrap_err();
        let message = error.to_string();
        let words = [&format!("NEURON_RT_VISIBLE_CORES is `{list}`"), &format!("entry `{entry}`"), problem];
        for word in words {
            assert!(message.contains(word), "no {word} in {message}");
        }
    }
}

#[test]
fn what_is_listed_beats_a_number() {
    let both = read(&[("NEURON_RT_VISIBLE_CORES", "2-3"), ("NEURON_RT_NUM_CORES", "1")]).environment;
    assert_eq!(both.visible(TRN1), Ok(2..4));
    let number = |value| environment("NEURON_RT_NUM_CORES", value).unwrap().visible(TRN1);
    assert_eq!((number("0"), number("3"), number("4")), (Ok(0..4), Ok(0..3), Ok(0..4)));
    let error = number("5").unwrap_err().to_string();
    assert_eq!(error, "NEURON_RT_NUM_CORES is 5, but there are cores 0 to 3 on 2 devices");
}

#[test]
fn logical_cores_are_found_on_their_devices() {
    assert_eq!((TRN2.logical_per_device(), TRN2.logical_total()), (4, 64));
    assert_eq!((TRN2.device_of(0), TRN2.device_of(5), TRN2.device_of(63), TRN2.device_of(64)), {
        (Some(0), Some(1), Some(15), None)
    });
    // Logical cores 3 to 5: the last two physical cores of device 0, the first four of device 1.
    let on = |device| TRN2.of_device(&(3..6), device);
    assert_eq!((on(0), on(1)), (6..8, 0..4));
    assert!(on(2).is_empty() && on(15).is_empty());
}

#[test]
fn a_logical_core_is_one_core_on_the_first_generation_whatever_is_set() {
    let two = environment("NEURON_LOGICAL_NC_CONFIG", "2").unwrap();
    let one = environment("NEURON_RT_VIRTUAL_CORE_SIZE", "1").unwrap();
    assert_eq!((two.logical_size(Generation::V2), two.logical_size(Generation::V3)), (1, 2));
    assert_eq!((one.logical_size(Generation::V2), one.logical_size(Generation::V3)), (1, 1));
    assert_eq!(two.without_effect(Some(Generation::V2)).len(), 1);
    assert!(two.without_effect(Some(Generation::V3)).is_empty());
}

#[test]
fn two_names_of_one_setting_have_to_agree() {
    let reading = read(&[("NEURON_LOGICAL_NC_CONFIG", "1"), ("NEURON_RT_VIRTUAL_CORE_SIZE", "2")]);
    assert_eq!(reading.environment.logical_size, None);
    let [error] = &reading.errors[..] else { unreachable!("{reading:?}") };
    let message = error.to_string();
    assert!(
        message.contains("NEURON_LOGICAL_NC_CONFIG is 1 and NEURON_RT_VIRTUAL_CORE_SIZE is 2"),
        "{message}"
    );
}

#[test]
fn settings_that_have_no_effect_are_told() {
    for (set, word) in [
        (
            [("NEURON_MEM_BACKEND", "kernel"), ("NEURON_MEM_INSTANCE", "trn2.3xlarge")],
            "NEURON_MEM_INSTANCE has no effect",
        ),
        (
            [("NEURON_RT_VISIBLE_CORES", "0"), ("NEURON_RT_NUM_CORES", "1")],
            "NEURON_RT_NUM_CORES has no effect",
        ),
        (
            [("NEURON_RT_DBG_ZEROCOPY", "0"), ("NEURON_RT_DBG_DIRECT_BAR4_WRITE_SIZE", "64")],
            "DIRECT_BAR4_WRITE_SIZE has no effect",
        ),
        (
            [("NEURON_SCRATCHPAD_PAGE_SIZE", "512"), ("NEURON_RT_CONTIGUOUS_SCRATCHPAD", "1")],
            "SCRATCHPAD_PAGE_SIZE has no effect",
        ),
    ] {
        let found = read(&set).environment.without_effect(None);
        assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
        assert!(read(&set[..1]).environment.without_effect(None).is_empty());
    }
}

#[test]
fn all_that_is_wrong_is_told_and_what_is_right_stays() {
    let reading = read(&[
        ("NEURON_RT_NUM_CORES", "x"),
        ("NEURON_RT_DBG_ZEROCOPY", "1"),
        ("NEURON_RT_MAP_HBM", "a\u{1b}[2Jb"),
    ]);
    let wrong: Vec<_> = reading.errors.iter().map(EnvironmentError::variable).collect();
    assert_eq!(wrong, ["NEURON_RT_NUM_CORES", "NEURON_RT_MAP_HBM"]);
    assert_eq!(reading.environment, environment("NEURON_RT_DBG_ZEROCOPY", "1").unwrap());
    assert!(!reading.errors[1].to_string().contains('\u{1b}'), "{:?}", reading.errors);
}

#[test]
fn what_is_no_text_is_wrong_and_shown_as_text() {
    for variable in VARIABLES {
        let bytes = || OsString::from_vec(vec![b'1', 0xff, 0x1b]);
        let error = Environment::from_variables(|name| (name == variable).then(bytes)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("1\u{fffd}\\u{1b}") && error.variable() == variable, "{message}");
    }
}

#[test]
fn a_very_long_value_is_cut_in_the_message() {
    let error = environment("NEURON_RT_VISIBLE_CORES", &"9".repeat(100_000)).unwrap_err();
    assert!(error.to_string().len() < 1000, "{error}");
}

proptest! {
    #[test]
    fn no_value_is_a_panic(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), VARIABLES.len())) {
        let reading = Environment::read(|name| {
            let at = VARIABLES.iter().position(|variable| *variable == name)?;
            Some(OsString::from_vec(values[at].clone()))
        });
        let _ = reading.environment.visible(TRN2);
        prop_assert!(reading.errors.iter().all(|error| !error.to_string().chars().any(char::is_control)));
    }

    #[test]
    fn no_list_is_a_panic_and_what_is_accepted_is_there(
        list in "[0-9,\\- ]{0,20}|\\PC{0,20}",
        devices in 0u32..20,
        cores_per_device in 0u32..9,
        logical_size in 1u32..3,
    ) {
        let layout = CoreLayout { devices, cores_per_device, logical_size };
        if let Ok(range) = visible(&list, layout) {
            prop_assert!(range.end <= layout.logical_total());
            let physical: u32 = (0..devices).map(|device| layout.of_device(&range, device).len() as u32).sum();
            prop_assert_eq!(physical, range.len() as u32 * logical_size);
        }
    }

    #[test]
    fn cutting_a_range_into_entries_changes_nothing(first in 0u32..60, lens in prop::collection::vec(1u32..5, 1..6)) {
        let mut next = first;
        let mut entries = Vec::new();
        for len in &lens {
            entries.push(if *len == 1 { next.to_string() } else { format!("{next}-{}", next + len - 1) });
            next += len;
        }
        let layout = CoreLayout { devices: 64, cores_per_device: 8, logical_size: 1 };
        prop_assert_eq!(visible(&entries.join(","), layout), Ok(first..next));
    }
}
