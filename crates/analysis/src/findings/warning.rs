//! Warnings: restrictions of all findings of a report.

/// A warning about the findings, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Kind of the warning, listed by `fathom schema`.
    pub kind: WarningKind,
    /// One plain sentence.
    pub text: String,
    /// The remedy; empty if there is none.
    pub remedy: String,
}

impl Warning {
    /// Creates a warning.
    pub fn new(kind: WarningKind, text: impl Into<String>, remedy: impl Into<String>) -> Warning {
        Warning { kind, text: text.into(), remedy: remedy.into() }
    }
}

/// Declares [`WarningKind`]: `Identifier "token" lowers_confidence "meaning";`
macro_rules! warning_kinds {
    ($($id:ident $token:literal $low:literal $about:literal;)*) => {
        /// Kind of a [`Warning`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum WarningKind {
            $(#[doc = $about] $id,)*
        }

        impl WarningKind {
            /// Every kind, in display order.
            pub const ALL: &'static [WarningKind] = &[$(WarningKind::$id,)*];

            /// Returns the stable token.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self {
                    $(WarningKind::$id => $token,)*
                }
            }

            /// Returns the meaning in one line.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self {
                    $(WarningKind::$id => $about,)*
                }
            }

            /// Returns whether a report with this warning has low confidence (exit status 3).
            #[must_use]
            pub fn lowers_confidence(self) -> bool {
                match self {
                    $(WarningKind::$id => $low,)*
                }
            }
        }
    };
}

warning_kinds! {
    Disturbed "disturbed" true "all findings, or some of the headline's, are doubtful because trials were disturbed";
    Noisy "noisy" false "the machine was noisy: findings from disturbed trials are marked, and none of them is in the headline";
    NoHugePages "no-huge-pages" false "the latency curve was measured in base pages: translation is part of it";
    SlowHugePages "slow-huge-pages" false "huge pages translate slower than base pages: the latency curve was measured in base pages";
    SplinteredPages "splintered-pages" false "huge pages are translated in pieces of base pages";
    NoFinalPlateau "no-final-plateau" true "the latency curve still rises at the largest working set";
    PartialRange "partial-range" false "the budget did not reach the smallest or largest working sets of the plan: tiers there are not in the report";
    BudgetExhausted "budget-exhausted" true "the budget ended before the plan, or before an interval was as narrow as intended";
    Interrupted "interrupted" true "the session ended before its plan did";
    LoadsRefused "loads-refused" true "no load that was asked for could be run: what was measured is without load";
    Unverified "unverified" true "samples whose work could not be verified were left out";
    DamagedRecord "damaged-record" true "lines of the record could not be read";
    LossyLine "lossy-line" true "lines between harness and probe were lost, or the probe was restarted";
    CoarseClock "coarse-clock" false "the clock cannot resolve one load: samples are means of several dependent loads";
    Frequency "frequency" false "the core clock changed during the session";
    Throttled "throttled" false "the machine was throttled: temperature, power or voltage";
    Pressure "pressure" false "tasks waited for a CPU, memory or I/O during the measurement (PSI)";
    Overridden "overridden" false "an option overrides the machine's description";
    Unseen "unseen" false "accesses of the program were not seen, or their order is that of this run";
    ProgramFailed "program-failed" false "the simulated, counted or sampled program did not end with status 0";
    RunsDiffer "runs-differ" false "the program executed different numbers of instructions in its runs";
    FewSamples "few-samples" true "so few samples that shares say little";
    SamplesLost "samples-lost" true "samples of the program are missing";
    CallersUnknown "callers-unknown" false "callers of many samples are not known";
    SlicesCut "slices-cut" false "slices of time do not have all of the time that was counted";
    MarksUnmatched "marks-unmatched" false "regions of the program have ends without beginnings, or beginnings without ends";
    MarksLost "marks-lost" true "some marks of the program's regions did not count";
    CountersShared "counters-shared" true "others used the processor's counters: counts of some runs are left out";
    Uncounted "uncounted" true "the kernel did not let a part of the program be counted: counts of some runs are left out";
    KernelCounted "kernel-counted" false "counts have the kernel's work for the program too";
    ProcessesLeft "processes-left" false "processes that the program started were still running when it ended";
    WrongData "wrong-data" true "transfers delivered wrong data";
    WakeupConfig "wakeup-config" false "the configuration changes wake-up latencies";
    Imported "imported" false "measured by another tool: clock, machine and hypervisor are unknown";
    CountsContradict "counts-contradict" true "counted events contradict the times of the same loads";
    ClaimsConflict "claims-conflict" false "claims about the machine contradict each other";
}

impl WarningKind {
    /// Returns the kind of a token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<WarningKind> {
        WarningKind::ALL.iter().copied().find(|kind| kind.token() == token)
    }
}
