use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::fixture;

/// Command that starts this program as a worker: runs only the test below. The test harness takes the probe's arguments
/// as names of tests that do not exist.
const WORKER_COMMAND: [&str; 5] =
    ["/proc/self/exe", "--exact", "--ignored", "--nocapture", "stress::tests::a_worker_of_the_other_tests"];

#[test]
#[ignore = "it is started by the others, as a worker"]
fn a_worker_of_the_other_tests() {
    let words: Vec<String> = std::env::args().skip_while(|word| word != WORKER_COMMAND[4]).skip(1).collect();
    if let Ok(options) = WorkerOptions::read(&words) {
        panic!("{}", run_worker(&options));
    }
}

/// Returns whether this program can be started again: not under an emulator, which the kernel does not know.
fn starts() -> bool {
    let emulator = fathom_skip::emulator();
    if emulator.is_some() {
        fathom_skip::skipped!(Unchecked, "no worker of this program can be started under an emulator");
    }
    emulator.is_none()
}

fn program(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(|&word| word.to_owned()).collect())
}

fn stressors(words: &[&str], root: &Root) -> Stressors {
    // The CPUs of the machine, because the test's own affinity depends on its parent.
    let allowed = crate::process::allowed_cpus(root);
    let measured = *allowed.last().expect("a CPU");
    let cpus = cpus(&allowed, measured);
    let options = Options {
        worker: program(words),
        reaper: program(&["sh", "-c", "cat >/dev/null"]),
        ..Options::default()
    };
    let supervisor = Supervisor::new(options.reaper.clone(), cpus.clone());
    Stressors::new(root, measured, cpus, &options, supervisor)
}

fn load(text: &str) -> Load {
    Load::parse(text).expect("a load")
}

/// Returns the number of running children of this test process with this argument.
fn children(of: &str) -> usize {
    let parent = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    let ours = |line: &Vec<u8>| {
        let words: Vec<&[u8]> = line.split(|&b| b == 0).collect();
        words.contains(&parent.as_bytes()) && words.contains(&of.as_bytes())
    };
    lines.filter(ours).count()
}

#[track_caller]
fn wait_until(what: &str, mut counts_of: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !counts_of() {
        assert!(Instant::now() < until, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the counts of a load after each of its stressors has completed a pass.
fn counts_of(text: &str) -> Vec<LoadStats> {
    let mut stressors = stressors(&WORKER_COMMAND, &Root::system());
    stressors.start_load(&load(text), false).unwrap_or_else(|r| panic!("{text}: {}", r.reason));
    let (before, running) = {
        let running = stressors.running.as_ref().expect("it runs");
        (running.before.clone(), running)
    };
    wait_until(text, || running.counts().iter().zip(&before).all(|(now, then)| now.passes > then.passes + 1));
    let load_report = stressors.stop_load();
    assert!(stressors.running.is_none());
    assert_eq!(stressors.stop_load(), LoadReport::default(), "nothing is left to be released");
    assert!(load_report.load_stats.iter().all(|row| row.ns > 0));
    load_report.load_stats
}

#[test]
fn each_stressor_counts_its_work() {
    if !starts() {
        return;
    }
    // A size that no other test uses, so that their workers can be distinguished.
    let memory = ["vm", "malloc", "read", "write", "copy", "chase", "pages", "fault"];
    let blocks: Vec<String> = memory.iter().map(|kind| format!("{kind}:520K")).collect();
    let text = format!("cpu {} unmap disk:520K", blocks.join(" "));
    let rows = counts_of(&text);
    let named = load(&text).stressors;
    assert_eq!(rows.len(), named.len());
    for (nth, (row, stressor)) in rows.iter().zip(&named).enumerate() {
        assert_eq!(row.stressor, nth as u64);
        assert!(row.passes > 0, "{stressor}: {row:?}");
        let (lines, faults, bytes) = match stressor.kind {
            Stress::Cpu | Stress::Io => (false, false, false),
            Stress::Disk => (false, false, true),
            Stress::Vm | Stress::Fault | Stress::Unmap => (true, true, true),
            _ => (true, false, true),
        };
        assert_eq!((row.lines > 0, row.bytes > 0), (lines, bytes), "{stressor}: {row:?}");
        assert!(!faults || row.faults > 0, "{stressor}: {row:?}");
    }
    assert_eq!(children("vm*1:520K"), 0, "they are gone, and waited for");
}

#[test]
fn faults_and_lines_match_the_passes() {
    if !starts() {
        return;
    }
    let page = rustix::param::page_size() as u64;
    let pages = (1u64 << 20) / page;
    let rows = counts_of("vm*2:1M fault:1M unmap vm:1M:4K:keep malloc:1M");
    // Work at the start and the end is counted in part: one pass of each worker, and its unpublished counts.
    let about = |row: &LoadStats, count: u64, each: u64, slack: u64, what: &str| {
        let (minimum, maximum) = ((row.passes.saturating_sub(slack)) * each, (row.passes + slack) * each);
        assert!((minimum..=maximum).contains(&count), "{what}: {row:?}, {each} each");
    };
    let slack = 2 * 64;
    about(&rows[0], rows[0].faults, pages, slack, "faults of vm");
    about(&rows[0], rows[0].lines, 2 * (1 << 20) / 4096, slack, "lines of vm, written and read");
    about(&rows[1], rows[1].faults, pages, slack, "faults of fault");
    about(&rows[2], rows[2].faults, 1, slack, "faults of unmap");
    // The process itself touches only a few other pages for the first time.
    assert!(rows[3].faults < pages / 4, "what is kept does not fault again: {:?}", rows[3]);
    assert!(rows[4].faults < pages / 4, "what glibc keeps on its heap does not: {:?}", rows[4]);
}

#[test]
fn sync_is_called() {
    if !starts() {
        return;
    }
    let rows = counts_of("io");
    assert!(rows[0].passes > 1 && rows[0].lines == 0 && rows[0].bytes == 0, "{rows:?}");
}

#[test]
fn a_load_ends_with_the_thread_that_started_it() {
    if !starts() {
        return;
    }
    static DONE: AtomicU32 = AtomicU32::new(0);
    let begun = std::thread::spawn(|| {
        let mut stressors = stressors(&WORKER_COMMAND, &Root::system());
        stressors.start_load(&load("cpu*2 vm:524K"), false).expect("a load");
        let running_workers = children("vm*1:524K");
        DONE.store(1, Ordering::Relaxed);
        // A killed process releases nothing. The supervisor, which still runs here, must not restart or report it.
        let running = stressors.running.take().expect("it runs");
        stressors.supervisor.unwatch(running.workers.iter().map(|w| &w.child));
        std::mem::forget(running);
        running_workers
    });
    assert_eq!(begun.join().expect("a thread"), 1);
    assert_eq!(DONE.load(Ordering::Relaxed), 1);
    // A killed process that has not been waited for has an empty command line.
    wait_until("their end", || children("vm*1:524K") == 0);
}

#[test]
fn worker_has_normal_priority_and_avoids_the_measured_cpu() {
    if !starts() {
        return;
    }
    let mut stressors = stressors(&WORKER_COMMAND, &Root::system());
    stressors.start_load(&load("read:532K"), false).expect("a load");
    let pid = stressors.running.as_ref().expect("it runs").workers[0].child.id();
    let text = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the file");
    assert_eq!(text("oom_score_adj").trim(), "1000");
    // The test harness runs the worker in a separate thread, which has the load's name and CPUs.
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads").flatten();
    let named = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "fathom-read")
    };
    let task = tasks.map(|t| t.path()).find(|path| named(path)).expect("the working thread");
    let status = std::fs::read_to_string(task.join("status")).expect("a status");
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).expect("a list");
    assert_eq!(crate::procfs::cpu_list(list), stressors.cpus);
    // Policy and priority: fields 41 and 18 of proc_pid_stat(5), where 20 is nice 0.
    let stat = std::fs::read_to_string(task.join("stat")).expect("a stat");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    assert_eq!((fields[38], fields[15]), ("0", "20"), "{stat}");
    stressors.stop_load();
}

#[test]
fn failed_start_of_load_leaves_nothing() {
    if !starts() {
        return;
    }
    let system = Root::system();
    let refused = |words: &[&str], text: &str| {
        let refusal = stressors(words, &system).start_load(&load(text), false).expect_err("a refusal");
        assert!(!refusal.remedy.is_empty(), "{}", refusal.reason);
        refusal.reason.into_owned()
    };
    assert!(refused(&[], "cpu").contains("no worker program"));
    assert!(refused(&["/nowhere/fathom"], "cpu*2").contains("cannot be started"));
    let why = refused(&["false"], "vm*3:528K cpu");
    assert!(why.contains("a worker of vm*3:528K ended with status 1 before it began to work"), "{why}");
    // More memory than the machine has addresses for, but within the memory of the fixture.
    let (_keep, root) = fixture::root(&[("/proc/meminfo", "MemAvailable: 9007199254740991 kB\n")]);
    let refusal = stressors(&WORKER_COMMAND, &root).start_load(&load("cpu vm*2:1024G malloc:1024G"), false);
    if let Err(refusal) = refusal {
        assert!(refusal.reason.contains("cannot map its memory"), "{}", refusal.reason);
    } else {
        fathom_skip::skipped!(Unchecked, "this kernel maps any amount (vm.overcommit_memory=1)");
    }
    assert_eq!(children("vm*1:1024G") + children("malloc*1:1024G"), 0);
}

#[test]
fn memory_over_budget_is_refused_with_available_size() {
    let (_keep, root) = fixture::root(&[("/proc/meminfo", "MemAvailable: 131072 kB\n")]);
    let mut stressors = stressors(&WORKER_COMMAND, &root);
    let refusal = stressors.start_load(&load("vm*2:40M cpu"), false).expect_err("too much");
    // Twice 40 MiB and three processes; half of 128 MiB.
    assert!(
        refusal.reason.contains("vm*2:40M cpu*1 takes 86 MiB, and 64 MiB may be taken"),
        "{}",
        refusal.reason
    );
    assert!(refusal.reason.contains("MemAvailable"), "{}", refusal.reason);
    stressors.max_bytes = Some(32 << 20);
    let refusal = stressors.start_load(&load("read:32M"), false).expect_err("too much");
    assert!(refusal.reason.contains("32 MiB may be taken") && refusal.reason.contains("--max-bytes"));
    assert_eq!(demand(&load("disk*4:1G cpu")), 5 * WORKER_BYTES, "a disk load needs no memory for its bytes");
    assert_eq!(demand(&load(&"vm*256:1024G ".repeat(16))), 4096 * (WORKER_BYTES + (1 << 40)));
}

#[test]
fn load_avoids_the_measured_cpu_if_possible() {
    assert_eq!(cpus(&[0, 1, 3], 1), [0, 3]);
    assert_eq!(cpus(&[2], 2), [2]);
    let reported = |allowed: &[u32], measured| {
        let supervisor = Supervisor::new(None, Vec::new());
        let cpus = cpus(allowed, measured);
        Stressors::new(&Root::system(), measured, cpus, &Options::default(), supervisor)
    };
    assert_eq!(reported(&[0, 1], 1).cpus_of_threads(0), (vec![0], Some(Placement { cpu: 1, idle: true })));
    assert_eq!(
        reported(&[0, 1, 2], 1).cpus_of_threads(1),
        (vec![0], Some(Placement { cpu: 2, idle: false }))
    );
    assert_eq!(reported(&[0, 1], 1).facts().len(), 2);
    assert_eq!(reported(&[0, 1, 2], 1).facts().len(), 1);
}

#[test]
fn worker_options_round_trip_as_arguments() {
    for (placement, stressor) in [
        (None, "vm*1:8M:4K:hold2"),
        (Some(Placement { cpu: 3, idle: true }), "unmap"),
        (Some(Placement { cpu: 0, idle: false }), "cpu"),
    ] {
        let options = WorkerOptions {
            parent: 42,
            slot: 7,
            cpus: vec![0, 2],
            placement,
            directory: "/var/tmp/a b".into(),
            stressor: load(stressor).stressors[0],
        };
        let words: Vec<String> =
            options.arguments().into_iter().map(|word| word.into_string().expect("UTF-8")).collect();
        assert_eq!(WorkerOptions::read(&words), Ok(options));
    }
    let strange = |words: &str| WorkerOptions::read(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for words in ["", "1 2 3", "1 0 0 - - vm vm", "x 0 0 - - vm", "1 0 0 - - wm", "1 0 0 - - none"] {
        assert!(strange(words).is_err(), "{words}");
    }
}
