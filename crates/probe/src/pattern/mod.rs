//! The patterns: what a trial runs. Each is one type in one file, with all that is to be known of it ([`Definition`]).
//!
//! A new pattern is a file, and its two lines here: the module, and its entry in the list.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::machine::{Controls, LoadReport, Machine, Operation, Refusal, Watch};
use crate::rows::{Done, Rows};
use crate::tokens::token_names;
use crate::wire::WireError;

mod alias;
mod alu;
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
mod single;
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

/// Makes the list of patterns: [`Pattern`], [`PatternKind`] with the words on the wire, and what is asked of a pattern
/// whichever it is.
macro_rules! patterns {
    ($($module:ident::$name:ident = $token:literal,)+) => {
        $(pub use $module::$name;)+

        /// Which pattern a trial runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PatternKind {
            $(#[doc = concat!("[`", stringify!($name), "`](struct@", stringify!($name), ")")] $name,)+
        }

        token_names!(PatternKind { $($name = $token,)+ });

        /// What a trial runs.
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

        /// What [`Definition`] has, of whichever pattern it is.
        impl Pattern {
            /// The pattern of a kind, with its defaults.
            #[must_use]
            pub fn of(kind: PatternKind) -> Pattern {
                match kind { $(PatternKind::$name => $name::default().into(),)+ }
            }

            /// Which it is.
            #[must_use]
            pub fn kind(&self) -> PatternKind {
                match self { $(Pattern::$name(_) => PatternKind::$name,)+ }
            }

            /// [`Definition::QUESTION`]; the pattern's word where it has none.
            #[must_use]
            pub fn question(&self) -> &'static str {
                let question = match self { $(Pattern::$name(_) => $name::QUESTION,)+ };
                question.unwrap_or(self.kind().token())
            }

            /// [`Definition::TIME_GROWS`]
            #[must_use]
            pub fn time_grows(&self) -> bool {
                match self { $(Pattern::$name(_) => $name::TIME_GROWS,)+ }
            }

            fn may_flush(&self) -> bool {
                match self { $(Pattern::$name(_) => $name::MAY_FLUSH,)+ }
            }

            fn most_samples(&self) -> u64 {
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

            /// [`Definition::chain`]
            #[must_use]
            pub fn chain(&self, trial: &Trial, nth: u64, base: u64, page_bytes: u64) -> Option<Chain> {
                match self { $(Pattern::$name(pattern) => pattern.chain(trial, nth, base, page_bytes),)+ }
            }

            /// [`Definition::walk`]
            #[must_use]
            pub fn walk(&self) -> Walk {
                match self { $(Pattern::$name(pattern) => pattern.walk(),)+ }
            }

            /// [`Definition::groups`]
            #[must_use]
            pub fn groups(&self) -> Groups {
                match self { $(Pattern::$name(pattern) => pattern.groups(),)+ }
            }

            /// [`Definition::operation`]
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
    eviction_set::EvictionSet = "eviction-set",
    copy::Copy = "copy",
    alias::Alias = "alias",
    wake::Wake = "wake",
    transfer::Transfer = "transfer",
}

impl Default for Pattern {
    /// What a line without `pattern=` runs.
    fn default() -> Pattern {
        Chase::default().into()
    }
}

/// A pattern among the others.
pub trait Variant: Sized {
    /// Which it is.
    const KIND: PatternKind;

    /// The pattern, if it is this one.
    fn of(pattern: &Pattern) -> Option<&Self>;

    /// The same, to be changed.
    fn of_mut(pattern: &mut Pattern) -> Option<&mut Self>;
}

/// All that is to be known of a pattern.
pub trait Definition: Clone + Default + PartialEq + core::fmt::Debug {
    /// What a trial of it finds out, in a word or two, for whoever waits; `None` where the pattern's own word says it.
    const QUESTION: Option<&'static str> = None;

    /// Does a sample time n operations and then 2n, of which a trial's median cannot show less than no time each? Samples
    /// of one that does are kept out of a record.
    const TIME_GROWS: bool = false;

    /// May the line of each access be flushed right after it (`flush=1`)?
    const MAY_FLUSH: bool = false;

    /// Samples of one trial, at most.
    const MAX_SAMPLES: u64 = trial::MAX_SAMPLES;

    /// Names each key on the wire that the pattern has and not every trial, with the place of its value: see [`Keys`].
    ///
    /// # Errors
    /// When what is read is of another kind than the key's.
    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError>;

    /// Why this is none that a machine may be asked. What holds for all trials has been looked at before; by default
    /// cells are packed.
    ///
    /// # Errors
    /// A sentence that names the key and what it may be.
    fn check(&self, trial: &Trial) -> Result<(), WireError> {
        trial.memory.check_packed()
    }

    /// Bytes of memory that it needs on pages of `page_bytes`; `None` where that is more than a number holds. The
    /// working set by default.
    fn extent(&self, trial: &Trial, page_bytes: u64) -> Option<u64> {
        let _ = page_bytes;
        trial.memory.cells().checked_mul(trial.memory.stride)
    }

    /// The chain that the nth sample walks, from 0, on pages of `page_bytes` from arena offset `base`; `None` of a
    /// pattern that walks none.
    fn chain(&self, trial: &Trial, nth: u64, base: u64, page_bytes: u64) -> Option<Chain> {
        let _ = (trial, nth, base, page_bytes);
        None
    }

    /// The order of its chain; the default of a pattern that has no other.
    fn walk(&self) -> Walk {
        Walk::default()
    }

    /// Where its cells lie; none a period apart by default.
    fn groups(&self) -> Groups {
        Groups::default()
    }

    /// What it does to each cell; loads it by default.
    fn operation(&self) -> Operation {
        Operation::Read
    }

    /// What it does, for an estimate of what that costs.
    fn work(&self, trial: &Trial) -> Work;

    /// Runs it.
    ///
    /// # Errors
    /// The machine's [`Refusal`] of what the pattern needs.
    fn run<M: Machine>(&self, machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal>;

    /// Proof of work: the numbers, ascending, of the rows that do not show what `trial` had to leave. "Came home" is no
    /// proof: a loop that never ran is home too. So where a run must have ended is computed, not looked up. Of `done`, the
    /// end of the trial, the page size and the times count; `u64::MAX` of them is enough for anything.
    fn verify(&self, trial: &Trial, rows: &Rows, done: &Done) -> Vec<usize>;
}

/// What a trial yielded.
#[derive(Debug)]
pub struct TrialOutput {
    /// Its rows, in order.
    pub rows: Rows,
    /// Page size in force, bytes; 0 where the pattern maps nothing.
    pub page_bytes: u64,
    /// Where the mapping began in the arena, bytes.
    pub base: u64,
    /// What co-running stressors did.
    pub load_report: LoadReport,
}

impl TrialOutput {
    /// Rows of a mapping, and nothing beside them.
    #[must_use]
    pub fn of(rows: Rows, page_bytes: u64, base: u64) -> TrialOutput {
        TrialOutput { rows, page_bytes, base, load_report: LoadReport::default() }
    }

    /// [`Trial::unproven`] of these rows, whatever time went by.
    #[must_use]
    pub fn unproven(&self, trial: &Trial) -> Vec<usize> {
        let watch = Watch { wall_ns: u64::MAX, ..Watch::default() };
        trial.unproven(&self.rows, &Done { page_bytes: self.page_bytes, watch, ..Done::default() })
    }
}

impl Trial {
    /// What it does, for an estimate of what that costs.
    #[must_use]
    pub fn work(&self) -> Work {
        self.pattern.work(self)
    }

    /// Numbers of the rows, ascending, that do not prove their work: see [`Definition::verify`].
    #[must_use]
    pub fn unproven(&self, rows: &Rows, done: &Done) -> Vec<usize> {
        self.pattern.verify(self, rows, done)
    }
}

/// Maps what a trial needs and runs its pattern.
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

/// The pattern beside the stressors that the trial names.
fn under_load<M: Machine>(machine: &mut M, trial: &Trial) -> Result<TrialOutput, Refusal> {
    if trial.beside.load.is_none() {
        return trial.pattern.run(machine, trial);
    }
    machine.start_load(&trial.beside.load, trial.beside.confined)?;
    let outcome = trial.pattern.run(machine, trial);
    let load_report = machine.stop_load();
    outcome.map(|outcome| TrialOutput { load_report, ..outcome })
}
