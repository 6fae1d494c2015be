//! Pages of a device's memory, made many at a time.

use rustix::mm::{Advice, madvise};
use vm_memory::VolatileSlice;

/// Makes the pages of shared memory that are not there yet, without changing a byte. Where the
/// kernel cannot (before 5.14) or has too few, they come one by one as they are touched.
pub(super) fn populate(pages: &VolatileSlice<'_>) {
    let guard = pages.ptr_guard_mut();
    // SAFETY: the slice is mapped for as long as it is borrowed, and the advice changes no byte
    // and takes no page away: it is as if somebody wrote to each page what is there.
    let _faults_will_do = unsafe { madvise(guard.as_ptr().cast(), pages.len(), Advice::LinuxPopulateWrite) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::{Bytes as _, MmapRegion, VolatileMemory as _};

    #[test]
    fn bytes_stay_what_they_were_and_odd_addresses_are_no_harm() {
        let region = MmapRegion::<()>::new(4 * 4096).unwrap();
        let all = region.as_volatile_slice();
        all.write_slice(b"before", 4096 - 3).unwrap();
        populate(&all);
        populate(&region.get_slice(7, 4096).unwrap());
        let mut bytes = [0; 6];
        all.read_slice(&mut bytes, 4096 - 3).unwrap();
        assert_eq!(&bytes, b"before");
    }
}
