//! `fathom share`: anonymous forms of a record.

use crate::common::User;

#[test]
fn a_record_is_shared_in_three_forms_and_names_no_owner() {
    let user = User::new();
    let machine =
        user.run(&["machines", "bcm2835"]).out.replace("name = \"bcm2835\"", "name = \"bobs-board\"");
    user.write("bobs-secret.toml", &machine);
    let ask = ["survey", "--on", "./bobs-secret.toml", "--budget", "1s", "--record", "A", "-q"];
    assert!(matches!(user.run(&ask).status, 0 | 3));
    let all = user.run(&["share", "A"]);
    let text = all.ended(0).to_owned();
    for expected in ["<!-- a row", "| modelled |", "<details>", "</details>"] {
        assert!(text.contains(expected), "no '{expected}' in {text}");
    }
    assert!(!text.contains("bob") && !text.contains(".toml"), "{text}");
    // One form only, also from a pipe; the header only on request.
    let row = user.shell("fathom share - --as row <A");
    assert_eq!(row.ended(0).lines().count(), 1, "{row:?}");
    assert_eq!(user.run(&["share", "A", "--as", "row", "--header"]).ended(0).lines().count(), 3);
    // The JSON is the document of --json, anonymous like the other forms.
    let json = user.run(&["share", "A", "--as", "json"]);
    let text = json.ended(0);
    assert!(!text.contains("bob") && !text.contains(".toml"), "{text}");
    let shared: serde_json::Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(shared["format"], "fathom.findings");
    let measured: serde_json::Value =
        serde_json::from_str(&user.run(&["report", "A", "--json"]).out).expect("JSON");
    let tiers = |document: &serde_json::Value| {
        let named = |f: &&serde_json::Value| f["name"].as_str().is_some_and(|n| n.starts_with("tier."));
        let all = document["findings"].as_array().expect("findings").iter();
        all.filter(named).map(|f| (f["name"].clone(), f["value"].clone())).collect::<Vec<_>>()
    };
    assert!(tiers(&shared).len() > 4 && tiers(&shared) == tiers(&measured), "{text}");
    assert!(user.run(&["share", "A", "--as", "details"]).ended(0).starts_with("<details>\n"));
    // The name of a built-in machine is not removed.
    user.run(&["survey", "--on", "bcm2835", "--budget", "300ms", "--record", "B", "-q"]);
    assert!(
        user.run(&["share", "B", "--as", "json"]).ended(0).contains("\"subject\": {\"name\":\"bcm2835\"")
    );
    user.run(&["share", "none"]).failed(2, &["none: ", "name a record"]);
    user.run(&["share", "A", "--as", "html"]).failed(2, &["html", "row", "json"]);
}
