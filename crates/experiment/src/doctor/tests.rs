use super::*;

/// Returns a machine with these facts in addition to those of an optimally configured one.
fn record(trust: ClockTrust, facts: &[(&str, &str)]) -> Record {
    let best = [
        ("trust.evidence", "nothing says otherwise"),
        ("clock.name", "tsc"),
        ("clock.hz", "2000000000"),
        ("privilege.fifo", "granted"),
        ("privilege.nice", "granted"),
        ("privilege.memlock.value", "unlimited"),
        ("memory.locked", "yes"),
        ("page.huge", "2097152"),
        ("env.thp.enabled", "always [madvise] never"),
        ("privilege.counters", "granted"),
        ("env.perf_event_paranoid", "2"),
        ("env.freq.governor", "performance"),
        ("env.freq.no_turbo", "1"),
        ("cpu.pinned", "3"),
        ("env.cpus.isolated", "3"),
        ("env.cpus.online", "0-3"),
        ("memory.ceiling.bytes", "8589934592"),
        ("memory.ceiling.limit", "half of the memory that is available now"),
        ("memory.ceiling.source", "system"),
        ("env.loadavg", "0.10 0.10 0.10 1/99"),
        ("env.pressure.cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5; full avg10=0.00"),
    ];
    let mut record = bare(trust);
    for (name, text) in best.iter().chain(facts) {
        let number = ["clock.hz", "page.huge", "cpu.pinned", "memory.ceiling.bytes"].contains(name);
        let value = match text.parse() {
            Ok(value) if number => FactValue::Int(value),
            _ => FactValue::Text((*text).to_owned()),
        };
        record.facts.extend([((*name).to_owned(), value)]);
    }
    record
}

fn bare(trust: ClockTrust) -> Record {
    let mut record = Record::default();
    record.trust = Some(trust);
    record
}

fn row(facts: &[(&str, &str)], what: &str) -> Row {
    let rows = examine(&record(ClockTrust::Real, facts));
    rows.iter().find(|r| r.what == what).unwrap_or_else(|| panic!("{what} in {rows:?}")).clone()
}

#[test]
fn an_optimal_machine_has_no_costs() {
    let rows = examine(&record(ClockTrust::Real, &[]));
    assert!(rows.len() >= 9, "{rows:?}");
    for row in rows {
        assert_eq!((row.state, row.cost.as_str(), row.command.as_str()), (State::Good, "", ""), "{row:?}");
    }
}

#[test]
fn each_cost_has_its_command() {
    for (facts, what, command) in [
        (
            &[("privilege.fifo", "refused"), ("privilege.fifo.reason", "not permitted (EPERM)")][..],
            "priority",
            "sudo prlimit --pid $$ ",
        ),
        (&[("memory.locked", "no")], "locked-memory", "sudo prlimit --pid $$ "),
        (&[("privilege.memlock.value", "8388608")], "locked-memory", "sudo prlimit --pid $$ "),
        (
            &[("env.thp.enabled", "always madvise [never]")],
            "huge-pages",
            "echo madvise | sudo tee /sys/kernel/mm/",
        ),
        (
            &[("privilege.counters", "refused"), ("env.perf_event_paranoid", "3")],
            "counters",
            "sudo sysctl kernel.perf_event_paranoid=2",
        ),
        (
            &[
                ("privilege.counters", "excluded"),
                ("env.perf_user_access", "0"),
                ("env.perf_event_paranoid", "3"),
            ],
            "counters",
            "sudo sysctl kernel.perf_user_access=1",
        ),
        (&[("env.freq.governor", "powersave")], "frequency", "echo performance | sudo tee "),
        (&[("env.freq.no_turbo", "0")], "frequency", "echo 1 | sudo tee "),
        (&[("env.smt", "on"), ("env.cpu.siblings", "3,7")], "smt", "echo off | sudo tee "),
        (
            &[("env.numa.nodes", "0-1"), ("env.numa.balancing", "1")],
            "numa",
            "sudo sysctl kernel.numa_balancing=0",
        ),
        (&[("env.pressure.cpu", "some avg10=93.00 avg60=0.00 total=5")], "load", "top"),
    ] {
        let row = row(facts, what);
        assert_eq!(row.state, State::Costs, "{row:?}");
        assert!(row.command.starts_with(command) && !row.cost.is_empty(), "{row:?}");
    }
}

/// Which events are believed is listed, and why others are not.
#[test]
fn counters_that_are_not_believed_are_listed() {
    let mut record = record(
        ClockTrust::Real,
        &[
            ("privilege.counters.value", "cycles,instructions"),
            ("counter.stall.backend", "not opened: ENOENT"),
        ],
    );
    let tried = |name: &str, count| (format!("counter.{name}.tried"), FactValue::Int(count));
    record.facts.extend([tried("cycles", 70_000), tried("refill.L1D", 0)]);
    record.facts.extend([("counter.miss.dTLB.impossible".into(), FactValue::Int(1 << 31))]);
    let row = counters(&record);
    assert_eq!(row.state, State::Good);
    assert_eq!(
        row.found,
        "available: cycles,instructions (perf_event_paranoid 2); not opened: stall.backend; not used, because they count \
         nothing in a loop that has such events: refill.L1D; not used, because they count more than a loop can have: miss.dTLB"
    );
}

#[test]
fn costs_without_a_command_are_notes() {
    for (facts, what, word) in [
        (&[("clock.name", "monotonic-raw")][..], "clock", "coarser"),
        (
            &[("privilege.counters", "absent"), ("privilege.counters.remedy", "give the guest a PMU")],
            "counters",
            "a PMU",
        ),
        (&[("env.cpus.isolated", "")], "cpu", "isolcpus=3 nohz_full=3"),
        (&[("env.cgroup.0.cpu.max", "50000 100000")], "cpu-quota", "outside that container"),
        (
            &[
                ("memory.ceiling.bytes", "1048576"),
                ("memory.ceiling.limit", "half of what is left in its group"),
                ("memory.ceiling.source", "control-group"),
            ],
            "memory",
            "raise the group",
        ),
    ] {
        let row = row(facts, what);
        assert_eq!((row.state, row.command.as_str()), (State::Note, ""), "{row:?}");
        assert!(row.cost.contains(word), "{row:?}");
    }
}

#[test]
fn an_emulator_prevents_measurements_and_unknown_facts_do_not() {
    let state = |trust| examine(&record(trust, &[])).iter().map(|r| r.state).max();
    assert_eq!(state(ClockTrust::Emulated), Some(State::Prevents));
    assert_eq!(state(ClockTrust::Virtual), Some(State::Note));
    assert_eq!(state(ClockTrust::Real), Some(State::Good));
    // A description needs no priority, even if other facts are unknown.
    assert!(examine(&bare(ClockTrust::Modelled)).iter().all(|r| r.state == State::Good));
    // Records without facts, or with facts of the wrong type, must not panic.
    let mut odd = record(ClockTrust::Real, &[]);
    for name in ["env.freq.governor", "env.cgroup.0.cpu.max", "env.thp.enabled", "privilege.fifo"] {
        odd.facts.extend([(name.to_owned(), FactValue::Bytes(vec![0xff]))]);
    }
    for record in [bare(ClockTrust::Real), odd] {
        assert!(!examine(&record).is_empty());
    }
}

/// A missing driver is a note with the command that loads it, because few measurements need it. A loaded driver is
/// reported with its features. Older records have no row.
#[test]
fn the_driver_row_names_features_or_remedy() {
    assert!(examine(&record(ClockTrust::Real, &[])).iter().all(|row| row.what != "driver"));
    let absent = [
        ("driver.state", "is not loaded (no /dev/fathom)"),
        ("driver.remedy", "load it: make -C driver && sudo insmod driver/fathom.ko"),
    ];
    let absent = row(&absent, "driver");
    assert_eq!((absent.state, absent.command.as_str()), (State::Note, ""));
    assert!(
        absent.found.contains("is not loaded") && absent.cost.contains("insmod driver/fathom.ko"),
        "{absent:?}"
    );
    let denied = [
        ("driver.state", "is loaded, and /dev/fathom cannot be opened (Permission denied)"),
        ("driver.remedy", "sudo usermod -aG fathom ada"),
    ];
    let denied = row(&denied, "driver");
    assert!(
        denied.found.contains("cannot be opened") && denied.cost.contains("usermod -aG fathom ada"),
        "{denied:?}"
    );
    let mut loaded = record(
        ClockTrust::Real,
        &[
            ("driver.state", "is there"),
            ("driver.features", "regions,dma,wakes,translate"),
            ("driver.attributes", "write-back,normal-nc,device"),
            ("driver.engines", "none,edu"),
        ],
    );
    loaded.facts.extend([("driver.version".to_owned(), FactValue::Int(1))]);
    let rows = examine(&loaded);
    let loaded = rows.iter().find(|row| row.what == "driver").expect("a row");
    assert_eq!((loaded.state, loaded.cost.as_str()), (State::Good, ""));
    assert!(
        loaded.found.contains("version 1: regions,dma,wakes,translate; attributes write-back"),
        "{loaded:?}"
    );
}
