//! What every experiment finds.

use super::{NamePattern, number, word};

/// Disturbance, bias and clocks.
pub(super) const NAMES: &[NamePattern] = &[
    word("disturbed", "DISTURBED", "did other work disturb the measurement; the causes are in the notes"),
    number("bias.timer", &["ticks", "cycles"], "what reading the clock adds to a timed interval"),
    number("bias.walk", &["ns"], "translation in a load of the staircase's largest steps; base pages only"),
    number(
        "bias.sample",
        &["cycles", "ns"],
        "what timing adds to a sample of single loads; taken off the peaks, not off the histograms",
    ),
    number(
        "proven",
        &["samples"],
        "samples that proved their work, of an emulator, whose times are not shown",
    ),
    number("clock.core_hz", &["Hz"], "core clock while measuring, from a chain of dependent instructions"),
    number("clock.tick_hz", &["Hz"], "rate of the counter that was read"),
];
