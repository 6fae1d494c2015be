//! The caller's bytes on their way in: what nobody changes meanwhile, and what somebody may.

use vm_memory::VolatileSlice;

/// Memory of the caller that a copy reads.
#[derive(Clone, Copy, Debug)]
pub enum HostBytes<'a> {
    /// Nobody changes them.
    Plain(&'a [u8]),
    /// Somebody may: a mapped file, say.
    Volatile(VolatileSlice<'a>),
}

impl<'a> From<&'a [u8]> for HostBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Plain(bytes)
    }
}

impl<'a> From<VolatileSlice<'a>> for HostBytes<'a> {
    fn from(bytes: VolatileSlice<'a>) -> Self {
        Self::Volatile(bytes)
    }
}

impl HostBytes<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Volatile(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the part at `offset` that `into` has room for. False, with nothing copied, if
    /// it is not there.
    #[must_use]
    pub fn copy_to(&self, offset: usize, into: VolatileSlice<'_>) -> bool {
        match self {
            Self::Plain(bytes) => bytes
                .get(offset..)
                .and_then(|rest| rest.get(..into.len()))
                .map(|part| into.copy_from(part))
                .is_some(),
            Self::Volatile(bytes) => {
                bytes.subslice(offset, into.len()).map(|part| part.copy_to_volatile_slice(into)).is_ok()
            }
        }
    }

    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Plain(bytes) => bytes.as_ptr() as u64,
            Self::Volatile(bytes) => bytes.ptr_guard().as_ptr() as u64,
        }
    }
}
