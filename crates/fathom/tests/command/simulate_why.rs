//! Reasons of misses: counts that are known by arithmetic, the data that misses, and the lines that take one another's place.

use serde_json::Value;

use crate::common::User;
use crate::simulate::{TARGETS, Target, built, hot, listed, misses, place, simulated_with, value};

const OBJECT: &str = "simulated.object.{rank}.cycles";
const PAIR: &str = "simulated.pair.{rank}.misses";

fn explained(user: &User, target: &Target, on: &str, arguments: &[&str]) -> Value {
    simulated_with(user, target, on, &["--why"], arguments)
}

/// Six lines in turn in sets of two: each of 153600 loads misses, 96 of them for the first time.
#[test]
fn arrays_in_the_same_sets_conflict_at_every_step() {
    for target in &TARGETS {
        let user = User::new();
        if built(&user, target, "conflict.c", &["-static"]).is_none() {
            continue;
        }
        let document = explained(&user, target, "am5728", &[]);
        let arrays = hot(&document, OBJECT, "object", "arrays");
        assert_eq!(misses(arrays, "L1D"), 153_600, "{}", target.name);
        assert_eq!(
            ["cold", "capacity", "conflict"].map(|name| listed(arrays, "reasons", name)),
            [96, 0, 153_504],
            "{}",
            target.name
        );
        let pair = hot(&document, PAIR, "object", "arrays");
        let line = place("conflict.c", "all += arrays");
        assert_eq!(
            (&pair["by_object"], &pair["reason"], &pair["name"]),
            (&"arrays".into(), &"conflict".into(), &"L1D".into())
        );
        assert_eq!((&pair["source"], &pair["by_source"]), (&line.as_str().into(), &line.as_str().into()));
        let at = |field: &str| pair[field].as_u64().unwrap_or_else(|| panic!("{field} of {pair}")) / 64 % 256;
        assert_eq!(at("offset"), at("by_offset"), "the lines are in one set of 256: {pair}");
        let padded = explained(&user, target, "am5728", &["padded"]);
        let arrays = hot(&padded, OBJECT, "object", "arrays");
        assert_eq!(
            ["cold", "capacity", "conflict"].map(|name| listed(arrays, "reasons", name)),
            [96, 0, 0],
            "{}",
            target.name
        );
    }
}

#[test]
fn counters_of_two_threads_share_their_line_falsely() {
    let target = &TARGETS[2];
    let user = User::new();
    if built(&user, target, "sharing.c", &["-static", "-pthread"]).is_none() {
        return;
    }
    let document = explained(&user, target, "bcm2837", &[]);
    let pair = hot(&document, PAIR, "reason", "falsely-shared");
    assert_eq!((&pair["object"], &pair["by_object"]), (&"counters".into(), &"counters".into()), "{pair}");
    let (own, by) = (pair["offset"].as_u64().expect("bytes"), pair["by_offset"].as_u64().expect("bytes"));
    assert_eq!(own.abs_diff(by), 8, "{pair}");
    assert_ne!(pair["cpu"], pair["by_cpu"], "{pair}");
    assert_eq!(pair["source"], place("sharing.c", "++*own"), "{pair}");
    let falsely = value(&document, "simulated.level.1.falsely_shared");
    assert!(falsely > 10.0, "{falsely}");
    let padded = explained(&user, target, "bcm2837", &["padded"]);
    let findings = padded["findings"].as_array().expect("a list");
    let shared = |f: &&Value| {
        f["metric"] == PAIR && f["detail"]["object"] == "counters" && f["detail"]["reason"] != "conflict"
    };
    assert_eq!(findings.iter().find(shared), None);
}

#[test]
fn counts_are_those_of_a_run_without_reasons_and_a_trace_has_them_too() {
    let target = &TARGETS[2];
    let user = User::new();
    if built(&user, target, "conflict.c", &["-static"]).is_none() {
        return;
    }
    let run = |arguments: &[&str]| {
        let did = user.run(&[&["simulate", "--on", "am5728", "--json"], arguments].concat());
        assert_eq!(did.status, 0, "{did:?}");
        serde_json::from_str::<Value>(&did.out).expect("JSON")
    };
    let plain = run(&["--keep-trace", "kept.trace", "--", "./program"]);
    let why = run(&["--why", "--", "./program"]);
    let replayed = run(&["--why", "--trace", "kept.trace"]);
    for name in ["simulated.cycles", "simulated.level.1.misses", "simulated.walks", "simulated.memory.writes"]
    {
        assert_eq!(value(&plain, name), value(&why, name), "{name}");
    }
    let told = |document: &Value| {
        let all = document["findings"].as_array().expect("a list").iter();
        all.filter(|f| f["metric"] == OBJECT || f["metric"] == PAIR).cloned().collect::<Vec<_>>()
    };
    assert_eq!(told(&why), told(&replayed));
    assert!(told(&plain).is_empty() && told(&why).len() > 4);
    let report = user.run(&["simulate", "--on", "am5728", "--why", "--trace", "kept.trace"]);
    for text in ["Why accesses missed", "Data, by time beyond hits", "Lines that were taken, and by what"] {
        assert!(report.out.contains(text), "{text} in {}", report.out);
    }
    crate::common::fits(&report.out);
}
