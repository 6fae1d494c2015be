//! Counts, versions, what the machine is (`spec/nrt-abi.md` 4.2). All but the device numbers can be
//! asked at any time, take nothing and print nothing.

use std::ffi::{CStr, c_char, c_int, c_void};

use neuron_abi::status::NrtStatus;
use neuron_ndl::environment::Environment;

use crate::census::Census;
use crate::guard;
use crate::layout::{InstanceInfo, Version, text};
use crate::pointers::{self, Out};
use crate::refusal::Refusal;
use crate::runtime::Runtime;
use crate::state;

/// Version that is told: the one whose behaviour this library has (`spec/dmem.md`).
const VERSION: Version = Version {
    rt_major: 2,
    rt_minor: 31,
    rt_patch: 24,
    rt_maintenance: 0,
    rt_detail: [0; 128],
    git_hash: [0; 64],
};

/// Logical cores of the machine, whatever the environment says of which the process takes.
///
/// # Safety
/// `count` is NULL or leads to a `uint32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_total_vnc_count(count: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    let count = unsafe { Out::new(count, "count") };
    total("nrt_get_total_vnc_count", count)
}

/// The older name of [`nrt_get_total_vnc_count`].
///
/// # Safety
/// As [`nrt_get_total_vnc_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_total_nc_count(count: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    let count = unsafe { Out::new(count, "count") };
    total("nrt_get_total_nc_count", count)
}

/// Logical cores that the process sees, or would see after `nrt_init`.
///
/// # Safety
/// `count` is NULL or leads to a `uint32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_visible_vnc_count(count: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    let count = unsafe { Out::new(count, "count") };
    visible("nrt_get_visible_vnc_count", count)
}

/// The older name of [`nrt_get_visible_vnc_count`].
///
/// # Safety
/// As [`nrt_get_visible_vnc_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_visible_nc_count(count: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    let count = unsafe { Out::new(count, "count") };
    visible("nrt_get_visible_nc_count", count)
}

fn total(name: &'static str, mut count: Out<'_, u32>) -> i32 {
    guard::call(name, || {
        count.set(0)?;
        let census = census().map_err(Refusal::quiet)?;
        count.set(census.layout.logical_total())
    })
}

fn visible(name: &'static str, mut count: Out<'_, u32>) -> i32 {
    guard::call(name, || {
        count.set(0)?;
        let cores = state::with_or_without(|runtime| match runtime {
            Some(runtime) => Ok(runtime.visible() as u32),
            None => {
                let environment = Environment::from_process()?;
                let layout = Census::take(&environment)?.layout;
                Ok::<_, Refusal>(environment.visible(layout)?.len() as u32)
            }
        });
        count.set(cores.map_err(Refusal::quiet)?)
    })
}

/// The machine that is open, or would be. Of the environment only what says which one it is counts.
fn census() -> Result<Census, Refusal> {
    state::with_or_without(|runtime| match runtime {
        Some(runtime) => Ok(runtime.census().clone()),
        None => Census::take(&Environment::read(|name| std::env::var_os(name)).environment),
    })
}

/// Family, size, generation and revision; as much as `len` has room for.
///
/// # Safety
/// `info` is NULL or leads to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_instance_info(info: *mut InstanceInfo, len: usize) -> i32 {
    guard::call("nrt_get_instance_info", || {
        some(len)?;
        let known = census().map_err(Refusal::quiet)?.instance_info();
        // SAFETY: passed on to the caller.
        unsafe { pointers::cut_to(info.cast::<c_void>(), len, &known, "info") }.map(drop)
    })
}

/// Version of the runtime; as much as `size` has room for.
///
/// # Safety
/// `ver` is NULL or leads to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_get_version(ver: *mut Version, size: usize) -> i32 {
    guard::call("nrt_get_version", || {
        some(size)?;
        let version = Version {
            rt_detail: text(concat!("neuron-mem ", env!("CARGO_PKG_VERSION"))),
            git_hash: text(env!("NEURON_NRT_REVISION")),
            ..VERSION
        };
        // SAFETY: passed on to the caller.
        unsafe { pointers::cut_to(ver.cast::<c_void>(), size, &version, "ver") }.map(drop)
    })
}

/// No record fits in no bytes.
fn some(room: usize) -> Result<(), Refusal> {
    if room == 0 { Err(Refusal::invalid("there is no room for anything in 0 bytes")) } else { Ok(()) }
}

/// The name of a status, which lives for ever; NULL for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_get_status_as_str(status: i32) -> *const c_char {
    NrtStatus::from_raw(status.cast_unsigned()).map_or(std::ptr::null(), |status| name(status).as_ptr())
}

/// `NrtStatus::name` with a NUL behind it.
const fn name(status: NrtStatus) -> &'static CStr {
    match status {
        NrtStatus::Success => c"NRT_SUCCESS",
        NrtStatus::Failure => c"NRT_FAILURE",
        NrtStatus::Invalid => c"NRT_INVALID",
        NrtStatus::InvalidHandle => c"NRT_INVALID_HANDLE",
        NrtStatus::Resource => c"NRT_RESOURCE",
        NrtStatus::Timeout => c"NRT_TIMEOUT",
        NrtStatus::HwError => c"NRT_HW_ERROR",
        NrtStatus::QueueFull => c"NRT_QUEUE_FULL",
        NrtStatus::LoadNotEnoughNc => c"NRT_LOAD_NOT_ENOUGH_NC",
        NrtStatus::UnsupportedNeffVersion => c"NRT_UNSUPPORTED_NEFF_VERSION",
        NrtStatus::FailHostMemAlloc => c"NRT_FAIL_HOST_MEM_ALLOC",
        NrtStatus::Uninitialized => c"NRT_UNINITIALIZED",
        NrtStatus::Closed => c"NRT_CLOSED",
        NrtStatus::QueueEmpty => c"NRT_QUEUE_EMPTY",
        NrtStatus::ExecUnitUnrecoverable => c"NRT_EXEC_UNIT_UNRECOVERABLE",
        NrtStatus::ExecBadInput => c"NRT_EXEC_BAD_INPUT",
        NrtStatus::ExecCompletedWithNumErr => c"NRT_EXEC_COMPLETED_WITH_NUM_ERR",
        NrtStatus::ExecCompletedWithErr => c"NRT_EXEC_COMPLETED_WITH_ERR",
        NrtStatus::ExecNcBusy => c"NRT_EXEC_NC_BUSY",
        NrtStatus::ExecOob => c"NRT_EXEC_OOB",
        NrtStatus::CollPending => c"NRT_COLL_PENDING",
        NrtStatus::ExecHwErrCollectives => c"NRT_EXEC_HW_ERR_COLLECTIVES",
        NrtStatus::ExecHwErrHbmUe => c"NRT_EXEC_HW_ERR_HBM_UE",
        NrtStatus::ExecHwErrNcUe => c"NRT_EXEC_HW_ERR_NC_UE",
        NrtStatus::ExecHwErrDmaAbort => c"NRT_EXEC_HW_ERR_DMA_ABORT",
        NrtStatus::ExecSwNqOverflow => c"NRT_EXEC_SW_NQ_OVERFLOW",
        NrtStatus::ExecHwErrRepairableHbmUe => c"NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE",
        NrtStatus::NetworkProxyFailure => c"NRT_NETWORK_PROXY_FAILURE",
    }
}

/// The driver's number of a device.
///
/// # Safety
/// `host_device_id` is NULL or leads to a `uint32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_host_device_id_get(neuron_dev: c_int, host_device_id: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(host_device_id, "host_device_id") };
    guard::call("nrt_host_device_id_get", || {
        state::with(|runtime| {
            out.check()?;
            let device = u8::try_from(neuron_dev).ok().and_then(|index| runtime.device(index));
            let none = || Refusal::invalid(format!("this process has no core of device {neuron_dev}"));
            out.set(device.ok_or_else(none)?.host_device_id()?)
        })
    })
}

/// The routing ids of the machine's devices, by the driver's numbers. `count` is the room in `map`, and
/// then how many there are, also if there was too little room.
///
/// # Safety
/// `count` is NULL or leads to a `uint32_t`; `map` is NULL or leads to so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nrt_host_device_id_rid_map_get(count: *mut u32, map: *mut u32) -> i32 {
    // SAFETY: passed on to the caller.
    let room = unsafe { pointers::value_at(count) };
    // SAFETY: passed on to the caller.
    let mut out = unsafe { Out::new(count, "count") };
    guard::call("nrt_host_device_id_rid_map_get", || {
        state::with(|runtime| {
            let room = room.ok_or_else(|| Refusal::null("count"))?;
            let ids = routing_ids(runtime)?;
            out.set(ids.len() as u32)?;
            if (room as usize) < ids.len() {
                let why = format!("{room} entries are too few for {} devices", ids.len());
                return Err(Refusal::new(NrtStatus::Resource, why));
            }
            let bytes = ids.as_slice();
            // SAFETY: `map` has room for `room` numbers by the caller's promise, and no more than the
            // ids' own length is written, which is no more than that.
            unsafe { pointers::cut_to(map.cast::<c_void>(), size_of_val(bytes), bytes, "map") }.map(drop)
        })
    })
}

fn routing_ids(runtime: &Runtime) -> Result<Vec<u32>, Refusal> {
    let device = runtime.first_device().ok_or_else(|| Refusal::failure("no device is open"))?;
    Ok(device.routing_ids()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_called_the_same_here_and_there() {
        for status in NrtStatus::ALL {
            assert_eq!(name(*status).to_str(), Ok(status.name()));
        }
    }
}
