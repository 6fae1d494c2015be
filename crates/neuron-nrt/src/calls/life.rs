//! Opening and closing (`spec/nrt-abi.md` 4.1).

use std::ffi::c_char;

use crate::guard;
use crate::refusal::Refusal;
use crate::state;

/// The highest `nrt_framework_type_t`.
const LAST_FRAMEWORK: i32 = 5;

/// Takes the cores that the environment asks for. A second call without `nrt_close` between changes
/// nothing. The framework is for display only; the versions are not looked at, as there are callers that
/// leave them undefined.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_init(framework: i32, _fw_version: *const c_char, _fal_version: *const c_char) -> i32 {
    guard::call("nrt_init", || {
        if !(0..=LAST_FRAMEWORK).contains(&framework) {
            return Err(Refusal::invalid(format!(
                "{framework} is no framework; there are 0 to {LAST_FRAMEWORK}"
            )));
        }
        state::open()
    })
}

/// Gives everything back: cores, tensors that are left, tensor sets. Waits for calls that run.
#[unsafe(no_mangle)]
pub extern "C" fn nrt_close() {
    let _closed = guard::value("nrt_close", || {
        state::close();
        Ok(())
    });
}
