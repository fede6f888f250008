//! The bare-metal image, with a described machine's model as source of time: the findings must equal those of the
//! model.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::common::{User, wait};

#[test]
fn missing_emulator_or_incomplete_description_is_refused() {
    let user = User::new();
    let mut without = user.command(&["survey", "--on", "image:bcm2837"]);
    without.env("FATHOM_EMULATE", "/nowhere/fathom-emulate");
    wait(without.spawn().expect("it starts")).failed(2, &["/nowhere/fathom-emulate", "scripts/emulate"]);
    user.run(&["survey", "--on", "image:zen3"]).failed(2, &["zen3", "`maintain` of [core]"]);
    user.run(&["survey", "--on", "image:bcm2387"]).failed(2, &["did you mean"]);
}

/// Returns the path of fathom-emulate, which scripts/test --full builds.
fn program() -> Option<OsString> {
    let program = std::env::var_os("FATHOM_EMULATE");
    if program.is_none() {
        fathom_skip::skipped!(Unchecked, "FATHOM_EMULATE names no fathom-emulate: scripts/emulate builds it");
    }
    program
}

/// Returns the findings of a command, by name.
fn findings(user: &User, program: &OsString, arguments: &[&str], on: &str) -> BTreeMap<String, f64> {
    let mut command = user.command(&[arguments, &["--on", on, "--json"]].concat());
    let did = wait(command.env("FATHOM_EMULATE", program).spawn().expect("it starts"));
    // Status 3: a budget of seconds leaves wide intervals, and the report warns.
    assert!([0, 3].contains(&did.status) && did.err.is_empty(), "{did:?}");
    let document: serde_json::Value = serde_json::from_str(&did.out).expect("JSON");
    assert_eq!(document["subject"]["trust"], "modelled");
    let findings = document["findings"].as_array().expect("a list").iter();
    findings.filter_map(|f| Some((f["name"].as_str()?.to_owned(), f["value"].as_f64()?))).collect()
}

/// Returns the difference of two numbers, as a share of the second.
fn relative_difference(image: f64, model: f64) -> f64 {
    (image - model).abs() / model
}

#[test]
#[ignore = "wants fathom-emulate, which takes minutes to build: scripts/test --full"]
fn image_and_model_agree_on_study_s0() {
    let Some(program) = program() else { return };
    let user = User::new();
    let requested = ["cacheability", "--bytes", "320,2560", "--op", "rmw", "--budget", "2s"];
    let image = findings(&user, &program, &requested, "image:bcm2837");
    let model = findings(&user, &program, &requested, "bcm2837");
    let time = |of: &BTreeMap<String, f64>, attribute: &str, bytes: u64| {
        let name = format!("cacheability.rmw.{attribute}.{bytes}.total");
        of.get(&name).copied().unwrap_or_else(|| panic!("{name} of {of:?}"))
    };
    for attribute in ["write-back", "write-through", "normal-nc", "device"] {
        for bytes in [320, 2560] {
            let (a, b) = (time(&image, attribute, bytes), time(&model, attribute, bytes));
            println!("{attribute}, {bytes} bytes: image {a:.2} ms, model {b:.2} ms");
            assert!(relative_difference(a, b) < 0.10, "{attribute}, {bytes} bytes: {a} against {b}");
        }
    }
    // The published values of the study: 1040 ms, 53 ms and 19.6.
    for of in [&image, &model] {
        let (nc, wb) = (time(of, "normal-nc", 2560), time(of, "write-back", 2560));
        assert!(relative_difference(nc, 1040.0) < 0.15 && relative_difference(wb, 53.0) < 0.15, "{nc} {wb}");
        assert!(relative_difference(nc / wb, 1040.0 / 53.0) < 0.15, "{}", nc / wb);
    }
}

/// The image for ARMv6 on the described machine of study S4: 3, 56 and 116 cycles, as the model's own patterns. Both
/// count in nanoseconds of 700 MHz. The means of the image contain some misses of the TLB more, because its stack takes
/// one of the 16 entries.
#[test]
#[ignore = "wants fathom-emulate, which takes minutes to build: scripts/test --full"]
fn image_for_armv6_and_model_agree_on_study_s4() {
    let Some(program) = program() else { return };
    let user = User::new();
    let has_image = user.run(&["--version", "--verbose"]).ended(0).contains("ARMv6, ");
    if !has_image {
        fathom_skip::skipped!(Unchecked, "this fathom has no image for ARMv6: rustup component add rust-src");
        return;
    }
    let requested = ["latency", "--bytes", "8K,64K,1M", "--budget", "30s"];
    let image = findings(&user, &program, &requested, "image:bcm2835");
    let model = findings(&user, &program, &requested, "bcm2835");
    for (bytes, cycles) in [(8192, 3.0), (65536, 56.0), (1 << 20, 116.0)] {
        let of = |of: &BTreeMap<String, f64>, what: &str| {
            let name = format!("latency.{bytes}.{what}");
            of.get(&name).copied().unwrap_or_else(|| panic!("{name} of {of:?}"))
        };
        let (a, b) = (of(&image, "time"), of(&model, "time"));
        println!("{bytes} bytes: image {a:.3} ns, model {b:.3} ns");
        assert!(relative_difference(a, b) < 0.01, "{bytes} bytes: {a} against {b}");
        // The core clock is calibrated in the image by a loop that it measures as 0.8 % slower.
        let (a, b) = (of(&image, "peak"), of(&model, "peak"));
        println!("{bytes} bytes, single loads: image {a:.1} cycles, model {b:.1} cycles, study {cycles}");
        assert!((a - cycles).abs() < 0.5 + 0.015 * cycles, "{bytes} bytes: {a} against {cycles}");
        assert!((b - cycles).abs() < 0.5, "{bytes} bytes: {b} against {cycles}");
    }
}

/// The program of study S0 by the images for ARMv6 and ARMv7: a load, an exclusive or and a store of 8 bytes each. The start of
/// each of 20,000 rounds takes some 60 cycles that the model does not charge, so that the smaller buffer differs more.
#[test]
#[ignore = "wants fathom-emulate, which takes minutes to build: scripts/test --full"]
fn images_of_32_bits_and_model_agree_on_the_program_of_study_s0() {
    let Some(program) = program() else { return };
    let user = User::new();
    let version = user.run(&["--version", "--verbose"]).ended(0).to_owned();
    for (machine, image) in [("bcm2835", "ARMv6, "), ("am5728", "ARMv7, ")] {
        if !version.contains(image) {
            fathom_skip::skipped!(Unchecked, "this fathom has no image for {image}Rust's target is missing");
            continue;
        }
        let requested = ["cacheability", "--bytes", "320,2560", "--op", "rmw", "--budget", "4s"];
        let image = findings(&user, &program, &requested, &format!("image:{machine}"));
        let model = findings(&user, &program, &requested, machine);
        for attribute in ["write-back", "write-through", "normal-nc", "device"] {
            for (bytes, limit) in [(320, 0.20), (2560, 0.03)] {
                let name = format!("cacheability.rmw.{attribute}.{bytes}.total");
                let of = |of: &BTreeMap<String, f64>| {
                    of.get(&name).copied().unwrap_or_else(|| panic!("{name} of {of:?}"))
                };
                let (a, b) = (of(&image), of(&model));
                println!("{machine}, {attribute}, {bytes} bytes: image {a:.2} ms, model {b:.2} ms");
                assert!(relative_difference(a, b) < limit, "{name}: {a} against {b}");
            }
        }
    }
}

#[test]
#[ignore = "wants fathom-emulate, which takes minutes to build: scripts/test --full"]
fn image_and_model_agree_on_tiers() {
    let Some(program) = program() else { return };
    let user = User::new();
    let requested = ["survey", "--budget", "4s"];
    let image = findings(&user, &program, &requested, "image:bcm2837");
    let model = findings(&user, &program, &requested, "bcm2837");
    let mut compared = 0;
    for (name, &b) in model.iter().filter(|(name, _)| name.starts_with("tier.") && name.ends_with(".latency"))
    {
        let a = image.get(name).copied().unwrap_or_else(|| panic!("{name} of {image:?}"));
        println!("{name}: image {a:.3} ns, model {b:.3} ns");
        assert!(relative_difference(a, b) < 0.03, "{name}: {a} against {b}");
        compared += 1;
    }
    assert_eq!(compared, 3, "{model:?}");
}
