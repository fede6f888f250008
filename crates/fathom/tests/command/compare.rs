//! Comparisons of records through the command.

use std::sync::LazyLock;

use fathom_experiment::record::file::{resumable, sealed};
use fathom_probe::wire::{Line, Value};

use crate::common::User;

/// Records of two surveys of one machine with different seeds, and of one survey of another machine: name and text.
/// Measured once for all tests.
static RECORDS: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let user = User::new();
    let surveys = [("bcm2835", "1", "A"), ("bcm2835", "2", "B"), ("cortex-a8", "1", "C")];
    let record = |(machine, seed, name)| {
        let options = ["--on", machine, "--seed", seed, "--budget", "1s", "--record", name, "-q"];
        let did = user.run(&[&["survey"][..], &options].concat());
        assert!(matches!(did.status, 0 | 3), "{did:?}");
        (name, user.read(name))
    };
    surveys.map(record).to_vec()
});

/// Writes these records to the user's home directory.
fn records(user: &User) {
    for (name, text) in RECORDS.iter() {
        user.write(name, text);
    }
}

#[test]
fn compare_lists_option_differences_before_findings() {
    let user = User::new();
    records(&user);
    let same = user.run(&["compare", "A", "A", "--fail-if", "0%"]);
    assert!(
        same.ended(0).contains("Same options and settings.")
            && same.out.contains("findings differs significantly"),
        "{}",
        same.out
    );
    // A different seed is a different measurement of the same machine.
    let seeds = user.run(&["compare", "A", "B", "--fail-if", "2%"]);
    assert!(seeds.ended(0).contains("Same options and settings."), "{}", seeds.out);
    let machines = user.run(&["compare", "A", "C", "--fail-if", "5%"]);
    let text = machines.ended(4);
    let requested =
        text.find("subject: bcm2835 against cortex-a8").expect("the difference in what was asked");
    assert!(requested < text.find("tier.1.latency").expect("a row"), "{text}");
    assert!(text.contains("exceeds"), "{text}");
    // Without a limit the same difference is not a failure. One record comes from a pipe; three are compared at once.
    assert!(user.run(&["compare", "A", "C"]).ended(0).contains("differ"));
    let three = user.shell("fathom compare - B C <A");
    assert_eq!(three.ended(0).matches("A: -").count(), 2, "{}", three.out);
}

#[test]
fn json_comparison_has_rows_and_follows_the_schema() {
    let user = User::new();
    records(&user);
    let did = user.run(&["compare", "A", "B", "C", "--json", "--fail-if", "5%"]);
    let document: serde_json::Value = serde_json::from_str(did.ended(4)).expect("JSON");
    assert_eq!((&document["format"], &document["version"]), (&"fathom.comparison".into(), &1.into()));
    assert_eq!((&document["a"], &document["fail_if"]), (&"A".into(), &0.05.into()));
    let [same, other] = document["comparisons"].as_array().expect("a list").as_slice() else {
        panic!("two are compared with the first: {document}")
    };
    let row = |of: &serde_json::Value, name: &str| {
        let rows = of["rows"].as_array().expect("rows");
        rows.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(row(same, "tier.1.latency")["differs"], "no");
    let far = row(other, "tier.1.latency");
    assert!(far["differs"] == "yes" && far["beyond"] == true, "{far}");
    let change = far["change"].as_f64().expect("a number");
    let (a, b) = (far["a"].as_f64().expect("a number"), far["b"].as_f64().expect("a number"));
    assert!((b / a - 1.0 - change).abs() < 1e-9, "a share, not percent: {far}");
    assert!(same["option_differences"].as_array().is_some_and(Vec::is_empty), "{same}");
    assert!(other["option_differences"].to_string().contains("bcm2835 against cortex-a8"), "{other}");
    let schema: serde_json::Value =
        serde_json::from_str(user.run(&["schema", "--json", "--of", "comparison"]).ended(0)).expect("JSON");
    assert_eq!(schema["title"], "fathom.comparison");
    assert!(user.run(&["schema"]).ended(0).contains("fathom.comparison"));
}

#[test]
fn different_budget_or_sizes_are_option_differences() {
    let user = User::new();
    for (bytes, budget, name) in [("8K", "1s", "A"), ("8K,16K", "1s", "B"), ("8K", "2s", "C")] {
        let arguments =
            ["latency", "--on", "bcm2835", "--bytes", bytes, "--budget", budget, "--record", name, "-q"];
        user.run(&arguments).ended(0);
    }
    for (other, expected) in
        [("B", "--bytes: 8192 against 8192, 16384"), ("C", "budget: 1000 ms against 2000 ms")]
    {
        let did = user.run(&["compare", "A", other]);
        let text = did.ended(0);
        assert!(text.contains(expected) && !text.contains("Same options and settings."), "{text}");
    }
}

#[test]
fn incomparable_records_are_a_usage_error_with_reason() {
    let user = User::new();
    records(&user);
    user.run(&["latency", "--on", "bcm2835", "--bytes", "8K", "--budget", "1s", "--record", "L", "-q"])
        .ended(0);
    user.run(&["compare", "A", "L"]).failed(2, &["L is a record of 'latency', A of 'survey'"]);
    user.run(&["compare", "A", "nowhere"]).failed(2, &["nowhere: ", "name a record"]);
    user.run(&["compare", "-", "-"]).failed(2, &["stdin can be named once"]);
    user.run(&["compare", "A"]).failed(2, &["RECORD"]);
    user.run(&["compare", "A", "B", "--fail-if", "much"]).failed(2, &["'much' is not a percentage", "5%"]);
}

/// Returns the record as a guest's, with its lines sealed again, in which these trials lost their CPU for half of their
/// time.
fn lost_cpu(record: &str, is_lost: impl Fn(i128) -> bool) -> String {
    let mut out = String::new();
    for (number, text) in resumable(record).iter().enumerate() {
        let mut line = Line::parse(text).unwrap_or_else(|e| panic!("line {number}: {}", e.what));
        let Some(seq) = line.seq else {
            out += &format!("{text}\n");
            continue;
        };
        let trial = line.pairs.iter().find_map(|(key, value)| match value {
            Value::Int(id) if key == "trial" => Some(*id),
            _ => None,
        });
        let lost = trial.is_some_and(&is_lost);
        for (key, value) in &mut line.pairs {
            match (line.word.as_str(), key.as_str()) {
                ("probe", "trust") => *value = Value::Token("virtual".to_owned()),
                ("done", "wall_ns") => *value = Value::Int(1_000_000_000_000),
                ("done", "cpu_ns") if lost => *value = Value::Int(500_000_000_000),
                ("done", "cpu_ns") => *value = Value::Int(1_000_000_000_000),
                _ => {}
            }
        }
        out += &format!("{}\n", line.seal(seq));
    }
    sealed(out.lines())
}

/// Returns the verdict on the session, the tokens of its warnings on disturbance and the number of doubtful findings.
fn verdict(user: &User, name: &str) -> (String, Vec<String>, usize) {
    let document: serde_json::Value =
        serde_json::from_str(&user.run(&["report", name, "--json"]).out).expect("JSON");
    let list = |key: &str| document[key].as_array().expect("a list").clone();
    let state = list("findings").into_iter().find(|f| f["name"] == "disturbance.state").expect("a verdict");
    let tokens = list("warnings").into_iter().filter_map(|w| w["token"].as_str().map(str::to_owned));
    let doubtful = list("findings").iter().filter(|f| f["disturbed_trials"].as_u64() > Some(0)).count();
    let state = state["value"].as_str().expect("a token").to_owned();
    (state, tokens.filter(|t| matches!(t.as_str(), "disturbed" | "noisy")).collect(), doubtful)
}

/// Returns the trials of a finding.
fn trials_of(user: &User, name: &str, finding: &str) -> Vec<i128> {
    let document: serde_json::Value =
        serde_json::from_str(&user.run(&["report", name, "--json"]).out).expect("JSON");
    let findings = document["findings"].as_array().expect("a list");
    let found = findings.iter().find(|f| f["name"] == finding).expect("a finding");
    let trials = found["trials"].as_array().expect("a list").iter();
    trials.filter_map(|id| id.as_i64().map(i128::from)).collect()
}

/// Disturbed sessions: what suffers is not judged, and an unusable session is not compared.
#[test]
fn disturbed_findings_are_not_judged() {
    let user = User::new();
    records(&user);
    let [(_, a), _, (_, c)] = RECORDS.as_slice() else { panic!("three records") };
    user.write("quiet", &lost_cpu(a, |_| false));
    user.write("other", &lost_cpu(c, |_| false));
    let near = trials_of(&user, "other", "tier.1.latency");
    user.write("noisy", &lost_cpu(c, |id| near.contains(&id)));
    user.write("lost", &lost_cpu(c, |_| true));
    assert_eq!(verdict(&user, "quiet"), ("ok".to_owned(), vec![], 0));
    let (state, tokens, doubtful) = verdict(&user, "noisy");
    assert_eq!((state.as_str(), tokens), ("noisy", vec!["disturbed".to_owned()]));
    assert!(doubtful > 0, "{doubtful}");
    assert_eq!(verdict(&user, "lost").0, "unusable");
    let lost = user.run(&["report", "lost"]);
    assert!(lost.ended(3).contains("UNUSABLE: "), "{}", lost.out);
    // Undisturbed, the two machines differ.
    let differ = user.run(&["compare", "quiet", "other", "--fail-if", "5%"]);
    assert!(differ.ended(4).contains("exceeds"), "{}", differ.out);
    let refused = user.run(&["compare", "quiet", "lost", "--fail-if", "5%"]);
    let text = refused.ended(3);
    assert!(text.contains("Not judged: B is unusable because of disturbance."), "{text}");
    assert!(!text.contains("exceeds") && text.contains(" disturbed"), "{text}");
    let noisy = user.run(&["compare", "quiet", "noisy", "--fail-if", "5%"]);
    let summary = noisy.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(summary.contains("not judged: their trials were disturbed"), "{}", noisy.out);
    let row = |name: &str| noisy.out.lines().find(|line| line.starts_with(name)).expect("a row");
    assert!(row("tier.1.latency ").ends_with("disturbed"), "{}", noisy.out);
    assert!(!row("tier.2.latency ").ends_with("disturbed"), "{}", noisy.out);
}
