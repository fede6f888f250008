//! `fathom events`.

use serde_json::Value;

use crate::common::User;

/// Returns the tables of `fathom events --json` with these arguments.
fn tables(arguments: &[&str]) -> Vec<Value> {
    let did = User::new().run(&[&["events", "--json"][..], arguments].concat());
    assert_eq!(did.status, 0, "{}", did.err);
    let document: Value = serde_json::from_str(&did.out).expect("JSON");
    assert_eq!((&document["format"], &document["version"]), (&"fathom.events".into(), &1.into()));
    document["tables"].as_array().expect("tables").clone()
}

#[test]
fn quantity_is_found_in_the_tables_of_all_processors_that_count_it() {
    let all = tables(&[]);
    let walks = tables(&["walks.data"]);
    assert!(walks.len() >= 2 && walks.len() < all.len(), "{} of {}", walks.len(), all.len());
    for table in &walks {
        for event in table["events"].as_array().expect("events") {
            assert_eq!(event["of"], "walks.data", "{event}");
        }
    }
    // A mnemonic is found in any case.
    let one = tables(&["main_tlb_miss"]);
    assert_eq!(
        (one.len(), &one[0]["name"], &one[0]["events"][0]["code"]),
        (1, &"arm1176".into(), &0x0f.into())
    );
}

#[test]
fn subject_without_a_known_processor_is_refused_with_the_remedy() {
    let did = User::new().run(&["events", "--on", "i486"]);
    assert_eq!(did.status, 2, "{}", did.err);
    assert!(did.err.contains("'i486' does not say which processor it has"), "{}", did.err);
    assert!(did.err.contains("remedy: "), "{}", did.err);
    let did = User::new().run(&["events", "refill.L9"]);
    assert!(
        did.status == 2 && did.err.contains("refill.L9") && did.err.contains("cortex-a53"),
        "{}",
        did.err
    );
}

#[test]
fn description_names_its_table_and_events_say_why_a_simulation_has_none() {
    let did = User::new().run(&["events", "--on", "bcm2835"]);
    let text = did.ended(0);
    assert!(text.contains("(arm1176)") && text.contains("fathom count --simulated --on bcm2835"), "{text}");
    assert!(text.contains("Not in a simulation: branches are not told apart"), "{text}");
    let table = &tables(&["arm1176"])[0];
    let of = |name: &str| {
        let all = table["events"].as_array().expect("events");
        all.iter().find(|event| event["name"] == name).expect("an event")["unsimulated"].clone()
    };
    assert!(of("DCACHE_MISS").is_null() && of("BR_EXEC").is_string(), "{table}");
}
