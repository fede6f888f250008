use super::{Draft, Options, Written, draft};
use crate::findings::{Basis, Finding, Item, Refused, Report, Value, Warning, WarningKind};
use crate::hierarchy::Hierarchy;
use crate::metrics::REGISTRY;
use crate::metrics::{common, survey};
use fathom_units::facts::ValueClass;

const POLICIES: [&str; 5] = ["lru", "fifo", "random", "tree-plru", "nru"];

fn finding(name: &str, value: f64, unit: &'static str, off: f64) -> Finding {
    Finding {
        low: Some(value - off),
        high: Some(value + off),
        count: 40,
        ..Finding::number(REGISTRY.key(name).expect("a name of the schema"), value).in_unit(unit)
    }
}

fn word(name: &str, value: &str) -> Finding {
    Finding { value: Value::Text(value.into()), ..finding(name, 0.0, "", 0.0) }
}

/// Two caches of 48 KiB and 2 MiB, and memory, on a core of 2 GHz.
fn survey() -> Report {
    let kib = 1024.0;
    let findings = vec![
        finding("clock.tick_hz", 1e9, "Hz", 0.0),
        finding("clock.core_hz", 2e9 + 300.0, "Hz", 500.0),
        finding("bias.timer", 12.0, "ticks", 0.5),
        finding("tier.1.latency", 2.5, "ns", 0.01),
        finding("tier.1.latency_cycles", 5.0, "cycles", 0.02),
        finding("tier.1.capacity", 48.1 * kib, "bytes", 0.5 * kib),
        finding("tier.2.latency", 8.0, "ns", 0.02),
        finding("tier.2.latency_cycles", 16.0, "cycles", 0.04),
        finding("tier.2.capacity", 2048.0 * kib, "bytes", 30.0 * kib),
        finding("tier.3.latency", 100.0, "ns", 0.6),
        finding("tier.3.latency_cycles", 200.0, "cycles", 1.2),
        finding("tlb.1.entries", 65.0, "", 1.0),
        finding("tlb.1.penalty", 3.5, "ns", 0.01),
        finding("tlb.2.entries", 1530.0, "", 10.0),
        finding("tlb.2.penalty", 20.0, "ns", 0.1),
        finding("latency.268435456.time", 100.0, "ns", 0.6),
    ];
    let facts = [("page.base", "4096"), ("page.huge", "2097152"), ("env.cpu.model", "A CPU")];
    Report {
        experiment: "survey".into(),
        subject: "board".into(),
        trust: "real".into(),
        facts: facts.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(),
        findings,
        ..Report::default()
    }
}

fn claim(source: &str, level: usize, size: f64, line: f64, ways: f64) -> Vec<Finding> {
    let row = |key: &str, v: f64, unit| {
        finding(&format!("claim.{source}.level.{level}.unified.{key}"), v, unit, 0.0)
    };
    vec![row("size", size, "bytes"), row("line", line, "bytes"), row("ways", ways, "")]
}

fn drafted(report: &Report) -> Draft {
    let h = Hierarchy::of(report).expect("tiers");
    draft(&h, &Options { name: "", policies: &POLICIES })
}

/// Value and source of a key in the `nth` table (from 1) of that name.
#[track_caller]
fn key(d: &Draft, table: &str, nth: usize, key: &str) -> (Written, String) {
    let table = d.tables.iter().filter(|t| t.name == table).nth(nth - 1).expect("the table");
    let found = table.keys.iter().find(|k| k.key == key).expect("the key");
    let name = found.grounds.found.as_ref().map(|f| format!("{}: ", f.name())).unwrap_or_default();
    (found.value.clone(), format!("{name}{}", found.grounds.comment))
}

#[test]
fn draft_rounds_inside_intervals_and_marks_the_rest_assumed() {
    let d = drafted(&survey());
    assert_eq!(d.about, "A CPU: drafted from a survey of board");
    assert_eq!(key(&d, "core", 1, "clock").0, Written::Hz(2e9));
    assert_eq!(key(&d, "timer", 1, "overhead").0, Written::Cycles(24.0));
    let (size, why) = key(&d, "level", 1, "size");
    assert_eq!(
        (size, why.as_str()),
        (Written::Size(48 << 10), "tier.1.capacity: 3 x 16 KiB, the roundest size within the interval")
    );
    // 768 lines of 64 bytes: 6 ways of 128 sets are the fewest from four on.
    let (ways, why) = key(&d, "level", 1, "ways");
    assert!(ways == Written::Count(6) && why.starts_with("assumed: "), "{ways:?} {why}");
    assert_eq!(key(&d, "level", 1, "latency"), (Written::Cycles(5.0), "tier.1.latency_cycles: ".into()));
    assert_eq!(key(&d, "level", 2, "size").0, Written::Size(2 << 20));
    assert_eq!(key(&d, "level", 2, "ways").0, Written::Count(4));
    assert!(key(&d, "level", 2, "line").1.starts_with("assumed"));
    assert_eq!(key(&d, "memory", 1, "latency").0, Written::Ns(100.0));
    assert_eq!(key(&d, "memory", 1, "size").0, Written::Size(1 << 30));
    assert_eq!(key(&d, "memory", 1, "pages").0, Written::Sizes(vec![4096, 2 << 20]));
    // 64 entries are fully associative; 1536 = 3 x 512 have six ways. A TLB's latency is the cost of a miss in the
    // nearer one.
    assert_eq!(key(&d, "tlb", 1, "ways").0, Written::Count(64));
    assert_eq!(key(&d, "tlb", 2, "entries").0, Written::Count(1536));
    assert_eq!(key(&d, "tlb", 2, "ways").0, Written::Count(6));
    assert_eq!(key(&d, "tlb", 2, "latency"), (Written::Cycles(7.0), "tlb.1.penalty: ".into()));
    assert_eq!(key(&d, "walk", 1, "latency").0, Written::Cycles(40.0));
    assert_eq!(key(&d, "walk", 1, "from").0, Written::Text("none".into()));
}

#[test]
fn every_value_has_the_class_of_its_source() {
    let mut report = survey();
    report.findings.extend(claim("sysfs", 1, 49152.0, 64.0, 12.0));
    let d = drafted(&report);
    let class = |table: &str, key: &str| {
        let table = d.tables.iter().find(|t| t.name == table).expect(table);
        table.keys.iter().find(|k| k.key == key).expect(key).grounds.class
    };
    assert_eq!(class("level", "size"), Some(ValueClass::Measured));
    assert_eq!(class("level", "ways"), Some(ValueClass::Manual), "as claimed");
    assert_eq!(class("level", "write"), Some(ValueClass::Assumed));
    assert_eq!((class("level", "name"), class("level", "holds")), (None, None));
    for key in d.tables.iter().flat_map(|table| &table.keys) {
        let grounds = &key.grounds;
        assert_eq!(grounds.class.is_none(), ["name", "holds"].contains(&key.key), "{}", key.key);
        assert!(!grounds.comment.starts_with("assumed") || grounds.class != Some(ValueClass::Measured));
    }
}

#[test]
fn misses_under_way_are_drafted_as_measured_or_said_to_be_missing() {
    let mut report = survey();
    report.findings.push(finding("memory.overlap", 15.7, "", 0.8));
    let d = drafted(&report);
    let (number, why) = key(&d, "core", 1, "outstanding");
    assert_eq!((number, why.as_str()), (Written::Count(16), "memory.overlap: the nearest whole number"));
    let core = &d.tables[0].keys;
    let class = core.iter().find(|k| k.key == "outstanding").expect("the key").grounds.class;
    assert_eq!(class, Some(ValueClass::Measured));
    let missing = |d: &Draft| d.remarks.iter().find(|r| r.contains("(outstanding)")).cloned();
    assert_eq!(missing(&d), None);
    // A core that waits for each miss has one, whatever the noise.
    let last = report.findings.len() - 1;
    for (overlap, expected) in [(0.97, 1), (0.2, 1), (1.4, 1), (900.0, 256)] {
        report.findings[last] = finding("memory.overlap", overlap, "", 0.1);
        assert_eq!(key(&drafted(&report), "core", 1, "outstanding").0, Written::Count(expected));
    }
    report.findings[last].basis = Basis::Bounds;
    assert_eq!(key(&drafted(&report), "core", 1, "outstanding").1, "memory.overlap: a lower bound");
    // Without the finding there is no key, and the reason is given.
    report.findings.pop();
    let none = |d: &Draft| d.tables[0].keys.iter().all(|k| k.key != "outstanding");
    let d = drafted(&report);
    assert!(none(&d) && missing(&d).is_some_and(|r| r.ends_with("missing here: it was not measured.")));
    report.refusals.push(Refused {
        what: "memory.overlap".into(),
        reason: "latency still rises".into(),
        remedy: String::new(),
    });
    let d = drafted(&report);
    assert!(none(&d) && missing(&d).is_some_and(|r| r.ends_with("missing here: latency still rises.")));
    report.refusals.clear();
    report.trust = "modelled".into();
    assert!(missing(&drafted(&report)).is_some_and(|r| r.contains("one access at a time")));
}

#[test]
fn instructions_in_flight_are_drafted_beside_misses_under_way_only() {
    let mut report = survey();
    let none = |d: &Draft| d.tables[0].keys.iter().all(|k| k.key != "window");
    report.findings.push(finding("memory.window", 446.5, "", 2.5));
    assert!(none(&drafted(&report)), "a description has no window without misses under way");
    report.findings.push(finding("memory.overlap", 15.7, "", 0.8));
    let expected = (Written::Count(447), "memory.window: the nearest whole number".to_owned());
    assert_eq!(key(&drafted(&report), "core", 1, "window"), expected);
    // A description has as many instructions as misses at least.
    let last = report.findings.len() - 2;
    report.findings[last] = finding("memory.window", 9.0, "", 0.0);
    assert_eq!(key(&drafted(&report), "core", 1, "window").0, Written::Count(16));
}

#[test]
fn fills_of_one_set_are_drafted_beside_misses_under_way_only() {
    let mut report = survey();
    let none = |d: &Draft| d.tables[0].keys.iter().all(|k| k.key != "set_fill");
    report.findings.push(finding("fill.one_set.time", 4.0, "ns", 0.01));
    report.findings.push(finding("fill.two_sets.time", 1.0, "ns", 0.01));
    assert!(none(&drafted(&report)), "it limits what overlaps");
    report.findings.push(finding("memory.overlap", 15.7, "", 0.8));
    assert_eq!(key(&drafted(&report), "core", 1, "set_fill").0, Written::Cycles(8.0));
    let all = report.findings.len() - 2;
    report.findings[all] = finding("fill.two_sets.time", 3.5, "ns", 0.01);
    assert!(none(&drafted(&report)), "other loads take as long");
    report.findings[all] = finding("fill.two_sets.time", 3.0, "ns", 1.1);
    assert!(none(&drafted(&report)), "they may take as long");
}

#[test]
fn runs_of_lines_are_drafted_if_they_are_prefetched() {
    let mut report = survey();
    let orders = |report: &mut Report, random: (f64, f64), ordered: (f64, f64)| {
        report.findings.retain(|f| !f.name().starts_with("prefetch"));
        report.findings.push(finding("prefetch.window.time", random.0, "ns", random.1));
        report.findings.push(finding("prefetch.sequential.time", ordered.0, "ns", ordered.1));
    };
    let none = |d: &Draft| d.tables[0].keys.iter().all(|k| !k.key.starts_with("stream"));
    assert!(none(&drafted(&report)));
    orders(&mut report, (90.0, 1.0), (10.0, 0.1));
    let d = drafted(&report);
    let (cost, why) = key(&d, "core", 1, "stream");
    assert_eq!(cost, Written::Ns(10.0));
    assert!(why.starts_with("prefetch.sequential.time: ns, because"), "{why}");
    assert_eq!(key(&d, "core", 1, "streams").0, Written::Count(32));
    // Open rows and fewer translations are no prefetch.
    for (random, ordered) in [((90.0, 1.0), (60.0, 1.0)), ((90.0, 40.0), (48.0, 5.0))] {
        orders(&mut report, random, ordered);
        assert!(none(&drafted(&report)), "{random:?} {ordered:?}");
    }
    // A hit takes up to 2.51 ns: no line of a run costs less.
    orders(&mut report, (90.0, 1.0), (2.0, 0.1));
    let Written::Ns(least) = key(&drafted(&report), "core", 1, "stream").0 else { panic!("a time in ns") };
    assert!((2.51..2.6).contains(&least), "{least}");
}

#[test]
fn claims_are_marked_and_measurements_take_precedence() {
    let mut report = survey();
    report.findings.extend(claim("sysfs", 1, 49152.0, 64.0, 12.0));
    report.findings.extend(claim("cpuid", 1, 49152.0, 32.0, 12.0));
    report.findings.extend(claim("sysfs", 2, 8_388_608.0, 128.0, 16.0));
    let d = drafted(&report);
    assert_eq!(
        key(&d, "level", 1, "ways"),
        (Written::Count(12), "claimed by sysfs and cpuid, not measured".into())
    );
    assert!(key(&d, "level", 1, "size").1.ends_with("as claimed by sysfs and cpuid"));
    let (line, why) = key(&d, "level", 1, "line");
    assert_eq!((line, why.as_str()), (Written::Size(64), "claimed by sysfs, not measured (but 32 by cpuid)"));
    // A claim of another size is about another level: its size is reported, its ways are not used.
    let (size, why) = key(&d, "level", 2, "size");
    assert_eq!(size, Written::Size(2 << 20));
    assert!(why.contains("8 MiB claimed by sysfs disagrees with the measurement"), "{why}");
    assert!(key(&d, "level", 2, "ways").1.starts_with("assumed"));
    assert_eq!(key(&d, "level", 2, "line").0, Written::Size(128));
    // Measured line and ways are used, and the claims are reported.
    report.findings.push(finding("tier.1.line", 64.0, "bytes", 0.0));
    report.findings.push(finding("tier.1.ways", 6.0, "", 0.0));
    let d = drafted(&report);
    let (ways, why) = key(&d, "level", 1, "ways");
    assert_eq!(ways, Written::Count(6));
    assert_eq!(why, "tier.1.ways: 12 claimed by sysfs and cpuid disagrees with the measurement");
    let (line, why) = key(&d, "level", 1, "line");
    assert_eq!(
        (line, why.as_str()),
        (Written::Size(64), "tier.1.line: as claimed by sysfs (but 32 by cpuid)")
    );
    // The nearest level's line does not determine a farther level's.
    let (line, why) = key(&d, "level", 2, "line");
    assert_eq!((line, why.as_str()), (Written::Size(128), "claimed by sysfs, not measured"));
    report.findings.push(finding("tier.2.line", 128.0, "bytes", 0.0));
    let (line, why) = key(&drafted(&report), "level", 2, "line");
    assert_eq!((line, why.as_str()), (Written::Size(128), "tier.2.line: as claimed by sysfs"));
}

#[test]
fn measured_ways_and_sets_determine_the_size() {
    let mut report = survey();
    report.findings.push(finding("tier.1.ways", 12.0, "", 0.0));
    report.findings.push(finding("tier.1.sets", 64.0, "", 0.0));
    report.findings.push(finding("tier.2.ways", 15.0, "", 0.0));
    report.findings.push(word("tier.1.policies", "bit-plru, tree-plru,lru"));
    report.findings.push(word("tier.2.policies", "srrip"));
    report.findings.push(finding("tlb.2.ways", 12.0, "", 0.0));
    let d = drafted(&report);
    assert_eq!(
        key(&d, "level", 1, "size"),
        (Written::Size(49152), "tier.1.capacity: 64 sets, as measured".into())
    );
    // 15 ways of 64 bytes: 2144 = 67 x 32 sets are the roundest between 2018 and 2078 KiB.
    let (size, why) = key(&d, "level", 2, "size");
    let Written::Size(size) = size else { panic!("{size:?}") };
    assert!(size % (15 * 64) == 0 && (2018 * 1024..=2078 * 1024).contains(&size), "{size}: {why}");
    let (policy, why) = key(&d, "level", 1, "replacement");
    assert_eq!(policy, Written::Text("tree-plru".into()));
    assert_eq!(why, "tier.1.policies; also fits bit-plru, lru");
    let (policy, why) = key(&d, "level", 2, "replacement");
    assert_eq!(policy, Written::Text("lru".into()));
    assert!(why.contains("assumed") && why.contains("srrip, which the format does not support"), "{why}");
    assert_eq!(key(&d, "tlb", 2, "entries").0, Written::Count(1536));
}

#[test]
fn size_with_large_odd_factor_gets_sixteen_ways() {
    let mut report = survey();
    // 67 x 64 KiB within a hair.
    report.findings[5] = finding("tier.1.capacity", 67.0 * 65536.0, "bytes", 3000.0);
    let d = drafted(&report);
    assert_eq!(key(&d, "level", 1, "ways").0, Written::Count(16));
    assert_eq!(key(&d, "level", 1, "size").0, Written::Size(67 << 16));
    // If no whole number is within the interval, the nearest is reported as such.
    report.findings[5] = finding("tier.1.capacity", 50_000.0, "bytes", 3.0);
    let (size, why) = key(&drafted(&report), "level", 1, "size");
    assert_eq!(size, Written::Size(49 * 1024));
    assert!(why.contains("no whole number is within the interval"), "{why}");
}

#[test]
fn step_of_page_tables_leaving_a_cache_is_not_a_tlb() {
    let mut report = survey();
    let mut step = finding("tlb.3.entries", 28_000.0, "", 100.0);
    step.detail.set(survey::MAYBE_TABLES, Item::Flag(true));
    report.findings.push(step);
    report.findings.push(finding("tlb.3.penalty", 60.0, "ns", 0.1));
    let d = drafted(&report);
    assert_eq!(d.tables.iter().filter(|t| t.name == "tlb").count(), 2);
    let (from, why) = key(&d, "walk", 1, "from");
    assert!(
        from == Written::Text("L2".into()) && why.starts_with("tlb.3.entries: assumed to be page tables"),
        "{why}"
    );
    // 20 ns less a fetch of 8 ns from the second level, at 2 GHz.
    assert_eq!(key(&d, "walk", 1, "latency").0, Written::Cycles(24.0));
    // An increase beyond the latency of memory is not a fetch that leaves a cache.
    let last = report.findings.len() - 1;
    report.findings[last] = finding("tlb.3.penalty", 150.0, "ns", 0.1);
    let d = drafted(&report);
    assert_eq!(d.tables.iter().filter(|t| t.name == "tlb").count(), 3);
    assert!(
        key(&d, "tlb", 3, "entries").1.ends_with("it may be page tables leaving a cache instead of a TLB")
    );
}

#[test]
fn draft_without_core_clock_uses_ns_and_notes_it() {
    let mut report = survey();
    report.findings.retain(|f| !f.is(&common::CLOCK_CORE_HZ) && !f.is(&survey::TIER_LATENCY_CYCLES));
    report.findings.push(word("disturbed", "yes"));
    report.trust = "virtual".into();
    for kind in [WarningKind::NoHugePages, WarningKind::NoFinalPlateau] {
        report.warnings.push(Warning { kind, text: "odd".into(), remedy: String::new() });
    }
    let d = drafted(&report);
    assert_eq!(key(&d, "level", 1, "latency"), (Written::Ns(2.5), "tier.1.latency: ".into()));
    assert!(key(&d, "core", 1, "clock").1.starts_with("assumed"));
    assert_eq!(key(&d, "memory", 1, "pages").0, Written::Sizes(vec![4096]));
    assert!(key(&d, "memory", 1, "latency").1.contains("a lower bound"));
    let remarks = d.remarks.join("\n");
    for expected in ["disturbed", "behaves like", "Warning of the record, no-final-plateau: odd."] {
        assert!(remarks.contains(expected), "{remarks}");
    }
}
