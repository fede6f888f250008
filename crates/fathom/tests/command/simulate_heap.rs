//! Blocks of the heap by the place that allocates them: numbers that are known by arithmetic.

use serde_json::Value;

use crate::common::User;
use crate::simulate::{TARGETS, built, compiled, hot, misses, place, simulated_with};

const OBJECT: &str = "simulated.object.{rank}.cycles";

/// Returns blocks, bytes, the most bytes at once and accesses of an allocation site.
fn blocks(detail: &Value) -> [u64; 4] {
    ["blocks", "bytes", "peak_bytes", "accesses"].map(|field| detail[field].as_u64().expect("a number"))
}

fn site<'a>(document: &'a Value, function: &str, place: &str) -> &'a Value {
    hot(document, OBJECT, "object", &format!("heap: {function} ({place})"))
}

fn warned(document: &Value) -> bool {
    document["warnings"].to_string().contains("blocks of the heap")
}

/// Each access to the table, the list and the buffer misses, in static and in dynamic programs.
#[test]
fn each_site_has_the_misses_of_its_blocks() {
    let of = |text| place("heap.c", text);
    let (table, node, buffer) = (of("malloc(64 * TABLE"), of("malloc(sizeof"), of("malloc(64 * BUFFER"));
    // Dynamic programs of the others need their libraries as well; two kinds of return addresses are enough.
    let linked = TARGETS.iter().map(|target| (target, "-static"));
    for (target, link) in linked.chain([2, 4].map(|nth: usize| (&TARGETS[nth], "-no-pie"))) {
        let user = User::new();
        if built(&user, target, "heap.c", &[link]).is_none() {
            continue;
        }
        let document = simulated_with(&user, target, "am5728", &["--why"], &[]);
        for (function, place, expected) in [
            ("main", &table, [1, 64 * 16384 + 128, 64 * 16384 + 128, 4 * 16384]),
            ("list", &node, [1024, 248 * 1024, 248 * 1024, 3 * 1024]),
            ("main", &buffer, [1, 64 * 1024 + 128, 64 * 1024 + 128, 2 * 1024]),
        ] {
            let found = site(&document, function, place);
            // A pointer of four bytes makes the nodes no smaller.
            assert_eq!(blocks(found), expected, "{} {link} {place}: {found}", target.name);
            assert_eq!(misses(found, "L1D"), expected[3], "{} {link} {place}: {found}", target.name);
        }
        assert!(!warned(&document), "{}: {}", target.name, document["warnings"]);
    }
}

/// What is accessed in blocks of all functions of an allocator, three bytes of each; with a thread that allocates at the same time.
const KINDS: &str = r#"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void touch(volatile char *of) { of[0] = 1; of[1] = 2; of[2] = 3; }

static void *other(void *of)
{
    for (int i = 0; i < 1000; i++) {
        volatile char *block = malloc(40); /* thread */
        touch(block);
        free((void *)block);
    }
    return of;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, 0, other, 0)) return 1;
    for (int i = 0; i < 50; i++) {
        char *block = malloc(20); /* malloc */
        touch(block);
        free(block);
    }
    char *grows = 0;
    for (int i = 1; i <= 9; i++) {
        grows = realloc(grows, i * 1000); /* realloc */
        touch(grows);
    }
    char *zeros = calloc(7, 11); /* calloc */
    touch(zeros);
    void *stored = 0;
    if (posix_memalign(&stored, 64, 300)) /* posix_memalign */
        return 1;
    touch(stored);
    char *array = reallocarray(0, 3, 50); /* reallocarray */
    touch(array);
    char *aligned = memalign(128, 256); /* memalign */
    touch(aligned);
    if (malloc((size_t)-1 - 4096) || malloc(0) == 0) /* none */
        return 1;
    pthread_join(thread, 0);
    free(zeros); free(stored); free(array); free(aligned); free(grows);
    return 0;
}
"#;

#[test]
fn all_functions_of_an_allocator_are_followed_in_several_threads() {
    for target in &TARGETS {
        let user = User::new();
        if !crate::simulate::can_simulate(target.qemu) {
            continue;
        }
        let source = user.write("kinds.c", KINDS);
        let more = ["-static", "-pthread", "-fno-builtin", "-Wno-alloc-size-larger-than"];
        if compiled(&user, target, &source, &more).is_none() {
            continue;
        }
        let document = simulated_with(&user, target, "bcm2837", &["--why"], &[]);
        let line = |mark: &str| {
            let mark = format!("/* {mark} */");
            KINDS.lines().position(|line| line.contains(&mark)).map(|line| format!("kinds.c:{}", line + 1))
        };
        for (function, mark, expected) in [
            ("other", "thread", [1000, 40_000, 40, 3000]),
            ("main", "malloc", [50, 1000, 20, 150]),
            ("main", "calloc", [1, 77, 77, 3]),
            ("main", "posix_memalign", [1, 300, 300, 3]),
            ("main", "reallocarray", [1, 150, 150, 3]),
            ("main", "memalign", [1, 256, 256, 3]),
            // What cannot be allocated is no block, and one of no bytes is one.
            ("main", "none", [1, 0, 0, 0]),
        ] {
            let found = site(&document, function, &line(mark).expect("a line"));
            assert_eq!(blocks(found), expected, "{} {mark}: {found}", target.name);
        }
        let grown = blocks(site(&document, "main", &line("realloc").expect("a line")));
        assert_eq!(grown[..3], [9, 45_000, 9000], "{}", target.name);
        assert!(grown[3] >= 27, "{}: what is copied is read, too: {grown:?}", target.name);
        assert!(!warned(&document), "{}: {}", target.name, document["warnings"]);
    }
}

#[test]
fn a_trace_has_the_blocks_too() {
    let (user, target) = (User::new(), &TARGETS[2]);
    if built(&user, target, "heap.c", &["-static"]).is_none() {
        return;
    }
    let run = |arguments: &[&str]| {
        let did = user.run(&[&["simulate", "--on", "am5728", "--json"], arguments].concat());
        assert_eq!(did.status, 0, "{did:?}");
        serde_json::from_str::<Value>(&did.out).expect("JSON")
    };
    run(&["--keep-trace", "kept.trace", "--", "./program"]);
    let objects = |document: &Value| {
        let all = document["findings"].as_array().expect("a list").iter();
        all.filter(|f| f["metric"] == OBJECT).cloned().collect::<Vec<_>>()
    };
    let (why, replayed) = (run(&["--why", "--", "./program"]), run(&["--why", "--trace", "kept.trace"]));
    assert_eq!(objects(&why), objects(&replayed));
    assert!(objects(&why).len() > 4);
    let report = user.run(&["simulate", "--on", "am5728", "--why", "--trace", "kept.trace"]);
    assert!(report.out.contains("heap: list (heap.c:"), "{}", report.out);
    crate::common::fits(&report.out);
}
