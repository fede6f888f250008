//! A trial: one point of a plan, and its line on the wire.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

use super::keys::{Keys, Pair};
use super::memory::{MAX_BYTES, MAX_PERIOD, Memory, within, wrong};
use super::walk::Walk;
use super::{Pattern, PatternKind, Variant};
use crate::load::Load;
use crate::machine::{Attribute, Controls, MapRequest, Stream};
use crate::wire::{Fields, Line, Value, WireError};

/// Limits of every trial, so that no line from outside runs forever: 2^32 loads per run and 1000 samples take minutes.
const MAX_LOADS: u64 = 1 << 32;
pub(super) const MAX_SAMPLES: u64 = 1000;
const MAX_STREAMS: usize = 64;
/// Maximum caches on the data path.
const MAX_LEVELS: u64 = 8;

/// The order of the keys on a line. The first [`EVERYWHERE`] are on every line. Keys that are not listed come last.
const ORDER: [&str; 39] = [
    "id",
    "round",
    "pattern",
    "bytes",
    "stride",
    "order",
    "window",
    "page",
    "attribute",
    "place",
    "seed",
    "loads",
    "samples",
    "warm",
    "timed",
    "op",
    "first_touch",
    "mair",
    "tables",
    "prefetch",
    "period",
    "chains",
    "group",
    "offset",
    "frames",
    "counted",
    "events",
    "flush",
    "every_ns",
    "priority",
    "traced",
    "flushed",
    "timerlat",
    "evict",
    "confined",
    "sequence",
    "with_cpu",
    "with_bytes",
    "load",
];
/// Number of keys that are on every line.
const EVERYWHERE: usize = 14;

/// One point of a plan: the parameters that every pattern has, and the pattern with its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Number of the trial in its record, from 1.
    pub id: u64,
    /// Round of the plan that scheduled it.
    pub round: u64,
    /// Its memory.
    pub memory: Memory,
    /// Privileged settings during the trial.
    pub controls: Controls,
    /// The level on the data path, from 1, whose refills are counted over each timed run; 0 for none.
    pub counted: u64,
    /// Seed of orders and contents.
    pub seed: u64,
    /// n: loads (or operations) in the first run of a sample; the second runs 2n. For single loads: the untimed loads
    /// before each timed one, their spacing.
    pub loads: u64,
    /// Samples requested.
    pub samples: u64,
    /// Operations before the first sample, untimed.
    pub warm: u64,
    /// Work that runs at the same time.
    pub beside: CoRunning,
    /// Its pattern.
    pub pattern: Pattern,
}

/// Work that runs at the same time as a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoRunning {
    /// Co-running streams.
    pub streams: Vec<Stream>,
    /// Co-running stressors.
    pub load: Load,
    /// Whether the stressors' workers are confined to the smallest share of every cache that the machine can partition.
    pub confined: bool,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial::of(Pattern::default())
    }
}

impl CoRunning {
    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        let mut cpus: Vec<u64> = self.streams.iter().map(|s| s.cpu.into()).collect();
        let mut bytes: Vec<u64> = self.streams.iter().map(|s| s.bytes).collect();
        keys.list("with_cpu", &mut cpus)?;
        keys.list("with_bytes", &mut bytes)?;
        if keys.reads() {
            self.streams = streams(&cpus, &bytes)?;
        }
        keys.flag("confined", &mut self.confined)?;
        keys.text("load", &mut self.load, Load::parse)
    }
}

fn streams(cpus: &[u64], bytes: &[u64]) -> Result<Vec<Stream>, WireError> {
    if cpus.len() != bytes.len() || cpus.len() > MAX_STREAMS {
        return wrong("with_cpu and with_bytes must have the same length, at most 64".into());
    }
    let stream = |(&cpu, &bytes): (&u64, &u64)| match u32::try_from(cpu) {
        Ok(cpu) if cpu > 0 && bytes >= 8 => Ok(Stream { cpu, bytes }),
        _ => wrong("with_cpu must be a CPU number from 1, with_bytes at least 8".into()),
    };
    cpus.iter().zip(bytes).map(stream).collect()
}

fn controls(controls: &mut Controls, keys: &mut Keys<'_>) -> Result<(), WireError> {
    keys.byte("mair", &mut controls.mair)?;
    keys.token("tables", &mut controls.tables)?;
    keys.flag("prefetch", &mut controls.prefetch)?;
    keys.flag("flush", &mut controls.flush)
}

impl Trial {
    /// Creates a trial of a pattern, with the defaults of everything else.
    #[must_use]
    pub fn of(pattern: impl Into<Pattern>) -> Trial {
        Trial {
            id: 0,
            round: 0,
            memory: Memory::default(),
            controls: Controls::default(),
            counted: 0,
            seed: 0,
            // A prime: never a whole number of laps, after which nothing could be verified.
            loads: 4099,
            samples: 5,
            warm: 4096,
            beside: CoRunning::default(),
            pattern: pattern.into(),
        }
    }

    /// Returns the kind of its pattern.
    #[must_use]
    pub fn kind(&self) -> PatternKind {
        self.pattern.kind()
    }

    /// Returns the pattern, if it is of this type.
    #[must_use]
    pub fn get<D: Variant>(&self) -> Option<&D> {
        D::of(&self.pattern)
    }

    /// Returns the pattern, if it is of this type, or else the defaults of this type.
    #[must_use]
    pub fn or_default<D: Variant + Clone + Default>(&self) -> D {
        self.get().cloned().unwrap_or_default()
    }

    /// Returns the pattern for modification, if it is of this type.
    pub fn get_mut<D: Variant>(&mut self) -> Option<&mut D> {
        D::of_mut(&mut self.pattern)
    }

    /// Returns whether the pattern is of this type and `test` holds for it.
    #[must_use]
    pub fn is<D: Variant>(&self, test: impl FnOnce(&D) -> bool) -> bool {
        self.get().is_some_and(test)
    }

    fn keys(&mut self, keys: &mut Keys<'_>) -> Result<(), WireError> {
        keys.int("id", &mut self.id)?;
        keys.int("round", &mut self.round)?;
        self.memory.keys(keys)?;
        keys.int("seed", &mut self.seed)?;
        keys.int("loads", &mut self.loads)?;
        keys.int("samples", &mut self.samples)?;
        keys.int("warm", &mut self.warm)?;
        controls(&mut self.controls, keys)?;
        keys.int("counted", &mut self.counted)?;
        self.beside.keys(keys)?;
        self.pattern.keys(keys)
    }

    /// Returns the request line. The keys of every line come first; other keys are written only if they differ from
    /// their defaults.
    #[must_use]
    pub fn line(&self) -> Line {
        let written = |mut trial: Trial| Keys::written(|keys| trial.keys(keys));
        let defaults = written(Trial::of(Pattern::of(self.kind())));
        let place = |key: &str| ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len());
        let written_out =
            |pair: &Pair| pair.always || place(pair.key) < EVERYWHERE || !defaults.contains(pair);
        let mut pairs: Vec<Pair> = written(self.clone()).into_iter().filter(written_out).collect();
        let value = Value::Token(self.kind().token().to_owned());
        pairs.push(Pair { key: "pattern", value, always: true });
        for pair in Keys::written(|keys| Walk::default().keys(keys)) {
            if pairs.iter().all(|present| present.key != pair.key) {
                pairs.push(pair);
            }
        }
        let mut ordered: Vec<Pair> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            // A stable sort of some twenty pairs; the library's takes 8 KiB of an image.
            let at = ordered.partition_point(|earlier| place(earlier.key) <= place(pair.key));
            ordered.insert(at, pair);
        }
        let pairs = ordered.into_iter().map(|pair| (pair.key.to_owned(), pair.value)).collect();
        Line { pairs, ..Line::new("trial") }
    }

    /// Parses the line. Absent keys have their defaults; keys that the pattern does not have are an error.
    ///
    /// # Errors
    /// A sentence that names the key and the remedy.
    pub fn read(line: &Line) -> Result<Trial, WireError> {
        let mut fields = line.fields();
        let kind = fields.one_of("pattern")?.unwrap_or(Pattern::default().kind());
        let mut trial = Trial::of(Pattern::of(kind));
        let mut keys = Keys::of_line(fields);
        trial.keys(&mut keys)?;
        keys.into_fields().map_or(Ok(()), |rest| finish(rest, kind))?;
        trial.check()?;
        Ok(trial)
    }

    /// Checks the limits of all trials and those of the pattern.
    fn check(&self) -> Result<(), WireError> {
        let Memory { bytes, stride, .. } = self.memory;
        within("stride", stride, 8, MAX_PERIOD)?;
        within("bytes", bytes, stride, MAX_BYTES)?;
        within("loads", self.loads, 1, MAX_LOADS)?;
        within("warm", self.warm, 0, MAX_LOADS)?;
        within("samples", self.samples, 1, self.pattern.max_samples())?;
        within("counted", self.counted, 0, MAX_LEVELS)?;
        if self.controls.flush && !self.pattern.may_flush() {
            let flushing = PatternKind::ALL.iter().filter(|kind| Pattern::of(**kind).may_flush());
            let flushing: Vec<&str> = flushing.map(|kind| kind.token()).collect();
            return wrong(format!(
                "flush=1 is for pattern={}, not for {}",
                flushing.join(", "),
                self.kind().token()
            ));
        }
        if self.beside.confined && self.beside.load.is_none() {
            return wrong("confined=1 is for the workers of a load=".into());
        }
        self.pattern.check(self)
    }

    /// Returns whether it uses ordinary write-back memory.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.memory.attribute == Attribute::WriteBack && self.controls.mair.is_none()
    }

    /// Returns the bytes of memory that the trial needs on pages of `page_bytes`; `u64::MAX` on overflow.
    #[must_use]
    pub fn extent(&self, page_bytes: u64) -> u64 {
        self.pattern.extent(self, page_bytes).unwrap_or(u64::MAX)
    }

    /// Returns the request for the memory that it needs on pages of `page_bytes`.
    #[must_use]
    pub fn request(&self, page_bytes: u64) -> MapRequest {
        MapRequest {
            bytes: self.extent(page_bytes),
            pages: self.memory.page,
            attribute: self.memory.attribute,
            place: self.memory.place,
        }
    }
}

/// Returns the patterns that have this key.
fn owners(key: &str) -> Vec<&'static str> {
    let has = |kind: &&PatternKind| {
        let mut pattern = Pattern::of(**kind);
        // A key of an optional value is found by reading it.
        let line = Line::new("trial").token(key, "none");
        let mut keys = Keys::of_line(line.fields());
        let read = pattern.keys(&mut keys);
        read.is_err() || keys.into_fields().is_some_and(|fields| !fields.has(key))
    };
    PatternKind::ALL.iter().filter(has).map(|kind| kind.token()).collect()
}

/// Ends the reading of a line after its pattern has taken its keys. A remaining key is an error that names its pattern.
fn finish(mut rest: Fields<'_>, kind: PatternKind) -> Result<(), WireError> {
    // Every line has an order; a pattern without one ignores the default.
    for pair in Keys::written(|keys| Walk::default().keys(keys)) {
        rest.take_if(pair.key, &pair.value);
    }
    let other = rest.left().find(|(key, _)| !owners(key).is_empty());
    let Some((key, value)) = other else { return rest.finish() };
    let mut pair = format!("{key}=");
    value.render(&mut pair);
    let owners = owners(key).join(", ");
    wrong(format!("{pair} is not for pattern={}, but for pattern={owners}", kind.token()))
}
