//! Strides and ladders as a user asks for them.

use serde_json::Value;

use crate::common::User;

const ASK: [&str; 11] = [
    "stride",
    "--on",
    "am5728",
    "--bytes",
    "16K,256KiB",
    "--steps",
    "8,64",
    "--op",
    "read,rmw",
    "--budget",
    "2s",
];

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn names(found: &Value) -> Vec<&str> {
    found["findings"].as_array().expect("a list").iter().filter_map(|f| f["name"].as_str()).collect()
}

#[test]
fn a_described_machine_shows_its_tables() {
    let user = User::new();
    let did = user.run(&ASK);
    let text = did.ended(0);
    for wanted in ["Reads at a step", "Read-modify-writes at a step", "ns a line", "stride.ratio", "256 KiB"]
    {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    assert!(!text.contains("Writes at a step"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let json = user.run(&[&ASK[..], &["--json", "--record", "A"]].concat());
    let found = document(json.ended(0));
    assert_eq!(found["experiment"], "stride");
    let rows = names(&found);
    for wanted in ["stride.16384.8.read.time_per_access", "stride.262144.64.rmw.time_per_line"] {
        assert!(rows.contains(&wanted), "{wanted} is not in {rows:?}");
    }
    // Every name is one that the schema lists.
    let schema = user.run(&["schema"]);
    assert!(schema.ended(0).contains("stride.BYTES.STEP.OP.time_per_access"));
    // Judged again, the same; measured again, the same record but for its end.
    assert_eq!(user.run(&["report", "A", "--json"]).out, json.out);
    user.run(&[&ASK[..], &["--record", "B"]].concat()).ended(0);
    let head = |name: &str| {
        user.read(name).lines().filter(|l| !l.starts_with("end ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(head("A"), head("B"));
    assert!(head("A")[1].contains("bytes=16384,262144 steps=8,64 ops=\"read,rmw\""), "{}", head("A")[1]);
    assert!(head("A")[1].contains("--steps 8,64 --op read,rmw"), "{}", head("A")[1]);
    let compared = user.run(&["compare", "A", "B", "--fail-if", "1%"]);
    assert!(compared.ended(0).contains("Asked alike."), "{}", compared.out);
}

#[test]
fn what_is_no_step_or_operation_is_refused_with_what_to_say() {
    let user = User::new();
    for (flag, hint) in [
        ("--steps=48", "power of two from 8"),
        ("--steps=4", "power of two from 8"),
        ("--steps=8,,", "no size"),
        ("--op=copy", "read, write, rmw"),
        ("--bytes=8KB", "8192, 8K, 64MiB"),
    ] {
        user.run(&["stride", "--on", "am5728", flag]).failed(2, &[hint]);
    }
    user.run(&["latency", "--on", "am5728", "--ladder=colour"]).failed(2, &["order, page, placement"]);
}

#[test]
fn ladders_are_shown_where_they_are_asked_for() {
    let user = User::new();
    let ask = ["latency", "--on", "bcm2835", "--bytes", "64K", "--budget", "3s"];
    let did = user.run(&[&ask[..], &["--ladder", "order,page,placement", "--record", "A"]].concat());
    let text = did.ended(0);
    for wanted in ["Ladder of orders", "sequential", "Ladder of pages", "refused", "Ladder of placements"] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(user.read("A").contains("ladders=\"order,page,placement\""));
    let found = document(user.run(&["report", "A", "--json"]).ended(0));
    let huge = found["findings"].as_array().expect("a list");
    let huge = huge.iter().find(|f| f["name"] == "latency.65536.page.huge.time").expect("a row");
    assert_eq!(huge["value"], Value::Null);
    assert!(!user.run(&ask).ended(0).contains("Ladder"));
}

#[test]
fn this_host_walks_at_a_step() {
    let user = User::new();
    let did = user.run(&["stride", "--bytes", "8K", "--steps", "8,64", "--budget", "2s", "--json"]);
    if did.status == 5 || did.status == 1 {
        println!("SKIPPED on this host: {}{}", did.out, did.err);
        return;
    }
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    let found = document(&did.out);
    let rows = names(&found);
    for op in ["read", "write", "rmw"] {
        let name = format!("stride.8192.64.{op}.time_per_access");
        assert!(rows.contains(&name.as_str()), "{name} is not in {rows:?}");
    }
    // Every access was proven on real memory.
    let warnings = found["warnings"].to_string();
    assert!(!warnings.contains("unproven"), "{warnings}");
}
