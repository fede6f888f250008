//! Where a check looks, and what it says of a value there.

use super::{DescriptionFlaw, Time};

/// Bounds that keep every sum of costs far inside 64 bits; no machine is near them.
const MAX_CYCLES: f64 = 1e6;
const MAX_NS: f64 = 1e6;

pub(super) type Check = Result<(), DescriptionFlaw>;

/// Where a check looks.
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
        let sane = |v: f64, most: f64| (0.0..=most).contains(&v);
        if sane(time.cycles, MAX_CYCLES) && sane(time.ns, MAX_NS) {
            return Ok(());
        }
        let help = format!("0 to {MAX_CYCLES} cycles and 0 to {MAX_NS} ns");
        Err(self.flaw(key, format!("`{key}` = {time} is no time of a memory hierarchy"), help))
    }

    pub(super) fn hz(self, key: &'static str, hz: f64) -> Check {
        if (1e3..=1e11).contains(&hz) {
            return Ok(());
        }
        Err(self.flaw(key, format!("`{key}` = {hz} Hz is no clock of a machine"), "from 1 kHz to 100 GHz"))
    }
}
