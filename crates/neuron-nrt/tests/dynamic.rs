//! The library as programs load it: by name, more than once, and unloaded by one of its users.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "what C would do, call after call")]

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

type Init = unsafe extern "C" fn(c_int, *const c_char, *const c_char) -> c_int;
type Count = unsafe extern "C" fn(*mut u32) -> c_int;
type Allocate = unsafe extern "C" fn(c_int, c_int, usize, *const c_char, *mut *mut c_void) -> c_int;
type Free = unsafe extern "C" fn(*mut *mut c_void);
type Address = unsafe extern "C" fn(*const c_void) -> *mut c_void;
type Read = unsafe extern "C" fn(*const c_void, *mut c_void, usize, usize) -> c_int;
type CopyTo = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;

/// The 18 calls without which no known program runs, and the twin of one (`spec/nrt-abi.md` 6).
const NEEDED: [&str; 19] = [
    "nrt_init",
    "nrt_close",
    "nrt_get_total_nc_count",
    "nrt_get_total_vnc_count",
    "nrt_get_visible_nc_count",
    "nrt_get_visible_vnc_count",
    "nrt_get_version",
    "nrt_get_instance_info",
    "nrt_get_status_as_str",
    "nrt_tensor_allocate",
    "nrt_tensor_free",
    "nrt_tensor_allocate_slice",
    "nrt_tensor_get_size",
    "nrt_tensor_get_va",
    "nrt_tensor_read",
    "nrt_tensor_write",
    "nrt_tensor_copy",
    "nrt_tensor_memset",
    "nrt_memcpy_to_device",
];

fn open() -> Library {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let file: PathBuf = folder.join("libnrt.so");
    assert!(file.exists(), "{} was not built with this test", file.display());
    // SAFETY: the library does nothing when it is loaded.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.unwrap()
}

fn symbol<T>(library: &Library, name: &str) -> Symbol<T> {
    // SAFETY: the callers' types are the prototypes of `spec/nrt-abi.md` 4.
    unsafe { library.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// One test: the library is one for the process.
#[test]
fn one_users_unloading_is_not_the_others_loss() {
    let (first, second) = (open(), open());
    for name in NEEDED {
        let _resolves: Symbol<Init> = symbol(&first, name);
    }
    // SAFETY: prototypes as above; the pointers are of local values.
    unsafe {
        let mut count = 0;
        assert_eq!(symbol::<Count>(&second, "nrt_get_total_nc_count")(&raw mut count), 0);
        assert_eq!(count, 2, "before nrt_init");
        assert_eq!(symbol::<Init>(&first, "nrt_init")(1, null(), null()), 0);
        let mut tensor = null_mut();
        assert_eq!(symbol::<Allocate>(&first, "nrt_tensor_allocate")(0, 0, 4096, null(), &raw mut tensor), 0);
        let va = symbol::<Address>(&first, "nrt_tensor_get_va")(tensor);
        // The one that called nrt_init unloads it and never closes (fabtests does).
        first.close().unwrap();
        assert_eq!(
            symbol::<CopyTo>(&second, "nrt_memcpy_to_device")(va, [7_u8; 100].as_ptr().cast(), 100),
            0
        );
        let mut bytes = [0_u8; 101];
        assert_eq!(symbol::<Read>(&second, "nrt_tensor_read")(tensor, bytes.as_mut_ptr().cast(), 0, 101), 0);
        assert_eq!((&bytes[..100], bytes[100]), (&[7_u8; 100][..], 0));
        // The last one goes: the devices' threads still have their code.
        second.close().unwrap();
        let third = open();
        let read = symbol::<Read>(&third, "nrt_tensor_read");
        assert_eq!(read(tensor, bytes.as_mut_ptr().cast(), 99, 2), 0, "it is as it was left");
        symbol::<Free>(&third, "nrt_tensor_free")(&raw mut tensor);
        assert!(tensor.is_null());
    }
}
