//! Records of latency curves of planted machines, for tests of what is measured after the curve.

use fathom_analysis::claims::FactValue;
use fathom_probe::machine::ClockTrust;
use fathom_probe::pattern::{Chase, Memory, Trial, Walk};
use fathom_probe::rows::{Done, Sample};
use fathom_probe::splitmix::mix;

use crate::latency_curve;
use crate::record::{Record, TrialRun};
use crate::scale::STRIDE;

/// Returns the time of a load, ns, of a machine with caches of 32 KiB and 1 MiB.
pub(crate) fn latency(bytes: u64, memory: f64) -> f64 {
    match bytes {
        ..=0x8000 => 2.0,
        0x8001..=0x10_0000 => 8.0,
        _ => memory,
    }
}

/// Returns what a machine reports of a trial whose sample `nth` takes `step_ns(nth)` a step, on a clock of 1 THz (ticks of picoseconds), with
/// errors of up to `noise`, relative.
pub(crate) fn run(trial: &Trial, spent_ns: u64, noise: f64, step_ns: impl Fn(u64) -> f64) -> TrialRun {
    let sample = |nth: u64| {
        let draw = mix(trial.seed ^ mix(trial.id) ^ nth) >> 11;
        let error = 1.0 + noise * (draw as f64 / (1u64 << 52) as f64 - 1.0);
        let ticks = |steps: u64| (1000.0 * step_ns(nth) * steps as f64 * error) as u64 + 77;
        Sample { ticks: ticks(trial.loads), ticks2: ticks(2 * trial.loads), ..Sample::default() }
    };
    TrialRun {
        trial: trial.clone(),
        samples: (0..trial.samples).map(sample).collect(),
        done: Some(Done { trial: trial.id, page_bytes: 4096, spent_ns, ..Done::default() }),
        ..TrialRun::default()
    }
}

/// Returns a record of a latency curve up to `top` bytes, after the rounds of the scan.
pub(crate) fn curve(top: u64, run: impl Fn(&Trial) -> TrialRun) -> Record {
    let mut record = Record::default();
    record.trust = Some(ClockTrust::Real);
    record.facts.extend([("clock.hz".to_owned(), FactValue::Int(1_000_000_000_000))]);
    let sizes =
        (0..).map(|nth| 1024u64 << nth).flat_map(|bytes| [bytes, bytes + bytes / 4, bytes + bytes / 2]);
    for (bytes, id) in sizes.take_while(|bytes| *bytes <= top).zip(1..) {
        let trial = Trial {
            id,
            round: latency_curve::SCAN_ROUNDS,
            memory: Memory::of(bytes, STRIDE),
            loads: 1000,
            seed: id,
            ..Trial::of(Chase::over(Walk::windows(64 << 10)))
        };
        record.trials.push(run(&trial));
    }
    record
}
