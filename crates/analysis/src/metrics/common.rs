//! Metrics that every experiment may report.

use crate::findings::{Compared, Field, Finding, Report, metrics, tokens};

/// Address of an instruction.
pub const ADDRESS: Field = Field::new(
    "address",
    "virtual address of the instruction in its file, as nm and objdump print it, hexadecimal; that in memory, of a guest's kernel",
);
/// Its place in the function.
pub const INSTRUCTION_OFFSET: Field = Field::new(
    "offset",
    "bytes from the start of the function to the instruction; from that of the section, if no symbol covers it",
);

metrics! {
    DISTURBED "disturbed" [""]
        "whether something disturbed the measurement (other work, a changed core clock); the causes are in the notes"
        .token(&tokens::DISTURBED);
    DISTURBANCE_STATE "disturbance.state" [""]
        "what disturbance did to the findings: `ok` nothing; `noisy` those with `disturbed_trials` are doubtful, the others hold; `unusable` all are doubtful; the causes are in the notes"
        .token(&tokens::DISTURBANCE);
    BIAS_TIMER "bias.timer" ["ticks", "cycles"]
        "time that reading the clock adds to a timed interval"
        .signed().compared(Compared::OnRequest);
    BIAS_WALK "bias.walk" ["ns"]
        "translation time in a load of the latency curve's largest working sets; base pages only"
        .signed().compared(Compared::OnRequest);
    BIAS_SAMPLE "bias.sample" ["cycles", "ns"]
        "time that timing adds to a sample of single loads; subtracted from the peaks, not from the histograms"
        .signed();
    SAMPLES_VERIFIED "samples.verified" ["samples"]
        "number of samples whose work was verified, on an emulator, whose times are not shown";
    CLOCK_CORE_HZ "clock.core_hz" ["Hz"]
        "core clock during the measurement, from a chain of dependent instructions"
        .compared(Compared::OnRequest);
    CLOCK_TICK_HZ "clock.tick_hz" ["Hz"]
        "frequency of the counter that serves as clock"
        .compared(Compared::OnRequest);
}

/// A value of [`DISTURBANCE_STATE`], from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum DisturbanceState {
    /// No finding suffers.
    #[default]
    Ok,
    /// Findings from disturbed trials are doubtful, the others hold.
    Noisy,
    /// All findings are doubtful.
    Unusable,
}

impl DisturbanceState {
    /// Every state.
    pub const ALL: [DisturbanceState; 3] =
        [DisturbanceState::Ok, DisturbanceState::Noisy, DisturbanceState::Unusable];

    /// Returns the token.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            DisturbanceState::Ok => "ok",
            DisturbanceState::Noisy => "noisy",
            DisturbanceState::Unusable => "unusable",
        }
    }

    /// Returns the state of a report; `None` if it was not judged.
    #[must_use]
    pub fn of(report: &Report) -> Option<DisturbanceState> {
        let word = report.find(&DISTURBANCE_STATE).and_then(Finding::word)?;
        DisturbanceState::ALL.into_iter().find(|state| state.token() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_the_tokens_in_their_order() {
        assert_eq!(DisturbanceState::ALL.map(DisturbanceState::token), tokens::DISTURBANCE.values);
        assert!(DisturbanceState::ALL.is_sorted());
        let report =
            |word| Report { findings: vec![Finding::text(&DISTURBANCE_STATE, word)], ..Report::default() };
        assert_eq!(DisturbanceState::of(&report("noisy")), Some(DisturbanceState::Noisy));
        assert_eq!(DisturbanceState::of(&Report::default()), None);
    }
}
