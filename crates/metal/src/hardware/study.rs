//! Study S0 for a person at a serial terminal: the image runs it after four seconds without input.

use alloc::string::String;

use fathom_probe::machine::batch::stride::Sweep;
use fathom_probe::machine::{Attribute, ClockTrust, Machine, MapRequest, Operation, Pages};

use super::metal::Metal;
use super::{arch, boot_state, clock, uart};
use crate::study::{BUFFER_BYTES, ROUNDS, Run, head, ratio};
use crate::windows::FIRST_ADDRESS;

/// Runs the study, unless input arrives; then returns to the server.
pub(super) fn run(metal: &mut Metal) {
    let is_hardware = metal.trust() == ClockTrust::Real;
    let core = arch::cpu::name();
    uart::line(&head(boot_state().board.name(), &core, is_hardware, metal.is_coherent()));
    for bytes in BUFFER_BYTES {
        let mut runs = [None; 2];
        for (run, attribute) in runs.iter_mut().zip([Attribute::NormalNc, Attribute::WriteBack]) {
            if uart::pending() {
                return;
            }
            *run = time_run(metal, bytes, attribute);
            let line = run.as_ref().map_or_else(|| String::from("#   refused"), Run::line);
            uart::line(&line);
        }
        if let [Some(uncached), Some(cached)] = runs {
            uart::line(&ratio(&uncached, &cached));
        }
    }
    uart::line("# the block was cleaned and invalidated between the two attributes; serving the probe again");
}

/// Times read-modify-writes through one attribute, in a block, as the study maps it.
fn time_run(metal: &mut Metal, bytes: u64, attribute: Attribute) -> Option<Run> {
    metal.quiet_begin();
    let time_sweep = time_sweep(metal, bytes, attribute);
    metal.quiet_end();
    let (base, ticks) = time_sweep?;
    Some(Run { bytes, va: FIRST_ADDRESS + base, translated: metal.par(base), ticks, hz: clock::system_hz() })
}

/// Returns the base of the buffer and the ticks; `None` if it is refused.
fn time_sweep(metal: &mut Metal, bytes: u64, attribute: Attribute) -> Option<(u64, u64)> {
    let mapping = metal.map(&MapRequest { bytes, pages: Pages::Huge, attribute, place: 0 }).ok()?;
    let sweep = Sweep { base: mapping.base, stride: 8, cells: bytes / 8, operation: Operation::Rmw };
    metal.initialise_sweep(&sweep, 0).ok()?;
    let begin = clock::system();
    metal.sweep(&sweep, 0, ROUNDS * sweep.cells)?;
    Some((mapping.base, clock::system().wrapping_sub(begin)))
}
