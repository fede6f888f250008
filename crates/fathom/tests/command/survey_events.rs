//! Events that a survey counts, by tier.

use serde_json::Value;

use crate::common::User;

fn survey(user: &User, machine: &str) -> Value {
    let did = user.run(&["survey", "--on", machine, "--budget", "5s", "--json", "--record", machine]);
    // The budget is too small for memory on a large machine.
    assert!([0, 3].contains(&did.status), "{} {}", did.status, did.err);
    serde_json::from_str(&did.out).expect("JSON")
}

fn value(document: &Value, name: &str) -> Option<f64> {
    let findings = document["findings"].as_array().expect("findings");
    findings.iter().find(|finding| finding["name"] == name).and_then(|finding| finding["value"].as_f64())
}

/// Stalls of a tier are the cycles that its loads take beyond hits of the first level: by the latencies of the description exactly, and by
/// the times, which are measured apart. Each tier has its own.
#[test]
fn stalls_of_tiers_are_the_cycles_beyond_hits() {
    let user = User::new();
    let document = survey(&user, "neoverse-n1");
    let of = |name: &str| value(&document, name).unwrap_or_else(|| panic!("{name}: {document}"));
    // machines/neoverse-n1.toml: 4 cycles of the first level, 11 of the second, 30 ns at 2.5 GHz of the system's.
    let (clock, first) = (2.5, 4.0);
    for (tier, latency) in [(1, first), (2, 11.0), (3, 30.0 * clock)] {
        let stalls = of(&format!("tier.{tier}.stalls"));
        assert_eq!(stalls, latency - first, "tier {tier}");
        let timed = of(&format!("tier.{tier}.latency")) * clock - first;
        assert!((stalls - timed).abs() < 0.05 + 0.03 * timed, "tier {tier}: {stalls}, {timed}");
    }
    // The table has them in a column of their own.
    let report = user.run(&["report", "neoverse-n1"]);
    let lines: Vec<&str> = report.out.lines().collect();
    let head = lines.iter().position(|line| line.trim_start().starts_with("tier") && line.contains("stalls"));
    let head = head.unwrap_or_else(|| panic!("no table: {}", report.out));
    let end = |line: &str| line.trim_end().len();
    assert_eq!(end(lines[head]), end(lines[head + 2]), "stalls are the last column: {}", report.out);
    let last: Vec<&str> =
        lines[head + 2..head + 5].iter().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(last, ["0", "7", "71"], "{}", report.out);
}

/// A processor without such an event has no row, and its other events are there.
#[test]
fn machine_without_an_event_for_stalls_has_no_row() {
    let user = User::new();
    let document = survey(&user, "bcm2835");
    assert_eq!(value(&document, "tier.2.stalls"), None);
    assert_eq!(value(&document, "tier.1.level.1.refills"), Some(0.0));
}
