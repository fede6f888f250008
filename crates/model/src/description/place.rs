//! Where a check looks, and what it says of a value there.

use super::{Flaw, Time};

/// Bounds that keep every sum of costs far inside 64 bits; no machine is near them.
const MOST_CYCLES: f64 = 1e6;
const MOST_NS: f64 = 1e6;

pub(super) type Check = Result<(), Flaw>;

/// Where a check looks.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) &'static str, pub(super) usize);

impl At {
    pub(super) fn flaw(self, key: &'static str, message: impl Into<String>, help: impl Into<String>) -> Flaw {
        Flaw { table: self.0, index: self.1, key, message: message.into(), help: help.into() }
    }

    pub(super) fn time(self, key: &'static str, time: Time) -> Check {
        let sane = |v: f64, most: f64| (0.0..=most).contains(&v);
        if sane(time.cycles, MOST_CYCLES) && sane(time.ns, MOST_NS) {
            return Ok(());
        }
        let help = format!("0 to {MOST_CYCLES} cycles and 0 to {MOST_NS} ns");
        Err(self.flaw(key, format!("`{key}` = {time} is no time of a memory hierarchy"), help))
    }

    pub(super) fn hz(self, key: &'static str, hz: f64) -> Check {
        if (1e3..=1e11).contains(&hz) {
            return Ok(());
        }
        Err(self.flaw(key, format!("`{key}` = {hz} Hz is no clock of a machine"), "from 1 kHz to 100 GHz"))
    }
}
