//! Missing resources of a machine: permissions, memory, CPUs, processes, a home directory, `/proc`. docs/faults.md
//! shows the output that users see.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::common::{Did, User, is_refused, wait};

/// The user and group `nobody` of most Linux systems.
const UNPRIVILEGED_UID: u32 = 65534;
const SHORT_SURVEY: [&str; 5] = ["survey", "--on", "s1-8way", "--budget", "500ms"];
/// 64 MiB of address space, for the shell's `ulimit -v`.
const SMALL: &str = "ulimit -v 65536; ";

fn guest_record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/v1-guest-survey.fathom")
}

fn set_mode(path: &Path, set_mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(set_mode)).expect("its mode");
}

/// A user without privileges: `nobody` if the tests run as root, else the user who runs them. The program is copied to
/// a directory that this user can read.
struct Unprivileged {
    user: User,
    root: bool,
}

impl Unprivileged {
    fn new() -> Unprivileged {
        let user = User::new();
        let root = rustix::process::getuid().is_root();
        // Copied by another process: concurrent tests fork, and a file that is open for writing in a forked process
        // cannot be executed.
        let copied = std::process::Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_fathom"))
            .arg(user.path("fathom"))
            .status();
        assert!(copied.expect("cp").success(), "a copy");
        set_mode(user.home.path(), 0o755);
        if root {
            std::os::unix::fs::chown(user.home.path(), Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))
                .expect("root may");
        }
        Unprivileged { user, root }
    }

    /// Runs a shell command line; `fathom` is the program.
    fn shell(&self, line: &str) -> Did {
        let command = self.user.command(&[]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(self.user.home.path()).env_clear();
        shell.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", self.user.home.path().display()));
        shell.stdin(std::process::Stdio::null());
        shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        if self.root {
            shell.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
        }
        wait(shell.spawn().expect("a shell"))
    }
}

/// Asserts that a measurement ended normally: a report, and no process left.
#[track_caller]
fn measured(user: &User, did: &Did) {
    user.nothing_left(Instant::now());
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    assert!(did.out.contains("Clocks and bias") || did.out.starts_with('{'), "{did:?}");
}

/// The same on this host, which may refuse a probe with a reason and a remedy.
#[track_caller]
fn measured_or_refused(user: &User, did: &Did) {
    if is_refused(did) {
        return user.nothing_left(Instant::now());
    }
    measured(user, did);
}

#[test]
fn unprivileged_survey_measures_and_names_missing_rights() {
    let plain = Unprivileged::new();
    // Without locked memory, priority and core dumps.
    let did = plain.shell("ulimit -l 0; ulimit -c 0; fathom survey --budget 1s --record A --json");
    measured_or_refused(&plain.user, &did);
    if did.status == 1 {
        return;
    }
    // A denied permission is a fact with its remedy; no permission is claimed that was not given.
    let record = plain.user.read("A");
    let fact = |name: &str| {
        let wanted = format!("fact name=\"{name}\" ");
        record.lines().find(|l| l.starts_with(&wanted)).unwrap_or_else(|| panic!("no {name} in {record}"))
    };
    assert!(fact("memory.locked").contains("\"no\""), "{}", fact("memory.locked"));
    assert!(fact("memory.locked.remedy").contains("ulimit -l"), "{}", fact("memory.locked.remedy"));
    for (name, remedy) in [("privilege.nice", "ulimit -e"), ("privilege.fifo", "ulimit -r")] {
        let granted = fact(name).contains("\"granted\"");
        assert!(granted || fact(&format!("{name}.remedy")).contains(remedy), "{}", fact(name));
    }
}

#[test]
fn unreadable_and_unwritable_files_are_named() {
    let plain = Unprivileged::new();
    for (name, text) in [("record", ""), ("bad.toml", ""), (".config/fathom/subjects.toml", "")] {
        set_mode(&plain.user.write(name, text), 0);
    }
    let dir = plain.user.path("closed");
    std::fs::create_dir(&dir).expect("a directory");
    set_mode(&dir, 0o555);
    for (line, words) in [
        ("fathom report record", "record: Permission denied"),
        ("fathom compare record record", "record: Permission denied"),
        ("fathom machines ./bad.toml", "./bad.toml: Permission denied"),
        ("fathom subjects", "subjects.toml: Permission denied"),
        ("fathom survey --on s1-8way --record closed/A", "subjects.toml: Permission denied"),
        ("fathom survey --record closed/A", "--record closed/A: Permission denied"),
        ("fathom latency --record closed/A", "--record closed/A: Permission denied"),
        ("fathom generate man closed/man", "closed/man: Permission denied"),
        ("fathom generate man closed", "closed: Permission denied"),
    ] {
        let did = plain.shell(line);
        did.failed(2, &[words, "remedy: "]);
        plain.user.nothing_left(Instant::now());
    }
    set_mode(&dir, 0o755);
}

#[test]
fn read_only_home_only_loses_the_kept_copy() {
    let plain = Unprivileged::new();
    set_mode(plain.user.home.path(), 0o555);
    for variables in ["", "XDG_DATA_HOME=$HOME/x XDG_CONFIG_HOME=$HOME/y "] {
        for verb in ["survey", "latency --bytes 8K"] {
            let did = plain.shell(&format!("{variables}fathom {verb} --on s1-8way --budget 300ms --json"));
            measured(&plain.user, &did);
            assert_eq!(did.err.matches("no copy of the record is kept in ").count(), 1, "{}", did.err);
            assert!(did.err.contains("Permission denied") && did.err.lines().count() == 1, "{}", did.err);
        }
    }
    set_mode(plain.user.home.path(), 0o755);
    let left: Vec<_> = std::fs::read_dir(plain.user.home.path()).expect("the home").flatten().collect();
    assert_eq!(left.len(), 1, "only the program: {left:?}");
}

#[test]
fn limit_of_64_mib_is_met_or_reported() {
    let user = User::new();
    let guest = guest_record();
    let guest = guest.display();
    for line in [
        "fathom survey --on s1-8way --budget 500ms --record A".to_owned(),
        "fathom latency --on s1-8way --bytes 8K --budget 300ms".to_owned(),
        format!("fathom report {guest} --json"),
    ] {
        let did = user.shell(&format!("{SMALL}{line}"));
        measured(&user, &did);
        assert_eq!(did.err, "", "{line}");
    }
    for line in
        [format!("fathom compare {guest} {guest}"), "fathom machines zen3".into(), "fathom subjects".into()]
    {
        user.shell(&format!("{SMALL}{line}")).ended(0);
    }
    measured_or_refused(&user, &user.shell(&format!("{SMALL}fathom survey --budget 1s")));
    // The records that need most memory to judge, from one that fits easily to one that does not: each is either
    // reported completely or refused.
    let mut refused = 0;
    for hundreds in [100, 400, 700, 1000, 1300, 1600] {
        user.write_record("different", &crate::faults::all_different(hundreds));
        for form in ["", " --json"] {
            let did = user.shell(&format!("{SMALL}fathom report different{form}"));
            if did.status == 2 {
                did.failed(2, &["MiB may be taken here", "RLIMIT_AS"]);
                refused += 1;
            } else {
                assert!(matches!(did.status, 0 | 3 | 5) && did.err.is_empty(), "{hundreds}: {did:?}");
                assert!(did.out.contains("single"), "{hundreds}: {}", did.out);
            }
        }
    }
    assert!((1..12).contains(&refused), "{refused} of 12 are refused");
    // A model with more lines than fit.
    let large = user
        .run(&["machines", "s1-8way"])
        .out
        .replace("\"256K\"", "\"512M\"")
        .replace("[memory]\nsize = \"", "[memory]\nsize = \"9");
    user.write("large.toml", &large);
    let did = user.shell(&format!("{SMALL}fathom survey --on ./large.toml --budget 300ms"));
    did.failed(1, &["cannot create a model of './large.toml'", "RLIMIT_AS", "describe smaller levels"]);
    user.nothing_left(Instant::now());
}

/// A control group with 64 MiB of memory; it is removed on drop.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Group, String> {
        let name = format!("fathom-test-{}", std::process::id());
        // Version 1 has a separate tree for memory, version 2 one tree for all; both may be present.
        let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let mut why = String::new();
        for (place, limit) in places {
            if !Path::new(place).join("cgroup.procs").exists() {
                why += &format!("{place} is no tree of control groups; ");
                continue;
            }
            let group = Group(Path::new(place).join(&name));
            let made = std::fs::create_dir(&group.0);
            match made.and_then(|()| std::fs::write(group.0.join(limit), "67108864")) {
                Ok(()) => return Ok(group),
                Err(e) => why += &format!("{place}: {e}; "),
            }
        }
        Err(why)
    }

    /// Returns the number of processes that were killed here for lack of memory.
    fn killed(&self) -> u64 {
        ["memory.oom_control", "memory.events"]
            .iter()
            .filter_map(|f| std::fs::read_to_string(self.0.join(f)).ok())
            .filter_map(|t| t.lines().find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok()))
            .sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn no_process_is_killed_in_a_control_group_of_64_mib() {
    let group = match Group::new() {
        Ok(group) => group,
        Err(why) => return fathom_skip::skipped!(ControlGroup, "no control group can be made here: {why}"),
    };
    let user = User::new();
    let join = format!("echo $$ >{}/cgroup.procs && exec ", group.0.display());
    let did = user.shell(&format!("{join}fathom survey --budget 1s"));
    if did.err.contains("cgroup.procs") {
        return fathom_skip::skipped!(ControlGroup, "the control group cannot be joined: {}", did.err);
    }
    measured_or_refused(&user, &did);
    measured(&user, &user.shell(&format!("{join}fathom survey --on s1-8way --budget 500ms")));
    let did = user.shell(&format!("{join}fathom report {} --json", guest_record().display()));
    measured(&user, &did);
    // Valid lines, and more of them than fit.
    user.write_record("many", &crate::faults::many_samples());
    let did = user.shell(&format!("{join}fathom report many"));
    did.failed(
        2,
        &[
            "MiB may be taken here, limited by half of the room left in the probe's own control group",
            "more memory",
        ],
    );
    let stream = "{ echo 'fathom.record version=1 @1:e229c806:db568a6e'; cat /dev/zero; } | fathom report -";
    user.shell(&format!("echo $$ >{}/cgroup.procs; {stream}", group.0.display())).failed(2, &["256 MiB"]);
    assert_eq!(group.killed(), 0);
}

#[test]
fn harness_and_probe_can_share_one_cpu() {
    let user = User::new();
    let allowed = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let list = allowed.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).expect("the list").trim();
    let cpu = list.split(['-', ',']).next().expect("a CPU").to_owned();
    let did = user.shell(&format!("taskset -c {cpu} fathom machines"));
    if did.status == 127 {
        return fathom_skip::skipped!(Taskset, "no taskset: {}", did.err);
    }
    measured(&user, &user.shell(&format!("taskset -c {cpu} fathom {}", SHORT_SURVEY.join(" "))));
    for line in ["survey --budget 1s", "latency --bytes 8K --budget 1s"] {
        let did = user.shell(&format!("taskset -c {cpu} fathom {line}"));
        if line.starts_with("latency") && did.status == 5 {
            continue;
        }
        measured_or_refused(&user, &did);
    }
    // A CPU that is not allowed is refused by name.
    let did = user.shell(&format!("taskset -c {cpu} fathom survey --cpu 4000"));
    did.failed(1, &["CPU 4000", "ended before its work did"]);
    user.nothing_left(Instant::now());
}

#[test]
fn limits_on_processes_and_files_are_named() {
    let plain = Unprivileged::new();
    // Threads count as processes; some limit is too low for harness and probe.
    let mut reported = 0;
    for processes in 1..12 {
        let line = format!(
            "ulimit -u {processes} 2>/dev/null || ulimit -p {processes} || exit 99; exec fathom {}",
            SHORT_SURVEY.join(" ")
        );
        let did = plain.shell(&line);
        plain.user.nothing_left(Instant::now());
        assert!(!did.err.contains("panicked") && !did.err.contains("stack backtrace"), "{did:?}");
        if matches!(did.status, 99 | 2) {
            fathom_skip::skipped!(Unchecked, "this shell sets no limit on processes: {}", did.err);
            break;
        }
        if did.status == 1 {
            assert!(did.err.contains("raise the limit on processes"), "{did:?}");
            reported += 1;
        } else {
            measured(&plain.user, &did);
        }
    }
    println!("reported {reported} times");
    for files in 3..9 {
        let did = plain.shell(&format!("ulimit -n {files}; exec fathom {}", SHORT_SURVEY.join(" ")));
        plain.user.nothing_left(Instant::now());
        assert!(!did.err.contains("panicked"), "{did:?}");
        assert!(did.status == 0 || did.err.contains("Too many open files") || did.status == 127, "{did:?}");
    }
}

#[test]
fn missing_proc_is_an_error_for_survey_but_not_report() {
    let user = User::new();
    let hide = "mount -t tmpfs none /proc && mount -t tmpfs none /sys || exit 99; ";
    let hidden = |line: &str| user.shell(&format!("exec unshare -m sh -c '{hide}{line}'"));
    let did = hidden(&format!("fathom report {} --json", guest_record().display()));
    if did.status != 0 && did.status != 3 {
        return fathom_skip::skipped!(Mounts, "/proc and /sys cannot be hidden here: {}", did.err);
    }
    assert!(did.out.starts_with('{') && did.err.is_empty(), "{did:?}");
    hidden("fathom survey --budget 1s").failed(1, &["/proc", "mount -t proc"]);
    hidden("fathom survey --on s1-8way").failed(1, &["/proc", "mount -t proc"]);
    // The probe itself needs neither /proc nor /sys to respond, and allocates no memory whose limit is unknown.
    let did = hidden("printf \"trial bytes=8192\\nbye\\n\" | fathom serve host");
    assert!(did.status == 0 || did.status == 1 && did.err.contains("remedy: "), "{did:?}");
    if did.status == 0 {
        assert!(did.out.contains("\ndone ") || did.out.contains("\nrefusal "), "{did:?}");
    }
}

#[test]
fn page_colours_of_scattered_frames_are_refused() {
    let user = User::new();
    let shown = user.run(&["machines", "bcm2837"]);
    let (levels, memory) = shown.ended(0).split_once("[memory]").expect("its memory");
    let changed_line = |line: &str| match line.split(' ').next() {
        Some("frames") => "frames = \"scattered\"\n".to_owned(),
        Some("pages") => "pages = [\"4K\"]\n".to_owned(),
        _ => line.to_owned(),
    };
    let memory: String = memory.split_inclusive('\n').map(changed_line).collect();
    user.write("scattered.toml", &format!("{levels}[memory]{memory}"));
    let did = user.run(&["conflict", "--on", "./scattered.toml", "--colours", "2", "--budget", "2s"]);
    assert!(matches!(did.status, 0 | 3 | 5), "{did:?}");
    let refused = did.out.contains("page colours of tier 1:") || did.out.contains("page colours: the ways");
    assert!(refused && !did.out.contains("misses per round"), "{did:?}");
    user.run(&["conflict", "--colours", "0"]).failed(2, &["--colours", "from 1 to 1024"]);
    let requested = "trial pattern=stride bytes=8192 stride=4096 frames=3\nbye\n";
    let did = user.shell(&format!("printf '{requested}' | fathom serve model zen3"));
    assert!(did.ended(0).contains("2 pages cannot be in 3 frames"), "{did:?}");
}

/// The colours of this machine are not known: asserts only that they are shown or refused with a message.
#[test]
fn page_colours_of_this_machine_are_shown_or_refused() {
    let did = User::new().run(&["conflict", "--colours", "2", "--budget", "3s"]);
    assert!(matches!(did.status, 0 | 3 | 5) && !did.err.contains("panicked"), "{did:?}");
    assert!(did.out.contains("Colouring helps in tier") || did.out.contains("Refused"), "{did:?}");
}
