//! Exit statuses, and that every failure names cause and remedy, on stderr only.

use fathom_probe::wire::Line;

use crate::common::User;

#[test]
fn invalid_command_lines_are_refused() {
    let user = User::new();
    for (arguments, words) in [
        (&["survey", "--bugdet", "3s"][..], &["--bugdet", "--budget"][..]),
        (&["survey", "--budget", "3h"], &["--budget", "3h", "ms, s or m"]),
        (&["survey", "--budget", "1ms"], &["--budget", "100ms to 60m"]),
        (&["survey", "--seed", "x"], &["--seed"]),
        (&["survey", "--on"], &["--on"]),
        (&["serve", "host", "--base-page", "4KB"], &["--base-page", "8192, 8K"]),
        (&["serve", "hosts"], &["hosts", "host"]),
        (&["sruvey"], &["sruvey", "survey"]),
        (&["report"], &["RECORD"]),
        (&["--color", "maybe"], &["auto", "always", "never"]),
        (&["survey", "--on", "bcm2835", "--cpu", "0"], &["--cpu 0", "not this host"]),
    ] {
        user.run(arguments).failed(2, words);
    }
}

#[test]
fn unknown_machine_gets_a_suggestion() {
    let user = User::new();
    user.subject("bench-pi", "exit");
    for (wrong, right) in [("bcm2385", "bcm2835"), ("bench-pie", "bench-pi"), ("hots", "host")] {
        user.run(&["survey", "--on", wrong]).failed(2, &[wrong, &format!("did you mean '{right}'?")]);
    }
    user.run(&["survey", "--on", "something-else"]).failed(2, &["something-else", "`fathom subjects`"]);
    user.run(&["machines", "bcm2385"]).failed(2, &["did you mean 'bcm2835'?"]);
    user.run(&["serve", "model", "bcm2385"]).failed(2, &["did you mean 'bcm2835'?"]);
}

#[test]
fn invalid_description_is_refused_with_its_line() {
    let user = User::new();
    let text = user.run(&["machines", "bcm2835"]).out;
    let wrong = text.replacen("replacement = ", "replacment = ", 1);
    let line = wrong.lines().position(|l| l.starts_with("replacment")).expect("a level") + 1;
    user.write("mine.toml", &wrong);
    for arguments in [&["survey", "--on", "mine.toml"][..], &["machines", "./mine.toml"]] {
        user.run(arguments).failed(2, &["mine.toml", &line.to_string(), "replacment", "replacement"]);
    }
    user.run(&["machines", "none.toml"]).failed(2, &["none.toml", "No such file"]);
}

#[test]
fn non_records_are_refused() {
    let user = User::new();
    user.write("empty", "");
    user.write_record("newer", "fathom.record version=2\n");
    user.write("text", "Dear diary\n");
    for (file, words) in [
        ("none", &["No such file"][..]),
        (".", &["directory"]),
        ("empty", &["empty"]),
        ("newer", &["record version 2", "this program reads version 1"]),
        ("text", &["line 1", "'Dear'", "--record FILE"]),
        ("/dev/zero", &["line 1"]),
    ] {
        let words: Vec<&str> = words.iter().chain([&file]).copied().collect();
        user.run(&["report", file]).failed(2, &words);
        user.run(&["report", file, "--json"]).failed(2, &words);
    }
    user.run_with(&["report", "-"], &b"y\n".repeat(1 << 20)).failed(2, &["-: line 1"]);
}

#[test]
fn an_emulators_times_are_refused() {
    let user = User::new();
    // Output of a probe under an emulator: its trust in the clock, its facts, and every requested trial.
    let greeting = "probe wire=1 trust=emulated seq=1 crc=0x01bed28e";
    user.subject("board", &format!("fathom serve model s1-8way | sed -u \"s/^probe .*/{greeting}/\""));
    let did = user.shell("fathom survey --on board --budget 200ms --record A --json");
    assert_eq!((did.status, did.err.as_str()), (5, ""), "{}", did.out);
    let again = user.run(&["report", "A", "--json"]);
    assert_eq!((again.status, &again.out), (5, &did.out));
    let document: serde_json::Value = serde_json::from_str(&did.out).expect("JSON");
    assert_eq!(document["subject"]["trust"], "emulated");
    let findings = document["findings"].as_array().expect("a list");
    assert!(
        // The number of verified samples is not a time.
        findings
            .iter()
            .all(|f| f["name"].as_str().is_some_and(|n| n == "samples.verified" || n.starts_with("claim."))),
        "{findings:?}"
    );
    assert!(!document["refusals"].as_array().expect("a list").is_empty());
}

/// The message has the file, the line, the key, and the allowed values.
#[test]
fn every_verb_refuses_foreign_or_invalid_records() {
    let user = User::new();
    let run = |rest: &str| format!("fathom.record version=1\nrun {rest} subject=\"x\" seed=1 budget_ms=1\n");
    user.write_record("K", &run("experiment=\"gather\""));
    user.write_record("O", &run("experiment=\"stride\" op=\"halve\""));
    user.write_record("U", &run("experiment=\"stride\" colours=4"));
    for verb in ["report", "share", "describe"] {
        let kinds = ["K: line 2: experiment 'gather' is not one of: survey latency stride", "wakeup"];
        user.run(&[verb, "K"]).failed(2, &kinds);
        user.run(&[verb, "O"])
            .failed(2, &["O: line 2: run of stride: op: 'halve' is not one of: read write rmw"]);
        user.run(&[verb, "U"])
            .failed(2, &["U: line 2: run of stride: unknown key colours", "bytes strides op"]);
    }
    user.run(&["compare", "K", "O"]).failed(2, &["K: line 2"]);
    user.run(&["wakeup", "--resume", "K"]).failed(2, &["K: line 2"]);
}

#[test]
fn complete_record_without_measurements_is_refused() {
    let user = User::new();
    let gone = Line::new("gone").seal(2);
    let record = [
        "fathom.record version=1",
        "run experiment=\"survey\" subject=\"x\" seed=1 budget_ms=1 build=\"x\" command=\"x\"",
        "probe wire=1 trust=real seq=1 crc=0x16539b27",
        &gone,
        "end status=complete elapsed_ms=1",
    ];
    user.write_record("A", &record.join("\n"));
    let did = user.run(&["report", "A"]);
    assert_eq!((did.status, did.err.as_str()), (5, ""), "{}", did.out);
    // The same record truncated: nothing was refused.
    user.write_record("A", &record[..3].join("\n"));
    assert_eq!(user.run(&["report", "A"]).status, 3);
}
