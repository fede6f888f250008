//! Faulty subjects: programs that are not probes, and probes with errors. Also unwritable files and missing home
//! directories.

use std::time::Instant;

use crate::common::User;

/// A greeting without facts.
const GREETING: &str = "probe wire=1 trust=real seq=1 crc=0x16539b27";

/// Runs a survey on a subject with this script and a timeout of one second.
fn survey(script: &str) -> (User, crate::common::Did) {
    let user = User::new();
    user.subject("odd", script);
    let did = user.run(&["survey", "--on", "odd", "--record", "A", "--patience", "1s"]);
    user.nothing_left(Instant::now());
    (user, did)
}

/// Asserts that the record of a failed survey has its status and can be reported.
fn kept(user: &User) {
    assert!(user.read("A").contains("\nend status=failed elapsed_ms="), "{}", user.read("A"));
    assert_eq!(user.run(&["report", "A"]).status, 3);
}

#[test]
fn garbage_is_refused_with_a_sample_and_remedies() {
    let (user, did) = survey("while :; do echo Segmentation fault; done");
    did.failed(
        1,
        &["1024 KiB outside the protocol", "'Segmentation'", "fathom serve host", "fathom report A"],
    );
    kept(&user);
}

#[test]
fn endless_line_is_refused_with_the_limit() {
    let (user, did) = survey("exec cat /dev/zero");
    did.failed(1, &["1024 KiB outside the protocol", "limit is 4096"]);
    kept(&user);
}

#[test]
fn silent_subject_is_abandoned() {
    let (user, did) = survey("sleep 1000");
    did.failed(1, &["sent nothing for 1 s", "type: facts"]);
    kept(&user);
}

#[test]
fn silence_after_noise_shows_the_noise() {
    let (user, did) = survey("echo Permission denied; sleep 1000");
    did.failed(1, &["sent nothing for 1 s", "line 3: 'Permission'"]);
    kept(&user);
}

#[test]
fn probe_silent_after_greeting_is_abandoned() {
    let (user, did) = survey(&format!("echo '{GREETING}'; sleep 1000"));
    did.failed(1, &["sent nothing for 1 s"]);
    kept(&user);
}

#[test]
fn immediate_exit_is_reported() {
    let (user, did) = survey("exit 0");
    did.failed(1, &["'odd' ended before its work did", "exit status: 0"]);
    kept(&user);
}

#[test]
fn failing_subject_command_has_status_1() {
    let (user, did) = survey("echo 'no route to host' >&2; exit 255");
    did.failed(1, &["no route to host", "exit status: 255"]);
    kept(&user);
}

#[test]
fn missing_subject_command_leaves_an_older_record_unchanged() {
    let user = User::new();
    user.write(".config/fathom/subjects.toml", "[odd]\ncommand = [\"no-such-program\", \"x\"]\n");
    user.write("A", "older");
    let did = user.run(&["survey", "--on", "odd", "--record", "A", "--force"]);
    did.failed(1, &["cannot start 'no-such-program x'", "No such file", "command of subject 'odd'"]);
    assert_eq!(user.read("A"), "older");
}

#[test]
fn subject_that_closes_its_stream_is_killed() {
    let (user, did) = survey("exec >&-; trap '' TERM; while :; do sleep 1; done");
    did.failed(1, &["closed its stream but kept running; it was killed"]);
    kept(&user);
}

#[test]
fn open_stream_of_a_child_does_not_delay_the_failure() {
    let (user, did) = survey("sleep 1000 & exit 7");
    did.failed(1, &["exit status: 7"]);
    kept(&user);
}

#[test]
fn probe_that_refuses_every_request_yields_an_empty_record() {
    let script = format!(
        "echo '{GREETING}'; while read -r l; do case $l in bye*) exit;; esac; echo 'fault what=\"no\"'; done"
    );
    let (user, did) = survey(&script);
    // Nothing was measured. The faults have no sequence numbers, so the record is damaged as well.
    assert_eq!(did.status, 5, "{did:?}");
    assert!(user.read("A").contains("end status=complete"));
}

#[test]
fn probe_that_does_not_exit_is_ended() {
    let user = User::new();
    user.subject("host-of-a-kind", "fathom serve model s1-8way; trap '' TERM; while :; do sleep 1; done");
    let did = user.shell("fathom survey --on host-of-a-kind --budget 400ms --record A --json");
    user.nothing_left(Instant::now());
    assert_eq!(did.err, "");
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    assert!(user.read("A").contains("end status=complete"));
}

#[test]
fn newer_wire_version_is_refused() {
    let (user, did) = survey("echo 'probe wire=2 trust=real seq=1 crc=0xfcd54645'; sleep 1000");
    did.failed(1, &["wire version 2", "up to 1: update it"]);
    kept(&user);
}

#[test]
fn full_record_file_is_an_error_before_measuring() {
    let user = User::new();
    let did = user.run(&["survey", "--on", "bcm2835", "--record", "/dev/full"]);
    did.failed(1, &["--record /dev/full", "No space left"]);
    user.nothing_left(Instant::now());
    assert_eq!(records(&user), Vec::<String>::new(), "no copy of what never began");
}

#[test]
fn invalid_record_paths_are_refused() {
    let user = User::new();
    for place in ["no/such/place", "."] {
        let did = user.run(&["survey", "--on", "bcm2835", "--record", place]);
        did.failed(2, &[&format!("--record {place}"), "name a file that can be written"]);
    }
    user.run(&["survey", "--on", "bcm2835", "--record", "-"]).failed(2, &["--record -", "./-"]);
}

/// Names of the kept records.
fn records(user: &User) -> Vec<String> {
    let dir = std::fs::read_dir(user.path(".local/share/fathom/records"));
    let mut names: Vec<String> =
        dir.into_iter().flatten().flatten().map(|e| e.file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

const SHORT_SURVEY: [&str; 6] = ["survey", "--on", "s1-8way", "--budget", "400ms", "--json"];

#[test]
fn copy_is_kept_by_default_and_the_report_names_it() {
    let user = User::new();
    let did = user.run(&SHORT_SURVEY[..5]);
    let [name] = records(&user).try_into().expect("one record");
    // The name may be folded in the report, because it is longer than a line.
    let plain: String = did.out.replace("\\\n", "");
    assert!(plain.contains(&name), "{name} not in {}", did.out);
    let again = user.run(&["report", &format!(".local/share/fathom/records/{name}")]);
    assert_eq!(again.status, did.status);
}

#[test]
fn missing_home_is_reported_once_and_run_continues() {
    let user = User::new();
    user.write("plain", "a file");
    let plain = user.path("plain");
    type Change<'a> = (&'a str, Option<&'a std::ffi::OsStr>, &'a str);
    let changes: [Change; 3] = [
        ("HOME", None, "neither XDG_DATA_HOME nor HOME"),
        ("HOME", Some(plain.as_os_str()), "plain"),
        ("XDG_DATA_HOME", Some("/proc".as_ref()), "/proc/fathom"),
    ];
    for (variable, value, words) in changes {
        let mut command = user.command(&SHORT_SURVEY);
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
        let output = command.output().expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{err}");
        assert!(output.stdout.starts_with(b"{"), "{err}");
        assert_eq!(err.matches("no copy of the record is kept").count(), 1, "{err}");
        assert!(err.contains(words) && err.lines().count() == 1, "{err}");
    }
    assert_eq!(records(&user), Vec::<String>::new());
}

#[test]
fn kept_records_stay_below_the_limit_and_the_oldest_are_removed() {
    let user = User::new();
    let dir = ".local/share/fathom/records";
    for year in 2001..2006 {
        let file = user.write(&format!("{dir}/{year}0101T000000-1-survey-host.fathom"), "");
        // A sparse file: it uses no disk space.
        let file = std::fs::OpenOptions::new().write(true).open(file).expect("a file");
        file.set_len(30 << 20).expect("its length");
    }
    user.write(&format!("{dir}/notes.txt"), "the user's own");
    let did = user.run(&SHORT_SURVEY);
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    let names = records(&user);
    let years: Vec<&str> = names.iter().filter(|n| n.starts_with("200")).map(|n| &n[..4]).collect();
    assert_eq!(years, ["2004", "2005"], "{names:?}");
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.contains(&"notes.txt".to_owned()));
}

#[test]
fn invalid_subjects_file_is_named_with_its_line() {
    let user = User::new();
    for (text, words) in [
        ("[pi]\ncomand = [\"ssh\"]\n", "line 2"),
        ("[pi\n", "line 1"),
        ("[pi]\ncommand = []\n", "'pi'"),
        ("[host]\ncommand = [\"ssh\"]\n", "'host'"),
    ] {
        user.write(".config/fathom/subjects.toml", text);
        for arguments in [&["subjects"][..], &["survey", "--on", "pi"]] {
            user.run(arguments).failed(2, &["subjects.toml", words, "remedy: "]);
        }
    }
}
