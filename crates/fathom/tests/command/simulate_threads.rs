//! Programs with several threads: what their CPUs do to one another's lines, at the same pace, and without an end to waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::User;
use crate::simulate::{TARGETS, built, can_simulate, compiled, hot, place, value};
use crate::simulate_why::{OBJECT, PAIR, explained};

const SHARING: [&str; 3] =
    ["simulated.sharing.invalidated", "simulated.sharing.dirty_transfers", "simulated.sharing.upgrades"];

/// Keeps all CPUs of the host busy, several times over, until it is dropped.
struct Load(&'static AtomicBool);

impl Load {
    fn new() -> Load {
        let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..2 * cpus {
            std::thread::spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Load(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each thread stores to its counter 100000 times. On a busy host a thread runs alone for milliseconds; without turns the line was lost
/// 4 to 18 times there.
#[test]
fn counters_of_two_threads_share_their_line_falsely() {
    for target in &TARGETS {
        let user = User::new();
        if built(&user, target, "sharing.c", &["-static", "-pthread"]).is_none() {
            continue;
        }
        let _load = Load::new();
        let document = explained(&user, target, "bcm2837", &[]);
        let pair = hot(&document, PAIR, "reason", "falsely-shared");
        assert_eq!((&pair["object"], &pair["by_object"]), (&"counters".into(), &"counters".into()), "{pair}");
        let (own, by) = (pair["offset"].as_u64().expect("bytes"), pair["by_offset"].as_u64().expect("bytes"));
        let long = if target.name.starts_with("ARM") { 4 } else { 8 };
        assert_eq!(own.abs_diff(by), long, "{pair}");
        assert_ne!(pair["cpu"], pair["by_cpu"], "{pair}");
        assert_eq!(pair["source"], place("sharing.c", "++*own"), "{pair}");
        let falsely = value(&document, "simulated.level.1.falsely_shared");
        assert!(falsely > 200.0, "{}: {falsely}", target.name);
        let [invalidated, transfers, upgrades] = SHARING.map(|name| value(&document, name));
        // Each of these misses is due to an invalidation, and each step loads before it stores.
        assert!(invalidated >= falsely && transfers > 50.0 && upgrades > 50.0, "{}", target.name);
        assert_eq!(
            value(&document, "simulated.level.1.invalidated"),
            invalidated,
            "L1D is the only private one"
        );
        let counters = hot(&document, OBJECT, "object", "counters");
        let field = |name: &str| counters[name].as_f64().unwrap_or_else(|| panic!("{name} of {counters}"));
        let most = field("invalidated") > 0.9 * invalidated && field("dirty_transfers") > 0.9 * transfers;
        assert!(most && field("upgrades") > 0.9 * upgrades, "{}: {counters}", target.name);
        let padded = explained(&user, target, "bcm2837", &["padded"]);
        let findings = padded["findings"].as_array().expect("a list");
        let shared = |f: &&Value| {
            f["metric"] == PAIR && f["detail"]["object"] == "counters" && f["detail"]["reason"] != "conflict"
        };
        assert_eq!(findings.iter().find(shared), None);
    }
}

#[test]
fn sharing_is_told_for_several_threads_only_and_a_trace_has_the_order() {
    let target = &TARGETS[0];
    let user = User::new();
    if built(&user, target, "sharing.c", &["-static", "-pthread"]).is_none() {
        return;
    }
    let run = |arguments: &[&str]| {
        let did = user.run(&[&["simulate", "--on", "bcm2837,bcm2711", "--json"], arguments].concat());
        assert_eq!(did.status, 0, "{did:?}");
        serde_json::from_str::<Vec<Value>>(&did.out).expect("JSON")
    };
    let kept = run(&["--keep-trace", "kept.trace", "--", "./program"]);
    for why in [&["--trace", "kept.trace"][..], &["--why", "--trace", "kept.trace"]] {
        for (of, replayed) in kept.iter().zip(run(why)) {
            let [first, again] = [of, &replayed].map(|document| SHARING.map(|name| value(document, name)));
            assert!(first.iter().all(|&count| count > 0.0), "{first:?}");
            assert_eq!(first, again, "{why:?}");
        }
    }
    let report = user.run(&["simulate", "--on", "bcm2837", "--why", "--trace", "kept.trace"]);
    for text in ["Lines that CPUs share", "Data that CPUs share", "dirty transfers"] {
        assert!(report.out.contains(text), "{text} in {}", report.out);
    }
    crate::common::fits(&report.out);
    let Some(_) = built(&user, target, "conflict.c", &["-static"]) else { return };
    let alone = explained(&user, target, "bcm2837", &[]);
    let findings = alone["findings"].as_array().expect("a list");
    assert!(!findings.iter().any(|f| f["name"].as_str().is_some_and(|name| name.contains("sharing"))));
}

/// Threads that wait for each other in all ways. The value of each is known.
const WAITS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define THREADS 4
static long arrays[THREADS][1 << 13];
static atomic_int held, turn;
static long total;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void work(long n) {
    for (int pass = 0; pass < 4; pass++) for (int i = 0; i < 1 << 13; i++) arrays[n][i] += pass;
}
static void *spins(void *n) {
    for (int i = 0; i < 3000; i++) { while (atomic_exchange(&held, 1)); total++; atomic_store(&held, 0); }
    return n;
}
static void *locks(void *n) {
    for (int i = 0; i < 3000; i++) { pthread_mutex_lock(&mutex); total++; pthread_mutex_unlock(&mutex); }
    return n;
}
static void *alternates(void *n) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != (long)n) pthread_cond_wait(&changed, &mutex);
        turn = (turn + 1) % THREADS; total++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return n;
}
static void *sleeps(void *n) { for (int i = 0; i < 3; i++) { if (n) work((long)n); else usleep(20000); } return n; }
/* One thread makes no access for a long time. */
static void *calculates(void *n) {
    unsigned x = 1;
    if (!n) for (long i = 0; i < 30000000; i++) { x = x * 5 + 1; __asm__ volatile("" : "+r"(x)); }
    work((long)n);
    return n;
}
/* All but one wait without a system call for the last one. */
static void *polls(void *n) {
    if ((long)n < THREADS - 1) while (!atomic_load(&turn));
    else { work((long)n); atomic_store(&turn, 1); }
    return n;
}
static void *forks(void *n) {
    if (n) { work((long)n); return n; }
    for (int i = 0; i < 5; i++) {
        int status = 1;
        pid_t child = fork();
        if (!child) { work(0); _exit(0); }
        if (waitpid(child, &status, 0) != child || status) exit(3);
        total++;
    }
    return n;
}
/* The program ends while the others run. */
static void *ends(void *n) {
    if (n) for (;;) work((long)n);
    work(0);
    printf("%ld\n", total);
    exit(0);
}
int main(int argc, char **argv) {
    struct { const char *name; void *(*of)(void *); } all[] = {
        { "spins", spins }, { "locks", locks }, { "alternates", alternates }, { "sleeps", sleeps }, { "calculates", calculates },
        { "polls", polls }, { "forks", forks }, { "ends", ends },
    };
    pthread_t threads[THREADS];
    for (unsigned i = 0; argc == 2 && i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, argv[1])) continue;
        for (long n = 0; n < THREADS; n++) if (pthread_create(&threads[n], 0, all[i].of, (void *)n)) return 1;
        for (int n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
        printf("%ld\n", total);
        return 0;
    }
    return 2;
}
"#;

#[test]
fn threads_that_wait_for_each_other_in_any_way_come_to_an_end() {
    for target in &TARGETS {
        let user = User::new();
        if !can_simulate(target.qemu) {
            continue;
        }
        let source = user.write("waits.c", WAITS);
        if compiled(&user, target, &source, &["-static", "-pthread"]).is_none() {
            continue;
        }
        for (way, total) in [
            ("spins", 12_000),
            ("locks", 12_000),
            ("alternates", 800),
            ("sleeps", 0),
            ("calculates", 0),
            ("polls", 0),
            ("forks", 5),
            ("ends", 0),
        ] {
            for options in [&["--quiet", "--why"][..], &["--quiet", "--no-fetches"]] {
                let begun = Instant::now();
                let arguments =
                    [&["simulate", "--on", "bcm2837"], options, &["--", "./program", way]].concat();
                let did = user.run(&arguments);
                let (name, took) = (target.name, begun.elapsed());
                assert_eq!(
                    (did.status, did.out.trim()),
                    (0, total.to_string().as_str()),
                    "{name} {way}: {did:?}"
                );
                assert!(took < Duration::from_secs(60), "{name} {way} {options:?}: {took:?}");
            }
        }
    }
}
