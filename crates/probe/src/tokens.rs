//! Enumerated words: one list, once, with its inverse.

/// Gives a field-less enum its tokens on the wire: `ALL`, `token` and `from_token`.
macro_rules! token_names {
    ($name:ident { $($variant:ident = $token:literal),+ $(,)? }) => {
        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word for it on the wire and in findings.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self { $($name::$variant => $token),+ }
            }

            /// The value that a word stands for.
            #[must_use]
            pub fn from_token(token: &str) -> Option<$name> {
                match token { $($token => Some($name::$variant),)+ _ => None }
            }

            /// The words, for error messages.
            #[must_use]
            pub fn choices() -> &'static str {
                concat!($($token, " "),+).trim_ascii_end()
            }
        }
    };
}

pub(crate) use token_names;
