//! Proof of work: where a run of loads must have ended.
//!
//! "Came home" is no proof: a loop that never ran is home too. The harness computes, on its own and
//! in constant time, the cell on which every timed run of a trial must end.

use crate::chain::Chain;
use crate::machine::Operation;
use crate::patterns::{alias, stride, transfer};
use crate::transfer::Transferred;
use crate::wire::{PatternKind, Sample, Trial, Woke};

/// Numbers of the samples whose end cells are not where `n` and `2n` loads lead. Patterns that load
/// nothing (clock, alu) prove nothing here. Runs of whole laps end where they began, so they prove
/// nothing either: such a trial is unproven from its first sample on, and no plan asks for one.
#[must_use]
pub fn unproven(trial: &Trial, page_bytes: u64, samples: &[Sample]) -> alloc::vec::Vec<usize> {
    // Wake-ups and transfers are no samples.
    if matches!(
        trial.pattern,
        PatternKind::Clock | PatternKind::Alu | PatternKind::Wake | PatternKind::Transfer
    ) {
        return alloc::vec::Vec::new();
    }
    if trial.frames > 0 {
        return unproven_shared(trial, samples);
    }
    if trial.pattern == PatternKind::Stride {
        return match trial.first_touch {
            true => unproven_touches(trial, page_bytes, samples),
            false => unproven_sweeps(trial, samples),
        };
    }
    if trial.pattern == PatternKind::Copy {
        return unproven_copies(trial, samples);
    }
    if trial.pattern == PatternKind::Alias {
        let sums = |nth: usize| [false, true].map(|second| alias::sum(trial, nth as u64, second));
        let prime = alias::prime(trial);
        let proven = |i: usize| [samples[i].end % prime, samples[i].end2 % prime] == sums(i);
        return (0..samples.len()).filter(|&i| !proven(i)).collect();
    }
    if trial.pattern == PatternKind::EvictionSet {
        return unproven_probes(trial, samples);
    }
    let mut chain = trial.chain(0, page_bytes);
    let cells = chain.cells();
    // The first run of a sample and the second, in loads.
    let (first_run, second_run) = match trial.pattern {
        PatternKind::Single => (trial.loads, trial.timed),
        _ => (trial.loads, 2 * trial.loads),
    };
    let longer = first_run.max(second_run);
    if cells > 2 && longer.is_multiple_of(cells) {
        return (0..samples.len()).collect();
    }
    let mut position = trial.warm;
    let mut bad = alloc::vec::Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        if i > 0 && chain.walked_once() {
            (chain, position) = (trial.chain_of(i as u64, 0, page_bytes), trial.warm);
        }
        let first = position.wrapping_add(first_run);
        position = first.wrapping_add(second_run);
        if sample.end != chain.cell_at(first) || sample.end2 != chain.cell_at(position) {
            bad.push(i);
        }
    }
    bad
}

/// Numbers of the activations that prove nothing: that did not walk to where their loads lead, or whose places are
/// not in their order (the kernel's own thread walks nothing); all, where the series took less than its periods (`wall_ns`, around the whole trial).
#[must_use]
pub fn unproven_wakes(trial: &Trial, woken: &[Woke], wall_ns: u64) -> alloc::vec::Vec<usize> {
    let steps = |w: &Woke| w.missed.saturating_add(w.skipped).saturating_add(1);
    let periods = woken.iter().skip(1).fold(trial.warm, |sum, w| sum.saturating_add(steps(w)));
    if wall_ns < periods.saturating_mul(trial.wakes.every_ns) {
        return (0..woken.len()).collect();
    }
    let chain = trial.chain(0, 1);
    let ordered = |w: &Woke| {
        let places = [w.irq_ns, w.wake_ns, w.switch_ns, Some(w.user_ns), Some(w.work_ns)];
        places.into_iter().flatten().is_sorted()
    };
    let position = |i: usize| trial.loads.wrapping_mul(trial.warm.wrapping_add(i as u64 + 1));
    let walked = |i: usize| trial.wakes.timerlat || woken[i].end == chain.cell_at(position(i));
    let proven = |i: usize| ordered(&woken[i]) && walked(i);
    (0..woken.len()).filter(|&i| !proven(i)).collect()
}

/// Numbers of the transfers that prove nothing: at whose far end something else arrived than was sent, or whose victim
/// did not walk to where its loads lead.
#[must_use]
pub fn unproven_transfers(trial: &Trial, moved: &[Transferred]) -> alloc::vec::Vec<usize> {
    let chain = (trial.transfers.victim > 0).then(|| trial.victim(0));
    let walked = |i: usize| {
        let end = |chain: &Chain| {
            let number = trial.warm.wrapping_add(i as u64);
            chain.cell_at(transfer::walked(chain.cells(), number))
        };
        chain.as_ref().is_none_or(|chain| moved[i].end == end(chain))
    };
    (0..moved.len()).filter(|&i| moved[i].wrong > 0 || !walked(i)).collect()
}

/// The same of pages that share a frame: the numbers of the cells that come next. Each is reached only by adding
/// up what was loaded before it.
fn unproven_shared(trial: &Trial, samples: &[Sample]) -> alloc::vec::Vec<usize> {
    let cells = trial.cells();
    if cells > 2 && (2 * trial.loads).is_multiple_of(cells) {
        return (0..samples.len()).collect();
    }
    let mut position = trial.warm;
    let mut next = |n: u64| {
        position = position.wrapping_add(n);
        position % cells
    };
    let ends: alloc::vec::Vec<(u64, u64)> =
        samples.iter().map(|_| (next(trial.loads), next(2 * trial.loads))).collect();
    (0..samples.len()).filter(|&i| (samples[i].end, samples[i].end2) != ends[i]).collect()
}

/// The same of first touches. Fresh memory reads as zero wherever it is read, so a sum of it proves nothing;
/// that each page which is touched for the first time faults does, and the kernel counted. What was stored is
/// looked at besides.
fn unproven_touches(trial: &Trial, page_bytes: u64, samples: &[Sample]) -> alloc::vec::Vec<usize> {
    let sweep = trial.sweep(0);
    let proven = |sample: &Sample| {
        let (first, all) = (sweep.pages(trial.loads, page_bytes), sweep.pages(3 * trial.loads, page_bytes));
        let second = match trial.operation {
            Operation::Read => sample.end2 >= all - first,
            _ => sample.end2 == stride::touched(3 * trial.loads),
        };
        sample.end >= first && second
    };
    (0..samples.len()).filter(|i| !proven(&samples[*i])).collect()
}

/// The same of probes: the numbers of the accesses that were reached.
fn unproven_probes(trial: &Trial, samples: &[Sample]) -> alloc::vec::Vec<usize> {
    let cells = trial.sequence.accesses().len() as u64;
    let timed = trial.sequence.timed();
    if timed.is_empty() && (2 * trial.loads).is_multiple_of(cells) && cells > 2 {
        return (0..samples.len()).collect();
    }
    let mut position = trial.warm % cells;
    let expected = |(i, _): (usize, &Sample)| match timed.get(i % timed.len().max(1)) {
        Some(&at) => (at as u64, (at as u64 + 1) % cells),
        None => {
            let middle = position.wrapping_add(trial.loads) % cells;
            position = middle.wrapping_add(2 * trial.loads) % cells;
            (middle, position)
        }
    };
    let ends: alloc::vec::Vec<(u64, u64)> = samples.iter().enumerate().map(expected).collect();
    (0..samples.len()).filter(|&i| (samples[i].end, samples[i].end2) != ends[i]).collect()
}

/// The same of sweeps: each run's sum, or what its last cell holds; and, where the buffer was written to, what
/// all of it holds at the end. Where that is wrong, no sample of the trial is proven.
fn unproven_sweeps(trial: &Trial, samples: &[Sample]) -> alloc::vec::Vec<usize> {
    let sweep = trial.sweep(0);
    let mut reached = sweep.cells;
    let run = |reached: &mut u64, n: u64| {
        let from = *reached;
        *reached = from.wrapping_add(n);
        match sweep.operation {
            Operation::Read => sweep.sum(from, n, trial.seed),
            _ => sweep.held(reached.wrapping_sub(1) % sweep.cells, *reached),
        }
    };
    // Of a sum only the remainder is known without adding it up.
    let known = |end: u64| if sweep.operation == Operation::Read { end % sweep.prime() } else { end };
    let mut bad = alloc::vec::Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        let (end, mut end2) = (run(&mut reached, trial.loads), run(&mut reached, 2 * trial.loads));
        let last = i + 1 == samples.len() && sweep.operation != Operation::Read;
        if last {
            end2 = sweep.contents(reached);
            if sample.end2 != end2 {
                return (0..samples.len()).collect();
            }
        }
        if known(sample.end) != end || known(sample.end2) != end2 {
            bad.push(i);
        }
    }
    bad
}

/// The same of copies: what the last cell that each run copied to then held, which was another word before; and the
/// sum of all that was copied to, at the end.
fn unproven_copies(trial: &Trial, samples: &[Sample]) -> alloc::vec::Vec<usize> {
    let copying = trial.copying(0, 0);
    let mut reached = copying.cells;
    let mut run = |n: u64| {
        reached = reached.wrapping_add(n);
        (reached, copying.last(reached, trial.seed))
    };
    let mut bad = alloc::vec::Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        let ((_, end), (reached, end2)) = (run(trial.loads), run(2 * trial.loads));
        let last = i + 1 == samples.len();
        if last && sample.end2 % copying.prime() != copying.sum(reached, trial.seed) {
            return (0..samples.len()).collect();
        }
        if sample.end != end || (!last && sample.end2 != end2) {
            bad.push(i);
        }
    }
    bad
}
