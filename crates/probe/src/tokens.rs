//! Enumerated words: one list, once, with its inverse.

/// A field-less enum whose values are words on the wire.
pub trait Token: Copy + 'static {
    /// The word of a value.
    fn word(self) -> &'static str;

    /// The value that a word stands for.
    fn of_word(word: &str) -> Option<Self>;

    /// The words, for error messages.
    fn words() -> &'static str;
}

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

        impl $crate::tokens::Token for $name {
            fn word(self) -> &'static str {
                self.token()
            }

            fn of_word(word: &str) -> Option<$name> {
                $name::from_token(word)
            }

            fn words() -> &'static str {
                $name::choices()
            }
        }
    };
}

pub(crate) use token_names;
