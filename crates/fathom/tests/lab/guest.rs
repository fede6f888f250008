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

/// Writes the kernel's symbols, and a script that runs the program. Returns the two files; `None`, and told, without a laboratory.
fn symbols_and_script(folder: &Path) -> Option<[String; 2]> {
    let [symbols, script] = ["kallsyms", "script"].map(|name| folder.join(name).display().to_string());
    std::fs::write(&script, "marked\n").expect("a folder that can be written");
    lab(&["--kallsyms", &symbols])?;
    Some([symbols, script])
}

/// The program's task has what its region has, and what the kernel does for it.
fn program_is_a_task(guest: &Value, within: u64) {
    let regions = guest["findings"].as_array().expect("findings").iter();
    let regions = regions.filter(|f| f["metric"] == "simulated.region.{rank}.cycles").map(|f| &f["detail"]);
    let named = |of: &&Value| of["region"].as_str().is_some_and(|name| name.ends_with(" marked"));
    let task = regions.filter(named).max_by_key(|of| number(of, "executed")).expect("the program's task");
    println!("{task}");
    assert!(number(task, "executed") > within + 10_000, "{task}");
}

/// What the program has read of the machine: 4096 steps, each on another line, and what an interrupt in between may add.
fn read_counters(printed: &str) {
    let line = printed.lines().find(|line| line.starts_with("added ")).unwrap_or_else(|| panic!("{printed}"));
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [loads, stores, misses] = numbers[..] else { panic!("{line}") };
    println!("{line}");
    let steps = STEPS / 2;
    assert!((2 * steps..2 * steps + 2000).contains(&loads), "{line}");
    assert!((steps..steps + 2000).contains(&stores) && (steps..steps + 500).contains(&misses), "{line}");
    assert!(line.ends_with(" misses of L1D"), "{line}");
}

/// A kept trace of Linux counts as the guest, and its calls are those of kernel threads, programs and interrupts.
#[test]
#[ignore = "minutes: scripts/test --full"]
fn trace_and_calls_of_linux() {
    let Some((_turn, folder, program)) = prepared() else { return };
    let at = |name: &str| folder.path().join(name).display().to_string();
    let Some([symbols, script]) = symbols_and_script(folder.path()) else { return };
    let files = ["--program", &program, "--script", &script];
    let named = format!("--on bcm2837 --symbols {symbols} --program {program}");
    let [trace, live, record] = ["trace", "live", "record"].map(at);
    let simulate = format!("{named} --json --keep-trace {trace}");
    lab(&[&["--report", &live, "--simulate", &simulate], &files[..]].concat()).expect("a laboratory");
    let replay = ["simulate", "--on", "bcm2837", "--json", "--trace", &trace, "--symbols", &symbols];
    let replayed = Command::new(FATHOM).args(replay).output().expect("fathom");
    assert!(replayed.status.success(), "{replayed:?}");
    let [live, replayed] = [
        std::fs::read_to_string(live).expect("a report"),
        String::from_utf8_lossy(&replayed.stdout).into_owned(),
    ]
    .map(|text| json(&text)["findings"].clone());
    assert!(live == replayed && live.as_array().is_some_and(|all| all.len() > 50));
    let simulate = format!("{named} --calls --record {record}");
    lab(&[&["--simulate", &simulate], &files[..]].concat()).expect("a laboratory");
    let export = ["export", &record, "--as", "folded", "--by", "instructions"];
    let folded = Command::new(FATHOM).args(export).output().expect("fathom");
    let folded = String::from_utf8_lossy(&folded.stdout).into_owned();
    let sum = |wanted: &dyn Fn(&str) -> bool| -> u64 {
        let all = folded.lines().filter_map(|line| line.rsplit_once(' '));
        all.filter(|(calls, _)| wanted(calls)).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
    };
    let all = sum(&|_| true);
    let known = ["ret_from_fork", "__primary_switched", "_start", "user_code_(address_space_unknown)"];
    let rooted = sum(&|calls| known.iter().any(|root| calls.split(';').next() == Some(root)));
    println!("{rooted} of {all} instructions");
    assert!(rooted > all / 100 * 99, "{rooted} of {all} are below what begins threads and programs");
    let idle = sum(&|calls| calls.contains(";el1h_64_irq;") && calls.contains(";gic_handle_irq;"));
    assert!(idle > 10_000, "interrupts are calls of what they interrupt: {idle}");
    assert!(sum(&|calls| calls.starts_with("_start;") && calls.ends_with(";pass")) >= 6 * STEPS, "{folded}");
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
    let Some([symbols, script]) = symbols_and_script(folder.path()) else { return };
    let simulate = format!(
        "--on am5728 --json --symbols {symbols} --program {program} --between el1h_64_irq..ret_to_kernel --counters --tasks"
    );
    let reports = ["first", "second"].map(at);
    // At the same time: the scheduling of the two on this host's CPUs differs on every run.
    let options =
        |report| ["--simulate", &simulate, "--report", report, "--program", &program, "--script", &script];
    let runs = [&reports[0], &reports[1]].map(|report| start_lab(&options(report)));
    for run in runs {
        let output = run.wait_with_output().expect("the laboratory ends");
        assert!(output.status.success(), "{output:?}");
        read_counters(&String::from_utf8_lossy(&output.stdout));
    }
    let [first, second] = reports.map(|report| std::fs::read_to_string(report).expect("a report"));
    assert_eq!(same(&first), same(&second));
    let guest = json(&first);
    let own = Command::new(FATHOM).args(["simulate", "--on", "am5728", "--json", "--", &program]).output();
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
    // Each step is on another line, and the nearest level replaces by age. An interrupt in between may take the line of a step.
    assert_eq!(l1d(&user), STEPS);
    assert!(l1d(&within).abs_diff(l1d(&user)) < 10, "{within}");
    program_is_a_task(&guest, number(&within, "executed"));
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
