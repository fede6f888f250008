//! Reports of `wakeup` in the form of its reading.

use fathom_analysis::findings::{Field, Finding, Histogram, Item, Report};
use fathom_analysis::metrics::wakeup as metrics;

use super::{around, key, noted, number, word};

/// Median wake-up latencies of the sample without load at each place, in us.
const PLACES: [(&str, f64); 4] = [("irq", 1.1), ("wake", 1.9), ("switch", 4.2), ("user", 6.5)];
/// Conditions, with a factor for latencies, and the rates per second of their workers.
const CONDITIONS: [(&str, f64, [f64; 4]); 10] = [
    ("unloaded", 1.0, [0.0; 4]),
    ("stress-mix", 1.3, [3200.0, 0.0, 120.0, 2.6e8]),
    ("stress-mix-vm", 1.6, [3300.0, 1.3e6, 83_000.0, 6.1e8]),
    ("copy", 1.2, [90.0, 9.1e7, 0.0, 5.8e9]),
    ("chase", 1.1, [40.0, 1.2e7, 0.0, 7.7e8]),
    ("fault", 1.5, [5.0, 1.7e5, 171_000.0, 7.0e8]),
    ("load-1", 1.15, [2.0, 1.0e6, 0.0, 0.0]),
    ("warm", 1.0, [0.0; 4]),
    ("flushed", 1.05, [0.0; 4]),
    ("evicted", 1.12, [0.0; 4]),
];
/// Activations of each condition.
const SEEN: u64 = 6000;

/// Returns all findings of a place under a condition, and its histogram.
fn place(place: &str, condition: &str, us: f64) -> (Vec<Finding>, Histogram) {
    let name = |what: &str| format!("wakeup.{place}.{condition}.{what}");
    let plain = |what: &str, v: f64| number(&name(what), v, "us", None, SEEN);
    let reported = |what: &str, v: f64, share: f64| number(&name(what), v, "us", around(v, share), SEEN);
    let lacking = if matches!(place, "irq" | "wake" | "switch") { "untraced" } else { "missed" };
    let late = if place == "irq" { 17.2 } else { 53_991.0 };
    let max = if condition == "unloaded" { late } else { 12.0 * us };
    let findings = vec![
        noted(plain("min", 0.6 * us), &format!("load: {}", load(condition))),
        plain("mean", 1.1 * us),
        plain("stddev", 0.3 * us),
        reported("p50", us, 0.004),
        reported("p90", 1.4 * us, 0.01),
        reported("p99", 2.1 * us, 0.03),
        reported("p999", 4.4 * us, 0.2),
        noted(plain("max", max), "the largest of 6000: as many again exceed it with a chance of 50 %"),
        number(&name(lacking), if max > 1000.0 { 53.0 } else { 0.0 }, "activations", None, SEEN),
    ];
    let bell = (0..60).map(|i| {
        let v = 0.6 * us * 1.03f64.powi(i);
        let n = 490.0 * (-((v / us).ln() / 0.2).powi(2)).exp();
        (v, n as u64)
    });
    let mut counts: Vec<(f64, u64)> = bell.filter(|(_, n)| *n > 0).collect();
    counts.extend([(4.4 * us, 6), (max, 1)]);
    // The bar at the median has the rest of the activations.
    let others: u64 = counts.iter().map(|(_, n)| n).sum();
    counts[17].1 += SEEN - others;
    (
        findings,
        Histogram {
            key: key(&format!("wakeup.{place}.{condition}")),
            bytes: 64,
            unit: "us",
            loads_per_sample: 1,
            counts,
        },
    )
}

fn load(condition: &str) -> &str {
    match condition {
        "stress-mix" => "cpu*16 io*4 disk*2:256M",
        "stress-mix-vm" => "cpu*16 io*4 disk*2:256M vm*2:128M",
        "copy" => "copy*2",
        "chase" => "chase*2",
        "fault" => "fault*2",
        "load-1" => "chase*2:8M",
        _ => "none",
    }
}

/// Returns the findings about causes.
fn causes() -> Vec<Finding> {
    let mut all = Vec::new();
    for n in 1..=8u32 {
        let late = 53_991.0 / f64::from(n);
        let mut row = number(&format!("worst.{n}.latency"), late, "us", None, 1);
        let stages = [
            ("before-irq", 17.2),
            ("irq-to-wakeup", 0.8),
            ("wakeup-to-switch", late - 20.0),
            ("switch-to-user", 2.0),
        ];
        let events =
            [("irq 236 timer", 17.2), ("wakeup fathom", 18.0), ("switch stress -> fathom", late - 2.0)];
        row.detail.set(metrics::CONDITION, a_word(if n < 6 { "unloaded" } else { "stress-mix-vm" }));
        row.detail.set(metrics::SLEPT, Item::Number(53.0));
        row.detail.set(metrics::PREEMPTED, Item::Number(1.0));
        row.detail.set(metrics::STAGES, numbers(&stages));
        row.detail.set(metrics::EVENTS, numbers(&events));
        row.detail.set(metrics::RAN_BEFORE, a_word("stress"));
        all.push(row);
    }
    for (stage, median, worst, dominates) in [
        ("before-irq", 1.1, 17.2, 0),
        ("irq-to-wakeup", 0.8, 0.8, 0),
        ("wakeup-to-switch", 2.3, 11_998.0, 8),
        ("switch-to-user", 2.2, 2.0, 0),
    ] {
        let row = number(&format!("stage.{stage}.all"), median, "us", around(median, 0.01), 54_000);
        all.push(noted(row, "median over all activations"));
        let row = number(&format!("stage.{stage}.worst"), worst, "us", around(worst, 0.4), 8);
        let row = with(row, metrics::DOMINATES, Item::Number(f64::from(dominates)));
        all.push(noted(row, &format!("median over the 8 worst; it dominates {dominates} of them")));
    }
    all.push(number("cause.fair-server.period", 1000.0, "ms", Some((999.0, 1001.0)), 31));
    let mut share = number("cause.fair-server.share", 0.62, "", Some((0.5, 0.74)), 31);
    share.notes = vec![
        "share of the activations beyond p99.5 of their condition that come back so".to_owned(),
        "or throttle, which has the same period".to_owned(),
    ];
    all.push(with(share, metrics::OTHERS, Item::Tokens(vec!["throttle".to_owned()])));
    all
}

fn a_word(word: &str) -> Item {
    Item::Token(word.to_owned())
}

fn numbers(pairs: &[(&str, f64)]) -> Item {
    Item::Numbers(pairs.iter().map(|(word, value)| ((*word).to_owned(), *value)).collect())
}

/// Returns the finding with a detail field.
fn with(mut finding: Finding, field: Field, item: Item) -> Finding {
    finding.detail.set(field, item);
    finding
}

/// Returns the effects of factors and what they explain.
fn effects() -> Vec<Finding> {
    let how = "at p99.9 of the task, from 3 rounds of the design; the intervals hold together";
    let effect = |name: &str, v: f64, half: f64, note: &str| {
        let row = number(name, v, "us", Some((v - half, v + half)), 48);
        noted(with(row, metrics::QUANTILE, a_word("p999")), note)
    };
    let explained = |name: &str, v: f64, half: f64, by: &str| {
        let row = with(effect(name, v, half, &format!("by {by}")), metrics::BY, a_word(by));
        with(row, metrics::AT_LEAST, Item::Flag(false))
    };
    vec![
        effect("effect.baseline", 28.6, 1.1, "p99.9 with every factor off"),
        effect("effect.copy", 2.4, 1.0, how),
        effect("effect.chase", 0.3, 1.0, how),
        effect("effect.pages", -0.2, 1.0, how),
        effect("effect.fault", 12.1, 1.2, how),
        effect("effect.unmap", 1.6, 1.1, how),
        effect("interaction.copy.fault", 0.8, 1.4, "what both add beyond what each adds alone"),
        effect("explained.increase", 14.8, 2.2, "what the memory workers add at p99.9"),
        explained("explained.copy", 2.0, 0.9, "bytes"),
        explained("explained.fault", 11.0, 2.0, "faults"),
        effect("explained.residual", 1.8, 2.6, "no factor explains it"),
    ]
}

/// Returns a default run: conditions, causes, effects of factors.
pub fn wakeup() -> Report {
    let mut report = Report {
        experiment: "wakeup".to_string(),
        subject: "host".to_string(),
        trust: "virtual".to_string(),
        facts: vec![("cpu".to_string(), "Example Xeon at 2.10 GHz".to_string())],
        seed: 7,
        elapsed_s: 61.2,
        findings: vec![word("disturbance.state", "ok", &[])],
        ..Report::default()
    };
    for (condition, more, did) in CONDITIONS {
        let works = matches!(condition, "warm" | "flushed" | "evicted");
        for (of, us) in PLACES.into_iter().chain(works.then_some(("work", 9.0 * more * more))) {
            let (findings, histogram) = place(of, condition, us * more);
            report.findings.extend(findings);
            report.histograms.push(histogram);
        }
        if did[0] > 0.0 {
            for (what, rate) in ["passes", "lines", "faults", "bytes"].into_iter().zip(did) {
                report.findings.push(number(&format!("load.{condition}.{what}"), rate, "1/s", None, 3));
            }
            for (what, share) in [("cpu", 0.91), ("memory", 0.0), ("io", 0.12)] {
                let row = number(&format!("stall.{condition}.{what}.share"), share, "", None, 3);
                report.findings.push(noted(row, "share of the time in which some task waited (PSI)"));
            }
        }
    }
    let corrected =
        number("wakeup.user.unloaded.p999_corrected", 52_100.0, "us", Some((50_000.0, 53_900.0)), 6053);
    let note = "with 53 periods that were slept through, each as late as it would have been";
    report.findings.push(noted(corrected, note));
    let trace = number("bias.trace", 0.61, "us", Some((0.4, 0.8)), 9);
    report.findings.push(noted(trace, "in every place of every traced activation; not subtracted"));
    report.findings.extend(effects());
    report.findings.extend(causes());
    report
}

/// Returns a sweep: curves with a step at 31 MiB and curves without.
pub fn sweep() -> Report {
    let mut report = Report {
        experiment: "wakeup".to_string(),
        subject: "host".to_string(),
        trust: "real".to_string(),
        seed: 7,
        elapsed_s: 600.0,
        ..Report::default()
    };
    for (mode, stride) in [("free", 64), ("free", 4096), ("keep", 64), ("keep", 4096)] {
        for mib in [1u64, 2, 4, 8, 16, 31, 32, 64, 128, 256] {
            let faults = if mode == "free" && mib >= 32 { 106_000.0 } else { 0.0 };
            let tail = if faults > 0.0 { 25.3 } else { 21.7 } + if stride == 64 { 0.4 } else { 0.0 };
            let name = |what: &str| format!("sweep.malloc.{mode}.{stride}.{}.{what}", mib << 20);
            report.findings.push(number(&name("p50"), 0.8 * tail, "us", around(tail, 0.002), 15_000));
            let row = number(&name("tail"), tail, "us", around(tail, 0.02), 15_000);
            let row = with(row, metrics::QUANTILE, a_word("p999"));
            report.findings.push(noted(row, "median over 5 series of their p99.9"));
            report.findings.push(number(&name("max"), 2.2 * tail, "us", None, 15_000));
            report.findings.push(number(&name("faults"), faults, "1/s", None, 5));
        }
        let changes = if (mode, stride) == ("free", 4096) { 3.0 } else { 0.0 };
        let name = format!("sweep.malloc.{mode}.{stride}.changepoints");
        report.findings.push(number(&name, changes, "", None, 0));
    }
    report.findings.extend(changepoints());
    report
}

/// Returns the changepoints at 31 MiB, of latencies and of the load.
fn changepoints() -> Vec<Finding> {
    let ends = Some((31.0 * 1024.0 * 1024.0, 32.0 * 1024.0 * 1024.0));
    let note =
        "a step of malloc.free.4096 between 31 MiB and 32 MiB; chance makes one as clear in 0.0 % of cases";
    let of = |n: u32, what: &str| format!("changepoint.{n}.{what}");
    let mut all = Vec::new();
    for (n, statistic, effect) in [(1, "tail", Some(0.166)), (2, "p50", Some(0.164)), (3, "faults", None)] {
        all.push(noted(number(&of(n, "bytes"), 33_026_801.0, "bytes", ends, 0), note));
        all.extend(
            effect
                .map(|effect| number(&of(n, "effect"), effect, "", Some((effect - 0.04, effect + 0.04)), 0)),
        );
        all.push(word(&of(n, "kind"), "step", &[]));
        all.push(word(&of(n, "statistic"), statistic, &[]));
    }
    // The page faults of the load, and the latencies at the same size.
    all.push(number(&of(3, "before"), 0.0, "1/s", Some((0.0, 0.0)), 8));
    all.push(number(&of(3, "after"), 106_000.0, "1/s", Some((103_000.0, 109_000.0)), 8));
    for (what, effect) in [("tail", 0.166), ("p90", 0.165), ("p50", 0.164)] {
        let ends = Some((effect - 0.04, effect + 0.04));
        all.push(number(&of(3, &format!("across.{what}")), effect, "", ends, 8));
    }
    let on = |row: Finding| {
        let row = with(row, metrics::STRESSOR, a_word("malloc"));
        with(with(row, metrics::MODE, a_word("free")), metrics::STRIDE, Item::Number(4096.0))
    };
    all.into_iter().map(on).collect()
}
