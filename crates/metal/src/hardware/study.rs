//! Study S0 for a human at a serial terminal: the image runs it by itself after four seconds of silence.

use alloc::string::String;

use fathom_probe::machine::batch::stride::Sweep;
use fathom_probe::machine::{Attribute, ClockTrust, Machine, MapRequest, Operation, Pages};

use super::metal::Metal;
use super::{clock, found, mrs, uart};
use crate::registers;
use crate::study::{BUFFERS, ROUNDS, Run, head, ratio};
use crate::windows::FIRST;

/// Runs it, unless somebody begins to speak; the server continues afterwards.
pub(super) fn run(metal: &mut Metal) {
    let believable = metal.trust() == ClockTrust::Real;
    let core = registers::core(mrs!("midr_el1"));
    uart::line(&head(found().board.name(), &core, believable, metal.is_coherent()));
    for bytes in BUFFERS {
        let mut runs = [None; 2];
        for (run, attribute) in runs.iter_mut().zip([Attribute::NormalNc, Attribute::WriteBack]) {
            if uart::pending() {
                return;
            }
            *run = one(metal, bytes, attribute);
            let line = run.as_ref().map_or_else(|| String::from("#   refused"), Run::line);
            uart::line(&line);
        }
        if let [Some(uncached), Some(cached)] = runs {
            uart::line(&ratio(&uncached, &cached));
        }
    }
    uart::line("# the block was cleaned and invalidated between the two attributes; serving the probe again");
}

/// Read-modify-writes through one attribute, in a block of 2 MiB, as the study maps it.
fn one(metal: &mut Metal, bytes: u64, attribute: Attribute) -> Option<Run> {
    metal.quiet_begin();
    let timed = timed(metal, bytes, attribute);
    metal.quiet_end();
    let (base, ticks) = timed?;
    Some(Run { bytes, va: FIRST + base, translated: metal.par(base), ticks, hz: clock::system_hz() })
}

/// Where it was done and the ticks that it took; `None` where it is refused.
fn timed(metal: &mut Metal, bytes: u64, attribute: Attribute) -> Option<(u64, u64)> {
    let mapping = metal.map(&MapRequest { bytes, pages: Pages::Huge, attribute, place: 0 }).ok()?;
    let sweep = Sweep { base: mapping.base, stride: 8, cells: bytes / 8, operation: Operation::Rmw };
    metal.initialise_sweep(&sweep, 0).ok()?;
    let begin = clock::system();
    metal.sweep(&sweep, 0, ROUNDS * sweep.cells)?;
    Some((mapping.base, clock::system().wrapping_sub(begin)))
}
