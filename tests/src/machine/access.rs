//! One register access, and how two lists of them differ.

use std::fmt::{self, Display};

use crate::vectors::Mismatch;

/// Which way an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read; the value is what the device returned.
    Read,
    /// A write.
    Write,
}

impl Op {
    /// The letter it is recorded as.
    pub const fn letter(self) -> u8 {
        match self {
            Self::Read => b'r',
            Self::Write => b'w',
        }
    }
}

/// A 32-bit register access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read or write.
    pub op: Op,
    /// BAR; the driver only reaches 0.
    pub bar: u8,
    /// Offset from the start of the BAR, bytes.
    pub offset: u64,
    /// Value read or written.
    pub value: u32,
}

impl Access {
    /// A read of BAR0.
    pub const fn read(offset: u64, value: u32) -> Self {
        Self { op: Op::Read, bar: 0, offset, value }
    }

    /// A write of BAR0.
    pub const fn write(offset: u64, value: u32) -> Self {
        Self { op: Op::Write, bar: 0, offset, value }
    }
}

impl Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, bar, offset, value } = self;
        write!(f, "{} bar{bar} {offset:#x} {value:#x}", char::from(op.letter()))
    }
}

/// Compares two lists of accesses, in order.
///
/// # Errors
/// If they differ: the first place, and both lengths.
pub fn equal_accesses(what: impl Display, ours: &[Access], recorded: &[Access]) -> Result<(), Mismatch> {
    if ours == recorded {
        return Ok(());
    }
    let at = ours.iter().zip(recorded).take_while(|(ours, recorded)| ours == recorded).count();
    let show = |list: &[Access]| list.get(at).map_or_else(|| "the end".to_owned(), Access::to_string);
    Err(Mismatch::new(format!(
        "{what}: access {at} of {}, {} recorded: ours {}, recorded {}",
        ours.len(),
        recorded.len(),
        show(ours),
        show(recorded),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_access_that_differs_is_told() {
        let [a, b, c] = [Access::write(0x10, 1), Access::write(0x20, 2), Access::read(0x20, 2)];
        assert_eq!(equal_accesses("mmio", &[a, b], &[a, b]), Ok(()));
        let told = equal_accesses("mmio", &[a, c], &[a, b]).unwrap_err().to_string();
        assert_eq!(told, "mmio: access 1 of 2, 2 recorded: ours r bar0 0x20 0x2, recorded w bar0 0x20 0x2");
        let told = equal_accesses("mmio", &[a], &[a, b]).unwrap_err().to_string();
        assert!(told.contains("access 1 of 1, 2 recorded: ours the end"), "{told}");
        assert!(equal_accesses("mmio", &[], &[a]).is_err());
    }
}
