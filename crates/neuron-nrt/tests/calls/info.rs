//! Counts, versions, what the machine is.

use std::ffi::CStr;
use std::ptr::null_mut;

use nrt::calls::info;
use nrt::layout::{InstanceInfo, Version};

use crate::common::*;

fn text(bytes: &[u8]) -> &str {
    CStr::from_bytes_until_nul(bytes).unwrap().to_str().unwrap()
}

#[test]
fn totals_are_the_machines_and_visible_ones_the_environments() {
    for (instance, lnc, cores, total, seen) in [
        ("trn1.2xlarge", "", "", 2, 2),
        ("trn1.2xlarge", "2", "1", 2, 1),
        ("inf2.48xlarge", "", "", 24, 24),
        ("trn2.48xlarge", "", "0-9", 64, 10),
        ("trn2.3xlarge", "1", "", 8, 8),
        ("trn2.3xlarge", "2", "", 4, 4),
    ] {
        let set = [
            ("NEURON_MEM_INSTANCE", instance),
            ("NEURON_LOGICAL_NC_CONFIG", lnc),
            ("NEURON_RT_VISIBLE_CORES", cores),
        ];
        let library = Library::closed(&set);
        let counts = || (count(info::nrt_get_total_vnc_count), count(info::nrt_get_visible_nc_count));
        assert_eq!(counts(), (total, seen), "{set:?}");
        assert_eq!(init(), SUCCESS);
        assert_eq!(counts(), (total, seen), "{set:?}, open");
        drop(library);
    }
}

#[test]
fn a_wrong_list_of_cores_leaves_the_total_and_none_visible() {
    let _library = Library::closed(&[("NEURON_RT_VISIBLE_CORES", "0,7")]);
    assert_eq!(count(info::nrt_get_total_nc_count), 2);
    let mut seen = 9;
    // SAFETY: the pointer is of a local number.
    assert_eq!(unsafe { info::nrt_get_visible_vnc_count(&raw mut seen) }, INVALID);
    assert_eq!(seen, 0);
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { info::nrt_get_total_nc_count(null_mut()) }, INVALID);
}

#[test]
fn an_instance_has_its_family_size_generation_and_revision() {
    for (instance, family, size, arch) in
        [("inf2.24xlarge", 4, 5, "NCv2"), ("trn1n.32xlarge", 3, 6, "NCv2"), ("trn2.3xlarge", 5, 8, "NCv3")]
    {
        let library = Library::closed(&[("NEURON_MEM_INSTANCE", instance)]);
        let ask = |len| {
            let mut told = InstanceInfo {
                family: u32::MAX,
                size: u32::MAX,
                arch_name: [1; 16],
                device_revision: [1; 8],
            };
            // SAFETY: the pointer is of a local value that is at least so long.
            let status = unsafe { info::nrt_get_instance_info(&raw mut told, len) };
            (status, told)
        };
        let (status, told) = ask(32);
        assert_eq!((status, told.family, told.size), (SUCCESS, family, size));
        assert_eq!((text(&told.arch_name), text(&told.device_revision)), (arch, "1"));
        let (status, cut) = ask(6);
        assert_eq!((status, cut.family, cut.size), (SUCCESS, family, 0xffff_0000 | size), "6 of 32 bytes");
        assert_eq!(cut.arch_name, [1; 16]);
        assert_eq!(ask(0).0, INVALID);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { info::nrt_get_instance_info(null_mut(), 32) }, INVALID);
        assert_eq!(init(), SUCCESS);
        assert_eq!(ask(32).1, told, "open");
        drop(library);
    }
}

#[test]
fn the_version_is_two_and_a_short_record_gets_what_fits() {
    let empty = Version {
        rt_major: 9,
        rt_minor: 9,
        rt_patch: 9,
        rt_maintenance: 9,
        rt_detail: [1; 128],
        git_hash: [1; 64],
    };
    let ask = |size| {
        let mut told = empty;
        // SAFETY: the pointer is of a local value that is at least so long.
        let status = unsafe { info::nrt_get_version(&raw mut told, size) };
        (status, told)
    };
    let (status, told) = ask(size_of::<Version>());
    assert_eq!(status, SUCCESS);
    assert_eq!((told.rt_major, told.rt_minor, told.rt_patch, told.rt_maintenance), (2, 31, 24, 0));
    assert!(text(&told.rt_detail).starts_with("neuron-mem "));
    assert!(!text(&told.git_hash).is_empty());
    let (status, cut) = ask(128);
    assert_eq!((status, cut.rt_maintenance, cut.git_hash), (SUCCESS, 0, empty.git_hash));
    assert_eq!(cut.rt_detail[95..97], [0, 1], "128 bytes end inside of it");
    assert_eq!(ask(0).0, INVALID);
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { info::nrt_get_version(null_mut(), 224) }, INVALID);
}

#[test]
fn a_status_has_a_name_and_a_number_that_is_none_has_none() {
    assert_eq!(status_name(0), Some("NRT_SUCCESS"));
    assert_eq!(status_name(1206), Some("NRT_NETWORK_PROXY_FAILURE"));
    for none in [8, 12, -1, i32::MIN, i32::MAX] {
        assert_eq!(status_name(none), None);
    }
}

#[test]
fn devices_have_the_drivers_numbers() {
    let _library = Library::on("trn1.32xlarge");
    let mut id = 99;
    // SAFETY: the pointer is of a local number.
    let get = |device, id: &mut u32| unsafe { info::nrt_host_device_id_get(device, id) };
    assert_eq!((get(3, &mut id), id), (SUCCESS, 3));
    assert_eq!((get(16, &mut id), get(-1, &mut id), get(259, &mut id)), (INVALID, INVALID, INVALID));

    let mut map = [99; 17];
    let ask = |room: u32, map: *mut u32| {
        let mut count = room;
        // SAFETY: the map has room for 17 entries.
        (unsafe { info::nrt_host_device_id_rid_map_get(&raw mut count, map) }, count)
    };
    assert_eq!(ask(15, map.as_mut_ptr()), (RESOURCE, 16));
    assert_eq!(map, [99; 17]);
    assert_eq!(ask(17, map.as_mut_ptr()), (SUCCESS, 16));
    let mut ids = map[..16].to_vec();
    ids.sort_unstable();
    assert_eq!((ids, map[16]), ((0..16).collect(), 99));
    assert_eq!(ask(16, null_mut()), (INVALID, 16));
}
