//! The same program on the same caches in valgrind's cachegrind, whose model is another one, and here, from the trace of valgrind's
//! lackey: the same accesses and misses, to the last one.

use std::process::Command;

use serde_json::Value;

use crate::common::User;
use crate::simulate::value;

/// Without a library, so that no access is on two lines: cachegrind counts one miss there even if both lines miss. Three times 20,000
/// random loads and stores in 256 KiB, then 80 KB of code in instructions of 4 bytes.
const PROGRAM: &str = r#"
static volatile unsigned long words[32768] __attribute__((aligned(4096)));
static inline __attribute__((always_inline)) unsigned long data(unsigned long x) {
    for (int n = 0; n < 20000; n++) {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        unsigned long at = x >> 20 & 32767;
        if (x & 3 || !STORES) words[at]; else words[at] = x;
    }
    return x;
}
__attribute__((aligned(64))) void _start(void) {
    unsigned long state = 88172645463325252;
    for (int round = 0; round < 3; round++) {
        state = data(state);
        __asm__ volatile(".p2align 6\n .rept 20000\n .byte 0x0f, 0x1f, 0x40, 0x00\n .endr");
    }
    __asm__ volatile("syscall" : : "a"(60), "D"(0));
    __builtin_unreachable();
}
"#;

/// Size, ways and bytes of a line: of instructions, of data, of both. All replace the least recently used line.
const CACHES: [[u64; 3]; 3] = [[16 << 10, 4, 64], [32 << 10, 8, 64], [128 << 10, 16, 64]];

/// Returns the description of a machine with these caches.
fn machine() -> String {
    let mut text = "format = 1\nabout = \"the caches of cachegrind\"\n[core]\nclock = \"1 GHz\"\ncpus = 1\nalu = \"0 cycles\"\n\
                    branch = \"0 cycles\"\n[timer]\nclock = \"1 GHz\"\noverhead = \"0 cycles\"\njitter = \"0 cycles\"\nresolution = 1\n"
        .to_owned();
    for ((name, holds, latency), [size, ways, line]) in
        [("L1I", "instructions", 4), ("L1D", "data", 4), ("L2", "unified", 14)].into_iter().zip(CACHES)
    {
        text += &format!(
            "[[level]]\nname = \"{name}\"\nholds = \"{holds}\"\nsize = \"{size}\"\nline = \"{line}\"\nways = {ways}\n\
             latency = \"{latency} cycles\"\nreplacement = \"lru\"\nwrite = \"back\"\nallocate = true\ninclusion = \"neither\"\n\
             shared = false\n"
        );
    }
    text + "[memory]\nsize = \"1G\"\npages = [\"4K\"]\nlatency = \"100 ns\"\n"
}

/// Returns what cachegrind counts, by its names of the events.
fn counted(user: &User) -> impl Fn(&str) -> u64 {
    let text = std::fs::read_to_string(user.path("counts")).expect("cachegrind writes it");
    let of =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).expect("a line").trim().to_owned();
    let (names, numbers) = (of("events:"), of("summary:"));
    move |wanted| {
        let at =
            names.split(' ').position(|name| name == wanted).unwrap_or_else(|| panic!("{wanted} in {names}"));
        numbers.split(' ').nth(at).and_then(|number| number.parse().ok()).expect("a number")
    }
}

/// Runs the program in both tools of valgrind. Returns whether this machine can.
fn traced(user: &User, stores: bool) -> bool {
    if !cfg!(target_arch = "x86_64") {
        fathom_skip::skipped!(Unchecked, "this host is no x86-64");
        return false;
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(user.home.path()).output()
    };
    if run("valgrind", &["--version"]).is_err() || run("x86_64-linux-gnu-gcc", &["--version"]).is_err() {
        fathom_skip::skipped!(Unchecked, "no valgrind or no x86_64-linux-gnu-gcc");
        return false;
    }
    user.write("program.c", PROGRAM);
    let stores = format!("-DSTORES={}", u8::from(stores));
    let build = ["-O1", "-nostdlib", "-static", "-no-pie", &stores, "program.c", "-o", "program"];
    let caches = ["I1", "D1", "LL"].into_iter().zip(CACHES);
    let caches: Vec<String> =
        caches.map(|(name, [size, ways, line])| format!("--{name}={size},{ways},{line}")).collect();
    let mut cachegrind = vec!["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=counts"];
    cachegrind.extend(caches.iter().map(String::as_str).chain(["./program"]));
    let lackey = ["--tool=lackey", "--trace-mem=yes", "--log-file=trace", "./program"];
    for (tool, arguments) in
        [("x86_64-linux-gnu-gcc", &build[..]), ("valgrind", &cachegrind), ("valgrind", &lackey)]
    {
        let out = run(tool, arguments).expect("it is there");
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    true
}

/// Lines that are written back use lines of the second level here; cachegrind writes none back. So that level is compared
/// without stores.
#[test]
fn counts_of_a_trace_are_those_of_cachegrind() {
    for stores in [true, false] {
        let user = User::new();
        if !traced(&user, stores) {
            return;
        }
        user.write("caches.toml", &machine());
        let did = user.run(&["simulate", "--on", "./caches.toml", "--trace", "trace", "--json"]);
        let document: Value = serde_json::from_str(did.ended(0)).unwrap_or_else(|e| panic!("{e}: {did:?}"));
        let there = counted(&user);
        let mut same = vec![
            ("simulated.instructions", &["Ir"][..]),
            ("simulated.loads", &["Dr"]),
            ("simulated.stores", &["Dw"]),
            ("simulated.level.1.misses", &["I1mr"]),
            ("simulated.level.2.misses", &["D1mr", "D1mw"]),
        ];
        if !stores {
            same.push(("simulated.level.3.misses", &["ILmr", "DLmr", "DLmw"]));
        }
        for (here, events) in same {
            let sum: u64 = events.iter().map(|event| there(event)).sum();
            assert_eq!(value(&document, here) as u64, sum, "{here} and {events:?}");
        }
        assert!(there("I1mr") > 3000 && there("D1mr") > 30_000 && there("DLmr") > 10_000, "few misses");
        assert_eq!(there("Dw") > 10_000, stores);
    }
}
