//! Co-running load: it runs and is counted, it is refused if it would exhaust memory or disk, and all its processes end
//! if any one is killed.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{GONE, SOON, User, in_tracefs, kill, wait};

/// A probe whose input is written by the test.
struct Typed {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Typed {
    /// Starts a probe; returns None, with a message, if this host refuses one.
    fn start(command: &mut Command) -> Option<Typed> {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let stdin = child.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        if lines.next().is_none() {
            fathom_skip::skipped!(HostProbe, "this host refuses a probe: {}", wait(child).err);
            return None;
        }
        Some(Typed { child, stdin, lines })
    }

    fn host(user: &User) -> Option<Typed> {
        Typed::start(&mut user.command(&["serve", "host"]))
    }

    /// Returns the lines from the echo of a trial to its end.
    fn trial(&mut self, words: &str) -> Vec<String> {
        writeln!(self.stdin, "trial {words}").expect("a listener");
        let mut all = Vec::new();
        loop {
            all.push(self.lines.next().expect("an answer").expect("UTF-8"));
            let last = all.last().expect("it");
            if ["done ", "refusal ", "fault "].iter().any(|word| last.starts_with(word)) {
                return all;
            }
        }
    }
}

/// Returns the number after `key=` in a line.
fn number(line: &str, key: &str) -> u64 {
    let at = line.find(&format!(" {key}=")).unwrap_or_else(|| panic!("no {key} in {line}"));
    line[at..].split('=').nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number")
}

/// Repeats the trial until each stressor has completed a pass in it: on a loaded machine a worker may get no CPU in one
/// trial.
fn load_stats(typed: &mut Typed, load: &str) -> Vec<String> {
    let until = Instant::now() + SOON;
    let mut loads = 1 << 20;
    loop {
        let lines =
            typed.trial(&format!("pattern=chase bytes=8192 samples=20 loads={loads} load=\"{load}\""));
        assert!(lines.last().expect("a line").starts_with("done "), "{lines:?}");
        let rows: Vec<String> = lines.into_iter().filter(|line| line.starts_with("load_stats ")).collect();
        if rows.iter().all(|row| number(row, "passes") > 2) {
            return rows;
        }
        assert!(Instant::now() < until, "{rows:?}");
        loads = (loads * 2).min(1 << 24);
    }
}

fn workers(all: &[(u32, u32, String)]) -> Vec<u32> {
    all.iter().filter(|p| p.2.starts_with("fathom serve worker ")).map(|p| p.0).collect()
}

fn reapers(all: &[(u32, u32, String)]) -> Vec<u32> {
    all.iter().filter(|p| p.2.starts_with("fathom serve reaper ")).map(|p| p.0).collect()
}

/// Waits until no process of the user is left, and fails after [`allowed`].
#[track_caller]
fn nothing_left(user: &User, since: Instant) {
    user.wait(allowed().saturating_sub(since.elapsed()), <[_]>::is_empty);
    println!("gone after {:?}", since.elapsed());
}

/// Time in which everything must be gone: [`GONE`], times the number of runnable processes per CPU if that is above 1.
fn allowed() -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let allowed = GONE.mul_f64((load / cpus as f64).max(1.0));
    if allowed > GONE {
        println!("{load} processes on {cpus} CPUs: {allowed:?} allowed");
    }
    allowed
}

#[test]
fn trial_records_its_load() {
    let user = User::new();
    let Some(mut typed) = Typed::host(&user) else { return };
    let rows = load_stats(&mut typed, "vm*2:8M cpu");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((number(&rows[0], "stressor"), number(&rows[1], "stressor")), (0, 1));
    assert!(number(&rows[0], "faults") > 0 && number(&rows[0], "lines") > 0, "{rows:?}");
    assert!(number(&rows[1], "lines") == 0, "{rows:?}");
    assert_eq!(
        user.processes().len(),
        1,
        "between trials nothing runs beside the probe: {:?}",
        user.processes()
    );
    let stalls = std::path::Path::new("/proc/pressure/memory").exists();
    let lines = typed.trial("pattern=clock load=\"cpu\"");
    assert_eq!(lines.iter().filter(|l| l.starts_with("stalls ")).count(), usize::from(stalls), "{lines:?}");
    let lines = typed.trial("pattern=clock");
    assert!(!lines.iter().any(|l| l.starts_with("load_stats ") || l.starts_with("stalls ")), "{lines:?}");
    drop(typed.stdin);
    assert_eq!(typed.child.wait().expect("it ended").code(), Some(0));
}

#[test]
fn load_over_memory_budget_is_refused_with_available_size() {
    let user = User::new();
    let Some(mut typed) = Typed::host(&user) else { return };
    for (load, words) in [
        ("vm*256:1024G", &["MiB may be taken", "limited by"][..]),
        ("cpu disk*256:1024G", &["are allowed in", "quarter"]),
    ] {
        let lines = typed.trial(&format!("pattern=clock load=\"{load}\""));
        let refusal = lines.last().expect("a line");
        assert!(refusal.starts_with("refusal ") && words.iter().all(|w| refusal.contains(w)), "{lines:?}");
    }
    assert_eq!(user.processes().len(), 1, "{:?}", user.processes());
    // The probe still runs trials.
    assert!(typed.trial("pattern=clock load=\"cpu\"").last().expect("a line").starts_with("done "));
}

/// Returns the trace instances of this process; None without permission to read them.
fn instances(user: &User, pid: u32) -> Option<Vec<String>> {
    let did = user.shell(&in_tracefs("ls instances"));
    let prefix = format!("fathom.{pid}.");
    let ours = did.out.lines().filter(|name| name.starts_with(&prefix)).map(str::to_owned);
    (did.status == 0).then(|| ours.collect())
}

/// Starts a probe and a trial of hours under a load with all its processes, and with a trace instance if the kernel
/// allows one.
fn begin(user: &User) -> Option<Typed> {
    let mut typed = Typed::host(user)?;
    let load = "load=\"vm*2:8M cpu unmap disk:4M\"";
    // Samples are activations here, one per millisecond.
    let traced = typed.trial("pattern=wake samples=10 traced=1").last().expect("a line").starts_with("done ");
    let trial = match traced {
        true => format!("trial pattern=wake samples=60000 traced=1 {load}"),
        false => {
            fathom_skip::skipped!(TraceInstance, "no trace instance may be made here");
            format!("trial bytes=1048576 loads=4294967296 samples=1000 {load}")
        }
    };
    writeln!(typed.stdin, "{trial}").expect("a listener");
    user.wait(SOON, |all| workers(all).len() == 5 && reapers(all).len() == 1);
    if let Some(there) = instances(user, typed.child.id()).filter(|_| traced) {
        assert_eq!(there.len(), 1, "{there:?}");
    }
    Some(typed)
}

/// Asserts that nothing of the probe is left, in time. A reaper that was just started may not be found by its
/// environment yet, so that the processes may seem gone before their trace instances are.
#[track_caller]
fn all_gone(user: &User, probe: u32, since: Instant) {
    nothing_left(user, since);
    while let Some(there) = instances(user, probe).filter(|there| !there.is_empty()) {
        assert!(since.elapsed() < allowed(), "{there:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn killing_any_process_ends_all() {
    type Victim = fn(&Typed, &[(u32, u32, String)]) -> u32;
    let victims: [(&str, Victim); 4] = [
        ("the probe", |typed, _| typed.child.id()),
        ("the first worker", |_, all| workers(all)[0]),
        ("the last worker", |_, all| *workers(all).last().expect("a worker")),
        ("the reaper", |_, all| reapers(all)[0]),
    ];
    for (name, victim) in victims {
        let user = User::new();
        let Some(typed) = begin(&user) else { return };
        let pid = victim(&typed, &user.processes());
        let own = pid == typed.child.id();
        kill(pid, Signal::KILL);
        let since = Instant::now();
        println!("{name}:");
        all_gone(&user, typed.child.id(), since);
        let did = wait(typed.child);
        if own {
            continue;
        }
        assert_eq!(did.status, 1, "{did:?}");
        let reported = format!("(process {pid}) was ended by signal 9");
        assert!(did.err.contains(&reported) && did.err.starts_with("fathom: the "), "{}", did.err);
    }
}

#[test]
fn next_probe_removes_instances_of_killed_processes() {
    let user = User::new();
    let Some(mut typed) = begin(&user) else { return };
    for (pid, _, _) in user.processes() {
        kill(pid, Signal::KILL);
    }
    let probe = typed.child.id();
    nothing_left(&user, Instant::now());
    typed.child.wait().expect("it is dead");
    // The next probe starts and removes what was left.
    let Some(mut next) = Typed::host(&user) else { return };
    load_stats(&mut next, "vm:1M");
    next.trial("pattern=wake samples=10 traced=1");
    if let Some(there) = instances(&user, probe) {
        assert!(there.is_empty(), "{there:?}");
    }
}

#[test]
fn the_end_of_the_input_ends_a_load() {
    let user = User::new();
    let Some(typed) = begin(&user) else { return };
    drop(typed.stdin);
    all_gone(&user, typed.child.id(), Instant::now());
    assert_eq!(wait(typed.child).status, 0);
}

#[test]
fn load_runs_without_privileges() {
    if !rustix::process::geteuid().is_root() {
        fathom_skip::skipped!(Unchecked, "the other tests run without privileges here");
        return;
    }
    let user = User::new();
    // The user "nobody" may have no access to the build directory. Copied by another process: a file that is open for
    // writing in this one while a concurrent test forks cannot be executed (ETXTBSY).
    let program = user.path("fathom");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_fathom")).arg(&program).status();
    assert!(copied.expect("cp").success());
    std::fs::set_permissions(user.home.path(), std::fs::Permissions::from_mode(0o755)).expect("permissions");
    let command = user.command(&["serve", "host"]);
    let mut nobody = Command::new(&program);
    nobody.args(["serve", "host"]).current_dir("/").env_clear().uid(65534).gid(65534);
    nobody.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    nobody.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Some(mut typed) = Typed::start(&mut nobody) else { return };
    let rows = load_stats(&mut typed, "vm:8M disk:1M");
    assert!(number(&rows[0], "faults") > 0 && number(&rows[1], "bytes") > 0, "{rows:?}");
    kill(typed.child.id(), Signal::KILL);
    nothing_left(&user, Instant::now());
    typed.child.wait().expect("it is dead");
}

#[test]
fn reaper_removes_its_files_when_its_input_ends() {
    let user = User::new();
    let mut child = user.command(&["serve", "reaper", "0"]).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    for name in ["fathom.1", "fathom.2", "mine"] {
        std::fs::create_dir(user.path(name)).expect("a directory");
    }
    let at = |name: &str| user.path(name).display().to_string();
    write!(stdin, "rmdir {}\nrmdir {}\n", at("fathom.1"), at("fathom.2")).expect("a listener");
    write!(stdin, "done {}\nrmdir {}\n", at("fathom.2"), at("mine")).expect("a listener");
    // The reaper is ready when it has set its name.
    let name = format!("/proc/{}/comm", child.id());
    let until = Instant::now() + SOON;
    while std::fs::read_to_string(&name).expect("it is there").trim() != "fathom-reaper" {
        assert!(Instant::now() < until, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill(child.id(), signal);
    }
    assert!(user.path("fathom.1").exists(), "it waits for the end of its input");
    drop(stdin);
    wait(child).ended(0);
    assert!(!user.path("fathom.1").exists() && user.path("fathom.2").exists() && user.path("mine").exists());
}

#[test]
fn worker_cannot_be_started_by_a_user() {
    let user = User::new();
    user.run(&["serve", "worker"]).failed(2, &["come from the probe"]);
    user.run(&["serve", "worker", "1", "0", "0", "-", "-", "vm"])
        .failed(1, &["only a probe can start a worker"]);
    let help = user.run(&["serve", "--help"]);
    assert!(!help.out.contains("worker") && !help.out.contains("reaper"), "{}", help.out);
}
