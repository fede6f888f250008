//! A whole guest, answered by a described machine: counts of a program in it that are known by arithmetic.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::programs::built;
use super::*;

/// The command, with the plugin beside it if it is built.
const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");
/// Steps of the program's loop, which it makes twice: 2 loads, a store and 3 other instructions each.
const STEPS: u64 = 2 * 4096;

/// Boots the guest. Returns its output; `None`, and told, without a laboratory.
fn lab(options: &[&str]) -> Option<Output> {
    let started = start_lab(options);
    let output = started.wait_with_output().expect("the laboratory ends");
    if output.status.code() == Some(UNAVAILABLE) {
        fathom_skip::skipped!(Unchecked, "{}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(output)
}

fn start_lab(options: &[&str]) -> std::process::Child {
    laboratory("256")
        .args(options)
        .env("FATHOM", FATHOM)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell")
}

/// Returns a region's row.
fn region(document: &Value, name: &str) -> Value {
    let all = document["findings"].as_array().expect("findings");
    let is_it = |f: &&Value| f["metric"] == "simulated.region.{rank}.cycles" && f["detail"]["region"] == name;
    all.iter().find(is_it).unwrap_or_else(|| panic!("no {name}: {all:?}"))["detail"].clone()
}

fn number(of: &Value, field: &str) -> u64 {
    of[field].as_f64().unwrap_or_else(|| panic!("{field} in {of}")) as u64
}

fn l1d(of: &Value) -> u64 {
    of["misses"][0][1].as_u64().unwrap_or_else(|| panic!("misses in {of}"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The report without the lines that have the duration, and the files of this run.
fn same(text: &str) -> String {
    let other = |line: &&str| !line.contains("\"elapsed_s\"") && !line.contains("\"run.command\"");
    text.lines().filter(other).collect::<Vec<_>>().join("\n")
}

/// Locks the laboratory, and builds the program. Returns a directory and its files; `None`, and told, if anything is missing.
fn prepared() -> Option<(MutexGuard<'static, ()>, tempfile::TempDir, String)> {
    let (turn, folder) = lock_and_directory()?;
    if !Path::new(FATHOM).with_file_name("libfathom_plugin.so").is_file() {
        fathom_skip::skipped!(Unchecked, "no plugin beside fathom: scripts/simulate builds it");
        return None;
    }
    let program = built(folder.path(), "marked", "guest.c")?.display().to_string();
    Some((turn, folder, program))
}

/// The program runs once on each of two CPUs, which have TLBs and nearest levels of their own.
#[test]
#[ignore = "a minute: scripts/test --full"]
fn each_cpu_of_a_guest_counts() {
    let Some((_turn, folder, program)) = prepared() else { return };
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (script, report) = (at("script"), at("report"));
    let both = "taskset 1 marked & taskset 2 marked & wait\n";
    std::fs::write(&script, both).expect("a folder that can be written");
    let simulate = format!("--on bcm2837 --json --program {program}");
    let files = ["--report", &report, "--program", &program, "--script", &script];
    if lab(&[&["--cpus", "2", "--simulate", &simulate], &files[..]].concat()).is_none() {
        return;
    }
    let within = region(&json(&std::fs::read_to_string(report).expect("a report")), "loop");
    println!("{within}");
    assert_eq!((number(&within, "entered"), number(&within, "accesses")), (4, 2 * 3 * STEPS));
    assert!(within.get("unmatched").is_none(), "{within}");
}

#[test]
fn counts_in_a_guest_are_those_of_arithmetic_and_of_user_mode() {
    let Some((_turn, folder, program)) = prepared() else { return };
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (symbols, script) = (at("kallsyms"), at("script"));
    std::fs::write(&script, "marked\n").expect("a folder that can be written");
    if lab(&["--kallsyms", &symbols]).is_none() {
        return;
    }
    let simulate = format!(
        "--on bcm2837 --json --symbols {symbols} --program {program} --between el1h_64_irq..ret_to_kernel"
    );
    let reports = ["first", "second"].map(at);
    // At the same time: the scheduling of the two on this host's CPUs differs on every run.
    let options =
        |report| ["--simulate", &simulate, "--report", report, "--program", &program, "--script", &script];
    let runs = [&reports[0], &reports[1]].map(|report| start_lab(&options(report)));
    for run in runs {
        let output = run.wait_with_output().expect("the laboratory ends");
        assert!(output.status.success(), "{output:?}");
    }
    let [first, second] = reports.map(|report| std::fs::read_to_string(report).expect("a report"));
    assert_eq!(same(&first), same(&second));
    let guest = json(&first);
    let own = Command::new(FATHOM).args(["simulate", "--on", "bcm2837", "--json", "--", &program]).output();
    let own = own.expect("fathom");
    assert!(own.status.success(), "{own:?}");
    let user = region(&json(&String::from_utf8_lossy(&own.stdout)), "loop");
    let within = region(&guest, "loop");
    println!("guest {within}, user mode {user}");
    for field in ["entered", "executed", "accesses"] {
        assert_eq!(number(&within, field), number(&user, field), "{field}");
    }
    assert_eq!(number(&within, "accesses"), 3 * STEPS);
    let around = number(&within, "executed") - 6 * STEPS;
    assert!(around < 20, "{around} instructions beside the loop's");
    // Each step is on another line. An interrupt in between may take the line of a step.
    assert!(l1d(&user) >= STEPS - 1 && l1d(&within).abs_diff(l1d(&user)) < 10, "{within}");
    let interrupts = region(&guest, "el1h_64_irq..ret_to_kernel");
    assert!(number(&interrupts, "entered") > 100, "{interrupts}");
    let times = ["shortest", "median", "p99", "longest"].map(|field| number(&interrupts, field));
    assert!(times[0] > 0 && times.is_sorted() && times[3] > times[0], "{times:?}");
    let functions: Vec<&str> = guest["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|f| f["metric"] == "simulated.function.{rank}.cycles")
        .filter_map(|f| f["detail"]["function"].as_str())
        .collect();
    for named in ["__memcpy", "user code (address space unknown)"] {
        assert!(functions.contains(&named), "{named}: {functions:?}");
    }
}
