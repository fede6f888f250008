//! `fathom stride`, and the ladders of `fathom latency`.

use serde_json::Value;

use crate::common::{User, fits};

const ARGUMENTS: [&str; 11] = [
    "stride",
    "--on",
    "am5728",
    "--bytes",
    "16K,256KiB",
    "--strides",
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
fn stride_of_a_model_shows_tables_and_is_reproducible() {
    let user = User::new();
    let did = user.run(&ARGUMENTS);
    let text = did.ended(0);
    for expected in ["Reads at a stride", "Read-modify-writes at a stride", "ns/line", "256 KiB"] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(!text.contains("Writes at a stride"), "{text}");
    fits(text);
    let json = user.run(&[&ARGUMENTS[..], &["--json", "--record", "A"]].concat());
    let found = document(json.ended(0));
    assert_eq!(found["experiment"], "stride");
    let rows = names(&found);
    for expected in ["stride.16384.8.read.time_per_access", "stride.262144.64.rmw.time_per_line"] {
        assert!(rows.contains(&expected), "{expected} is not in {rows:?}");
    }
    // The names are in the schema.
    let schema = user.run(&["schema"]);
    assert!(schema.ended(0).contains("stride.{size}.{stride}.{operation}.time_per_access"));
    // A report of the record is equal; a second measurement gives the same record except for the end line.
    assert_eq!(user.run(&["report", "A", "--json"]).out, json.out);
    user.run(&[&ARGUMENTS[..], &["--record", "B"]].concat()).ended(0);
    let head = |name: &str| {
        user.read(name).lines().filter(|l| !l.starts_with("end ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(head("A"), head("B"));
    assert!(head("A")[1].contains("bytes=16384,262144 strides=8,64 op=\"read,rmw\""), "{}", head("A")[1]);
    assert!(head("A")[1].contains("--strides 8,64 --op read,rmw"), "{}", head("A")[1]);
    let compared = user.run(&["compare", "A", "B", "--fail-if", "1%"]);
    assert!(compared.ended(0).contains("Same options and settings."), "{}", compared.out);
}

#[test]
fn invalid_stride_or_operation_is_refused_with_example() {
    let user = User::new();
    for (flag, hint) in [
        ("--strides=48", "power of two from 8"),
        ("--strides=4", "power of two from 8"),
        ("--strides=8,,", "not a size"),
        ("--op=copy", "read, write, rmw"),
        ("--bytes=8KB", "8192, 8K, 64MiB"),
    ] {
        user.run(&["stride", "--on", "am5728", flag]).failed(2, &[hint]);
    }
    user.run(&["latency", "--on", "am5728", "--ladder=colour"]).failed(2, &["order, page, placement"]);
}

#[test]
fn ladders_are_shown_on_request() {
    let user = User::new();
    let arguments = ["latency", "--on", "bcm2835", "--bytes", "64K", "--budget", "3s"];
    let did = user.run(&[&arguments[..], &["--ladder", "order,page,placement", "--record", "A"]].concat());
    let text = did.ended(0);
    for expected in ["Ladder of orders", "sequential", "Ladder of pages", "refused", "Ladder of placements"] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    fits(text);
    assert!(user.read("A").contains("ladder=\"order,page,placement\""));
    let found = document(user.run(&["report", "A", "--json"]).ended(0));
    let huge = found["findings"].as_array().expect("a list");
    let huge = huge.iter().find(|f| f["name"] == "latency.65536.page.huge.time").expect("a row");
    assert_eq!(huge["value"], Value::Null);
    assert!(!user.run(&arguments).ended(0).contains("Ladder"));
}

#[test]
fn described_machine_shows_whether_l2_is_on() {
    let user = User::new();
    let arguments = |machine: &str| {
        let did = user.run(&["stride", "--on", machine, "--op", "read", "--strides", "8,64"]);
        let text = did.ended(0).to_owned();
        fits(&text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (on, off) = (arguments("am5728"), arguments("am5728-l2-off"));
    assert!(on.contains("256 KiB level ") && on.contains(": a level between 32 KiB and"), "{on}");
    assert!(off.contains("256 KiB memory ") && off.contains("no level beyond 32 KiB serves it"), "{off}");
    assert!(off.contains("darker is slower (logarithmic)"), "{off}");
}

#[test]
fn first_touches_and_ladder_are_shown_on_request() {
    let user = User::new();
    let arguments = [
        "stride",
        "--on",
        "am5728",
        "--bytes",
        "64K,1M",
        "--strides",
        "64",
        "--op",
        "read",
        "--budget",
        "9s",
    ];
    let did = user.run(&[&arguments[..], &["--first-touch", "--prefetch", "--record", "A"]].concat());
    let text = did.ended(0);
    for expected in [
        "forward8",
        "repermuted",
        "Largest stride gained from, forward",
        "no prefetch",
        "no page faults at first touch",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    fits(text);
    let head = user.read("A").lines().nth(1).unwrap_or_default().to_owned();
    assert!(
        head.contains("first_touch=\"yes\" prefetch=\"yes\"") && head.contains("--first-touch --prefetch"),
        "{head}"
    );
    assert_eq!(user.run(&["report", "A"]).ended(0).lines().nth(3), text.lines().nth(3));
    assert!(!user.run(&arguments).ended(0).contains("repermuted"));
}

#[test]
fn this_host_measures_first_touch_and_prefetch() {
    let user = User::new();
    let arguments =
        ["stride", "--bytes", "64K,4M", "--strides", "4096", "--op", "write", "--budget", "4s", "--json"];
    let did = user.run(&[&arguments[..], &["--first-touch", "--prefetch"]].concat());
    if did.out.contains("counts no page faults") {
        return fathom_skip::skipped!(Unchecked, "this host counts no page faults");
    }
    if crate::common::is_refused(&did) {
        return;
    }
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    let found = document(&did.out);
    let rows = names(&found);
    for name in [
        "stride.65536.4096.write.first_touch.time_per_access",
        "stride.65536.4096.write.first_touch.added_per_page",
        "prefetch.repermuted.time",
        "prefetch.max_stride_lines.backward",
    ] {
        assert!(rows.contains(&name), "{name} is not in {rows:?}");
    }
    let faults = found["findings"].as_array().expect("a list").iter();
    let faults: Vec<_> = faults.filter(|f| f["name"].to_string().contains("faults_per_page")).collect();
    assert!(faults.iter().all(|f| f["value"].as_f64() >= Some(1.0)), "{faults:?}");
    assert!(!found["warnings"].to_string().contains("unverified"), "{}", found["warnings"]);
}

#[test]
fn this_host_measures_strides() {
    let user = User::new();
    let did = user.run(&["stride", "--bytes", "8K", "--strides", "8,64", "--budget", "2s", "--json"]);
    if crate::common::is_refused(&did) {
        return;
    }
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    let found = document(&did.out);
    let rows = names(&found);
    for op in ["read", "write", "rmw"] {
        let name = format!("stride.8192.64.{op}.time_per_access");
        assert!(rows.contains(&name.as_str()), "{name} is not in {rows:?}");
    }
    // Every access to real memory was verified.
    let warnings = found["warnings"].to_string();
    assert!(!warnings.contains("unverified"), "{warnings}");
}
