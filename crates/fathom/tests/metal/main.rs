//! The bare-metal image under QEMU: every way to boot, every fault, every memory attribute, and exact counts.
//!
//! With `-icount` QEMU's clock counts instructions, so that counts are exact; times have no meaning. Skipped, with a
//! message, without QEMU for ARM or without an embedded image.

mod aarch64;
mod arm;
mod code;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use fathom_analysis::claims::Decoded;
use fathom_experiment::record::Record;
use fathom_metal::parameters::Parameters;
use fathom_probe::pattern::Trial;
use fathom_probe::rows::{Done, Rows, Sample, Samples};
use fathom_probe::wire::{Line, Value};

/// A way to boot a board, as QEMU's arguments.
struct Start {
    name: &'static str,
    /// The image's name.
    image: &'static str,
    arguments: &'static [&'static str],
    /// Load address, and number of cores that start there; None loads with `-kernel`, as for Linux.
    placed: Option<(u64, u32)>,
    /// The level at which it is entered; 1 on 32-bit ARM.
    boot_el: i128,
    /// Address of the memory that is measured.
    arena: u64,
}

/// A machine that runs the image.
struct Board {
    child: Child,
    say: ChildStdin,
    received: Receiver<String>,
    /// Keeps the image's file.
    _folder: tempfile::TempDir,
}

/// Returns the image of this name that was built with the program, if any.
fn image(name: &str) -> Option<Vec<u8>> {
    let path = Path::new(env!("FATHOM_IMAGES")).join(format!("{name}.img"));
    let image = path.is_file().then(|| std::fs::read(path).unwrap());
    if image.is_none() {
        fathom_skip::skipped!(
            Unchecked,
            "no bare-metal image for {name} was built: Rust's target is missing"
        );
    }
    image
}

impl Board {
    /// Boots the image with these parameters; None if QEMU or the image is missing.
    fn boot(start: &Start, parameters: Parameters) -> Option<Board> {
        let mut image = image(start.image)?;
        parameters.patch(&mut image).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("image");
        std::fs::write(&path, &image).unwrap();
        let qemu = if start.image == "aarch64" { "qemu-system-aarch64" } else { "qemu-system-arm" };
        let mut command = Command::new(qemu);
        command.args(start.arguments).args(["-icount", "shift=0", "-nic", "none", "-display", "none"]);
        command.args(["-monitor", "none", "-serial", "stdio"]);
        let path = path.display();
        match start.placed {
            None => command.args(["-kernel", &path.to_string()]),
            Some((at, cores)) => {
                command.args(["-device", &format!("loader,file={path},addr={at:#x},force-raw=on")]);
                let one = |core| [String::from("-device"), format!("loader,addr={at:#x},cpu-num={core}")];
                command.args((0..cores).flat_map(one))
            }
        };
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                fathom_skip::skipped!(Qemu, "no {qemu} here");
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let (send, received) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let say = child.stdin.take().unwrap();
        Some(Board { child, say, received, _folder: folder })
    }

    fn say(&mut self, line: &str) {
        writeln!(self.say, "{line}").unwrap();
    }

    /// Returns the next line.
    fn text(&mut self) -> String {
        self.received
            .recv_timeout(Duration::from_secs(120))
            .expect("the image has fallen silent")
            .trim_end()
            .to_owned()
    }

    /// Returns the lines up to the first with one of these words.
    fn receive(&mut self, words: &[&str]) -> Vec<Line> {
        let mut lines = Vec::new();
        loop {
            let text = self.text();
            let line = Line::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            let last = words.contains(&line.word.as_str());
            lines.push(line);
            if last {
                return lines;
            }
        }
    }

    fn greeting(&mut self) -> Line {
        self.receive(&["probe"]).pop().unwrap()
    }

    /// Runs a trial and verifies it; returns its samples and its end line.
    fn trial(&mut self, requested: &str) -> (Vec<Sample>, Done) {
        self.say(requested);
        let mut lines = self.receive(&["done", "refusal", "fault"]).into_iter();
        let first = lines.next().unwrap();
        let trial = Trial::read(&first).unwrap_or_else(|e| panic!("{requested}: {e:?}: {}", first.render()));
        let mut samples = Vec::new();
        for line in lines {
            match line.word.as_str() {
                "sample" => samples.extend(Samples::read(&line).unwrap().list),
                "done" => {
                    let done = Done::read(&line).unwrap();
                    let rows = Rows::of_samples(trial.id, samples.clone());
                    assert_eq!(trial.unverified(&rows, &done), [0usize; 0], "{requested}");
                    assert_eq!(samples.len() as u64, trial.samples);
                    return (samples, done);
                }
                _ => panic!("{requested}: {}", line.render()),
            }
        }
        unreachable!("a trial ends in one of these words");
    }

    /// Sends a request that must fail; returns the text of its fault.
    fn wrong(&mut self, requested: &str) -> String {
        self.say(requested);
        let last = self.receive(&["fault", "done", "refusal"]).pop().unwrap();
        assert_eq!(last.word, "fault", "{requested}: {}", last.render());
        text_of(&last, "what")
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text_of(line: &Line, key: &str) -> String {
    match line.pairs.iter().find(|(k, _)| k == key) {
        Some((_, Value::Text(text))) => text.clone(),
        other => panic!("{key}: {other:?} in {}", line.render()),
    }
}

/// Returns the value of a fact.
fn fact<'a>(facts: &'a [Line], name: &str) -> &'a Value {
    let named = |line: &&Line| line.pairs[0].1 == Value::Text(name.into());
    &facts.iter().find(named).unwrap_or_else(|| panic!("no fact {name}")).pairs[1].1
}

/// The memory types, with their byte of MAIR (DDI 0487, D19.2.97).
const ATTRIBUTES: [(&str, u8); 4] =
    [("device", 0x00), ("normal-nc", 0x44), ("write-through", 0xbb), ("write-back", 0xff)];

/// Trials of each access.
const ACCESSES: [&str; 8] = [
    "chase bytes=16384",
    "stride op=read bytes=8192 stride=8",
    "stride op=write bytes=8192 stride=8",
    "stride op=rmw bytes=2560 stride=8",
    "stride op=set bytes=8192 stride=8 loads=1501",
    "stride op=write bytes=65536 stride=64",
    "copy op=copy_to bytes=8192 stride=8",
    "copy op=copy_from bytes=8192 stride=8",
];

const PARAMETERS: Parameters =
    Parameters { baud: 115_200, silence_ms: 0, watch_ms: 30_000, described_khz: 0 };

/// Asserts that a trial is verified, that each fault is reported with these words, that the next trial works, and that
/// lines are numbered without gaps. Returns the facts.
fn assert_session(start: &Start, faults: [(&str, &[&str]); 2]) -> Option<Vec<Line>> {
    let mut board = Board::boot(start, PARAMETERS)?;
    let greeting = board.greeting();
    assert_eq!(greeting.seq, Some(1), "{}", start.name);
    assert!(greeting.render().contains("trust=emulated"), "{}: {}", start.name, greeting.render());
    board.say("facts");
    let facts = board.receive(&["facts_end"]);
    assert_eq!(*fact(&facts, "metal.boot_el"), Value::Int(start.boot_el), "{}", start.name);
    board.trial("trial id=1 bytes=32768 samples=3");
    for ((what, words), with) in
        ["abort", "undefined"].iter().zip(faults).map(|(what, (words, with))| ((what, words), with))
    {
        let reported = board.wrong(&format!("inject what={what}"));
        assert!(reported.starts_with(words), "{}: {reported}", start.name);
        assert!(with.iter().all(|with| reported.contains(with)), "{}: {reported}", start.name);
        assert!(reported.contains("at image+0x"), "{reported}");
        board.trial("trial id=2 pattern=pages bytes=1024 page=huge samples=2");
    }
    board.say("bye");
    let gone = board.receive(&["gone"]).pop().unwrap();
    // Lines: greeting, facts with their end, three lines for each of three trials, two faults, and `gone`.
    assert_eq!(gone.seq, Some(1 + facts.len() as u64 + 3 * 3 + 2 + 1), "{}", start.name);
    // A new session begins with number 1.
    board.say("hello");
    assert_eq!(board.greeting().seq, Some(1));
    board.trial("trial id=3 bytes=8192 samples=1");
    Some(facts)
}

/// Returns the claims in a session's facts.
fn claims(facts: &[Line]) -> Decoded {
    let mut record = Record::default();
    record.push(&Record::first_line()).unwrap();
    for (number, line) in facts.iter().enumerate() {
        record.push(&line.seal(number as u64 + 1)).unwrap();
    }
    fathom_analysis::claims::decode(&record.facts)
}

/// What an image accepts beside the four memory types.
struct Accepted {
    /// Bytes of MAIR.
    mairs: &'static [u8],
    /// Attributes of table walks.
    tables: &'static [&'static str],
    /// Requests that it refuses.
    refused: &'static [&'static str],
    /// Whether translations report the attribute here.
    reported: bool,
}

/// Runs each access in each memory type and page size, and asserts that its memory is the arena's, and its attribute the
/// requested one. Then what else is accepted, and what is refused.
fn assert_attributes(start: &Start, accepted: &Accepted) {
    let Accepted { mairs, tables, refused, reported } = accepted;
    let Some(mut board) = Board::boot(start, PARAMETERS) else { return };
    board.greeting();
    let mut id = 0;
    let mut run = |board: &mut Board, rest: &str| {
        id += 1;
        board.trial(&format!("trial id={id} {rest}"))
    };
    let of = |byte: u8| reported.then_some(byte);
    for page in ["base", "huge"] {
        for (attribute, byte) in ATTRIBUTES {
            for pattern in ACCESSES {
                let requested = format!("pattern={pattern} page={page} attribute={attribute} samples=2");
                let (_, done) = run(&mut board, &requested);
                let translation = done.translation.expect("metal knows");
                assert_eq!(translation.mair, of(byte), "{requested}");
                let pa = translation.pa.expect("metal knows");
                assert!((start.arena..start.arena + (128 << 20)).contains(&pa), "{requested}: {pa:#x}");
                assert_eq!((pa - start.arena) % (128 << 20), done.base % (128 << 20), "{requested}");
            }
            if attribute != "write-back" {
                let pattern = "pattern=alias bytes=65536 stride=8";
                run(&mut board, &format!("{pattern} page={page} attribute={attribute} samples=3"));
            }
        }
    }
    // These bytes of MAIR, and page tables with another attribute; afterwards the defaults are restored.
    for byte in *mairs {
        let (_, done) = run(&mut board, &format!("bytes=8192 mair={byte} samples=1"));
        assert_eq!(done.translation.unwrap().mair, of(*byte));
    }
    for tables in *tables {
        run(&mut board, &format!("pattern=pages bytes=65536 tables={tables} samples=1"));
    }
    let (_, done) = run(&mut board, "bytes=8192 samples=1");
    assert_eq!(done.translation.unwrap().mair, of(0xff));
    for refused in
        refused.iter().chain(&["tables=device", "prefetch=0", "flush=1 pattern=stride op=read stride=64"])
    {
        board.say(&format!("trial id=999 bytes=8192 {refused}"));
        let last = board.receive(&["done", "refusal", "fault"]).pop().unwrap();
        assert_eq!(last.word, "refusal", "{refused}: {}", last.render());
    }
    run(&mut board, "bytes=8192 samples=1");
}

/// Asserts that the watchdog ends endless runs; in the full tier on all of these machines.
fn assert_watchdogs(starts: &[Start]) {
    let full = std::env::var_os("FATHOM_FULL").is_some();
    starts.iter().take(if full { starts.len() } else { 1 }).for_each(assert_watchdog);
}

fn assert_watchdog(start: &Start) {
    let Some(mut board) = Board::boot(start, Parameters { watch_ms: 200, ..PARAMETERS }) else { return };
    board.greeting();
    for requested in ["inject what=endless", "trial id=1 bytes=8192 loads=4294967291 samples=1"] {
        let reported = board.wrong(requested);
        let words = "watch: the trial took longer than 200 ms";
        assert!(reported.starts_with(words), "{}: {reported}", start.name);
    }
    board.trial("trial id=2 bytes=8192 samples=2");
}

/// Trials with their loads, and instructions for each load with a tolerance. A chain of additions costs one each, plus two per 256
/// for the loop; a chase two per 32. A modification is a load, an exclusive or, a store and an address; a copy of two cells is
/// a load, a store and two addresses, in turns of 16.
const COUNTS: [(&str, u32, f64, f64); 4] = [
    ("alu", 102_400, 258.0 / 256.0, 0.002),
    ("chase bytes=32768", 32_003, 34.0 / 32.0, 0.002),
    ("stride op=rmw bytes=2560 stride=8 attribute=normal-nc", 32_000, 4.0, 0.3),
    ("copy op=copy_from bytes=8192 stride=8 attribute=device", 32_000, 2.0, 0.3),
];

/// Asserts that the counts of a machine whose clock ticks once per instruction are the same in two runs, and as expected.
fn assert_counts(start: &Start) {
    let run = || {
        let mut board = Board::boot(start, PARAMETERS)?;
        board.greeting();
        let request = |(number, (request, loads, ..)): (usize, &(&str, u32, f64, f64))| {
            board.trial(&format!("trial id={number} pattern={request} samples=4 loads={loads}")).0
        };
        Some(COUNTS.iter().enumerate().map(request).collect::<Vec<_>>())
    };
    let Some(first) = run() else { return };
    assert_eq!(Some(&first), run().as_ref(), "with instructions counted, two runs are one");
    for (samples, (request, loads, per, give)) in first.iter().zip(&COUNTS) {
        for sample in samples {
            let each = (sample.ticks2 - sample.ticks) as f64 / f64::from(*loads);
            assert!((each - per).abs() < *give, "{request}: {each} ticks each, {per} expected");
        }
    }
}

/// Asserts that the image runs study S0 by itself, once. `reported`: as for [`assert_attributes`].
fn assert_study(start: &Start, reported: bool) {
    let Some(mut board) = Board::boot(start, Parameters { silence_ms: 50, ..PARAMETERS }) else { return };
    board.greeting();
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains("serving the probe again")) {
        lines.push(board.text());
    }
    assert!(lines.iter().all(|line| line.starts_with('#')), "{lines:#?}");
    let attributes: &[&str] = if reported { &["attribute 0x44", "attribute 0xff"] } else { &[] };
    for words in
        ["emulator", "not in force", "2560 bytes", " 320 bytes", "ns per operation"].iter().chain(attributes)
    {
        assert!(lines.iter().any(|line| line.contains(words)), "{}: {words}: {lines:#?}", start.name);
    }
    assert_eq!(lines.iter().filter(|line| line.contains("ratio ")).count(), 2, "{}: {lines:#?}", start.name);
    // The probe serves again after the study, which runs once.
    board.trial("trial id=1 bytes=8192 samples=2");
}
