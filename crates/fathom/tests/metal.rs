//! The bare-metal image under QEMU: every way to boot, every fault, every memory attribute, and exact counts.
//!
//! With `-icount` QEMU's clock counts instructions, so that counts are exact; times have no meaning. Skipped, with a
//! message, without QEMU for AArch64 or without an embedded image.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use fathom_analysis::claims::{Holds, Source};
use fathom_experiment::record::Record;
use fathom_metal::parameters::{Parameters, code_bytes, memory_bytes};
use fathom_probe::pattern::Trial;
use fathom_probe::rows::{Done, Rows, Sample, Samples};
use fathom_probe::wire::{Line, Value};

/// A way to boot a board, as QEMU's arguments.
struct Start {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Load address, and number of cores that start there; None loads with `-kernel`, as for Linux.
    placed: Option<(u64, u32)>,
    boot_el: i128,
}

const PI3: Start = Start { name: "raspi3b", arguments: &["-M", "raspi3b"], placed: None, boot_el: 2 };
const VIRT: Start =
    Start { name: "virt", arguments: &["-M", "virt", "-cpu", "cortex-a53"], placed: None, boot_el: 1 };
const STARTS: [Start; 5] = [
    PI3,
    // The other cores are not parked.
    Start { name: "raspi3b, EL3", arguments: &["-M", "raspi3b"], placed: Some((0x8_0000, 4)), boot_el: 3 },
    VIRT,
    Start {
        name: "virt, EL2",
        arguments: &["-M", "virt,virtualization=on", "-cpu", "cortex-a72"],
        placed: None,
        boot_el: 2,
    },
    Start {
        name: "virt, EL3",
        arguments: &["-M", "virt,secure=on,virtualization=on", "-cpu", "cortex-a53"],
        // Not the address of `-kernel`: the image is position-independent.
        placed: Some((0x4020_0000, 1)),
        boot_el: 3,
    },
];

/// A machine that runs the image.
struct Board {
    child: Child,
    say: ChildStdin,
    received: Receiver<String>,
    /// Keeps the image's file.
    _folder: tempfile::TempDir,
}

/// Returns the image that was built with the program, if any.
fn image() -> Option<Vec<u8>> {
    let path = Path::new(env!("FATHOM_IMAGES")).join("aarch64.img");
    let image = path.is_file().then(|| std::fs::read(path).unwrap());
    if image.is_none() {
        fathom_skip::skipped!(
            Unchecked,
            "no bare-metal image was built: Rust's target aarch64-unknown-none-softfloat is missing"
        );
    }
    image
}

impl Board {
    /// Boots the image with these parameters; None if QEMU or the image is missing.
    fn boot(start: &Start, parameters: Parameters) -> Option<Board> {
        let mut image = image()?;
        parameters.patch(&mut image).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("image");
        std::fs::write(&path, &image).unwrap();
        let mut command = Command::new("qemu-system-aarch64");
        command.args(start.arguments).args(["-icount", "shift=0", "-nic", "none", "-display", "none"]);
        command.args(["-monitor", "none", "-serial", "stdio"]);
        if start.arguments != PI3.arguments {
            command.args(["-m", "512M"]);
        }
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
                fathom_skip::skipped!(Qemu, "no qemu-system-aarch64 here");
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

const PARAMETERS: Parameters =
    Parameters { baud: 115_200, silence_ms: 0, watch_ms: 30_000, described_khz: 0 };

/// Asserts that a trial is verified, that each fault is reported, that the next trial works, and that lines are
/// numbered without gaps.
fn assert_session(start: &Start) {
    let Some(mut board) = Board::boot(start, PARAMETERS) else { return };
    let greeting = board.greeting();
    assert_eq!(greeting.seq, Some(1), "{}", start.name);
    assert!(greeting.render().contains("trust=emulated"), "{}: {}", start.name, greeting.render());
    board.say("facts");
    let facts = board.receive(&["facts_end"]);
    assert_eq!(*fact(&facts, "metal.boot_el"), Value::Int(start.boot_el), "{}", start.name);
    for pages in ["huge", "base"] {
        for (attribute, byte) in
            [("write-back", "0xff"), ("write-through", "0xbb"), ("normal-nc", "0x44"), ("device", "0x00")]
        {
            let Value::Text(reported) = fact(&facts, &format!("attribute.{pages}.{attribute}")) else {
                panic!()
            };
            assert!(reported.ends_with(&format!("mair {byte}")), "{}: {attribute}: {reported}", start.name);
        }
    }
    // QEMU's firmware leaves 64 MiB of 1 GiB to the video core.
    if start.name.starts_with("raspi3b") {
        assert_eq!(
            *fact(&facts, "metal.firmware.memory.bytes"),
            Value::Int((1024 - 64) << 20),
            "{}",
            start.name
        );
    }
    claims(start, &facts);
    board.trial("trial id=1 bytes=32768 samples=3");
    for (what, words) in [("abort", "data abort: translation fault"), ("undefined", "undefined instruction")]
    {
        let reported = board.wrong(&format!("inject what={what}"));
        assert!(
            reported.starts_with(words) && reported.contains("ESR_EL1=") && reported.contains("ELR_EL1="),
            "{reported}"
        );
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
}

/// Asserts that the core's cache registers are decoded to claims.
fn claims(start: &Start, facts: &[Line]) {
    let mut record = Record::default();
    record.push(&Record::first_line()).unwrap();
    for (number, line) in facts.iter().enumerate() {
        record.push(&line.seal(number as u64 + 1)).unwrap();
    }
    let decoded = fathom_analysis::claims::decode(&record.facts);
    let one = |source, level, holds| {
        decoded.claims.iter().find(|claim| (claim.source, claim.level, claim.holds) == (source, level, holds))
    };
    let name = start.name;
    let first = one(Source::Ccsidr, 1, Holds::Data).unwrap_or_else(|| panic!("{name}: {decoded:?}"));
    assert_eq!((first.size, first.line), (Some(32 << 10), Some(64)), "{name}");
    assert!(one(Source::Ccsidr, 2, Holds::Unified).is_some_and(|claim| claim.ways == Some(16)), "{name}");
    assert!(one(Source::Ctr, 1, Holds::Data).is_some_and(|claim| claim.line == Some(64)), "{name}");
}

#[test]
fn probe_starts_at_every_level_and_survives_faults() {
    STARTS.iter().for_each(assert_session);
}

/// Asserts that every requested attribute is in force, and that stores through one mapping are visible through another.
fn attributes(start: &Start) {
    let Some(mut board) = Board::boot(start, PARAMETERS) else { return };
    board.greeting();
    let mut id = 0;
    let mut run = |board: &mut Board, rest: &str| {
        id += 1;
        board.trial(&format!("trial id={id} {rest}"))
    };
    let arena = if start.arguments == PI3.arguments { 0x0800_0000 } else { 0x5000_0000 };
    for page in ["base", "huge"] {
        for (attribute, byte) in
            [("device", 0x00), ("normal-nc", 0x44), ("write-through", 0xbb), ("write-back", 0xff)]
        {
            for pattern in [
                "chase bytes=16384",
                "stride op=read bytes=8192 stride=8",
                "stride op=write bytes=8192 stride=8",
                "stride op=rmw bytes=2560 stride=8",
                "stride op=set bytes=8192 stride=8 loads=1501",
                "stride op=write bytes=65536 stride=64",
                "copy op=copy_to bytes=8192 stride=8",
                "copy op=copy_from bytes=8192 stride=8",
            ] {
                let requested = format!("pattern={pattern} page={page} attribute={attribute} samples=2");
                let (_, done) = run(&mut board, &requested);
                let translation = done.translation.expect("metal knows");
                assert_eq!(translation.mair, Some(byte), "{requested}");
                let pa = translation.pa.expect("metal knows");
                assert!((arena..arena + (128 << 20)).contains(&pa), "{requested}: {pa:#x}");
                assert_eq!(pa % (128 << 20), done.base % (128 << 20), "{requested}");
            }
            if attribute != "write-back" {
                run(
                    &mut board,
                    &format!(
                        "pattern=alias bytes=65536 stride=8 page={page} attribute={attribute} samples=3"
                    ),
                );
            }
        }
    }
    // Any MAIR byte, and page tables with another attribute; afterwards the defaults are restored.
    for byte in [0x00, 0x04, 0x0c, 0x44, 0x4f, 0x77, 0xa5, 0xee, 0xff] {
        let (_, done) = run(&mut board, &format!("bytes=8192 mair={byte} samples=1"));
        assert_eq!(done.translation.unwrap().mair, Some(byte));
    }
    for tables in ["normal-nc", "write-through", "write-back"] {
        run(&mut board, &format!("pattern=pages bytes=65536 tables={tables} samples=1"));
    }
    let (_, done) = run(&mut board, "bytes=8192 samples=1");
    assert_eq!(done.translation.unwrap().mair, Some(0xff));
    for refused in ["tables=device", "prefetch=0", "flush=1 pattern=stride op=read stride=64"] {
        board.say(&format!("trial id=999 bytes=8192 {refused}"));
        let last = board.receive(&["done", "refusal", "fault"]).pop().unwrap();
        assert_eq!(last.word, "refusal", "{refused}: {}", last.render());
    }
    run(&mut board, "bytes=8192 samples=1");
}

#[test]
fn attributes_are_in_force_on_virt() {
    attributes(&VIRT);
}

#[test]
fn attributes_are_in_force_on_raspi3b() {
    attributes(&PI3);
}

/// A Pi 3A+ with half of its memory for the video core, and with one MiB more (`gpu_mem`).
#[test]
fn arena_overlapping_video_memory_is_refused() {
    let board = |vcram| Start { name: "raspi3ap", arguments: vcram, placed: None, boot_el: 2 };
    let half = board(&["-M", "raspi3ap", "-global", "bcm2835-fb.vcram-size=0x10000000"]);
    let Some(mut fits) = Board::boot(&half, PARAMETERS) else { return };
    fits.greeting();
    fits.trial("trial id=1 bytes=134217728 page=huge samples=1 loads=1000");
    let more = board(&["-M", "raspi3ap", "-global", "bcm2835-fb.vcram-size=0x10100000"]);
    let Some(mut refused) = Board::boot(&more, PARAMETERS) else { return };
    let reported = refused.text();
    assert!(
        reported.starts_with("# ") && reported.contains("255 MiB") && reported.contains("gpu_mem"),
        "{reported}"
    );
}

/// The watchdog ends endless runs; in the full tier on all machines.
#[test]
fn endless_run_is_ended_by_the_watchdog() {
    let full = std::env::var_os("FATHOM_FULL").is_some();
    for start in STARTS.iter().take(if full { STARTS.len() } else { 1 }) {
        let Some(mut board) = Board::boot(start, Parameters { watch_ms: 200, ..PARAMETERS }) else { return };
        board.greeting();
        for requested in ["inject what=endless", "trial id=1 bytes=8192 loads=4294967291 samples=1"] {
            let reported = board.wrong(requested);
            assert!(
                reported.starts_with("watch: the trial took longer than 200 ms"),
                "{}: {reported}",
                start.name
            );
        }
        board.trial("trial id=2 bytes=8192 samples=2");
    }
}

#[test]
fn instruction_counts_are_exact_and_repeatable() {
    let run = || {
        let mut board = Board::boot(&VIRT, PARAMETERS)?;
        board.greeting();
        let mut all = Vec::new();
        for requested in [
            "trial id=1 pattern=alu loads=102400 samples=4",
            "trial id=2 bytes=32768 samples=4 loads=32003",
            "trial id=3 pattern=stride op=rmw bytes=2560 stride=8 attribute=normal-nc samples=4 loads=32000",
            "trial id=4 pattern=copy op=copy_from bytes=8192 stride=8 attribute=device samples=4 loads=32000",
        ] {
            all.push(board.trial(requested).0);
        }
        Some(all)
    };
    let Some(first) = run() else { return };
    assert_eq!(Some(&first), run().as_ref(), "with instructions counted, two runs are one");
    // One instruction per tick. A chain of additions costs one each, plus two per 256 for the loop; a chase two per 32. A
    // modification is a load, an exclusive or, a store and an address; a copy of two cells is a load, a store and two
    // addresses, in turns of 16.
    let each = [
        (0, 102_400, 258.0 / 256.0, 0.002),
        (1, 32_003, 34.0 / 32.0, 0.002),
        (2, 32_000, 4.0, 0.3),
        (3, 32_000, 2.0, 0.3),
    ];
    for (trial, n, per, give) in each {
        for sample in &first[trial] {
            let (n, found) = (f64::from(n), (sample.ticks2 - sample.ticks) as f64);
            assert!((found / n - per).abs() < give, "{trial}: {found} ticks over {n}, {per} each expected");
        }
    }
}

#[test]
fn study_runs_once_if_no_request_arrives() {
    for start in [&PI3, &VIRT] {
        let Some(mut board) = Board::boot(start, Parameters { silence_ms: 50, ..PARAMETERS }) else { return };
        board.greeting();
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains("serving the probe again")) {
            lines.push(board.text());
        }
        assert!(lines.iter().all(|line| line.starts_with('#')), "{lines:#?}");
        for words in [
            "emulator",
            "not in force",
            "2560 bytes",
            " 320 bytes",
            "attribute 0x44",
            "attribute 0xff",
            "ns per operation",
        ] {
            assert!(lines.iter().any(|line| line.contains(words)), "{words}: {lines:#?}");
        }
        assert_eq!(lines.iter().filter(|line| line.contains("ratio ")).count(), 2, "{lines:#?}");
        // The probe serves again after the study, which runs once.
        board.trial("trial id=1 bytes=8192 samples=2");
    }
}

/// The compiled chase: a loop of 32 dependent loads, `ldr xA, [xB, xA]`, one decrement and one branch.
#[test]
fn chase_loop_has_only_dependent_loads() {
    let Some(image) = image() else { return };
    let words: Vec<u32> =
        image.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    // LDR (register), 64 bits, LSL #0 (DDI 0487): destination, offset, base.
    let load = |word: &u32| {
        let field = |from: u32| word >> from & 31;
        (word & 0xffe0_fc00 == 0xf860_6800).then(|| (field(0), field(16), field(5)))
    };
    // B.NE back over 33 words; the compiler may have put the decrement anywhere between.
    let back = |word: u32| word & 0xff00_001f == 0x5400_0001 && (word >> 5 & 0x7_ffff) == 0x8_0000 - 33;
    let loops = words.windows(34).filter(|turn| back(turn[33])).filter(|turn| {
        let loads: Vec<_> = turn[..33].iter().filter_map(load).collect();
        // SUBS (immediate), 64 bits, of 1.
        let counts = turn[..33].iter().filter(|word| **word & 0xffff_fc00 == 0xf100_0400).count();
        // Each address depends on the previous load, the first of a turn on the last of the turn before; one base.
        let last = loads.iter().cycle().skip(loads.len().saturating_sub(1));
        let chained = loads.iter().zip(last).all(|(now, last)| now.1 == last.0 && now.2 == last.2);
        (loads.len(), counts) == (32, 1) && chained
    });
    assert_eq!(loops.count(), 1, "one turn of 32 loads, each from the last one's answer, in the whole image");
    let memory = memory_bytes(&image).unwrap();
    println!("the image: {} KiB to load, {} KiB of memory", image.len() / 1024, memory / 1024);
    assert!(image.len() < 256 << 10, "{} bytes: what has grown?", image.len());
}

/// Erratum 835769 of Cortex-A53 (ARM-EPM-048406): a 64-bit multiply-accumulate directly after a load or store may give
/// a wrong result. The image must have none: a compiler option avoids them, also in the core library.
#[test]
fn image_avoids_erratum_835769() {
    let Some(image) = image() else { return };
    let code = &image[..code_bytes(&image).unwrap()];
    let words: Vec<u32> =
        code.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    // DDI 0487, "A64 instruction set encoding": loads and stores have bits 27 and 25 at 1 and 0; MADD, MSUB and their
    // long forms, of 64 bits, with an accumulator that is not the zero register.
    let accesses = |word: u32| word & 0x0a00_0000 == 0x0800_0000;
    let accumulates = |word: u32| word & 0xff00_0000 == 0x9b00_0000 && word >> 10 & 31 != 31;
    assert!(words.iter().any(|word| accumulates(*word)), "the image multiplies somewhere");
    let bad: Vec<usize> = (1..words.len())
        .filter(|at| accesses(words[at - 1]) && accumulates(words[*at]))
        .map(|at| 4 * at)
        .collect();
    assert_eq!(bad, [0usize; 0], "at these offsets of the image");
}
