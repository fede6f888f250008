//! Kills and signals in the middle of a loaded, traced trial of `fathom wakeup`: no process, file, trace instance or
//! setting may be left behind, and the record can be reported and resumed.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::common::{Did, GONE, SOON, User, in_tracefs, is_of, kill, wait};

/// Load of two of the three conditions: every kind of worker that can leave something behind.
const LOAD: &str = "vm*2:8M cpu unmap disk:4M";
/// Number of its processes.
const WORKERS: usize = 5;
/// Timeout on a loaded machine; the design limit is [`GONE`].
const PATIENCE: Duration = Duration::from_secs(20);

/// System-wide settings that a real-time tool might change.
const SETTINGS: &str = "/proc/sys/kernel/sched_rt_runtime_us /proc/sys/kernel/sched_rt_period_us \
    /proc/sys/kernel/perf_event_paranoid /proc/sys/kernel/ftrace_enabled /proc/sys/kernel/nmi_watchdog \
    /proc/sys/kernel/numa_balancing /proc/sys/kernel/timer_migration /proc/sys/vm/swappiness \
    /proc/sys/vm/overcommit_memory /proc/sys/vm/compact_unevictable_allowed \
    /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag /sys/kernel/mm/ksm/run \
    /sys/devices/system/cpu/online /sys/devices/system/cpu/intel_pstate/no_turbo \
    /sys/devices/system/cpu/cpufreq/boost /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor \
    /sys/devices/system/clocksource/clocksource0/current_clocksource";
/// System-wide settings of the trace files.
const TRACE_SETTINGS: &str =
    "tracing_on current_tracer trace_clock tracing_cpumask set_event osnoise/timerlat_period_us osnoise/cpus";

/// A wake-up experiment under its load.
struct Session {
    user: User,
    harness: Child,
    probe: u32,
    reaper: u32,
    workers: Vec<u32>,
    /// Whether a trace instance exists and is visible.
    traced: bool,
    before: String,
    _alone: MutexGuard<'static, ()>,
}

/// Serialises these tests: the kernel's timerlat tracer has system-wide settings.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the settings as `file:value` lines; absent files are left out.
fn settings(user: &User) -> String {
    let of = |files: &str| format!("grep -s . {files} /dev/null");
    user.shell(&of(SETTINGS)).out + &user.shell(&in_tracefs(&of(TRACE_SETTINGS))).out
}

/// Returns the trace instances of a process; None without permission to read them.
fn instances(user: &User, pid: u32) -> Option<Vec<String>> {
    let did = user.shell(&in_tracefs("ls instances"));
    let prefix = format!("fathom.{pid}.");
    let ours = did.out.lines().filter(|name| name.starts_with(&prefix)).map(str::to_owned);
    (did.status == 0).then(|| ours.collect())
}

fn named(all: &[(u32, u32, String)], name: &str) -> Vec<u32> {
    let begins = format!("fathom serve {name} ");
    all.iter().filter(|p| p.2.starts_with(&begins)).map(|p| p.0).collect()
}

impl Session {
    /// Starts a session; returns None, with a message, if this host refuses it.
    fn begin() -> Option<Session> {
        let mut refused = String::new();
        for priority in ["80", "0"] {
            match Session::with(priority) {
                Ok(session) => return Some(session),
                Err(did) => refused = format!("{}{}", did.out, did.err),
            }
            fathom_skip::skipped!(Unchecked, "no task of priority {priority} here");
        }
        fathom_skip::skipped!(HostProbe, "this host is not measured: {refused}");
        None
    }

    fn with(priority: &str) -> Result<Session, Did> {
        let (alone, user) = (alone(), User::new());
        let before = settings(&user);
        let temporary = user.path("tmp");
        std::fs::create_dir(&temporary).expect("a directory");
        let requested = ["wakeup", "--budget", "60m", "--seed", "1", "--record", "A", "--conditions", "cpu"];
        let loads = ["--load", LOAD, "--load", LOAD, "--priority", priority];
        let mut command = user.command(&[&requested[..], &loads[..]].concat());
        // A separate process group, as a shell creates for each command line.
        let mut harness = command.env("TMPDIR", &temporary).process_group(0).spawn().expect("it starts");
        let until = Instant::now() + SOON;
        loop {
            let all = user.processes();
            let (workers, reapers, probes) =
                (named(&all, "worker"), named(&all, "reaper"), all.iter().filter(|p| p.1 == harness.id()));
            if let (WORKERS, [reaper], [probe]) =
                (workers.len(), &reapers[..], &probes.map(|p| p.0).collect::<Vec<_>>()[..])
            {
                let (reaper, probe) = (*reaper, *probe);
                let there = instances(&user, probe);
                let traced = there.as_ref().is_some_and(|there| !there.is_empty());
                if !traced {
                    fathom_skip::skipped!(TraceInstance, "no trace instance is to be seen here: {there:?}");
                }
                return Ok(Session { user, harness, probe, reaper, workers, traced, before, _alone: alone });
            }
            if harness.try_wait().expect("a child").is_some() {
                return Err(wait(harness));
            }
            assert!(Instant::now() < until, "no load: {all:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns a description of everything that is left: processes, trace instances, files, and changed settings.
    fn left(&self) -> Vec<String> {
        let processes = self.user.processes().into_iter().map(|p| format!("process {} {}", p.0, p.2));
        let instances = instances(&self.user, self.probe).unwrap_or_default().into_iter();
        let mut left: Vec<String> = processes.chain(instances).collect();
        // Groups of cache partitioning, if supported: their names have the same prefix as those of instances.
        let groups = std::fs::read_dir("/sys/fs/resctrl").into_iter().flatten().flatten();
        let groups = groups.map(|entry| entry.file_name().to_string_lossy().into_owned());
        left.extend(groups.filter(|name| name.starts_with(&format!("fathom.{}.", self.probe))));
        // Files that need a name are named after their worker.
        for directory in [self.user.path("tmp"), PathBuf::from("/var/tmp"), PathBuf::from("/tmp")] {
            let files = self.workers.iter().map(|worker| directory.join(format!("fathom.{worker}")));
            left.extend(files.filter(|file| file.exists()).map(|file| file.display().to_string()));
        }
        let own = std::fs::read_dir(self.user.path("tmp")).expect("a directory").flatten();
        left.extend(own.map(|entry| entry.path().display().to_string()));
        let now = settings(&self.user);
        if now != self.before {
            left.push(format!("settings were {} and are {now}", self.before));
        }
        left
    }

    /// Asserts that nothing is left, in time.
    #[track_caller]
    fn all_gone(&self, what: &str, since: Instant) {
        loop {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{what}: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = since.elapsed();
        println!("{what}: gone after {took:?}{}", if took > GONE { ", WHICH IS LATE" } else { "" });
    }

    /// Asserts that the record so far is readable and reported as interrupted.
    #[track_caller]
    fn readable(&self) {
        let did = self.user.run(&["report", "A", "--json"]);
        assert!(matches!(did.status, 3 | 5) && did.err.is_empty(), "{did:?}");
        let document: serde_json::Value = serde_json::from_str(&did.out).expect("JSON");
        let warnings = document["warnings"].as_array().expect("a list");
        assert!(warnings.iter().any(|w| w.to_string().contains("interrupted")), "{warnings:?}");
    }

    /// Asserts that the record can be resumed: the new record has all lines of the old one, and more.
    #[track_caller]
    fn resumed(&self) {
        let did = self.user.run(&["wakeup", "--resume", "A", "--record", "B", "--budget", "2s"]);
        assert!(matches!(did.status, 0 | 3 | 5), "{did:?}");
        let (before, after) = (self.user.record("A"), self.user.record("B"));
        let kept = |line: &str| !line.starts_with("end ") && !line.starts_with("run ");
        // A line that was cut in the middle is not kept.
        let whole = &before[..before.rfind('\n').map_or(0, |end| end + 1)];
        let mut new = after.lines().filter(|line| kept(line));
        assert!(whole.lines().filter(|line| kept(line)).all(|line| new.next() == Some(line)), "{after}");
        assert!(new.count() > 0 && after.contains("\nend status=complete"), "{after}");
        println!("and gone on with: status {}", did.status);
    }

    fn last_line(&self) -> String {
        self.user.read("A").lines().last().unwrap_or_default().to_owned()
    }
}

#[test]
fn killing_any_process_leaves_nothing() {
    type Victim = fn(&Session) -> u32;
    let victims: [(&str, Victim); 5] = [
        ("the harness", |s| s.harness.id()),
        ("the probe", |s| s.probe),
        ("the reaper", |s| s.reaper),
        ("the first worker", |s| s.workers[0]),
        ("the last worker", |s| s.workers[WORKERS - 1]),
    ];
    for (name, victim) in victims {
        let Some(mut session) = Session::begin() else { return };
        let pid = victim(&session);
        kill(pid, Signal::KILL);
        let since = Instant::now();
        session.all_gone(name, since);
        if pid == session.harness.id() {
            session.harness.wait().expect("it is dead");
            assert!(!session.user.read("A").contains("\nend "), "{}", session.last_line());
        } else {
            assert!(session.last_line().starts_with("end status=failed"), "{}", session.last_line());
            let own = pid == session.probe;
            let reported = format!("(process {pid}) was ended by signal 9");
            let Session { harness, .. } = &mut session;
            let mut err = String::new();
            use std::io::Read as _;
            harness.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
            assert_eq!(harness.wait().expect("it ended").code(), Some(1), "{err}");
            assert!(err.contains("ended before its work did") && (own || err.contains(&reported)), "{err}");
            assert!(err.contains("fathom report A"), "{err}");
        }
        session.readable();
        if matches!(name, "the harness" | "the probe") {
            session.resumed();
        }
    }
}

/// Asserts the result of a signal: a report of the samples so far, the record with its end line, and no error.
#[test]
fn signals_end_a_wakeup_run_and_keep_its_record() {
    type Send = fn(&Session, Signal);
    let ways: [(&str, Send); 3] = [
        ("to the harness", |s, signal| kill(s.harness.id(), signal)),
        ("to its process group", |s, signal| {
            let group = Pid::from_child(&s.harness);
            kill_process_group(group, signal).expect("a group");
        }),
        // As an init system ends a service.
        ("to every process", |s, signal| s.user.processes().iter().for_each(|p| kill(p.0, signal))),
    ];
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for (name, send) in ways {
            let Some(session) = Session::begin() else { return };
            send(&session, signal);
            let since = Instant::now();
            session.all_gone(&format!("{signal:?} {name}"), since);
            assert!(session.last_line().starts_with("end status=interrupted"), "{}", session.last_line());
            session.readable();
            let did = wait(session.harness);
            assert_eq!(did.status, status, "{did:?}");
            assert!(is_of(&did.out, "wakeup: ") && did.out.contains("interrupted"), "{}", did.out);
            assert!(did.err.is_empty() || name == "to every process", "{}", did.err);
        }
    }
}

/// The options are stored in the record; if they do not fit, the run must not start.
#[test]
fn options_beyond_record_limits_are_refused_before_running() {
    let user = User::new();
    let loads: Vec<String> = (1..=19).flat_map(|n| ["--load".to_owned(), format!("cpu*{n}")]).collect();
    let line: Vec<&str> = ["wakeup"].into_iter().chain(loads.iter().map(String::as_str)).collect();
    user.run(&line).failed(2, &["--load: has 19 values; at most 18 may be given"]);
    assert!(user.processes().is_empty());
}

/// Sessions that are begun, at most, until one leaves something behind: the next probe removes what others have left, and other tests
/// start probes too.
const ATTEMPTS: usize = 5;

/// Returns a session that was killed and, if it is traced, has left something behind; `None` if this host is not measured.
fn killed() -> Option<Session> {
    for _ in 1..ATTEMPTS {
        let mut session = Session::begin()?;
        if all_at_once(&mut session) {
            return Some(session);
        }
    }
    let mut session = Session::begin()?;
    assert!(all_at_once(&mut session), "nobody was left to remove its trace instance, and it is gone");
    Some(session)
}

/// Kills all processes at once, so that none can clean up after another one. Returns whether what they leave behind is there.
fn all_at_once(session: &mut Session) -> bool {
    let all = session.user.processes();
    for signal in [Signal::STOP, Signal::KILL] {
        all.iter().for_each(|p| kill(p.0, signal));
    }
    session.harness.wait().expect("it is dead");
    session.user.wait(PATIENCE, <[_]>::is_empty);
    !session.traced || instances(&session.user, session.probe).expect("seen before").len() == 1
}

#[test]
fn next_start_removes_leftovers_of_killed_processes() {
    let Some(session) = killed() else { return };
    session.readable();
    let since = Instant::now();
    session.resumed();
    session.all_gone("the next start", since);
}

#[test]
fn doctor_removes_leftovers_of_killed_processes() {
    let Some(session) = killed() else { return };
    let since = Instant::now();
    let did = session.user.run(&["doctor", "--restore"]);
    assert_eq!(did.err, "", "{did:?}");
    assert!(!session.traced || did.out.contains(&format!("fathom.{}.", session.probe)), "{}", did.out);
    session.all_gone("the doctor", since);
    session.readable();
}
