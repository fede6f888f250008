//! The patterns: what a trial runs. Each pattern is one type in one file that implements [`Definition`].
//!
//! A new pattern is a file and two lines here: the module, and its entry in the list.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::machine::{Controls, LoadReport, Machine, Operation, Refusal, Watch};
use crate::rows::{Done, EventCount, Rows};
use crate::tokens::token_names;
use crate::wire::WireError;

mod alias;
mod alu;
mod arcs;
mod chase;
mod clock;
mod conflict;
mod copy;
mod counters;
mod dependent;
mod eviction_set;
mod groups;
mod keys;
mod memory;
mod pages;
mod pair;
mod side_by_side;
mod single;
mod spaced_chains;
mod stride;
mod transfer;
mod trial;
mod wake;
mod walk;
mod work;

pub use groups::Groups;
pub use keys::Keys;
pub use memory::Memory;
pub use trial::{CoRunning, Trial};
pub use wake::MAX_SERIES_NS;
pub use walk::{OrderKind, Walk};
pub use work::{Loads, Work};

/// Generates, from the list of patterns, [`Pattern`], [`PatternKind`] with its tokens, and the functions of
/// [`Definition`] on [`Pattern`].
macro_rules! patterns {
    ($($module:ident::$name:ident = $token:literal,)+) => {
        $(pub use $module::$name;)+

        /// The kind of pattern of a trial.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PatternKind {
            $(#[doc = concat!("[`", stringify!($name), "`](struct@", stringify!($name), ")")] $name,)+
        }

        token_names!(PatternKind { $($name = $token,)+ });

        /// The pattern of a trial, with its parameters.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Pattern {
            $(#[doc = concat!("[`", stringify!($name), "`](struct@", stringify!($name), ")")] $name($name),)+
        }

        $(
            impl From<$name> for Pattern {
                fn from(pattern: $name) -> Pattern {
                    Pattern::$name(pattern)
                }
            }

            impl Variant for $name {
                const KIND: PatternKind = PatternKind::$name;

                fn of(pattern: &Pattern) -> Option<&$name> {
                    if let Pattern::$name(pattern) = pattern { Some(pattern) } else { None }
                }

                fn of_mut(pattern: &mut Pattern) -> Option<&mut $name> {
                    if let Pattern::$name(pattern) = pattern { Some(pattern) } else { None }
                }
            }
        )+

        /// The functions of [`Definition`], for the pattern that it holds.
        impl Pattern {
            /// Returns the pattern of a kind, with its defaults.
            #[must_use]
            pub fn of(kind: PatternKind) -> Pattern {
                match kind { $(PatternKind::$name => $name::default().into(),)+ }
            }

            /// Returns its kind.
            #[must_use]
            pub fn kind(&self) -> PatternKind {
                match self { $(Pattern::$name(_) => PatternKind::$name,)+ }
            }

            /// Returns [`Definition::QUESTION`], or else the pattern's token.
            #[must_use]
            pub fn question(&self) -> &'static str {
                let question = match self { $(Pattern::$name(_) => $name::QUESTION,)+ };
                question.unwrap_or(self.kind().token())
            }

            /// Returns [`Definition::TIME_GROWS`].
            #[must_use]
            pub fn time_grows(&self) -> bool {
                match self { $(Pattern::$name(_) => $name::TIME_GROWS,)+ }
            }

            fn may_flush(&self) -> bool {
                match self { $(Pattern::$name(_) => $name::MAY_FLUSH,)+ }
            }

            fn max_samples(&self) -> u64 {
                match self { $(Pattern::$name(_) => $name::MAX_SAMPLES,)+ }
            }

            fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
                match self { $(Pattern::$name(pattern) => pattern.keys(keys),)+ }
            }

            fn check(&self, trial: &Trial) -> Result<(), WireError> {
                match self { $(Pattern::$name(pattern) => pattern.check(trial),)+ }
            }

            fn extent(&self, trial: &Trial, page_bytes: u64) -> Option<u64> {
                match self { $(Pattern::$name(pattern) => pattern.extent(trial, page_bytes),)+ }
            }

            /// Returns [`Definition::chain`].
            #[must_use]
            pub fn chain(&self, trial: &Trial, nth: u64, base: u64, page_bytes: u64) -> Option<Chain> {
                match self { $(Pattern::$name(pattern) => pattern.chain(trial, nth, base, page_bytes),)+ }
            }

            /// Returns [`Definition::walk`].
            #[must_use]
            pub fn walk(&self) -> Walk {
                match self { $(Pattern::$name(pattern) => pattern.walk(),)+ }
            }

            /// Returns [`Definition::groups`].
            #[must_use]
            pub fn groups(&self) -> Groups {
                match self { $(Pattern::$name(pattern) => pattern.groups(),)+ }
            }

            /// Returns [`Definition::operation`].
            #[must_use]
            pub fn operation(&self) -> Operation {
                match self { $(Pattern::$name(pattern) => pattern.operation(),)+ }
            }

            fn work(&self, trial: &Trial) -> Work {
                match self { $(Pattern::$name(pattern) => pattern.work(trial),)+ }
            }

            fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
                match self { $(Pattern::$name(pattern) => pattern.run(machine, trial),)+ }
            }

            fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize> {
                match self { $(Pattern::$name(pattern) => pattern.verify(trial, rows, done),)+ }
            }
        }
    };
}

patterns! {
    clock::Clock = "clock",
    alu::Alu = "alu",
    chase::Chase = "chase",
    pages::Pages = "pages",
    single::Single = "single",
    stride::Stride = "stride",
    conflict::Conflict = "conflict",
    pair::Pair = "pair",
    side_by_side::SideBySide = "side-by-side",
    spaced_chains::SpacedChains = "spaced-chains",
    eviction_set::EvictionSet = "eviction-set",
    copy::Copy = "copy",
    alias::Alias = "alias",
    wake::Wake = "wake",
    transfer::Transfer = "transfer",
}

impl Default for Pattern {
    /// Returns the pattern of a line without `pattern=`.
    fn default() -> Pattern {
        Chase::default().into()
    }
}

/// One type of pattern, as a variant of [`Pattern`].
pub trait Variant: Sized {
    /// Its kind.
    const KIND: PatternKind;

    /// Returns the pattern, if it is of this type.
    fn of(pattern: &Pattern) -> Option<&Self>;

    /// Returns the pattern for modification, if it is of this type.
    fn of_mut(pattern: &mut Pattern) -> Option<&mut Self>;
}

/// Definition of a pattern: its keys on the wire, its limits, its run and its verification.
pub trait Definition: Clone + Default + PartialEq + core::fmt::Debug {
    /// Quantity that a trial determines, in one or two words, for progress output; `None` to print the pattern's token.
    const QUESTION: Option<&'static str> = None;

    /// Whether a sample times n operations and then 2n. The median of a trial then cannot be less than zero time per
    /// operation, and a trial below that is not recorded.
    const TIME_GROWS: bool = false;

    /// Whether the line of each access may be flushed after the access (`flush=1`).
    const MAY_FLUSH: bool = false;

    /// Maximum samples of one trial.
    const MAX_SAMPLES: u64 = trial::MAX_SAMPLES;

    /// Passes each of the pattern's keys on the wire to `keys`, with the field of its value (see [`Keys`]). Keys of all
    /// trials are excluded.
    ///
    /// # Errors
    /// When a value that is read has another type than its key.
    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError>;

    /// Checks the pattern's parameters. The limits of all trials have been checked before. The default accepts packed
    /// cells.
    ///
    /// # Errors
    /// A sentence that names the key and its valid values.
    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()
    }

    /// Returns the bytes of memory that it needs on pages of `page_bytes`; `None` on overflow. The default is the
    /// working set.
    fn extent(&self, trial: &Trial, page_bytes: u64) -> Option<u64> {
        let _ = page_bytes;
        trial.memory.cells().checked_mul(trial.memory.stride)
    }

    /// Returns the chain of sample `nth`, from 0, on pages of `page_bytes` from arena offset `base`; `None` for a
    /// pattern without a chain.
    fn chain(&self, trial: &Trial, nth: u64, base: u64, page_bytes: u64) -> Option<Chain> {
        let _ = (trial, nth, base, page_bytes);
        None
    }

    /// Returns the order of its chain; the default order for a pattern without one.
    fn walk(&self) -> Walk {
        Walk::default()
    }

    /// Returns the groups of its cells; without groups (a period of 0) by default.
    fn groups(&self) -> Groups {
        Groups::default()
    }

    /// Returns the operation on each cell; a load by default.
    fn operation(&self) -> Operation {
        Operation::Read
    }

    /// Returns the amount of work, for an estimate of its cost.
    fn work(&self, trial: &Trial) -> Work;

    /// Runs it.
    ///
    /// # Errors
    /// The machine's [`Refusal`] of what the pattern needs.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal>;

    /// Verifies the work: returns the indices, ascending, of the rows that do not show the expected result of `trial`.
    ///
    /// The expected end of a run is computed. That a run ended at its start is no evidence, because a loop that never
    /// ran ends there too. Of `done`, the page size and the times are used; `u64::MAX` as a time satisfies every check.
    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize>;
}

/// The result of a trial.
#[derive(Debug)]
pub struct TrialOutput {
    /// Its rows, in order.
    pub rows: Rows,
    /// Page size in force, bytes; 0 if the pattern maps nothing.
    pub page_bytes: u64,
    /// Start of the mapping in the arena, bytes.
    pub base: u64,
    /// Events that were counted during the samples, if the trial requests them and the machine counts any.
    pub events: Vec<EventCount>,
    /// Work of the co-running stressors.
    pub load_report: LoadReport,
}

impl TrialOutput {
    /// Creates a result without events and load.
    #[must_use]
    pub fn of(rows: Rows, page_bytes: u64, base: u64) -> TrialOutput {
        TrialOutput { rows, page_bytes, base, events: Vec::new(), load_report: LoadReport::default() }
    }

    /// Returns [`Trial::unverified`] of these rows, without a check of the elapsed time.
    #[must_use]
    pub fn unverified(&self, trial: &Trial) -> Vec<usize> {
        let watch = Watch { wall_ns: u64::MAX, ..Watch::default() };
        trial.unverified(&self.rows, &Done { page_bytes: self.page_bytes, watch, ..Done::default() })
    }
}

impl Trial {
    /// Returns the amount of work, for an estimate of its cost.
    #[must_use]
    pub fn work(&self) -> Work {
        self.pattern.work(self)
    }

    /// Returns the indices, ascending, of the rows that fail verification (see [`Definition::verify`]).
    #[must_use]
    pub fn unverified(&self, rows: &Rows, done: &Done) -> Vec<usize> {
        self.pattern.verify(self, rows, done)
    }
}

/// Maps the memory of a trial and runs its pattern.
///
/// # Errors
/// The machine's [`Refusal`] of the controls, of the co-running streams, or of what the pattern needs.
pub fn run<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    machine.control(&trial.controls)?;
    let outcome = match machine.disturb(&trial.beside.streams) {
        Err(refusal) => Err(refusal),
        Ok(()) => {
            let outcome = under_load(machine, trial);
            machine.disturb(&[])?;
            outcome
        }
    };
    if trial.controls != Controls::default() {
        machine.control(&Controls::default())?;
    }
    outcome
}

/// Runs the pattern together with the stressors of the trial.
fn under_load<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    if trial.beside.load.is_none() {
        return trial.pattern.run(machine, trial);
    }
    machine.start_load(&trial.beside.load, trial.beside.confined)?;
    let outcome = trial.pattern.run(machine, trial);
    let load_report = machine.stop_load();
    outcome.map(|outcome| TrialOutput { load_report, ..outcome })
}
