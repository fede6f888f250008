//! What stands in for memory that is not cached, where there is none: the values of `--substitute`, of two experiments.

use super::Opt;
use super::values::{Many, Values, Word};

/// The word of the one substitute: a flush after each access.
const FLUSH: Word = Word { token: "flush", aliases: &[], help: "Flush lines from user space" };

/// The option, with what it stands in for at an experiment.
pub(crate) const fn option(help: &'static str) -> Opt {
    Opt {
        name: "substitute",
        value: "WHAT",
        help,
        default: "",
        many: Many::One,
        values: Values::Word(|| vec![FLUSH]),
        requires: None,
    }
}
