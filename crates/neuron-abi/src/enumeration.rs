//! One macro for the ABI's numbered enums, so that all convert, name and print alike.

/// Declares a numbered enum: `Variant = value, "NAME";` with its integer type after the enum's name.
///
/// Adds `ALL`, `raw`, `from_raw`, `name`, and a `Display` that prints the name.
macro_rules! enumeration {
    ($(
        $(#[$meta:meta])*
        $name:ident: $repr:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $value:literal, $text:literal; )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr($repr)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant = $value, )*
        }

        impl $name {
            /// Every value, in ascending order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The number in the ABI.
            pub const fn raw(self) -> $repr {
                self as $repr
            }

            /// The value with this number, if there is one.
            pub const fn from_raw(raw: $repr) -> Option<$name> {
                match raw {
                    $( $value => Some($name::$variant), )*
                    _ => None,
                }
            }

            /// The name in the ABI.
            pub const fn name(self) -> &'static str {
                match self {
                    $( $name::$variant => $text, )*
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}

pub(crate) use enumeration;
