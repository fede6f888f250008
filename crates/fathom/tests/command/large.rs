//! Large records: the time to report one grows with its size, and not with the square.

use std::time::Instant;

use fathom_probe::wire::Line;

use crate::common::User;

/// Trials of a large record: one fewer than any record may have.
const TRIALS: usize = 19_999;
/// Size at which it is large with fewer trials, bytes.
const BYTES: usize = 12 << 20;
/// CPU time in which it has to be reported.
const MOST_S: f64 = 5.0;

/// Returns the lines of a record, without the numbers that the probe and the file give them.
fn lines(name: &str) -> Vec<String> {
    let path = format!("{}/../../records/{name}.fathom", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a record");
    let content = text.lines().map(|line| line.rsplit_once(" @").expect("a seal").0);
    content.map(|line| line.split(" seq=").next().unwrap_or_default().to_owned()).collect()
}

/// Repeats the trials of a record until it is large. Returns it with the number of its trials.
fn grown(name: &str) -> (String, usize) {
    let lines = lines(name);
    let first = lines.iter().position(|line| line.starts_with("trial ")).expect("a trial");
    let last = lines.iter().rposition(|line| line.starts_with("done ")).expect("its end");
    let mut out = String::new();
    let (mut seq, mut trials) = (0, 0);
    let mut push = |line: &str| {
        let harness = ["fathom.record ", "run ", "end "].iter().any(|word| line.starts_with(word));
        seq += u64::from(!harness);
        let line = Line::parse(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        out += &(if harness { line.render() } else { line.seal(seq) } + "\n");
        out.len()
    };
    let mut bytes = 0;
    for line in &lines[..first] {
        bytes = push(line);
    }
    for line in lines[first..=last].iter().cycle() {
        let begins = line.starts_with("trial ");
        if begins && (trials == TRIALS || bytes >= BYTES) {
            break;
        }
        trials += usize::from(begins);
        // The second word of each line is the trial's number.
        let mut words = line.splitn(3, ' ');
        let (word, number, rest) = (words.next(), words.next().unwrap_or_default(), words.next());
        let key = number.split('=').next().unwrap_or_default();
        assert!(matches!(key, "id" | "trial"), "{line}");
        bytes = push(&format!("{} {key}={trials} {}", word.unwrap_or_default(), rest.unwrap_or_default()));
    }
    for line in &lines[last + 1..] {
        push(line);
    }
    (out, trials)
}

/// Returns the CPU time, s, that a shell's commands have taken: the second line of `times`, `1m2.34s 0m0.56s`.
fn cpu_s(times: &str) -> f64 {
    let seconds = |word: &str| {
        let (minutes, rest) = word.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + rest.strip_suffix('s')?.parse::<f64>().ok()?)
    };
    let line = times.lines().nth(1).unwrap_or_default();
    let sum: Option<f64> = line.split_whitespace().map(seconds).sum();
    sum.unwrap_or_else(|| panic!("no times: {times}"))
}

#[test]
#[ignore = "takes minutes; prints times"]
fn record_of_19999_trials_is_reported_in_seconds() {
    let user = User::new();
    for name in [
        "v1-bcm2835-survey",
        "v1-guest-survey",
        "v1-am5728-stride",
        "v1-bcm2835-latency",
        "v1-bcm2835-ladder",
        "v1-bcm2837-cacheability",
        "v1-cortex-a8-conflict",
        "v1-omap3-sdio-dma",
        "v1-guest-wakeup",
    ] {
        let (text, trials) = grown(name);
        let bytes = std::fs::metadata(user.write_record("A", &text)).expect("a record").len();
        for form in ["", "--json", "--html P"] {
            let begin = Instant::now();
            let did = user.shell(&format!("fathom report A {form} >out; echo $? >status; times"));
            let (took, wall) = (cpu_s(&did.out), begin.elapsed().as_secs_f64());
            assert!(matches!(user.read("status").trim(), "0" | "3"), "{name}: {did:?}");
            if form == "--json" {
                assert!(!user.read("out").contains("damaged-record"), "{name}: {}", user.read("out"));
            }
            println!("{name} {form}: {trials} trials, {bytes} bytes, {took:.1} s of CPU time, {wall:.1} s");
            assert!(took < MOST_S, "{name} {form}: {took:.1} s of CPU time");
        }
    }
}
