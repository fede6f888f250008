//! The alias: stores through one mapping of a page, loads through another mapping of the same page.
//!
//! Nothing is timed. It shows that two mappings with different attributes are of the same memory, and that the machine
//! maintains its caches between their uses: a store left in a cache, or a stale line, gives another word.

use alloc::format;
use alloc::vec::Vec;

use super::memory::wrong;
use super::{Definition, Keys, Loads, Trial, TrialOutput, Work};
use crate::machine::batch::stride::Sweep;
use crate::machine::{Attribute, Machine, MapRequest, Mapping, Operation, Refusal};
use crate::rows::{Done, Rows, Sample};
use crate::wire::WireError;

/// Minimum bytes: with fewer words the sum verifies nothing.
const MIN_BYTES: u64 = 64;

/// Stores through the trial's attribute and loads through a write-back mapping, and the reverse.
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
        // Each word is stored and loaded, in both directions.
        Work::Loads(Loads::packed(trial, 4 * trial.memory.cells() * trial.samples, 1))
    }

    /// Exchanges words in both directions. In each sample `end` is the sum of the words that were stored through the
    /// trial's attribute and loaded through write-back memory, `end2` that of the reverse. Refuses if the machine
    /// cannot confirm that both mappings are of the same memory.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
        let request = trial.request(1);
        let plain = MapRequest { attribute: Attribute::WriteBack, ..request };
        let (other, back) = (machine.map(&request)?, machine.map(&plain)?);
        let pa = |machine: &mut M, map: &Mapping| machine.translated(map.base).and_then(|t| t.pa);
        let (one, two) = (pa(machine, &other), pa(machine, &back));
        if one.is_none() || one != two || other.base == back.base {
            let reason = "this machine cannot confirm that a mapping with this attribute and one with write-back are of the \
                 same memory";
            return Err(Refusal::new(reason, ""));
        }
        let mut samples = Vec::with_capacity(trial.samples as usize);
        for nth in 0..trial.samples {
            let end = exchange(machine, trial, (&request, &plain), seed(trial, nth, false))?;
            let end2 = exchange(machine, trial, (&plain, &request), seed(trial, nth, true))?;
            samples.push(Sample { end, end2, ..Sample::default() });
        }
        Ok(TrialOutput::of(Rows::of_samples(trial.id, samples), other.page_bytes, other.base))
    }

    fn verify(&self, trial: &Trial, rows: &Rows, _: &Done) -> Vec<usize> {
        let Rows::Samples(samples) = rows else { return rows.all() };
        let sweep = words(trial);
        let prime = sweep.prime();
        let sums = |nth: usize| {
            [false, true].map(|second| sweep.sum(0, sweep.cells, seed(trial, nth as u64, second)))
        };
        let verified = |i: usize| {
            let sample = &samples.list[i];
            [sample.end % prime, sample.end2 % prime] == sums(i)
        };
        (0..samples.list.len()).filter(|&i| !verified(i)).collect()
    }
}

/// Returns the sweep whose initial words are stored. Their sum is known in closed form.
fn words(trial: &Trial) -> Sweep {
    Sweep { base: 0, stride: 8, cells: trial.memory.cells(), operation: Operation::Read }
}

/// Returns a different seed for each exchange, so that remains of the last exchange do not verify this one.
fn seed(trial: &Trial, sample: u64, second: bool) -> u64 {
    trial.seed.wrapping_add(2 * sample + u64::from(second))
}

/// Stores words through the first mapping and sums what the second one loads. The request for the second, made after
/// the stores, maintains the caches.
fn exchange<M: Machine>(
    machine: &mut M,
    trial: &Trial,
    (into, from): (&MapRequest, &MapRequest),
    seed: u64,
) -> Result<u64, Refusal> {
    let outside = || Refusal::new("the cells reach outside the mapped memory", "request fewer bytes");
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
        let value = machine.follow(at);
        sum = sum.wrapping_add(machine.offset(value).wrapping_sub(base) / 8);
    }
    Ok(sum)
}
