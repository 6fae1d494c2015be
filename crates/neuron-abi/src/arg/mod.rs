//! The argument structs of the ioctls, byte for byte (spec/abi.md 4 to 10).
//!
//! One file per area, all re-exported here:
//!
//! | file | structs for |
//! |---|---|
//! | `memory` | allocation, lookup, chunk dump, mmap windows, dma-buf |
//! | `copy` | copies, fills, zero-copy, engine programming |
//! | `dma` | engines, queues, descriptors, H2T rings |
//! | `discovery` | device, driver, topology and process information, pods |
//! | `control` | reset, core init, scrub, power, and the other neighbours |
//!
//! Every struct is plain data: `#[repr(C)]`, no implicit padding, every bit pattern valid, so the same
//! bytes go to a kernel, to the software driver and into a test file. [`Default`] is all zeroes; fill the
//! fields you mean and take the rest from it (`..Default::default()`), padding included. User addresses
//! (`uptr` in the spec) are plain `u64`: this crate never follows them.
//!
//! Each field's doc starts with its direction: **in** is read by the driver, **out** is written back by it,
//! **in, out** both. The sizes and offsets printed in each table are compile-time asserts.
//!
//! What the commands *do* with the arguments, and which errno they answer, is not here: that is the
//! driver's business. The command words are in [`crate::cmd`].

/// Where the bytes of a struct are, for who writes the same struct down in another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name of the struct.
    pub name: &'static str,
    /// Its bytes.
    pub size: usize,
    /// Its fields in order, holes included.
    pub fields: &'static [Field],
}

/// One field of a [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field; a hole's begins with `_`.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

/// Every struct of this module.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    [memory::LAYOUTS, copy::LAYOUTS, dma::LAYOUTS, discovery::LAYOUTS, control::LAYOUTS].into_iter().flatten()
}

/// Declares argument structs as the spec's tables write them: `offset => field: type, "meaning";`.
///
/// Adds `repr(C)`, the zerocopy traits, an all-zero `Default`, compile-time asserts that the struct
/// has the stated size and every field the stated offset, and `LAYOUTS`.
macro_rules! abi_struct {
    ($(
        $(#[$meta:meta])*
        $name:ident, size $size:literal {
            $( $offset:literal => $field:ident: $ty:ty, $doc:literal; )*
        }
    )*) => {$(
        $(#[$meta])*
        #[repr(C)]
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $name {
            $( #[doc = $doc] pub $field: $ty, )*
        }

        impl Default for $name {
            /// All bytes zero.
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        const _: () = {
            assert!(core::mem::size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            $( assert!(
                core::mem::offset_of!($name, $field) == $offset,
                concat!("offset of ", stringify!($name), "::", stringify!($field)),
            ); )*
        };
    )*

        /// The structs of this file.
        pub(super) const LAYOUTS: &[super::Layout] = &[$( super::Layout {
            name: stringify!($name),
            size: $size,
            fields: &[$( super::Field {
                name: stringify!($field),
                offset: $offset,
                size: core::mem::size_of::<$ty>(),
            } ),*],
        } ),*];
    };
}

mod control;
mod copy;
mod discovery;
mod dma;
mod memory;

pub use control::*;
pub use copy::*;
pub use discovery::*;
pub use dma::*;
pub use memory::*;

#[cfg(test)]
mod tests;
