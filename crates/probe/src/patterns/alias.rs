//! The alias: what is stored through one mapping of a page is loaded through another of the same page.
//!
//! Nothing is timed. It shows that two mappings with different attributes are of the same memory, and that the
//! machine maintains its caches between their uses: a store left in a cache, or a stale line, is another word.

use alloc::vec::Vec;

use super::TrialOutput;
use super::stride::Sweep;
use crate::machine::{Attribute, Machine, MapRequest, Mapping, Operation, Refusal};
use crate::wire::{Sample, Trial};

/// What cells are laid with: the words of a reading sweep, whose sum is known without adding it up.
fn words(base: u64, trial: &Trial) -> Sweep {
    Sweep { base, stride: 8, cells: trial.cells(), operation: Operation::Read }
}

/// The sum of the words that the sample's first or second exchange carries, modulo [`Sweep::prime`].
#[must_use]
pub fn sum(trial: &Trial, sample: u64, second: bool) -> u64 {
    let sweep = words(0, trial);
    sweep.sum(0, sweep.cells, seed(trial, sample, second))
}

/// The modulus.
#[must_use]
pub fn prime(trial: &Trial) -> u64 {
    words(0, trial).prime()
}

/// Other words each time: what is left of the last exchange is no proof of this one.
fn seed(trial: &Trial, sample: u64, second: bool) -> u64 {
    trial.seed.wrapping_add(2 * sample + u64::from(second))
}

/// Runs a trial of the pattern `alias`. In each sample `end` is the sum of the words that were stored through the
/// trial's attribute and loaded through write-back memory, `end2` that of the other way round.
///
/// # Errors
/// The machine's refusal of the memory; and where it cannot say that both mappings are of the same.
pub fn measure<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    let request = trial.request(1);
    let plain = MapRequest { attribute: Attribute::WriteBack, ..request };
    let (other, back) = (machine.map(&request)?, machine.map(&plain)?);
    let pa = |machine: &mut M, map: &Mapping| machine.translated(map.base).and_then(|t| t.pa);
    let (one, two) = (pa(machine, &other), pa(machine, &back));
    if one.is_none() || one != two || other.base == back.base {
        let reason = "no memory is known to be mapped twice here, with this attribute and with write-back";
        return Err(Refusal::new(reason, ""));
    }
    let mut samples = Vec::with_capacity(trial.samples as usize);
    for nth in 0..trial.samples {
        let end = exchange(machine, trial, (&request, &plain), seed(trial, nth, false))?;
        let end2 = exchange(machine, trial, (&plain, &request), seed(trial, nth, true))?;
        samples.push(Sample { end, end2, ..Sample::default() });
    }
    Ok(TrialOutput::of(samples, other.page_bytes, other.base))
}

/// Stores words through the first mapping and sums up what the second one loads; the wish for the second, made
/// after the stores, is what maintains caches.
fn exchange<M: Machine>(
    machine: &mut M,
    trial: &Trial,
    (into, from): (&MapRequest, &MapRequest),
    seed: u64,
) -> Result<u64, Refusal> {
    let outside = || Refusal::new("the cells reach outside the mapped memory", "ask for fewer bytes");
    let base = machine.map(into)?.base;
    let sweep = words(base, trial);
    let mut initialised = sweep.initialised(0, seed);
    for number in 0..sweep.cells {
        let at = machine.cell(base + 8 * number).ok_or_else(outside)?;
        let to = machine.cell(base + 8 * initialised.word).ok_or_else(outside)?;
        machine.link(at, to);
        initialised.advance();
    }
    let other = machine.map(from)?.base;
    let mut sum = 0u64;
    for number in 0..sweep.cells {
        let at = machine.cell(other + 8 * number).ok_or_else(outside)?;
        let held = machine.follow(at);
        sum = sum.wrapping_add(machine.offset(held).wrapping_sub(base) / 8);
    }
    Ok(sum)
}
