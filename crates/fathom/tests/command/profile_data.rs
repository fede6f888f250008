//! Data that is touched first: objects of known size come back from page faults, sampled here and by perf; and from a simulation.

use serde_json::Value;

use crate::common::User;
use crate::profile;
use crate::simulate::{TARGETS, can_simulate, compiled, misses};

/// Touches so many pages of each kind of memory, each for the first time: uninitialised and initialised data, memory of no file, the
/// stack, the heap, a file. All of them in user space.
const TOUCH: &str = "#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char zeros[1500 * 4096] __attribute__((aligned(4096)));
static char initialised[600 * 4096] __attribute__((aligned(4096))) = { 1 };
__attribute__((noinline)) static void touch(char *memory, long pages) {
    for (long page = 0; page < pages; page++) ((volatile char *)memory)[page * 4096] = 1;
}
__attribute__((noinline)) static long deep(long left) {
    volatile char frame[4096];
    frame[0] = 1;
    return left ? deep(left - 1) + frame[0] : 0;
}
static char *mapped(long pages, int file) {
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    char *memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, flags, file, 0);
    if (memory == MAP_FAILED) exit(1);
    madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
    return memory;
}
/* Waits until the record has what comes before sampling, and a second more. */
static void wait_for(const char *record) {
    for (;;) {
        static char text[1 << 17];
        int file = open(record, O_RDONLY);
        long length = file < 0 ? -1 : read(file, text, sizeof text - 1);
        close(file);
        text[length < 0 ? 0 : length] = 0;
        if (strstr(text, \"\\ngone \")) break;
        usleep(20000);
    }
    sleep(1);
}
int main(int argc, char **argv) {
    if (argc > 1) wait_for(argv[1]);
    int file = open(\"planted.bin\", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, 500 * 4096)) return 1;
    madvise(zeros, sizeof zeros, MADV_NOHUGEPAGE);
    touch(zeros, 1500);
    touch(initialised, 600);
    touch(mapped(2000, -1), 2000);
    touch(mapped(500, file), 500);
    char *heap = sbrk(400 * 4096);
    madvise((char *)(((long)heap + 4095) / 4096 * 4096), 399 * 4096, MADV_NOHUGEPAGE);
    touch(heap, 400);
    return deep(300) == 0;
}
";

/// Returns the samples of the largest object of this name.
fn samples(document: &Value, object: &str) -> f64 {
    let all = document["findings"].as_array().expect("findings");
    let of = |f: &&Value| {
        f["metric"] == "profile.object.{rank}.share"
            && f["detail"]["object"].as_str().is_some_and(|name| name.starts_with(object))
    };
    let found = all.iter().find(of).unwrap_or_else(|| panic!("no {object}: {document:#}"));
    found["detail"]["samples"].as_f64().expect("a number")
}

/// Checks that every object has the samples of its pages.
fn check(document: &Value, each: f64) {
    for (object, pages) in [
        ("zeros", 1500.0),
        ("initialised", 600.0),
        ("memory at 0x", 2000.0),
        ("mapped file", 500.0),
        ("heap", 400.0),
        // The program's start uses some pages of it.
        ("stack", 300.0),
    ] {
        let found = samples(document, object) * each;
        // Those of the heap's and the stack's begin are there already, and the last sample may be incomplete.
        assert!((found - pages).abs() <= 8.0 + 2.0 * each, "{object}: {found} of {pages}: {document:#}");
    }
}

fn built(user: &User) -> Option<()> {
    profile::built(user)?;
    compiled(user, &TARGETS[4], &user.write("touch.c", TOUCH), &[]).map(|_| ())
}

#[test]
fn objects_that_are_touched_first_come_back() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    // Parts of the stack in each of so many samples would not fit into the rings.
    let options =
        ["profile", "--event", "page-faults", "--period", "3", "--callers", "none", "--data", "--json"];
    let did = user.run(&[&options[..], &["--record", "kept.fathom", "--", "./program"]].concat());
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    check(&serde_json::from_str(&did.out).expect("JSON"), 3.0);
    let report = user.run(&["report", "kept.fathom"]);
    assert!(report.out.contains("Data, by share of the samples"), "{} {}", report.out, report.err);
    assert!(report.out.contains("the instruction whose access faulted"), "{}", report.out);
    // One that runs already has mapped its files before.
    let script = format!(
        "./program running.fathom & exec fathom {} --record running.fathom --pid $! --for 1m",
        options.join(" ")
    );
    let did = user.shell(&script);
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    check(&serde_json::from_str(&did.out).expect("JSON"), 3.0);
}

/// Events that are not faults do not tell it; the reason and the remedies are told, before the program runs.
#[test]
fn samples_without_addresses_are_refused() {
    let user = User::new();
    for event in [&[][..], &["--event", "cpu-clock"]] {
        let did = user.run(&[&["profile", "--data"], event, &["--", "touch", "was-run"]].concat());
        assert_eq!(did.status, 1, "{}", did.err);
        let told = ["have no addresses of data", "--event page-faults", "fathom profile --simulated --data"];
        assert!(told.iter().all(|part| did.err.contains(part)), "{}", did.err);
        assert!(!user.path("was-run").exists());
    }
}

/// Samples of accesses are taken where the processor has them, and refused elsewhere with what it takes; options that do not fit are
/// refused on every machine.
#[test]
fn accesses_are_sampled_or_refused_with_the_reason() {
    let user = User::new();
    for (options, told) in [
        (&["--event", "ibs_op", "--period", "1000"][..], "a multiple of 16, and at least 144"),
        (&["--event", "mem-loads", "--rate", "100"], "addresses in place of the numbers of events"),
        (&["--event", "cycles", "--least-latency", "30"], "--least-latency is of --event mem-loads"),
        (&["--event", "ibs_op", "--least-latency", "30"], "IBS does not choose by it"),
        (
            &["--event", "arm_spe", "--period", "1000"],
            "a multiple of 256, and at least 256, at most 4294967040",
        ),
        (&["--event", "arm_spe", "--period", "4294967296"], "at most 4294967040"),
        (&["--event", "arm_spe", "--least-latency", "4096"], "at most 4095 cycles"),
        (&["--event", "arm_spe", "--callers", "tables"], "samples of arm_spe have no callers"),
        (&["--event", "arm_spe", "--rate", "100"], "addresses in place of the numbers of events"),
    ] {
        user.run(&[&["profile"], options, &["--", "true"]].concat()).failed(2, &[told]);
    }
    let others = "with PEBS (mem-loads), of AMD with IBS (ibs_op) or of Arm with SPE (arm_spe)";
    for (event, file, takes) in [
        ("mem-loads", "cpu*/events/mem-loads", others),
        ("ibs_op", "ibs_op/type", others),
        ("arm_spe", "arm_spe_*/type", "an Arm processor with SPE and the kernel's driver of it"),
    ] {
        let has = user.shell(&format!("ls /sys/bus/event_source/devices/{file}")).status == 0;
        let did = user.run(&["profile", "--data", "--event", event, "--", "true"]);
        if has {
            println!("this machine has {event}: {} {}", did.status, did.err);
            continue;
        }
        let what = format!("{event} cannot be sampled");
        did.failed(1, &[&what, takes, "--event page-faults"]);
    }
}

/// Files of perf have addresses with `-d`.
#[test]
fn addresses_in_files_of_perf_are_read() {
    let user = User::new();
    if built(&user).is_none() {
        return;
    }
    let did = user.shell("perf record -q -d -e page-faults:u -c 3 -o perf.data ./program");
    if did.status != 0 {
        return fathom_skip::skipped!(Unchecked, "perf does not record here: {}", did.err);
    }
    let did = user.run(&["import", "perf.data", "--json"]);
    assert!(did.status == 0 || did.status == 3, "{} {}", did.status, did.err);
    check(&serde_json::from_str(&did.out).expect("JSON"), 3.0);
    // Without them there are no objects.
    assert_eq!(user.shell("perf record -q -e page-faults:u -c 3 -o perf.data ./program").status, 0);
    let did = user.run(&["import", "perf.data", "--json"]);
    assert!(
        did.out.contains("profile.function.1.share") && !did.out.contains("profile.object"),
        "{}",
        did.out
    );
}

/// Exactly, and of all accesses: each page is another line of the caches.
#[test]
fn simulated_objects_have_their_misses() {
    let user = User::new();
    if !can_simulate(TARGETS[4].qemu) || built(&user).is_none() {
        return;
    }
    let did = user.run(&["profile", "--simulated", "--data", "--on", "bcm2837", "--json", "--", "./program"]);
    assert_eq!(did.status, 0, "{}", did.err);
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    let all = document["findings"].as_array().expect("findings");
    for (object, pages) in [("zeros", 1500), ("initialised", 600)] {
        let is_it =
            |f: &&Value| f["metric"] == "simulated.object.{rank}.cycles" && f["detail"]["object"] == object;
        let found = all.iter().find(is_it).unwrap_or_else(|| panic!("no {object}: {document:#}"));
        assert_eq!(misses(&found["detail"], "L1D"), pages, "{found}");
    }
}
