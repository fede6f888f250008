//! Settings of one trial: an attribute byte, the attribute of table walks, prefetchers.

use fathom_probe::machine::{Controls, Refusal};

use super::arch;

/// Settings in force.
pub(super) struct Control {
    pub(super) controls: Controls,
}

impl Control {
    /// Restores the defaults, because a fault may have left any settings.
    pub(super) fn open() -> Control {
        arch::control::restore();
        Control { controls: Controls::default() }
    }

    /// Puts settings in force.
    pub(super) fn set(&mut self, controls: &Controls) -> Result<(), Refusal> {
        if controls.flush {
            return Err(Refusal::new(
                "a flush after each access is a substitute for uncached memory, which is available here",
                "request attribute normal-nc or device",
            ));
        }
        arch::control::check_walks(controls.tables)?;
        if let Some(byte) = controls.mair {
            arch::control::check_byte(byte)?;
        }
        if controls.prefetch != self.controls.prefetch {
            arch::control::prefetch(controls.prefetch)?;
        }
        if let Some(byte) = controls.mair {
            arch::mmu::set_raw(byte);
        }
        if controls.tables != self.controls.tables {
            arch::control::set_walks(controls.tables);
        }
        self.controls = *controls;
        Ok(())
    }
}
