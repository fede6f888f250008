//! Hand-built and random reports for the tests of all modules.

mod random;
mod wakeup;

use fathom_analysis::findings::{Finding, Histogram, Item, Key, Refused, Report, Warning, WarningKind};
use fathom_analysis::metrics;
use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::kind;

pub use random::{any_report, any_text, config};
pub use wakeup::{sweep, wakeup};

/// Returns the key of a name of the schema.
pub fn key(name: &str) -> Key {
    kind::key(&REPORT_KINDS, name).unwrap_or_else(|| panic!("no metric is called {name}"))
}

pub fn number(name: &str, value: f64, unit: &'static str, ends: Option<(f64, f64)>, count: u64) -> Finding {
    Finding {
        low: ends.map(|e| e.0),
        high: ends.map(|e| e.1),
        count,
        trials: vec![1, 2, 3],
        ..Finding::number(key(name), value).in_unit(unit)
    }
}

pub fn word(name: &str, value: &str, notes: &[&str]) -> Finding {
    Finding {
        count: 3,
        unit: "",
        notes: notes.iter().map(|n| n.to_string()).collect(),
        ..Finding::text(key(name), value)
    }
}

fn noted(mut finding: Finding, note: &str) -> Finding {
    finding.notes.push(note.to_string());
    finding
}

fn around(v: f64, share: f64) -> Option<(f64, f64)> {
    Some((v * (1.0 - share), v * (1.0 + share)))
}

const KIB: f64 = 1024.0;

/// Returns the latency at a working set, of a machine with levels of 48 KiB and 2 MiB and memory, with a ramp after
/// each level.
fn curves(bytes: f64) -> f64 {
    let ramp = |from: f64, to: f64, low: f64, high: f64| {
        let t = ((bytes / from).ln() / (to / from).ln()).clamp(0.0, 1.0);
        low * (high / low).powf(t)
    };
    if bytes <= 1024.0 * KIB {
        ramp(48.0 * KIB, 64.0 * KIB, 1.69, 5.61)
    } else {
        ramp(2048.0 * KIB, 16384.0 * KIB, 5.61, 146.0)
    }
}

/// Returns `count` points of latency from 4 KiB to 256 MiB, evenly spaced on a logarithmic axis.
fn points(count: usize) -> Vec<Finding> {
    (0..count)
        .map(|i| {
            let exponent = 12.0 + 16.0 * i as f64 / (count - 1) as f64;
            let bytes = (exponent.exp2() / 64.0).round() * 64.0;
            let v = curves(bytes);
            number(&format!("latency.{bytes}.time"), v, "ns", around(v, 0.004), 48)
        })
        .collect()
}

fn tiers() -> Vec<Finding> {
    vec![
        number("tier.1.capacity", 48.0 * KIB, "bytes", Some((47.0 * KIB, 49.0 * KIB)), 412),
        number("tier.1.latency", 1.6902, "ns", Some((1.688, 1.6931)), 412),
        number("tier.1.latency_cycles", 5.002, "cycles", Some((4.996, 5.011)), 412),
        number("tier.2.capacity", 2048.0 * KIB, "bytes", Some((1997.0 * KIB, 2099.0 * KIB)), 380),
        noted(
            number("tier.2.latency", 5.6123, "ns", Some((5.58, 5.71)), 380),
            "page walks were measured with small pages and subtracted nowhere",
        ),
        number("tier.2.latency_cycles", 16.61, "cycles", Some((16.5, 16.9)), 380),
        number("tier.3.latency", 146.2, "ns", Some((139.1, 158.3)), 96),
        number("tier.3.latency_cycles", 432.7, "cycles", Some((411.0, 468.0)), 96),
    ]
}

fn translation() -> Vec<Finding> {
    let curve = (0..12).map(|i| {
        let pages = 8u64 << i;
        let extra = if pages <= 64 { 0.02 } else { 2.31 + if pages > 2048 { 28.4 } else { 0.0 } };
        number(&format!("translation.{pages}.added"), extra, "ns", Some((extra - 0.02, extra + 0.02)), 24)
    });
    let mut all = vec![
        number("tlb.1.entries", 64.0, "", Some((64.0, 66.0)), 120),
        number("tlb.1.penalty", 2.31, "ns", Some((2.22, 2.41)), 120),
        number("tlb.2.entries", 2048.0, "", Some((1980.0, 2112.0)), 120),
        number("walk.latency", 30.7, "ns", Some((28.0, 33.0)), 96),
        number("walk.share", 0.21, "", Some((0.19, 0.23)), 96),
    ];
    all.extend(curve);
    all
}

/// Returns the times of chains side by side, of which 12.5 loads are under way at most.
fn together() -> Vec<Finding> {
    let time = |chains: u64| {
        let ns = 100.0 / (chains as f64).min(12.5);
        number(&format!("memory.chains.{chains}.time"), ns, "ns", around(ns, 0.04), 9)
    };
    let mut all: Vec<Finding> = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64].map(time).into();
    let mut overlap = number("memory.overlap", 12.5, "", around(12.5, 0.05), 108);
    overlap.notes.push("more than 16 chains side by side do not help".to_string());
    all.push(overlap);
    let mut window = number("memory.window", 443.0, "", Some((442.0, 444.0)), 261);
    window.notes.push("two loads overlap with 441 instructions between them and not with 442".to_string());
    all.push(window);
    all
}

fn ladder() -> Vec<Finding> {
    [("sequential", 1.94), ("window", 61.3), ("random", 146.2)]
        .map(|(order, v)| number(&format!("prefetch.{order}.time"), v, "ns", around(v, 0.04), 96))
        .to_vec()
}

fn claims() -> Vec<Finding> {
    let mut all = Vec::new();
    let levels = [
        ("data", 48.0 * KIB, 12.0, 64.0),
        ("instructions", 32.0 * KIB, 8.0, 64.0),
        ("unified", 2048.0 * KIB, 16.0, 2048.0),
        ("unified", 260.0 * KIB * KIB, 20.0, 212_992.0),
    ];
    for source in ["cpuid", "sysfs"] {
        for (n, (holds, size, ways, sets)) in levels.iter().enumerate() {
            let name = |what: &str| format!("claim.{source}.level.{}.{holds}.{what}", n + 1);
            all.push(number(&name("size"), *size, "bytes", None, 1));
            all.push(number(&name("line"), 64.0, "bytes", None, 1));
            all.push(number(&name("ways"), *ways, "", None, 1));
            all.push(number(&name("sets"), *sets, "", None, 1));
        }
    }
    let verdict = |level: u64, value: &str, ends: Option<(f64, f64)>, note: &str| Finding {
        unit: if ends.is_some() { "bytes" } else { "" },
        low: ends.map(|e| e.0),
        high: ends.map(|e| e.1),
        ..word(&format!("verdict.level.{level}.size"), value, &[note])
    };
    all.extend([
        verdict(1, "agrees", None, "level 1: 48 KiB claimed by cpuid and sysfs, tier 1 ends at 47 to 49 KiB"),
        verdict(3, "agrees", None, "level 3: 2 MiB claimed by cpuid and sysfs, tier 2 ends at 1.95 to 2.05 MiB"),
        verdict(
            4,
            "disagrees",
            None,
            "level 4 is claimed to hold 260 MiB, but from 2 MiB on no working set was answered faster than by \
             memory: nothing of that size was seen",
        ),
    ]);
    all
}

/// Returns a survey of a machine with three tiers and `count` points of latency.
pub fn survey(count: usize) -> Report {
    let mut findings = vec![
        word("disturbed", "no", &[]),
        word("disturbance.state", "ok", &[]),
        number("bias.timer", 24.0, "ticks", Some((24.0, 26.0)), 1000),
        number("clock.core_hz", 2.96e9, "Hz", Some((2.957e9, 2.963e9)), 40),
        number("clock.tick_hz", 2.1e9, "Hz", None, 1),
    ];
    findings.extend(points(count));
    findings.extend(tiers());
    findings.extend(translation());
    findings.extend(together());
    findings.extend(ladder());
    findings.extend(claims());
    Report {
        experiment: "survey".to_string(),
        subject: "host".to_string(),
        trust: "real".to_string(),
        facts: vec![
            ("cpu".to_string(), "Example Xeon® Platinum at 2.10 GHz".to_string()),
            ("kernel".to_string(), "Linux on x86_64".to_string()),
            ("page".to_string(), "4 KiB, huge 2 MiB".to_string()),
        ],
        seed: 42,
        elapsed_s: 9.83,
        findings,
        ..Report::default()
    }
}

/// Returns a survey of a guest that was disturbed by other work, with warnings and a refusal.
pub fn disturbed() -> Report {
    let mut report = survey(25);
    report.trust = "virtual".to_string();
    let causes = [
        "the measuring thread was switched out 412 times in 9.8 s",
        "the hypervisor took 0.31 s of this CPU; rounds of the same trial differ by up to 38 %, which is more \
         than the wanted resolution",
    ];
    report.findings[0] = word("disturbed", "yes", &causes);
    report.findings[1] = word("disturbance.state", "unusable", &causes);
    // No section has these rows: they are printed as plain rows.
    report.findings.push(number("samples.verified", 12.5, "samples", Some((12.0, 13.0)), 7));
    report.warnings = vec![
        Warning {
            kind: WarningKind::NoHugePages,
            text: "huge pages were asked for and not got: latencies beyond 2 MiB include page walks"
                .to_string(),
            remedy: "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled".to_string(),
        },
        Warning {
            kind: WarningKind::BudgetExhausted,
            text: "the plan wanted 256 MiB, the budget ended at 64 MiB".to_string(),
            remedy: String::new(),
        },
    ];
    report.refusals = vec![Refused {
        what: "counters".to_string(),
        reason: "perf_event_open is not permitted (perf_event_paranoid is 4)".to_string(),
        remedy: "sudo sysctl kernel.perf_event_paranoid=1".to_string(),
    }];
    report.histograms = vec![Histogram {
        key: key("latency.4096.single"),
        bytes: 4096,
        unit: "ns",
        loads_per_sample: 64,
        counts: vec![(1.68, 12), (1.69, 30), (1.75, 6)],
    }];
    report
}

/// Returns single loads over two working sets: one with one peak, one with two peaks and a tail.
pub fn latency() -> Report {
    let peak = |bytes: u64, value: f64, note: &str| {
        noted(number(&format!("latency.{bytes}.peak"), value, "cycles", around(value, 0.01), 3000), note)
    };
    let single = |bytes: u64, counts: &[(f64, u64)]| Histogram {
        key: key(&format!("latency.{bytes}.single")),
        bytes,
        unit: "cycles",
        loads_per_sample: 1,
        counts: counts.to_vec(),
    };
    let tail: Vec<(f64, u64)> = (0..400u32).map(|i| (130.0 + f64::from(i) * 1.5, 3)).collect();
    let far: Vec<(f64, u64)> = [(9.0, 40), (61.0, 900), (62.0, 860)].into_iter().chain(tail).collect();
    Report {
        experiment: "latency".to_string(),
        subject: "pi1".to_string(),
        trust: "real".to_string(),
        seed: 3,
        elapsed_s: 2.0,
        findings: vec![
            word("disturbed", "no", &[]),
            word("disturbance.state", "ok", &[]),
            number("bias.sample", 6.0, "cycles", around(6.0, 0.01), 3000),
            noted(number("latency.8192.time", 4.3, "ns", around(4.3, 0.002), 15), "tier 1, TLB hit"),
            number("latency.8192.cycles", 3.01, "cycles", around(3.01, 0.002), 15),
            peak(8192, 3.0, "raw cycles: 100.0 % at 9; one sample of 1 in 130 loads"),
            word("latency.8192.tlb", "hit", &[]),
            noted(number("latency.1048576.time", 160.0, "ns", around(160.0, 0.01), 15), "tier 2, TLB miss"),
            peak(
                1_048_576,
                55.6,
                "raw cycles: 58.7 % at 61 to 62, 1.3 % at 9; one sample of 1 in 2054 loads",
            ),
            word("latency.1048576.tlb", "miss", &[]),
        ],
        histograms: vec![single(8192, &[(9.0, 3000)]), single(1_048_576, &far)],
        ..Report::default()
    }
}

/// Returns the rows of rounds of reads, and the expected misses of policies.
fn rounds() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (n, misses) in [(1, 0.0), (4, 0.0), (8, 0.0), (9, 5.143), (16, 16.0), (32, 32.0)] {
        let time = 1.816 * f64::from(n) + 3.25 * misses;
        let reported = |name: &str, v: f64| noted(number(name, v, "", around(v, 0.01), 9), "counted");
        findings.push(number(&format!("conflict.{n}.time_per_round"), time, "ns", around(time, 0.001), 9));
        findings.push(reported(&format!("conflict.{n}.misses_per_round"), misses));
        findings.push(number(&format!("conflict.{n}.base.time_per_round"), time + 0.5, "ns", None, 9));
        findings.push(reported(&format!("conflict.{n}.base.misses_per_round"), misses));
    }
    for (policy, misses) in [("lru", 9.0), ("fifo", 9.0), ("random", 2.0), ("bit-plru", 36.0 / 7.0)] {
        findings.push(number(&format!("conflict.9.expected.{policy}"), misses, "", None, 0));
    }
    findings
}

/// Returns a report of conflicts: a level of 8 ways and 64 sets, rounds of reads in it, and two colours of the next
/// level.
pub fn conflict() -> Report {
    let mut policies = word("tier.1.policies", "bit-plru", &["every policy but bit-plru is rejected"]);
    let scores = [("bit-plru", 0.9), ("random", 25.2)].map(|(policy, d)| (policy.to_owned(), d));
    policies.detail.set(metrics::conflict::DEVIANCE, Item::Numbers(scores.to_vec()));
    let mut findings = vec![
        word("disturbed", "no", &[]),
        word("disturbance.state", "ok", &[]),
        noted(number("tier.1.ways", 8.0, "", None, 1), "4 KiB a way; 32 KiB in all"),
        number("tier.1.sets", 64.0, "", None, 1),
        number("tier.1.line", 64.0, "bytes", None, 1),
        policies,
        noted(number("tier.2.line", 64.0, "bytes", None, 1), "told by pairs"),
    ];
    for (behind, share) in [(1, 0.0), (4, 0.125), (8, 1.0)] {
        let ends = Some((f64::max(share - 0.02, 0.0), f64::min(share + 0.02, 1.0)));
        findings.push(number(&format!("evicted.1.{behind}.share"), share, "", ends, 100));
    }
    for (bytes, near, far) in [(8u64, 1.819, 1.8), (64, 5.074, 94.93), (512, 5.806, 94.86)] {
        findings.push(number(&format!("pair.1.{bytes}.time"), near, "ns", None, 3));
        findings.push(number(&format!("pair.2.{bytes}.time"), far, "ns", None, 3));
    }
    findings
        .push(noted(number("pair.2.fetched_bytes", 128.0, "bytes", None, 3), "its neighbour comes along"));
    findings.extend(rounds());
    for (which, pages, misses) in [("shared", 9, 0.0), ("shared", 17, 0.0), ("1", 9, 5.143), ("1", 17, 17.0)]
    {
        let name = |what: &str| format!("tier.2.colour.{which}.{pages}.{what}");
        findings.push(number(&name("misses_per_round"), misses, "", around(misses, 0.01), 9));
        findings.push(number(&name("time_per_round"), 3.0 * f64::from(pages) + misses, "ns", None, 9));
    }
    findings.push(word("tier.2.colour.useful", "yes", &["a way of 32 KiB is 8 pages of 4 KiB", "try it"]));
    findings.push(number("tlb.1.entries", 64.0, "", Some((63.0, 65.0)), 48));
    findings.push(number("tlb.1.ways", 4.0, "", None, 48));
    findings.push(number("tlb.1.sets", 16.0, "", None, 48));
    findings.push(number("tlb.huge.1.entries", 32.0, "", Some((31.0, 33.0)), 48));
    findings.push(number("tlb.huge.1.penalty", 8.0, "ns", Some((7.9, 8.1)), 48));
    for (part, verdict, note) in [
        ("line", "agrees", "measured 64, as sysfs says"),
        ("ways", "disagrees", "level 1 ways: sysfs says 12, measured 8"),
        ("sets", "undecided", "sysfs: 64; not measured"),
    ] {
        let mut row = word(&format!("verdict.level.1.{part}"), verdict, &[note]);
        if verdict == "undecided" {
            row.detail.set(fathom_analysis::metrics::claims::UNMEASURED, Item::Flag(true));
        }
        findings.push(row);
    }
    Report {
        experiment: "conflict".to_string(),
        subject: "s1".to_string(),
        trust: "real".to_string(),
        seed: 1,
        elapsed_s: 3.4,
        findings,
        ..Report::default()
    }
}

/// Returns the report of a subject that refused everything.
pub fn refused() -> Report {
    let refusal = |what: &str| {
        Refused {
        what: what.to_string(),
        reason: "this machine's clock ticks every 52 ns and its memory limit is 64 KiB, which leaves no working set to time".to_string(),
        remedy: "raise the limit: `ulimit -v unlimited`".to_string(),
    }
    };
    Report {
        experiment: "survey".to_string(),
        subject: "tiny".to_string(),
        trust: "emulated".to_string(),
        seed: 1,
        elapsed_s: 0.04,
        refusals: vec![refusal("tiers"), refusal("translation")],
        ..Report::default()
    }
}

/// Compares `text` with `tests/report/golden/NAME`. After an intended change `FATHOM_BLESS=1 cargo test -p
/// fathom-experiment --test report` rewrites the files; the difference is reviewed like code.
pub fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/golden").join(name);
    if std::env::var_os("FATHOM_BLESS").is_some() {
        std::fs::write(&path, text).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "{name} differs; if that is wanted, run with FATHOM_BLESS=1 and review the difference.\nGot:\n{text}"
    );
}
