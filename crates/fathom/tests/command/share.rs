//! A record for others.

use crate::common::User;

#[test]
fn a_record_is_shared_in_three_forms_and_names_nobody() {
    let user = User::new();
    let machine =
        user.run(&["machines", "bcm2835"]).out.replace("name = \"bcm2835\"", "name = \"bobs-board\"");
    user.write("bobs-secret.toml", &machine);
    let ask = ["survey", "--on", "./bobs-secret.toml", "--budget", "1s", "--record", "A", "-q"];
    assert!(matches!(user.run(&ask).status, 0 | 3));
    let all = user.run(&["share", "A"]);
    let text = all.ended(0).to_owned();
    for wanted in
        ["<!-- a row", "| modelled |", "<details>", "</details>", "# YAML", "format: \"fathom.share\""]
    {
        assert!(text.contains(wanted), "no '{wanted}' in {text}");
    }
    assert!(!text.contains("bob") && !text.contains(".toml"), "{text}");
    // One form alone, from a pipe too, and the header only on demand.
    let row = user.shell("fathom share - --as row <A");
    assert_eq!(row.ended(0).lines().count(), 1, "{row:?}");
    assert_eq!(user.run(&["share", "A", "--as", "row", "--header"]).ended(0).lines().count(), 3);
    assert!(user.run(&["share", "A", "--as", "yaml"]).ended(0).starts_with("format: "));
    assert!(user.run(&["share", "A", "--as", "details"]).ended(0).starts_with("<details>\n"));
    // What everybody has is told.
    user.run(&["survey", "--on", "bcm2835", "--budget", "300ms", "--record", "B", "-q"]);
    assert!(user.run(&["share", "B", "--as", "yaml"]).ended(0).contains("subject: \"bcm2835\""));
    user.run(&["share", "none"]).failed(2, &["none: ", "name a record"]);
    user.run(&["share", "A", "--as", "html"]).failed(2, &["html", "row", "yaml"]);
}
