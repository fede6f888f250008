//! Bounded fuzzing: checks properties that hold for any input, with seeds and with mutations by a mutator of fixed
//! seed. The coverage-guided run of `fuzz/` calls the same functions (CONTRIBUTING, "Fuzzing").
//!
//! `FATHOM_SEEDS=fuzz/corpus cargo test -p fathom --test fuzz seeds` writes the seeds for that run. A failing input
//! that is found there is stored in `found/TARGET`; every test run begins with these.
#![cfg(target_os = "linux")]

#[path = "../../src/records/lines.rs"]
mod lines;
#[path = "../../../analysis/tests/claims/sane.rs"]
mod sane;
#[path = "../../src/subjects/user_defined.rs"]
mod user_defined;

mod description;
mod foreign;
mod long;
mod mutate;
mod record;
mod scripted;
mod seeds;
mod tables;
mod trace;
mod wire;

use std::path::PathBuf;

use mutate::{Random, mutated};

/// Maximum memory of a run of all inputs of a target.
const MAX_MEMORY_KIB: u64 = 512 << 10;

type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>, usize);

/// Name, function, seeds, and number of mutated inputs per test run.
const TARGETS: [Target; 6] = [
    ("wire", wire::run, seeds::wire, 1500),
    ("description", description::run, seeds::description, 3000),
    ("record", record::run, seeds::record, 60),
    ("tables", tables::run, seeds::tables, 20_000),
    ("foreign", foreign::run, seeds::foreign, 3000),
    ("trace", trace::run, seeds::trace, 20_000),
];

/// Runs one input; if it fails, the input is kept and its file is named.
#[track_caller]
fn run(target: &Target, input: &[u8], what: &str) {
    let body = target.1;
    if let Err(why) = std::panic::catch_unwind(|| body(input)) {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{what}", target.0));
        let kept = std::fs::write(&file, input).is_ok();
        eprintln!("{what} of '{}' fails; kept: {kept}, {}", target.0, file.display());
        std::panic::resume_unwind(why);
    }
}

#[track_caller]
fn bounded(name: &str) {
    let target = TARGETS.iter().find(|t| t.0 == name).expect("a target");
    let more = std::env::var("FATHOM_FUZZ").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
    let found = seeds::found(name);
    found.iter().enumerate().for_each(|(n, input)| run(target, input, &format!("found-{n}")));
    let seeds = target.2();
    assert!(seeds.len() > 3, "the seeds of {name} are gone");
    seeds.iter().enumerate().for_each(|(n, input)| run(target, input, &format!("seed-{n}")));
    let mut random = Random::new(0xfa70 + name.len() as u64);
    for n in 0..target.3 * more {
        let [a, b] = [0; 2].map(|_| &seeds[random.below(seeds.len())]);
        run(target, &mutated(a, b, &mut random), &format!("mutant-{n}"));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    let peak: u64 = peak.expect("the peak of the memory in use");
    assert!(peak < MAX_MEMORY_KIB, "{peak} KiB");
}

#[test]
fn wire_accepts_any_lines() {
    bounded("wire");
}

#[test]
fn description_accepts_any_text() {
    bounded("description");
}

#[test]
fn record_accepts_any_bytes() {
    bounded("record");
}

#[test]
fn tables_accept_any_bytes() {
    bounded("tables");
}

#[test]
fn import_accepts_any_text() {
    bounded("foreign");
}

#[test]
fn trace_accepts_any_bytes() {
    bounded("trace");
}

#[test]
#[ignore = "takes minutes with --release, and hours without; goes on where the last run ended"]
fn billion_bytes_pass_each_parser() {
    TARGETS.iter().for_each(long::pass);
}

#[test]
fn resealed_damage_passes_the_checksum() {
    let text = String::from_utf8(seeds::record().swap_remove(0)).expect("text");
    let line = text.lines().find(|l| l.starts_with("trial ")).expect("a trial");
    let damaged = text.replacen(line, &line.replacen(" bytes=", "  bytes=", 1), 1);
    let problems = |bytes: &[u8]| lines::read(bytes, |_| None).expect("a record").problems;
    let reported = problems(damaged.as_bytes());
    assert!(reported.first().is_some_and(|p| p.contains("checksum")), "{reported:?}");
    assert_eq!(problems(&mutate::resealed(damaged.as_bytes())), Vec::<String>::new());
}

#[test]
fn record_truncated_at_any_line_is_judged() {
    let whole = seeds::record().swap_remove(1);
    let mut ends: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] == b'\n').map(|at| at + 1).collect();
    ends.insert(0, 0);
    let reported = |cut: usize| {
        let report = record::judged(&whole[..cut])?;
        Some(report.warnings.iter().map(|w| w.kind.token()).collect::<Vec<_>>())
    };
    for pair in ends.windows(2) {
        let inside = reported(pair[0] + (pair[1] - pair[0]) / 2);
        let at = reported(pair[1]);
        // Without the complete first line the text is not a record.
        assert_eq!(inside.is_none(), pair[0] == 0);
        let damaged = |tokens: &Option<Vec<&str>>| tokens.iter().flatten().any(|t| *t == "damaged-record");
        assert!(inside.is_none() || damaged(&inside), "{inside:?} at {pair:?}");
        let cut_off = at.iter().flatten().any(|t| *t == "interrupted");
        assert_eq!(cut_off, pair[1] != whole.len(), "{at:?} at {pair:?}");
        assert!(!damaged(&at), "{at:?} at {pair:?}");
    }
}

/// Checks that the other workspace, which is not built here, includes existing files of this one.
#[test]
fn fuzz_workspace_includes_existing_targets() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    for (name, ..) in TARGETS {
        let file = directory.join(name).with_extension("rs");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let paths: Vec<&str> =
            text.lines().filter_map(|l| l.strip_prefix("#[path = \"")?.strip_suffix("\"]")).collect();
        assert!(paths.iter().any(|p| p.ends_with(&format!("tests/fuzz/{name}.rs"))), "{name}: {paths:?}");
        for path in paths {
            assert!(directory.join(path).is_file(), "{name} includes {path}");
        }
    }
}

#[test]
fn seeds_are_written_for_the_fuzz_workspace() {
    let Some(directory) = std::env::var_os("FATHOM_SEEDS").map(PathBuf::from) else {
        fathom_skip::skipped!(Unchecked, "FATHOM_SEEDS names no directory to write them to");
        return;
    };
    for target in &TARGETS {
        // Tests run in their crate's directory; users run cargo in the repository's root.
        let directory =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(&directory).join(target.0);
        std::fs::create_dir_all(&directory).expect("a directory");
        for (n, seed) in seeds::found(target.0).into_iter().chain(target.2()).enumerate() {
            std::fs::write(directory.join(format!("seed-{n}")), seed).expect("a seed");
        }
    }
}
