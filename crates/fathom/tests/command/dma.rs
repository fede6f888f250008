//! `fathom dma`: transfers.

use serde_json::Value;

use crate::common::{User, fits};

const ARGUMENTS: [&str; 11] = [
    "dma",
    "--on",
    "omap3-sdio",
    "--bytes",
    "64,1536",
    "--pollution-set",
    "4K",
    "--link",
    "18.67Mbit",
    "--budget",
    "2s",
];

fn names(found: &Value) -> Vec<&str> {
    found["findings"].as_array().expect("a list").iter().filter_map(|f| f["name"].as_str()).collect()
}

#[test]
fn dma_on_described_machine_shows_tables_and_records_options() {
    let user = User::new();
    let did = user.run(&ARGUMENTS);
    let text = did.ended(0);
    for expected in [
        "Transfers to the device",
        "Parts of 1.5 KiB from the device",
        "Cache pollution by transfers",
        "wrong bytes",
        "dma.link 18.67 Mbit/s",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    fits(text);
    assert!(!text.contains("Comparison with study S2"), "{text}");
    let study = user.run(&[&ARGUMENTS[..], &["--study"]].concat());
    assert!(study.ended(0).contains("Comparison with study S2"), "{}", study.out);
    let json = user.run(&[&ARGUMENTS[..], &["--json", "--record", "A"]].concat());
    let found: Value = serde_json::from_str(json.ended(0)).expect("JSON");
    let rows = names(&found);
    for expected in [
        "dma.streaming-copy.from-device.1536.cpu",
        "dma.coherent.to-device.64.throughput",
        "dma.winner.to-device.64",
        "pollution.zero-copy.1536.round_trip",
        "dma.study.saved",
    ] {
        assert!(rows.contains(&expected), "{expected} is not in {rows:?}");
    }
    assert_eq!(user.run(&["report", "A", "--json"]).out, json.out);
    let record = user.read("A");
    let requested = record.lines().nth(1).expect("a run");
    assert!(
        requested.contains("bytes=64,1536") && requested.contains("link=\"18670000bit\" pollution_set=4096"),
        "{requested}"
    );
    assert!(requested.contains("--bytes 64,1536 --link 18670000bit --pollution-set 4096"), "{requested}");
}

#[test]
fn driver_bug_warns_of_wrong_data_and_reports_no_times() {
    let user = User::new();
    let arguments = ["dma", "--on", "bcm2711", "--bytes", "1536", "--pollution-set", "0", "--budget", "2s"];
    let wrong = ["--driver-bug", "no-unmap", "--strategy", "zero-copy", "--direction", "from-device"];
    let did = user.run(&[&arguments[..], &wrong].concat());
    assert!(did.ended(3).contains("wrong-data"), "{}", did.out);
    assert!(!did.out.contains("CPU time"), "{}", did.out);
    user.run(&[&arguments[..], &["--driver-bug", "no-unmap", "--direction", "to-device"]].concat()).ended(0);
}

#[test]
fn dma_without_driver_or_substitute_is_refused() {
    let user = User::new();
    let arguments = ["dma", "--bytes", "64,4K", "--pollution-set", "0", "--budget", "1s", "--json"];
    let plain = user.run(&arguments);
    let found: Value = serde_json::from_str(&plain.out).unwrap_or_else(|e| panic!("{e}: {}", plain.err));
    let refused = found["refusals"].to_string();
    let driver = found["facts"].to_string();
    if std::path::Path::new("/dev/fathom").exists() {
        println!("skipped: the driver is loaded here");
        return;
    }
    assert!(refused.contains("driver"), "{refused} {driver}");
    assert!(refused.contains("--substitute flush"), "{refused}");
    let rows = names(&found);
    assert!(!rows.iter().any(|name| name.contains("uncached-copy")), "{rows:?}");
    assert!(!rows.iter().any(|name| name.ends_with("throughput")), "{rows:?}");
    let flushed = user.run(&[&arguments[..], &["--substitute", "flush"]].concat());
    let found: Value = serde_json::from_str(&flushed.out).unwrap_or_else(|e| panic!("{e}: {}", flushed.err));
    // Times under an emulator are not reported.
    if found["subject"]["trust"] != "emulated" {
        assert!(names(&found).contains(&"dma.streaming-copy.to-device.4096.map"), "{found}");
    }
}

#[test]
fn invalid_dma_options_are_named() {
    let user = User::new();
    for (arguments, words) in [
        (&["dma", "--bytes", "2M"][..], &["--bytes", "8 bytes to 1M"][..]),
        (&["dma", "--link", "18"], &["--link", "18.67Mbit"]),
        (&["dma", "--pollution-set", "100"], &["--pollution-set", "multiples of 64"]),
        (&["dma", "--strategy", "memcpy"], &["--strategy", "zero-copy"]),
        (&["dma", "--driver-bug", "all"], &["--driver-bug", "as-from-device"]),
    ] {
        user.run(arguments).failed(2, words);
    }
}
