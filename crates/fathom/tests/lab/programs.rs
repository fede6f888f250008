//! Programs that are counted and sampled in the guest, where it is known what they execute.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::*;

/// Returns a program for AArch64 that executes 2 `n` + 5 instructions.
fn program_of(n: u32) -> Vec<u8> {
    let code = [
        0xd280_0000 | (n & 0xffff) << 5, // movz x0, #n
        0xf2a0_0000 | (n >> 16) << 5,    // movk x0, #n >> 16, lsl 16
        0xf100_0400,                     // loop: subs x0, x0, #1
        0x54ff_ffe1,                     // b.ne loop
        0xd280_0ba8,                     // movz x8, #93
        0xd280_0000,                     // movz x0, #0
        0xd400_0001,                     // svc #0: exit(0)
    ];
    // Headers of ELF64: one segment, with the code behind the headers.
    let (address, headers) = (0x40_0000u64, 120u64);
    let length = headers + 4 * code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([2u16, 183].iter().flat_map(|v| v.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([address + headers, 64, 0].iter().flat_map(|v| v.to_le_bytes()));
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 1, 0, 0, 0].iter().flat_map(|v| v.to_le_bytes()));
    file.extend([1u32, 5].iter().flat_map(|v| v.to_le_bytes()));
    file.extend([0, address, address, length, length, 0x1_0000].iter().flat_map(|v| v.to_le_bytes()));
    file.extend(code.iter().flat_map(|v| v.to_le_bytes()));
    file
}

/// The guest's PMU counts instructions exactly, as its clock does: `fathom count` returns what the program executes, in every
/// run, and nothing of the kernel's and of its own.
#[test]
fn instructions_of_a_program_are_counted_exactly() {
    use base64::Engine as _;
    const N: u32 = 1_000_000;
    let Some((_turn, folder)) = lock_and_directory() else { return };
    let script = folder.path().join("script");
    let program = base64::engine::general_purpose::STANDARD.encode(program_of(N));
    let text = format!("echo {program} | base64 -d >/tmp/program && chmod +x /tmp/program");
    std::fs::write(&script, text).expect("a folder that can be written");
    let count = ["count", "--runs", "3", "--color", "never", "--", "/tmp/program"];
    let Some((output, record)) = end(start_after(folder.path(), "count", Some(&script), &count)) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record = file::read(&String::from_utf8_lossy(&record)).expect("a record");
    assert!(record.problems.is_empty(), "{:?}", record.problems);
    let report = fathom_experiment::read(&record).expect("an experiment");
    let instructions = row(&report, "program.event.instructions.count").expect("counted");
    let exact = Some(f64::from(2 * N + 5));
    assert_eq!([instructions.finite(), instructions.low, instructions.high], [exact; 3], "{instructions:?}");
    // An emulator has no time and no cycles.
    assert!(row(&report, "program.wall").is_none() && row(&report, "program.event.cycles.count").is_none());
}

/// Builds a program of the tests for the guest, as `name`; `None`, and told, without a compiler. Equal loops must not become one
/// function.
pub fn built(folder: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let program = folder.join(name);
    let built = Command::new("aarch64-linux-gnu-gcc")
        .args(["-O2", "-g", "-static", "-pthread", "-fno-ipa-icf", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(format!("-I{ROOT}/include"))
        .arg(format!("{}/tests/{source}", env!("CARGO_MANIFEST_DIR")))
        .output();
    match built {
        Ok(built) => {
            assert!(built.status.success(), "{built:?}");
            Some(program)
        }
        Err(_) => {
            fathom_skip::skipped!(
                Unchecked,
                "no aarch64-linux-gnu-gcc: scripts/simulate --setup installs it"
            );
            None
        }
    }
}

/// Runs a script of `scripts/guest` with a program of the tests. Returns the files that it leaves; `None`, and told, without a
/// laboratory.
fn files_of(
    script: &str,
    [name, source]: [&str; 2],
    more: &[&str],
    memory: &str,
) -> Option<HashMap<String, String>> {
    let (_turn, folder) = lock_and_directory()?;
    let run = laboratory(memory)
        .args(more)
        .arg("--program")
        .arg(built(folder.path(), name, source)?)
        .args(["--script", &format!("{ROOT}/scripts/guest/{script}")])
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let [out, err] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if run.status.code() == Some(UNAVAILABLE) {
        fathom_skip::skipped!(Unchecked, "{err}");
        return None;
    }
    assert!(run.status.success() && !err.contains(": failed"), "{err}");
    let mut files = HashMap::new();
    for part in out.split("@lab begin ").skip(1) {
        let (name, rest) = part.split_once('\n').expect("a name");
        let (text, _) = rest.split_once("@lab end ").expect("an end");
        files.insert(name.to_owned(), text.to_owned());
    }
    Some(files)
}

/// The same with the planted program, which is counted and sampled.
fn files(more: &[&str], memory: &str) -> Option<HashMap<String, String>> {
    files_of("profile", ["planted", "work.c"], more, memory)
}

/// Returns the findings of a file.
fn findings(files: &HashMap<String, String>, name: &str) -> Vec<Value> {
    let text = files.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", files.keys()));
    let document: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}: {text}"));
    document["findings"].as_array().expect("findings").clone()
}

fn instructions(files: &HashMap<String, String>, n: u64) -> f64 {
    let all = findings(files, &format!("count-{n}"));
    let found = all.iter().find(|f| f["name"] == "program.event.instructions.count");
    found.and_then(|f| f["value"].as_f64()).expect("counted")
}

/// Checks that three quarters are in `inner`, as planted, and that the callers are those of the source. Only the kernel, by frame
/// pointers, leaves out the caller of a function without a frame.
fn is_as_planted(all: &[Value], what: &str, by_tables: bool) {
    let of = |metric: &str, function: &str| {
        let found = all.iter().find(|f| f["metric"] == metric && f["detail"]["function"] == function);
        let found = found.unwrap_or_else(|| panic!("{what}: no {function}: {all:?}"));
        ["value", "low", "high"].map(|key| found[key].as_f64().expect("a number"))
    };
    for (function, share) in [("inner", 0.75), ("outer", 0.25)] {
        let [_, low, high] = of("profile.function.{rank}.share", function);
        assert!(low <= share && share <= high, "{what}: {function} {low}..{high}");
        assert!(high - low < 0.25, "{what}: {function} {low}..{high}");
    }
    let callers: &[&str] = if by_tables { &["work", "main", "_start"] } else { &["main", "_start"] };
    for caller in callers {
        let [value, ..] = of("profile.total.{rank}.share", caller);
        assert!(value > 0.95, "{what}: {caller} {value}");
    }
    let known = all.iter().find(|f| f["name"] == "profile.callers.known");
    assert_eq!(known.is_some(), by_tables, "{what}");
    assert!(known.is_none_or(|f| f["value"].as_f64() > Some(0.95)), "{what}: {known:?}");
}

fn is_counted_and_sampled_as_planted(files: &HashMap<String, String>) {
    // The loops have 4 n iterations of some instructions; the rest, but for the digits that it prints, is the same.
    let added = instructions(files, 2_000_000) - instructions(files, 1_000_000);
    let each = (added / 4e6).round();
    assert!(each >= 4.0 && (added - 4e6 * each).abs() < 2000.0, "{added}");
    for event in ["cpu-clock", "cycles"] {
        is_as_planted(&findings(files, &format!("profile-{event}")), event, true);
    }
    // QEMU loses overflows of this counter. The count tells.
    let text = &files["profile-instructions"];
    assert!(text.contains("samples stand for") || text.contains("it has no sample"), "{text}");
}

/// AArch64's tables are read on real stacks here, and its counter makes samples.
#[test]
fn planted_program_is_counted_and_sampled_in_the_guest() {
    let Some(files) = files(&[], MEMORY) else { return };
    is_counted_and_sampled_as_planted(&files);
}

/// Debian's perf counts and samples the same program beside fathom, which reads its files.
#[test]
#[ignore = "a minute, and 30 MB of packages: scripts/test --full"]
fn perf_beside_fathom_finds_the_same() {
    let Some(files) = files(&["--with", "linux-perf"], "1024") else { return };
    is_counted_and_sampled_as_planted(&files);
    let perf = files["perf-count"].lines().find(|line| line.contains("instructions")).expect("a line");
    let perf: f64 = perf.split(',').next().and_then(|count| count.parse().ok()).expect("a number");
    let own = instructions(&files, 1_000_000);
    println!("instructions: perf {perf}, fathom {own}");
    assert!((perf - own).abs() < 5000.0, "perf {perf}, fathom {own}");
    for (how, event) in [("dwarf", "cpu-clock"), ("dwarf", "cycles"), ("fp", "cpu-clock"), ("fp", "cycles")] {
        let name = format!("{how}-{event}");
        let all = findings(&files, &format!("import-{name}"));
        is_as_planted(&all, &name, how == "dwarf");
        // Of the names of one address, each tool chooses another in the C library.
        for function in ["inner", "outer"] {
            let told = files[&format!("perf-{name}")].lines().find_map(|line| {
                let (samples, of) = line.split_once(",[.]")?;
                (of.trim() == function).then(|| samples.trim().parse::<f64>().expect("a number"))
            });
            let is_it = |f: &&Value| {
                f["metric"] == "profile.function.{rank}.share" && f["detail"]["function"] == function
            };
            let found = all.iter().find(is_it).and_then(|f| f["detail"]["samples"].as_f64());
            println!("{name}: samples in {function}: perf {told:?}, fathom {found:?}");
            assert!(told.is_some() && found == told, "{name}");
        }
    }
}

/// Instructions in a region are those of its loop and some of its marks, the same for each length of the loop: read by read(2),
/// and by `mrs` where the kernel lets programs; in C, and in Rust.
#[test]
fn instructions_of_a_region_are_exact_however_they_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/exact.rs");
    let (triple, linker) = ("aarch64-unknown-linux-musl", &["-Clinker=rust-lld"]);
    let files = [folder.path(), &source];
    if !rust_programs::built_with_rustc(files, "exact-rust", triple, linker, rust_programs::COUNT) {
        return;
    }
    let of_rust = folder.path().join("exact-rust").display().to_string();
    let Some(files) = files_of("regions", ["exact", "exact.c"], &["--program", &of_rust], MEMORY) else {
        return;
    };
    let counted = |file: &str, what: &str| {
        let all = findings(&files, file);
        let is_it = |f: &&Value| match what {
            "" => f["name"] == "program.marks.event.instructions.count",
            region => {
                f["metric"] == "program.region.{region}.event.{event}.count"
                    && (&f["at"]["event"], &f["detail"]["region"]) == (&"instructions".into(), &region.into())
            }
        };
        all.iter().find(is_it).unwrap_or_else(|| panic!("{file}: no {what}: {all:?}")).clone()
    };
    let number = |f: &Value, key: &str| f[key].as_f64().expect("a number");
    for (access, how) in [(0, "read"), (1, "instructions")] {
        let of = |kind: &str, n: u64| counted(&format!("{kind}-{access}-{n}"), "loop");
        let empty = counted(&format!("count-{access}-1000000"), "");
        assert_eq!(empty["detail"]["read_by"], how, "{empty}");
        let marks = number(&of("count", 1_000_000), "value") - 2e6;
        let between = number(&empty, "value");
        println!("{how}: {marks} instructions of the marks, {between} between empty ones");
        assert!(marks > 0.0 && (marks - between).abs() < 50.0, "{how}: {marks}, {between}");
        for n in [1_000_000, 2_000_000] {
            let exact = Some(2.0 * n as f64 + marks);
            let found = of("count", n);
            assert_eq!(["value", "low", "high"].map(|key| found[key].as_f64()), [exact; 3], "{how}: {found}");
            // Each thread's counters are its own.
            let both = number(&of("threads", n), "value") - 4.0 * n as f64;
            assert!((both - 2.0 * marks).abs() < 50.0, "{how}: {both} of {marks}");
        }
        let rust = [1_000_000, 2_000_000].map(|n| number(&of("rust", n), "value") - 4.0 * n as f64);
        let empty = 2.0 * number(&counted(&format!("rust-{access}-1000000"), ""), "value");
        println!(
            "{how}: {} instructions of the marks in Rust on two threads, {empty} between empty ones",
            rust[0]
        );
        assert!(rust[0] == rust[1] && (rust[0] - empty).abs() < 50.0, "{how}: {rust:?}, {empty}");
        let pairs = number(&counted(&format!("count-{access}-1000000"), "pairs"), "value") / 1000.0;
        println!("{how}: {pairs} instructions for a pair of marks");
        assert!(pairs > between, "{how}: {pairs}, {between}");
    }
}
