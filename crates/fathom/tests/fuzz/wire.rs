//! The wire: lines are parsed, printed and parsed again, and served to a small model.

use fathom_experiment::record::Record;
use fathom_model::{Description, Model};
use fathom_probe::pattern::{Single, Trial};
use fathom_probe::rows::{Done, Samples};
use fathom_probe::wire::{Line, MAX_LINE, WireError};

use crate::scripted::answers;

/// Maximum number of served lines per input; each may be a trial.
const MAX_LINES: usize = 40;
/// Maximum number of a trial and of a round in a record.
const MAX_NUMBER: u64 = 1 << 32;

/// Checks the wire with any bytes.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    text.split('\n').for_each(printed);
    served(&text);
}

/// Asserts that a line, and the trial, samples or end in it, are equal when printed and parsed again.
fn printed(text: &str) {
    let line = match Line::parse(text) {
        Ok(line) => line,
        Err(e) => return assert!(!e.what.is_empty() && !e.what.contains('\n'), "{:?}", e.what),
    };
    // A text may have raw control characters, which are printed as longer escapes; probes do not send such lines.
    let plain = line.render();
    if plain.len() <= MAX_LINE {
        let again = Line::parse(&plain).unwrap_or_else(|e| panic!("{e} of {plain:?}"));
        assert_eq!((&again.word, &again.pairs), (&line.word, &line.pairs));
    }
    let sealed = line.seal(line.seq.unwrap_or(7));
    if sealed.len() <= MAX_LINE {
        let again = Line::parse(&sealed).unwrap_or_else(|e| panic!("{e} of {sealed:?}"));
        assert_eq!((&again.word, &again.pairs), (&line.word, &line.pairs));
        assert_eq!(again.seq, Some(line.seq.unwrap_or(7)));
    }
    same(Trial::read(&line), Trial::line, Trial::read);
    same(Done::read(&line), Done::line, Done::read);
    if let Ok(samples) = Samples::read(&line) {
        let again = samples.lines().into_iter().flat_map(|l| {
            let l = Line::parse(&l.seal(u64::MAX)).unwrap_or_else(|e| panic!("{e}"));
            Samples::read(&l).unwrap_or_else(|e| panic!("{e}")).list
        });
        assert_eq!(again.collect::<Vec<_>>(), samples.list);
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    first: Result<T, WireError>,
    line: fn(&T) -> Line,
    read: fn(&Line) -> Result<T, WireError>,
) {
    let Ok(first) = first else { return };
    let text = line(&first).seal(u64::MAX);
    let parsed = Line::parse(&text).unwrap_or_else(|e| panic!("{e} of {text:?}"));
    assert_eq!(read(&parsed).unwrap_or_else(|e| panic!("{e} of {text:?}")), first);
}

/// A machine with one level, one TLB and all other parts.
pub const SMALL: &str = r#"
format = 1
about = "a small machine"
[core]
clock = "1 GHz"
cpus = 4
alu = "1 cycles"
branch = "1 cycles"
store = "1 cycles"
maintain = "9 cycles"
[timer]
clock = "1 GHz"
overhead = "3 cycles"
jitter = "0 cycles"
resolution = 1
[[level]]
name = "L1"
holds = "data"
size = "1K"
line = "64"
ways = 2
latency = "3 cycles"
replacement = "lru"
write = "back"
allocate = true
inclusion = "neither"
shared = false
[[tlb]]
name = "TLB"
entries = 4
ways = 4
pages = ["4K", "64K"]
latency = "0 cycles"
replacement = "random"
[walk]
fetches = 2
from = "L1"
latency = "5 cycles"
[memory]
size = "64M"
pages = ["4K", "64K"]
latency = "100 cycles"
spread = "0 cycles"
[uncached]
load = "110 cycles"
store = "2 cycles"
buffers = 2
gather = "32"
drain = "20 cycles"
device_load = "120 cycles"
device_store = "90 cycles"
write_through = "write-through"
mixed = "inner"
"#;

/// Shortens a trial, so that the test ends soon; long trials do not test the parser.
fn short(text: &str) -> String {
    let trial = Line::parse(text).ok().filter(|line| line.word == "trial").map(|line| Trial::read(&line));
    let Some(Ok(mut trial)) = trial else { return text.to_owned() };
    trial.loads = trial.loads.min(67);
    trial.samples = trial.samples.min(17);
    trial.warm = trial.warm.min(64);
    if let Some(single) = trial.get_mut::<Single>() {
        single.timed = single.timed.min(8);
    }
    trial.beside.streams.truncate(3);
    trial.line().render()
}

/// Asserts that the output for any input is a valid session: lines of the wire, numbered, every trial ended, its
/// accesses verified, and no problem found by the record.
fn served(text: &str) {
    let description = Description::parse("small.toml", SMALL).unwrap_or_else(|e| panic!("{e}"));
    let lines = text.split('\n').take(MAX_LINES).map(short).collect();
    let answers = answers(&mut Model::new(&description, 1), lines);
    let mut record = Record::default();
    record.push(&Record::first_line()).unwrap_or_else(|e| panic!("{e}"));
    let (mut beyond, mut last) = (false, None);
    for answer in &answers {
        assert!(answer.len() <= MAX_LINE, "{} bytes: {answer:?}", answer.len());
        let line = Line::parse(answer).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
        // After `hello` the probe greets again, with numbers from 1; the harness notes its `hello` in the record.
        if line.word == "probe" && last.replace(0).is_some() {
            record.push("hello").unwrap_or_else(|e| panic!("{e}"));
        }
        last = last.map(|last| last + 1);
        assert_eq!(line.seq, last, "{answer:?}");
        if line.word == "trial" {
            let trial = Trial::read(&line).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
            beyond |= trial.id > MAX_NUMBER || trial.round > MAX_NUMBER;
        }
        record.push(answer).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    }
    if beyond {
        return;
    }
    assert!(record.problems.is_empty(), "{:?}", record.problems);
    for run in &record.trials {
        let done = run.done.or_else(|| run.refusal.is_some().then(Done::default));
        let done = done.unwrap_or_else(|| panic!("{:?} did not end", run.trial));
        // A run of whole laps cannot be verified: neither for the cells of a chain nor for those of a trial without
        // one.
        let chain = run.trial.pattern.chain(&run.trial, 0, 0, done.page_bytes);
        let cells = chain.map_or(run.trial.memory.cells(), |chain| chain.cells());
        let longest = run.trial.or_default::<Single>().timed.max(run.trial.loads);
        let whole_laps = [2 * run.trial.loads, longest].iter().any(|n| n.is_multiple_of(cells));
        assert!(run.unverified == 0 || whole_laps, "{} of {:?} are unverified", run.unverified, run.trial);
    }
}
