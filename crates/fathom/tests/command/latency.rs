//! `fathom latency`: single loads.

use serde_json::Value;

use crate::common::User;

const ARGUMENTS: [&str; 7] = ["latency", "--on", "bcm2835", "--bytes", "8K,64KiB", "--budget", "4s"];

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn latency_of_a_model_shows_histograms_and_is_reproducible() {
    let user = User::new();
    let did = user.run(&ARGUMENTS);
    let text = did.ended(0);
    for expected in ["8 KiB: 3000 single loads, cycles with the bias", "64 KiB: ", "bias.sample", "100.0 %"] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let json = user.run(&[&ARGUMENTS[..], &["--json", "--record", "A"]].concat());
    let found = document(json.ended(0));
    assert_eq!(found["experiment"], "latency");
    let histograms = found["histograms"].as_array().expect("a list");
    // The reference that gives the bias, and the two requested sizes.
    let bytes: Vec<u64> = histograms.iter().filter_map(|h| h["bytes"].as_u64()).collect();
    assert_eq!(bytes, [4096, 8192, 65536]);
    assert_eq!(histograms[1]["counts"], serde_json::json!([[9, 3000]]));
    // A report of the record is equal; a second measurement gives the same record except for the end line.
    assert_eq!(user.run(&["report", "A", "--json"]).out, json.out);
    user.run(&[&ARGUMENTS[..], &["--record", "B"]].concat()).ended(0);
    let head = |name: &str| {
        user.read(name).lines().filter(|l| !l.starts_with("end ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(head("A"), head("B"));
    assert!(head("A")[1].contains("bytes=8192,65536"), "{}", head("A")[1]);
}

#[test]
fn invalid_sizes_are_refused_with_example() {
    let user = User::new();
    for (size, hint) in
        [("8KB", "8192, 8K, 64MiB"), ("64", "128 bytes"), ("8K,,", "not a size"), ("-1", "--bytes")]
    {
        let bytes = format!("--bytes={size}");
        user.run(&["latency", "--on", "bcm2835", &bytes]).failed(2, &[hint]);
    }
}

#[test]
fn unmeasured_sizes_are_reported_and_lower_the_status() {
    let user = User::new();
    let did = user.run(&["latency", "--on", "imxrt1062", "--bytes", "8K,64G", "--budget", "1s"]);
    let text = did.ended(3);
    assert!(text.contains("not measured within the budget or the memory: 64 GiB"), "{text}");
}

#[test]
fn this_host_times_single_loads() {
    let user = User::new();
    let did = user.run(&["latency", "--bytes", "8K", "--budget", "2s", "--json"]);
    if crate::common::is_refused(&did) {
        return;
    }
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    let found = document(&did.out);
    let rows: Vec<&str> =
        found["findings"].as_array().expect("a list").iter().filter_map(|f| f["name"].as_str()).collect();
    for expected in ["bias.sample", "latency.8192.peak", "latency.8192.time", "latency.8192.tlb"] {
        assert!(rows.contains(&expected), "{expected} is not in {rows:?}");
    }
    let counts = found["histograms"][1]["counts"].as_array().expect("a list");
    let n: u64 = counts.iter().filter_map(|c| c[1].as_u64()).sum();
    assert!(n >= 1000, "{n} samples");
}

#[test]
fn default_sizes_beyond_budget_are_reported() {
    let user = User::new();
    let did = user.run(&["latency", "--on", "bcm2711", "--budget", "200ms", "-q"]);
    assert!(did.out.contains("not measured within the budget"), "{}", did.out);
    did.ended(3);
}

/// The chain visits all lines in one order again and again, so a cache with LRU replacement misses always or never; and
/// the AM5728's first TLB holds 32 pages.
#[test]
fn events_of_a_model_are_those_of_arithmetic() {
    let user = User::new();
    let found = document(user.run(&["latency", "--on", "am5728", "--bytes", "8K,64K", "--json"]).ended(0));
    let value = |name: &str| {
        let findings = found["findings"].as_array().expect("a list");
        let of = findings.iter().find(|f| f["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        of["value"].as_f64().expect("a number")
    };
    for (name, expected) in [
        ("latency.8192.accesses", 1.0),
        ("latency.8192.level.1.refills", 0.0),
        ("latency.65536.level.1.refills", 1.0),
        ("latency.65536.level.2.refills", 0.0),
        ("latency.65536.tlb.1.refills", 0.0),
        ("latency.65536.walks", 0.0),
        ("latency.65536.memory_reads", 0.0),
    ] {
        assert!((value(name) - expected).abs() < 1e-12, "{name}: {}", value(name));
    }
    // All of the time beyond the first level is that of the second one.
    let beyond = value("latency.65536.cycles") - value("latency.4096.cycles");
    assert!((value("latency.65536.wait") - beyond).abs() < 1e-9);
}

/// Where the described processor has an event for stalls, a model counts them: what each load takes beyond one that hits. The time,
/// which is measured apart, agrees.
#[test]
fn stalls_of_a_model_are_the_cycles_beyond_hits() {
    let user = User::new();
    let read = |machine: &str| {
        let latency = ["latency", "--on", machine, "--bytes", "4K,1M,64M", "--budget", "3s", "--json"];
        document(user.run(&latency).ended(0))
    };
    let value = |document: &Value, name: &str| {
        let findings = document["findings"].as_array().expect("findings");
        findings.iter().find(|finding| finding["name"] == name).and_then(|finding| finding["value"].as_f64())
    };
    let described = read("neoverse-n1");
    let of = |name: &str| value(&described, name).unwrap_or_else(|| panic!("{name}: {described}"));
    assert_eq!(of("latency.4096.stalls"), 0.0);
    for bytes in [1 << 20, 64 << 20] {
        let [stalls, wait] = ["stalls", "wait"].map(|what| of(&format!("latency.{bytes}.{what}")));
        assert!(wait > 5.0 && (0.97..1.03).contains(&(stalls / wait)), "{bytes}: {stalls}, {wait}");
    }
    // The ARM1176 has an event for a full queue only, which is not described.
    assert_eq!(value(&read("bcm2835"), "latency.1048576.stalls"), None);
}
