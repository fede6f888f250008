//! Reasons of misses: counts that are known by arithmetic, the data that misses, and the lines that take one another's place.

use serde_json::Value;

use crate::common::User;
use crate::simulate::{
    TARGETS, Target, built, can_simulate, compiled, hot, listed, misses, place, simulated_with, value,
};

pub const OBJECT: &str = "simulated.object.{rank}.cycles";
pub const PAIR: &str = "simulated.pair.{rank}.misses";
const PAGE_PAIR: &str = "simulated.page_pair.{rank}.misses";

pub fn explained(user: &User, target: &Target, on: &str, arguments: &[&str]) -> Value {
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

/// 40 pages in turn, 512 KiB apart: more than the nearest TLB has, and in one set of four ways of the farther one.
const PAGES: &str = "
static volatile char pages[40 << 19] __attribute__((aligned(1 << 19)));
int main(void)
{
    int all = 0;
    for (int pass = 0; pass < 100; pass++)
        for (int page = 0; page < 40; page++)
            all += pages[(page << 19) + 64 * page];
    return all;
}
";

#[test]
fn pages_in_one_set_of_a_tlb_conflict_there_and_exceed_the_nearer_one() {
    for target in &TARGETS {
        let user = User::new();
        if !can_simulate(target.qemu) {
            continue;
        }
        let source = user.write("pages.c", PAGES);
        if compiled(&user, target, &source, &["-static"]).is_none() {
            continue;
        }
        let document = explained(&user, target, "am5728", &[]);
        let of = |tlb: u32, reason: &str| value(&document, &format!("simulated.tlb.{tlb}.{reason}"));
        for tlb in [1, 2] {
            let sum: f64 = ["cold", "capacity", "conflict"].iter().map(|reason| of(tlb, reason)).sum();
            assert_eq!(sum, of(tlb, "misses"), "{}", target.name);
        }
        // The nearer TLB is fully associative. The code may be in the same set of the farther one, and be translated in each pass.
        assert_eq!(of(1, "conflict"), 0.0, "{}", target.name);
        assert!((3960.0..4200.0).contains(&of(1, "capacity")), "{}: {}", target.name, of(1, "capacity"));
        assert!((3960.0..4200.0).contains(&of(2, "conflict")), "{}: {}", target.name, of(2, "conflict"));
        assert_eq!(of(2, "capacity"), 0.0, "{}", target.name);
        let pair = hot(&document, PAGE_PAIR, "object", "pages");
        assert_eq!(pair["by_object"], "pages", "{pair}");
        assert_eq!(pair["name"], "L2-TLB", "{pair}");
        let at =
            |field: &str| pair[field].as_u64().unwrap_or_else(|| panic!("{field} of {pair}")) / 4096 % 128;
        assert_eq!(at("offset"), at("by_offset"), "the pages are in one set of 128: {pair}");
        let report = user.run(&["simulate", "--on", "am5728", "--why", "./program"]);
        for text in ["Why translations missed", "Pages that were taken, and by what"] {
            assert!(report.err.contains(text), "{text} in {}", report.err);
        }
        crate::common::fits(&report.err);
    }
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
