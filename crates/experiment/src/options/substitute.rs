//! Option `--substitute` of two experiments: flushes from user space in place of uncached memory or of the kernel's
//! maintenance.

use super::Opt;
use super::values::{Many, Values, Word};

/// The only substitute: flushes of lines.
const FLUSH: Word = Word { token: "flush", aliases: &[], help: "Flush lines from user space" };

/// Returns the option with the help text of an experiment.
pub(crate) const fn option(help: &'static str) -> Opt {
    Opt {
        name: "substitute",
        value: "SUBSTITUTE",
        help,
        default: "",
        many: Many::One,
        values: Values::Word(|| vec![FLUSH]),
        requires: None,
    }
}
