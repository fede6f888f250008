use std::process::Command;

use super::*;
use crate::perf::tests::EMULATION_FAULTS;

static TIME: ProgramEvent = event("task-clock", Event::TASK_CLOCK, true);
static FAULTS: ProgramEvent = event("emulation-faults", EMULATION_FAULTS, true);

/// Runs a loop of a shell in a child of a child.
fn busy() {
    let shell = "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; :";
    let status = Command::new("sh").args(["-c", shell]).status().expect("a shell");
    assert!(status.success());
}

/// Software events replace hardware events here: the kernel counts them for the same tasks.
#[test]
fn a_program_and_what_it_starts_are_counted_and_this_process_is_not() {
    let Ok(mut counting) = ProgramCounting::open(&[TIME, FAULTS]) else {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return;
    };
    // Work of this thread.
    clock::alu(1 << 24);
    let none = ProgramCount { count: 0, enabled_ns: 0, whole: true };
    assert_eq!(counting.read().expect("open"), [none, none]);
    let before = ProgramUsage::of_children();
    busy();
    let counted = counting.read().expect("open");
    let used = ProgramUsage::of_children().since(before);
    let [time, faults] = counted[..] else { panic!("{counted:?}") };
    assert!(time.whole && faults.whole && faults.count == 0, "{counted:?}");
    // Other tests may have children of their own, so the kernel's account is an upper bound, but for its rounding.
    let cpu_us = used.user_us + used.system_us;
    assert!(time.count / 1000 > 1000 && time.count / 1000 < cpu_us + 10_000, "{counted:?} {used:?}");
    assert!(used.minor_faults > 0);
    // That is the time in which programs are counted, from exec(2) on, in the kernel too.
    assert!(
        time.enabled_ns >= time.count && time.enabled_ns / 1000 < cpu_us + 10_000,
        "{counted:?} {used:?}"
    );
}

#[test]
fn every_event_is_counted_or_refused_with_a_remedy() {
    let found = ProgramCounters::find();
    for event in &PROGRAM_EVENTS {
        let counted = found.sets.iter().flatten().any(|set| set.name == event.name);
        let refused: Vec<&EventRefusal> = found.refused.iter().filter(|r| r.name == event.name).collect();
        assert_eq!(counted, refused.is_empty(), "{}", event.name);
        assert!(refused.iter().all(|r| !r.reason.is_empty() && !r.remedy.is_empty()), "{refused:?}");
    }
    let mut counts = found.sets.iter().map(|set| {
        let mut counting = ProgramCounting::open(set).expect("it was tried");
        busy();
        counting.read().expect("open")
    });
    assert!(counts.all(|counts| counts.iter().all(|count| count.whole)), "{found:?}");
    if found.sets.is_empty() {
        fathom_skip::skipped!(Unchecked, "hardware counters: {}", found.refused[0].reason);
    }
}

#[test]
fn an_event_that_counts_nothing_in_the_loop_is_refused() {
    if Counter::open(Event::TASK_CLOCK).is_err() {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return;
    }
    let root = Root::system();
    let mut memory = memory(&root).expect("64 MiB of addresses");
    let mut found = ProgramCounters::default();
    assert!(found.try_out(&root, &TIME, Some(&mut memory)));
    assert!(!found.try_out(&root, &FAULTS, Some(&mut memory)));
    // Without a loop it is not known.
    assert!(found.try_out(&root, &FAULTS, None));
    assert!(matches!(found.tried[..], [("task-clock", Some(1..)), ("emulation-faults", None)]), "{found:?}");
    assert_eq!(found.refused[0].name, "emulation-faults");
}

/// Software events fit together in any number; an event that does not exist fits nowhere.
#[test]
fn sets_have_the_events_that_fit_together() {
    if Counter::open(Event::TASK_CLOCK).is_err() {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return;
    }
    static NONE: ProgramEvent = event("none", Event::new(0xffff_fff0, 0), true);
    let names = |usable: &[ProgramEvent]| {
        let name = |set: Vec<ProgramEvent>| set.iter().map(|event| event.name).collect::<Vec<_>>();
        sets(usable).into_iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&[TIME, NONE, FAULTS]), [["task-clock", "emulation-faults"]]);
    assert_eq!(names(&[NONE]), [[""; 0]; 0]);
    assert_eq!(names(&[]), [[""; 0]; 0]);
}

/// A thread of a process that runs already, one that it starts later, and one that ends meanwhile, are counted.
#[test]
fn running_process_is_counted_with_all_its_threads() {
    if Counter::open(Event::TASK_CLOCK).is_err() {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return;
    }
    let script = "import threading, time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
waiting = threading.Event()
def later():
    waiting.wait()
    work(0.1)
    threading.Thread(target=work, args=(0.1,)).start()
thread = threading.Thread(target=later)
thread.start()
print('ready', flush=True)
input()
waiting.set()
thread.join()
time.sleep(0.3)
print('done', flush=True)
input()
";
    let mut child = match Command::new("python3")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => {
            fathom_skip::skipped!(Unchecked, "python3: {error}");
            return;
        }
    };
    let mut lines = io::BufRead::lines(io::BufReader::new(child.stdout.take().expect("a pipe")));
    let mut input = child.stdin.take().expect("a pipe");
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    let mut counting = ProgramCounting::of_process(child.id(), &[TIME, FAULTS]).expect("it runs");
    io::Write::write_all(&mut input, b"\n").expect("it reads");
    assert_eq!(lines.next().expect("a line").expect("text"), "done");
    let counts = counting.read().expect("open");
    io::Write::write_all(&mut input, b"\n").expect("it reads");
    assert!(child.wait().expect("it ends").success());
    // Two times 100 ms, and some work of Python's.
    let ms = counts[0].count / 1_000_000;
    assert!((195..2000).contains(&ms) && counts[1].count == 0, "{counts:?}");
    let error = ProgramCounting::of_process(child.id(), &[TIME]).expect_err("it has ended");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
