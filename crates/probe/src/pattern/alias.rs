//! The alias: what is stored through one mapping of a page is loaded through another of the same page.
//!
//! Nothing is timed. It shows that two mappings with different attributes are of the same memory, and that the
//! machine maintains its caches between their uses: a store left in a cache, or a stale line, is another word.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Keys, Loads, Trial, TrialOutput, Work};
use crate::machine::batch::stride::Sweep;
use crate::machine::{Attribute, Machine, MapRequest, Mapping, Operation, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// Fewest bytes: of fewer words there is no sum that proves anything.
const MIN_BYTES: u64 = 64;

/// Stores through the attribute asked for that write-back memory's mapping loads, and the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alias;

impl Definition for Alias {
    const TIME_GROWS: bool = true;

    fn keys(&mut self, _: &mut Keys<'_>) -> Result<(), WireError> {
        Ok(())
    }

    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        let (stride, bytes) = (trial.memory.stride, trial.memory.bytes);
        if stride == 8 && bytes >= MIN_BYTES {
            return Ok(());
        }
        wrong(format!(
            "pattern=alias needs stride=8 and {MIN_BYTES} bytes or more, not stride={stride} bytes={bytes}"
        ))
    }

    fn work(&self, trial: &Trial) -> Work {
        // Each word is stored and loaded, both ways.
        Work::Loads(Loads::packed(trial, 4 * trial.memory.cells() * trial.samples, 1))
    }

    /// In each sample `end` is the sum of the words that were stored through the trial's attribute and loaded through
    /// write-back memory, `end2` that of the other way round. Refuses where the machine cannot say that both mappings are
    /// of the same memory.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let request = trial.request(1);
        let plain = MapRequest { attribute: Attribute::WriteBack, ..request };
        let (other, back) = (machine.map(&request)?, machine.map(&plain)?);
        let pa = |machine: &mut M, map: &Mapping| machine.translated(map.base).and_then(|t| t.pa);
        let (one, two) = (pa(machine, &other), pa(machine, &back));
        if one.is_none() || one != two || other.base == back.base {
            let reason =
                "no memory is known to be mapped twice here, with this attribute and with write-back";
            return Err(Refusal::new(reason, ""));
        }
        let mut samples = Vec::with_capacity(trial.samples as usize);
        for nth in 0..trial.samples {
            let end = exchange(machine, trial, (&request, &plain), seed(trial, nth, false))?;
            let end2 = exchange(machine, trial, (&plain, &request), seed(trial, nth, true))?;
            samples.push(Sample { end, end2, ..Sample::default() });
        }
        Ok(TrialOutput::of(Rows::samples(trial.id, samples), other.page_bytes, other.base))
    }

    fn verify(&self, trial: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        let Rows::Samples(samples) = rows else { return rows.all() };
        let sweep = words(trial);
        let prime = sweep.prime();
        let sums = |nth: usize| {
            [false, true].map(|second| sweep.sum(0, sweep.cells, seed(trial, nth as u64, second)))
        };
        let proven = |i: usize| {
            let sample = &samples.list[i];
            [sample.end % prime, sample.end2 % prime] == sums(i)
        };
        (0..samples.list.len()).filter(|&i| !proven(i)).collect()
    }
}

/// What cells are initialised with: the words of a reading sweep, whose sum is known without adding it up.
fn words(trial: &Trial) -> Sweep {
    Sweep { base: 0, stride: 8, cells: trial.memory.cells(), operation: Operation::Read }
}

/// Other words each time: what is left of the last exchange is no proof of this one.
fn seed(trial: &Trial, sample: u64, second: bool) -> u64 {
    trial.seed.wrapping_add(2 * sample + u64::from(second))
}

/// Stores words through the first mapping and sums up what the second one loads; the request for the second, made
/// after the stores, is what maintains caches.
fn exchange<M: Machine>(
    machine: &mut M,
    trial: &Trial,
    (into, from): (&MapRequest, &MapRequest),
    seed: u64,
) -> Result<u64, Refusal> {
    let outside = || Refusal::new("the cells reach outside the mapped memory", "ask for fewer bytes");
    let base = machine.map(into)?.base;
    let sweep = Sweep { base, ..words(trial) };
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
