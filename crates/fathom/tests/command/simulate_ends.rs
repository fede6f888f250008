//! Simulated programs that a signal ends, that become another one, or that close their files: their counts are kept.

use serde_json::Value;

use crate::common::{User, wait};
use crate::simulate::{FUNCTION, TARGETS, can_simulate, compiled, hot, misses, of_this_host};

/// A program whose function `work` loads 16384 lines; what it does then, its argument says.
const ENDS: &str = r#"#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((aligned(4096))) static volatile char data[1 << 20];
__attribute__((noinline)) static void work(void) { for (int i = 0; i < 1 << 20; i += 64) data[i]; }
static void *dies(void *of) { work(); return of ? of : (void *)(long)raise(SIGTERM); }
int main(int n, char **v) {
    char *way = v[1];
    pthread_t thread;
    if (strcmp(way, "thread")) work();
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "null")) *(volatile int *)0 = 0;
    if (!strcmp(way, "undefined")) __builtin_trap();
    if (!strcmp(way, "pipe")) { int p[2]; if (pipe(p)) return 9; close(p[0]); return write(p[1], "x", 1) != 7; }
    if (!strcmp(way, "alarm")) { alarm(1); for (;;) pause(); }
    if (!strcmp(way, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(way, "tgkill")) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGKILL);
    if (!strcmp(way, "thread")) { pthread_create(&thread, 0, dies, 0); for (;;) pause(); }
    if (!strcmp(way, "exec")) { execv("/nowhere", v + 1); execv("/dev/null", v + 1); execvp(v[2], v + 2); }
    if (!strcmp(way, "fails")) { execv(v[0] + strlen(v[0]), v); execv("text", v + 1); work(); }
    if (!strcmp(way, "environment")) { char *set = getenv("LD_PRELOAD"); puts(set ? set : "none"); return 0; }
    if (!strcmp(way, "closed")) {
        for (int i = 3; i < 1024; i++) close(i);
        FILE *own[1000];
        for (int i = 0; i < 1000; i++) if (!(own[i] = fopen("own", "w"))) return 8;
        sleep(1); work(); work(); sleep(1);
        syscall(436, 3, ~0u, 0);
        return 0;
    }
    return n == 2 ? 0 : 7;
}
"#;

/// Checks that the report has the lines of `work`, `times` times.
fn has_the_work(document: &Value, way: &str, times: u64) {
    let work = hot(document, FUNCTION, "function", "work");
    let missed = misses(work, "L1D");
    let lines = times * 16384;
    // Its stack and return address may miss too.
    assert!((lines..=lines + 8).contains(&missed), "{way}: {work}");
}

#[test]
fn program_that_a_signal_ends_keeps_its_counts() {
    let user = User::new();
    if of_this_host(&user, ENDS).is_none() {
        return;
    }
    for (way, signal) in [
        ("abort", "SIGABRT"),
        ("null", "SIGSEGV"),
        ("undefined", "SIGILL"),
        ("pipe", "SIGPIPE"),
        ("alarm", "SIGALRM"),
        ("kill", "SIGKILL"),
        ("tgkill", "SIGKILL"),
        ("thread", "SIGTERM"),
    ] {
        let did = user.run(&["simulate", "--on", "bcm2837", "--json", "./program", way]);
        assert_eq!(did.status, 1, "{way}: {did:?}");
        assert!(did.err.contains(signal) && did.err.contains("did not end with status 0"), "{way}: {did:?}");
        has_the_work(&serde_json::from_str(&did.out).expect("JSON"), way, 1);
    }
}

#[test]
fn program_that_a_signal_ends_keeps_its_counts_on_every_instruction_set() {
    for target in &TARGETS[..4] {
        let user = User::new();
        if !can_simulate(target.qemu) {
            continue;
        }
        if compiled(&user, target, &user.write("program.c", ENDS), &["-static", "-pthread"]).is_none() {
            continue;
        }
        let cpu: Vec<&str> = target.cpu.iter().flat_map(|cpu| ["--cpu", cpu]).collect();
        let common = [&["simulate", "--on", "bcm2837", "--json"], &cpu[..], &["./program"]].concat();
        for (way, signal) in [("abort", "SIGABRT"), ("kill", "SIGKILL"), ("tgkill", "SIGKILL")] {
            let did = user.run(&[&common[..], &[way]].concat());
            assert!(did.status == 1 && did.err.contains(signal), "{} {way}: {did:?}", target.name);
            has_the_work(&serde_json::from_str(&did.out).expect("JSON"), target.name, 1);
        }
        let did = user.run(&[&common[..], &["exec", "true"]].concat());
        assert_eq!(did.status, 0, "{} exec: {did:?}", target.name);
        has_the_work(&serde_json::from_str(&did.out).expect("JSON"), target.name, 1);
    }
}

#[test]
fn program_that_becomes_another_keeps_its_counts() {
    let user = User::new();
    if of_this_host(&user, ENDS).is_none() {
        return;
    }
    let run = |arguments: &[&str]| {
        let did =
            user.run(&[&["simulate", "--on", "bcm2837,bcm2835", "--json", "./program"], arguments].concat());
        let documents: Value = serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"));
        (did.status, documents[0].clone(), did.err)
    };
    let (status, document, err) = run(&["exec", "echo", "became", "this"]);
    assert!(status == 0 && err.contains("became this"), "{status}: {err}");
    has_the_work(&document, "exec", 1);
    let warned = document["warnings"].to_string();
    assert!(warned.contains("it became another program (exec), which is not simulated"), "{warned}");
    let (status, document, _) = run(&["exec", "false"]);
    let warned = document["warnings"].to_string();
    assert!(status == 1 && warned.contains("ended with exit status: 1"), "{warned}");
    // Its trace tells the same, and that the program failed is no failure of the replay.
    let kept = ["simulate", "--on", "bcm2837", "--keep-trace", "kept.trace", "./program", "exec", "false"];
    assert_eq!(user.run(&kept).status, 1);
    let did = user.run(&["simulate", "--on", "bcm2837", "--json", "--trace", "kept.trace"]);
    let document: Value = serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"));
    assert_eq!(document["warnings"].to_string(), warned);
    // A file that may be executed and is no program: the call fails, and the program goes on.
    user.write("text", "no program\n");
    std::fs::set_permissions(user.path("text"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("own");
    let (status, document, _) = run(&["fails"]);
    assert_eq!(status, 0);
    has_the_work(&document, "fails", 2);
    assert!(!document["warnings"].to_string().contains("exec"), "{document}");
}

#[test]
fn program_that_closes_all_files_keeps_its_counts_and_its_own_files() {
    let user = User::new();
    if of_this_host(&user, ENDS).is_none() {
        return;
    }
    let did = user.run(&["simulate", "--on", "bcm2837", "--json", "./program", "closed"]);
    assert_eq!(did.status, 0, "{did:?}");
    has_the_work(&serde_json::from_str(&did.out).expect("JSON"), "closed", 3);
    assert_eq!(user.read("own"), "");
}

#[test]
fn program_has_the_environment_of_the_caller() {
    let user = User::new();
    if of_this_host(&user, ENDS).is_none() {
        return;
    }
    let printed = |value: &str| {
        let mut command = user.command(&["simulate", "-q", "--on", "bcm2837", "./program", "environment"]);
        wait(command.env("LD_PRELOAD", value).spawn().expect("it starts")).out
    };
    assert_eq!(printed(""), "none\n");
    assert_eq!(printed("/lib/x86_64-linux-gnu/libm.so.6"), "/lib/x86_64-linux-gnu/libm.so.6\n");
}

#[test]
fn kept_trace_of_such_a_program_is_whole() {
    for (way, times) in [("abort", 1), ("kill", 1), ("exec", 1), ("fails", 2), ("closed", 3)] {
        let user = User::new();
        if of_this_host(&user, ENDS).is_none() {
            return;
        }
        user.write("text", "");
        let simulated = |more: &[&str]| {
            let did = user.run(&[&["simulate", "--on", "bcm2837", "--json"], more].concat());
            let document: Value = serde_json::from_str(&did.out).unwrap_or_else(|e| panic!("{e}: {did:?}"));
            document["findings"].clone()
        };
        let ran = simulated(&["--keep-trace", "run.trace", "./program", way, "true"]);
        assert!(ran.as_array().is_some_and(|all| all.len() > 20), "{way}");
        has_the_work(&serde_json::json!({ "findings": ran }), way, times);
        assert_eq!(simulated(&["--trace", "run.trace"]), ran, "{way}");
    }
}
