//! Trials of `fathom cacheability`.

use super::points::PILOT_ROUND;
use super::{STRIDE, STUDY_BYTES, UncachedMethod};
use crate::record::Record;
use fathom_probe::machine::{Attribute, Controls, Operation};
use fathom_probe::pattern::{Copy, Memory, Pattern, PatternKind, Stride, Trial};

/// Samples per trial.
const SAMPLES: u64 = 3;

/// n if each access waits for memory and a barrier: a tenth of a millisecond to a millisecond.
pub(super) const FLUSHED_LOADS: u64 = 2 * 521;

/// Returns whether this method was refused in the pilot round. A refusal of a larger working set does not count.
pub(super) fn refused(record: &Record, method: UncachedMethod) -> bool {
    let of = |t: &Trial| {
        t.kind() == PatternKind::Stride && UncachedMethod::of(t) == method && t.memory.bytes == STUDY_BYTES
    };
    record.trials.iter().any(|r| r.trial.round == PILOT_ROUND && of(&r.trial) && r.refusal.is_some())
}

pub(super) fn trial(method: UncachedMethod, operation: Operation, bytes: u64, loads: u64) -> Trial {
    let pattern: Pattern =
        if operation.copies() { Copy { operation }.into() } else { Stride::of(operation).into() };
    let plain = Controls::default();
    let (attribute, controls) = match method {
        UncachedMethod::Attribute(attribute) => (attribute, plain),
        UncachedMethod::Flush => (Attribute::WriteBack, Controls { flush: true, ..plain }),
        UncachedMethod::Byte(byte) => (Attribute::WriteBack, Controls { mair: Some(byte), ..plain }),
    };
    // Two laps if the memory may be cached; else one lap, which fills the TLB.
    let laps = if attribute == Attribute::WriteBack && !controls.flush { 2 } else { 1 };
    let warm = laps * (bytes / STRIDE).min(1 << 20);
    let memory = Memory { attribute, ..Memory::of(bytes, STRIDE) };
    Trial { memory, controls, loads, samples: SAMPLES, warm, ..Trial::of(pattern) }
}

/// Returns the same trial with another stride.
pub(super) fn strided(stride: u64, trial: Trial) -> Trial {
    Trial { memory: Memory { stride, ..trial.memory }, ..trial }
}
