//! The place of a check in a description, and its errors.

use super::{DescriptionFlaw, Time};

/// Limits that keep every sum of costs far inside 64 bits. No machine is near them.
const MAX_CYCLES: f64 = 1e6;
const MAX_NS: f64 = 1e6;

pub(super) type Check = Result<(), DescriptionFlaw>;

/// The table under check: its name, and its index among those of this name.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) &'static str, pub(super) usize);

impl At {
    pub(super) fn flaw(
        self,
        key: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> DescriptionFlaw {
        DescriptionFlaw { table: self.0, index: self.1, key, message: message.into(), help: help.into() }
    }

    pub(super) fn time(self, key: &'static str, time: Time) -> Check {
        let in_range = |v: f64, max: f64| (0.0..=max).contains(&v);
        if in_range(time.cycles, MAX_CYCLES) && in_range(time.ns, MAX_NS) {
            return Ok(());
        }
        let help = format!("0 to {MAX_CYCLES} cycles and 0 to {MAX_NS} ns");
        Err(self.flaw(key, format!("`{key}` = {time} is out of range"), help))
    }

    pub(super) fn hz(self, key: &'static str, hz: f64) -> Check {
        if (1e3..=1e11).contains(&hz) {
            return Ok(());
        }
        Err(self.flaw(key, format!("`{key}` = {hz} Hz is out of range"), "from 1 kHz to 100 GHz"))
    }

    /// Checks the name of a table.
    pub(super) fn name(self, name: &str) -> Check {
        self.word("name", name)
    }

    /// Checks a key whose value is a name.
    pub(super) fn word(self, key: &'static str, name: &str) -> Check {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
        let reserved = ["memory", "none"].contains(&name);
        if !name.is_empty() && name.len() <= 32 && name.chars().all(plain) && !reserved {
            return Ok(());
        }
        let help = "a word of letters, digits and - _ . / +; not \"memory\" or \"none\"";
        Err(self.flaw(key, format!("\"{}\" is not a name", name.escape_debug()), help))
    }
}
