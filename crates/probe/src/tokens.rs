//! Enums with names on the wire: one list of tokens per enum, for writing and reading.

/// A field-less enum whose values are tokens on the wire.
pub trait Token: Copy + 'static {
    /// Returns the token of a value.
    fn word(self) -> &'static str;

    /// Returns the value of a token.
    fn of_word(word: &str) -> Option<Self>;

    /// Returns all tokens, for error messages.
    fn words() -> &'static str;
}

/// Gives a field-less enum its tokens on the wire: `ALL`, `token` and `from_token`.
macro_rules! token_names {
    ($name:ident { $($variant:ident = $token:literal),+ $(,)? }) => {
        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Returns its token on the wire and in findings.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self { $($name::$variant => $token),+ }
            }

            /// Returns the value of a token.
            #[must_use]
            pub fn from_token(token: &str) -> Option<$name> {
                match token { $($token => Some($name::$variant),)+ _ => None }
            }

            /// Returns all tokens, for error messages.
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
