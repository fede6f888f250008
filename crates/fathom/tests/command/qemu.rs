//! The bare-metal image under QEMU, through every verb that measures. Times are those of an emulator: the tests assert
//! that everything runs, that samples are verified, and that no times are reported.

use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;

use crate::common::{User, kill, wait};

/// Returns whether QEMU is installed and this program has an image for this machine. Prints what is missing.
fn qemu_available(machine: &str) -> bool {
    let (program, image) = match machine {
        "raspi0" => ("qemu-system-arm", "armv6"),
        "vexpress-a15" => ("qemu-system-arm", "armv7"),
        _ => ("qemu-system-aarch64", "aarch64"),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let qemu = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let built = Path::new(env!("FATHOM_IMAGES")).join(format!("{image}.img")).is_file();
    if !qemu {
        fathom_skip::skipped!(Qemu, "no {program}: sudo apt-get install qemu-system-arm");
    } else if !built {
        fathom_skip::skipped!(
            Unchecked,
            "no image for {machine} was built: Rust's target for {image} is missing"
        );
    }
    qemu && built
}

/// Runs a measurement and asserts the properties of an emulated one.
fn measured(arguments: &[&str], machine: &str) -> serde_json::Value {
    let user = User::new();
    let on = format!("qemu:{machine}");
    let did = user.run(&[arguments, &["--on", &on, "--record", "A", "--json"]].concat());
    assert_eq!((did.status, did.err.as_str()), (5, ""), "{did:?}");
    let document: serde_json::Value = serde_json::from_str(&did.out).expect("JSON");
    assert_eq!(document["subject"]["trust"], "emulated");
    let refusals = document["refusals"].as_array().expect("a list");
    assert!(refusals.iter().any(|r| r["reason"].as_str().is_some_and(|r| r.contains("runs on an emulator"))));
    let findings = document["findings"].as_array().expect("a list");
    let time = |f: &&serde_json::Value| {
        f["name"].as_str().is_some_and(|n| n.ends_with("latency") || n.contains(".time"))
    };
    assert_eq!(findings.iter().find(time), None);
    let verified =
        findings.iter().find(|f| f["name"] == "samples.verified").expect("samples.verified is present");
    assert!(verified["value"].as_u64() > Some(20), "{verified}");
    let warnings = document["warnings"].as_array().expect("a list");
    assert!(
        warnings.iter().all(|w| w["token"] != "unverified" && w["token"] != "damaged-record"),
        "{warnings:?}"
    );
    let record = user.read("A");
    let count = |word: &str| record.lines().filter(|line| line.starts_with(word)).count();
    assert!(count("trial ") > 5, "{record}");
    assert_eq!(count("done ") + count("refusal "), count("trial "));
    assert_eq!((count("fault "), count("again "), count("lost ")), (0, 0, 0));
    assert!(record.contains("\nend status=complete"));
    user.nothing_left(Instant::now());
    document
}

/// Short sessions of the measuring verbs, long enough for six trials on a machine with other work. The first and the last have patterns that the others lack.
const SESSIONS: [&[&str]; 5] = [
    &["survey", "--budget", "3s"],
    &["latency", "--bytes", "8K,64K", "--budget", "3s"],
    &["conflict", "--budget", "3s"],
    &["stride", "--bytes", "16K", "--budget", "3s"],
    &["cacheability", "--bytes", "320,2560", "--budget", "3s"],
];

/// Runs these sessions on one machine.
fn all_on(machine: &str, sessions: &[&[&str]]) {
    if !qemu_available(machine) {
        return;
    }
    for &arguments in sessions {
        let document = measured(arguments, machine);
        if arguments[0] == "cacheability" {
            assert_attributes(&document, matches!(machine, "virt" | "raspi3b"));
        }
    }
}

/// Asserts that the page tables have the requested attributes, if QEMU reports those of this architecture, and that stores
/// through each mapping are visible through the cached one.
fn assert_attributes(document: &serde_json::Value, reported: bool) {
    let findings = document["findings"].as_array().expect("a list");
    let of = |name: &str| {
        let found = findings.iter().find(|f| f["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {document}"))["value"].clone()
    };
    for (attribute, mair) in
        [("write-back", 0xff), ("write-through", 0xbb), ("normal-nc", 0x44), ("device", 0)]
    {
        if reported {
            let told = of(&format!("cacheability.{attribute}.mair"));
            assert_eq!(told.as_f64(), Some(f64::from(mair)), "{attribute}");
        }
        if mair != 0xff {
            assert_eq!(of(&format!("cacheability.{attribute}.alias")), "seen", "{attribute}");
        }
    }
}

#[test]
fn virt_runs_every_experiment_and_refuses_its_times() {
    all_on("virt", &SESSIONS);
}

#[test]
fn raspi3b_runs_and_refuses_its_times() {
    // The experiments are the same as on virt: the default tier has one that uses most of the machine.
    let full = std::env::var_os("FATHOM_FULL").is_some();
    all_on("raspi3b", if full { &SESSIONS } else { &SESSIONS[4..] });
}

/// The images for 32-bit ARM. In the full tier every experiment on both.
#[test]
fn boards_of_32_bits_run_and_refuse_their_times() {
    let full = std::env::var_os("FATHOM_FULL").is_some();
    for machine in ["raspi0", "vexpress-a15"] {
        all_on(machine, if full { &SESSIONS } else { &SESSIONS[4..] });
    }
}

#[test]
fn qemu_ends_with_the_harness() {
    if !qemu_available("virt") {
        return;
    }
    for signal in [Signal::KILL, Signal::TERM] {
        let user = User::new();
        let harness = user.spawn(&["survey", "--on", "qemu:virt", "--budget", "60s", "--record", "A"]);
        user.lines("A", 70);
        kill(harness.id(), signal);
        let since = Instant::now();
        wait(harness);
        user.nothing_left(since);
        let end = user.read("A").contains("\nend status=interrupted");
        assert_eq!(end, signal == Signal::TERM);
    }
}

#[test]
fn unknown_qemu_machines_and_missing_qemu_are_refused() {
    let user = User::new();
    user.run(&["survey", "--on", "qemu:rapsi3b"])
        .failed(2, &["QEMU's machine 'rapsi3b'", "did you mean qemu:raspi3b?"]);
    user.run(&["survey", "--on", "qemu:vexpress"]).failed(2, &["qemu:raspi3b, qemu:virt"]);
    let mut without = user.command(&["survey", "--on", "qemu:virt"]);
    let did = wait(without.env("PATH", user.home.path()).spawn().expect("it starts"));
    did.failed(1, &["qemu-system-aarch64 is not installed", "apt-get install qemu-system-arm"]);
    // Misspelled kinds of subjects.
    user.run(&["survey", "--on", "qmeu:virt"]).failed(2, &["did you mean 'qemu:virt'?"]);
    user.run(&["survey", "--on", "seriel:/dev/ttyUSB0"]).failed(2, &["did you mean 'serial:/dev/ttyUSB0'?"]);
    assert!(user.run(&["subjects"]).out.contains("serial:/dev/ttyX[@BAUD]"));
}

#[test]
fn image_is_written_to_a_directory_and_overwrites_only_own_files() {
    let user = User::new();
    let write = |arguments: &[&str]| user.run(&[&["image", "-o", "card"], arguments].concat());
    let did = write(&["--board", "pi3"]);
    if did.status == 1 {
        return did.failed(1, &["has no bare-metal image", "rustup target add"]);
    }
    assert!(did.out.contains("never run on hardware") && did.out.contains("kernel8.img: "), "{did:?}");
    assert!(user.read("card/README.txt").contains("never run on hardware"));
    let keys: Vec<String> =
        user.read("card/config.txt").lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
    assert_eq!(keys, ["arm_64bit=1", "kernel=kernel8.img", "enable_uart=1", "dtoverlay=disable-bt"]);
    let image = std::fs::read(user.path("card/kernel8.img")).expect("it was written");
    // Files that the command wrote are overwritten, with another baud rate.
    write(&["--board", "pi4", "--baud", "921600"]).ended(0);
    let other = std::fs::read(user.path("card/kernel8.img")).expect("it was written");
    let changed = image.iter().zip(&other).filter(|(a, b)| a != b).count();
    assert!((1..=4).contains(&changed) && image.len() == other.len(), "{changed} bytes changed");
    assert!(user.read("card/README.txt").contains("serial:/dev/ttyUSB0@921600"));
    // Other files are not overwritten without --force.
    user.write("card/config.txt", "gpu_mem=16\n");
    write(&["--board", "pi3"]).failed(2, &["card/config.txt: the file exists", "--force"]);
    assert_eq!(user.read("card/config.txt"), "gpu_mem=16\n");
    write(&["--board", "pi3", "--force"]).ended(0);
    assert!(user.read("card/config.txt").contains("arm_64bit=1"));
    for place in ["/proc/card", "/dev/null"] {
        user.run(&["image", "--board", "virt", "-o", place]).failed(2, &[place, "-o DIR"]);
    }
    assert!(!Path::new("/proc/card").exists());
}
