//! A host opens without any privilege, and reports the missing ones.
//!
//! The test process starts itself again, as user nobody if it is root, with every limit at zero. Limits and user ids
//! belong to a process, so other tests must not run in it.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fathom_host::{Host, Options};
use fathom_probe::machine::{Attribute, ClockTrust, FactValue, Machine, MapRequest, Pages};
use fathom_units::facts;
use rustix::process::{Resource, Rlimit};

/// Environment variable of the child.
const CHILD: &str = "FATHOM_TEST_WITHOUT_PRIVILEGE";

/// The user and group "nobody" of every Linux distribution (overflowuid).
const NOBODY: u32 = 65534;

fn child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    // User nobody may have no access to the build directory: a copy in a directory that is open to all.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    };
    open(directory.path());
    let program = directory.path().join("child");
    // Copied by another process: a file that is open for writing here while a concurrent test forks cannot be executed
    // (ETXTBSY).
    let this = std::env::current_exe().expect("this program");
    assert!(Command::new("cp").arg(this).arg(&program).status().expect("cp").success(), "a copy");
    open(&program);
    let output = start(&program, test).expect("the child starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("1 passed"), "the child ran nothing: {out}");
    false
}

/// Runs one test of a program as nobody.
fn start(program: &Path, test: &str) -> std::io::Result<Output> {
    let mut command = runnable(program);
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1").current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output()
}

/// Returns the command that runs a program: with the emulator, if this one runs under one.
fn runnable(program: &Path) -> Command {
    match fathom_skip::emulator() {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
        None => Command::new(program),
    }
}

fn limit(resource: Resource, bytes: u64) {
    rustix::process::setrlimit(resource, Rlimit { current: Some(bytes), maximum: Some(bytes) })
        .expect("limits may be lowered by anyone");
}

fn facts(host: &mut Host) -> Vec<(String, FactValue)> {
    let mut all = Vec::new();
    host.facts(&mut |fact| all.push((fact.name, fact.value)));
    all
}

fn reported(facts: &[(String, FactValue)], name: &str) -> String {
    match facts.iter().find(|(n, _)| n == name) {
        Some((_, FactValue::Text(text))) => text.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

fn request(bytes: u64) -> MapRequest {
    MapRequest { bytes, pages: Pages::Base, attribute: Attribute::WriteBack, place: 3 }
}

fn options() -> Options {
    Options { max_bytes: Some(64 << 20), ..Options::default() }
}

#[test]
fn every_missing_privilege_is_a_fact_with_its_remedy() {
    if !child("every_missing_privilege_is_a_fact_with_its_remedy") {
        return;
    }
    for resource in [Resource::Memlock, Resource::Nice, Resource::Rtprio] {
        limit(resource, 0);
    }
    let mut host = Host::open(options()).expect("no privilege is needed");
    let map = host.map(&request(1 << 20)).expect("memory is not a privilege");
    host.quiet_begin();
    let (before, cell) = (host.now(), host.cell(map.base).expect("mapped"));
    host.chase(cell, 1000);
    assert!(host.now() >= before);
    host.quiet_end();
    let facts = facts(&mut host);
    for (name, remedy) in [
        (facts::PRIVILEGE_NICE, "CAP_SYS_NICE"),
        (facts::PRIVILEGE_FIFO, "CAP_SYS_NICE"),
        (facts::MEMORY_LOCKED, "CAP_IPC_LOCK"),
    ] {
        let text = reported(&facts, &facts::remedy(name));
        assert!(text.contains(remedy), "{name}: {text}");
    }
    for name in
        [facts::PRIVILEGE_AFFINITY, facts::PRIVILEGE_PARENT, facts::PRIVILEGE_OOM, facts::PRIVILEGE_COUNTERS]
    {
        assert!(!reported(&facts, name).is_empty());
    }
}

#[test]
fn a_limit_on_addresses_shrinks_the_arena_and_is_no_error() {
    if !child("a_limit_on_addresses_shrinks_the_arena_and_is_no_error") {
        return;
    }
    limit(Resource::As, 512 << 20);
    let mut host = Host::open(Options { max_bytes: None, ..Options::default() }).expect("a smaller arena");
    host.map(&request(16 << 20)).expect("16 MiB fit");
    if host.trust() == ClockTrust::Emulated {
        // User-mode emulators do not pass limits on addresses to the kernel, because they need addresses too.
        fathom_skip::skipped!(Unchecked, "under an emulator: that a larger request is refused");
        return;
    }
    let refusal = host.map(&request(1 << 30)).expect_err("more than the addresses");
    assert!(refusal.reason.contains("limited by"), "{refusal:?}");
}

/// Environment variable with the role of a process in the test below.
const ROLE: &str = "FATHOM_TEST_ROLE";

/// Starts this test again in another role, with its output in a pipe.
fn again(role: &str) -> std::process::Child {
    let arguments = ["--exact", "the_probe_dies_with_its_parent", "--nocapture"];
    let program = std::env::current_exe().expect("this program");
    let mut command = runnable(&program);
    command.args(arguments).env(ROLE, role).stdout(Stdio::piped()).spawn().expect("this program starts again")
}

/// Returns the process id that a child prints after "probe ".
fn printed_pid(child: &mut std::process::Child) -> u32 {
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let line = out.lines().map_while(Result::ok).find_map(|l| Some(l.split_once("probe ")?.1.to_owned()));
    line.and_then(|pid| pid.trim().parse().ok()).expect("the probe says that it is open")
}

/// Returns whether a process has ended, even if it has not been waited for.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // proc_pid_stat(5): the state follows the name, which ends with the last parenthesis.
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

/// The harness is killed with SIGKILL, so that it cannot clean up.
#[test]
fn the_probe_dies_with_its_parent() {
    match std::env::var(ROLE).as_deref() {
        Ok("probe") => {
            let parent = Some(std::os::unix::process::parent_id());
            let _host = Host::open(Options { parent, ..options() }).expect("a host");
            println!("probe {}", std::process::id());
            std::thread::sleep(Duration::from_secs(60));
            panic!("nobody killed the probe");
        }
        Ok(_) => {
            let pid = printed_pid(&mut again("probe"));
            println!("probe {pid}");
            std::thread::sleep(Duration::from_secs(60));
        }
        Err(_) => {
            let mut harness = again("harness");
            let pid = printed_pid(&mut harness);
            assert!(!has_ended(pid), "the probe lives while its parent does");
            harness.kill().expect("SIGKILL");
            harness.wait().expect("reaped");
            // A second is usually enough; a loaded machine may need longer, but not 60 s.
            let mut left = 200;
            while !has_ended(pid) && left != 0 {
                std::thread::sleep(Duration::from_millis(100));
                left -= 1;
            }
            assert!(has_ended(pid), "the probe outlived its parent");
        }
    }
}
