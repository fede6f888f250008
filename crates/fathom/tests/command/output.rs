//! Printed text: streams, width and colours.

use std::io::Read as _;
use std::sync::LazyLock;

use fathom_analysis::findings::Kind;
use fathom_experiment::report_kinds::REPORT_KINDS;
use fathom_report::schema;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::common::{User, fits, is_of};

/// Dissimilar machines: no huge pages, several levels and TLBs, odd geometry.
const MACHINES: [&str; 3] = ["bcm2835", "bcm2711", "alpha21164"];

/// A user with a short survey's record of each machine, and a very small record, which is judged quickly.
static USER: LazyLock<User> = LazyLock::new(|| {
    let user = User::new();
    for machine in MACHINES {
        let did =
            user.run(&["survey", "--on", machine, "--budget", "1s", "--record", machine, "--color", "never"]);
        assert!(matches!(did.status, 0 | 3), "{did:?}");
        assert_eq!(did.err, "", "stderr is quiet when it is no terminal");
        user.write(&format!("{machine}.txt"), &did.out);
    }
    let did = user.run(&["survey", "--on", MACHINES[0], "--budget", "100ms", "--record", SMALL]);
    assert_eq!(did.err, "");
    user
});

/// Name of the very small record.
const SMALL: &str = "small";

/// Returns the text without escape sequences.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&rest[..at]);
        let end = rest[at..].find(|c: char| c.is_ascii_alphabetic()).expect("the end of a sequence");
        rest = &rest[at + end + 1..];
    }
    out + rest
}

#[track_caller]
fn assert_fits(text: &str, what: &str) {
    assert!(!text.is_empty(), "{what}");
    fits(&plain(text));
}

/// Runs the command with additional environment variables.
fn with(user: &User, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = user.command(arguments).envs(variables.iter().copied()).output().expect("it runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_report_fits_eighty_columns_in_every_mode() {
    for machine in MACHINES {
        assert_fits(&USER.read(&format!("{machine}.txt")), machine);
        for (variables, colour) in [
            (&[("LANG", "C"), ("COLUMNS", "40")][..], "never"),
            (&[("LC_ALL", "C.UTF-8"), ("COLUMNS", "200")], "always"),
            (&[("TERM", "dumb"), ("LANG", "C.UTF-8")], "auto"),
        ] {
            let out = with(&USER, &["report", machine, "--color", colour], variables);
            assert!(is_of(&plain(&out), "survey: "), "{out}");
            assert_fits(&out, machine);
            // The second is the rich mode; the others have neither colours nor non-ASCII characters.
            let rich = colour == "always";
            assert_eq!((out.is_ascii(), out.contains('\x1b')), (!rich, rich), "{variables:?}");
        }
    }
}

#[test]
fn colour_follows_variables_and_option_and_changes_only_escapes() {
    let report = ["report", SMALL];
    let never = with(&USER, &["report", SMALL, "--color", "never"], &[]);
    assert!(!never.contains('\x1b'));
    for (variables, coloured) in [
        (&[][..], false),
        (&[("CLICOLOR_FORCE", "1")], true),
        (&[("CLICOLOR_FORCE", "0")], false),
        (&[("CLICOLOR_FORCE", "")], false),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "")], true),
        (&[("TERM", "dumb")], false),
    ] {
        let out = with(&USER, &report, variables);
        assert_eq!(out.contains('\x1b'), coloured, "{variables:?}");
        assert_eq!(plain(&out), never, "{variables:?}");
    }
    let always = with(&USER, &["report", SMALL, "--color", "always"], &[("NO_COLOR", "1")]);
    assert!(always.contains('\x1b'), "the flag wins");
    assert_eq!(plain(&always), never);
}

#[test]
fn terminal_output_is_coloured_unless_term_is_dumb() {
    for (term, coloured) in [("xterm", true), ("dumb", false)] {
        let mut command = USER.command(&["report", SMALL]);
        let inherit = std::process::Stdio::inherit;
        command.env("TERM", term).stdin(inherit()).stdout(inherit()).stderr(inherit());
        let mut session = rexpect::session::spawn_command(command, Some(60_000)).expect("a terminal");
        let out = session.exp_eof().expect("its end");
        assert!(out.contains("survey: ") || out.contains("bcm2835"), "{out}");
        assert_eq!(out.contains('\x1b'), coloured, "{term}: {out:?}");
    }
}

/// Returns the output of a command on a terminal of this width.
fn on_columns(user: &User, arguments: &[&str], columns: u16) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let path = ptsname(&master, Vec::new()).expect("its name");
    let slave = open(&path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("opened");
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).expect("its width");
    let mut command = user.command(arguments);
    command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").stdout(std::process::Stdio::from(slave));
    let mut child = command.spawn().expect("it starts");
    // The command holds a copy of the terminal's slave side; reading ends when all copies are closed.
    drop(command);
    let mut out = Vec::new();
    // Linux reports EIO once the last writer has closed the terminal.
    let end = std::fs::File::from(master).read_to_end(&mut out);
    assert!(
        end.as_ref()
            .map_or_else(|e| e.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()), |_| true)
    );
    assert!(child.wait().expect("its status").code().is_some_and(|status| status == 0 || status == 3));
    plain(&String::from_utf8(out).expect("UTF-8").replace('\r', ""))
}

#[test]
fn output_honours_the_width_of_the_terminal() {
    let report = ["report", MACHINES[0]];
    let widest = |text: &str| {
        let shown = text.lines().filter(|line| !line.contains('`') && !line.starts_with("Next: "));
        shown.map(|line| line.chars().count()).max().unwrap_or(0)
    };
    let mut last = 0;
    for (columns, limit) in [(20, 60), (60, 60), (80, 80), (132, 132), (200, 200), (300, 200)] {
        let text = on_columns(&USER, &report, columns);
        let widest = widest(&text);
        assert!(widest <= limit, "{columns} columns: {widest}\n{text}");
        assert!(widest >= last, "{columns} columns: {widest} after {last}");
        last = widest;
    }
    assert!(last > 100, "wide terminals are used: {last}");
}

#[test]
fn every_finding_is_in_the_schema_with_its_unit() {
    for machine in MACHINES {
        let did = USER.run(&["report", machine, "--json"]);
        let document: Value = serde_json::from_str(&did.out).expect("JSON");
        assert_eq!(
            (&document["format"], &document["version"]),
            (&schema::FORMAT.into(), &schema::VERSION.into())
        );
        assert_eq!(document["subject"]["name"], machine);
        let findings = document["findings"].as_array().expect("a list");
        assert!(findings.len() > 20, "{machine}: {} findings", findings.len());
        for finding in findings {
            let name = finding["name"].as_str().expect("a name");
            let key = fathom_report::kind::key(&REPORT_KINDS, name)
                .unwrap_or_else(|| panic!("{machine}: {name} is in no schema"));
            let unit = finding["unit"].as_str().expect("a unit");
            let metric = key.metric;
            assert!(metric.units.contains(&unit), "{machine}: {name} in '{unit}', not {:?}", metric.units);
            assert_eq!(finding["value"].is_string(), metric.kind != Kind::Number, "{machine}: {name}");
        }
        let known = USER.run(&["schema"]).out;
        for warning in document["warnings"].as_array().expect("a list") {
            let token = warning["token"].as_str().expect("a token");
            assert!(known.contains(token), "{machine}: '{token}' is in no schema");
        }
    }
}

#[test]
fn closed_pipe_is_not_a_failure_but_a_full_stdout_is() {
    let user = &*USER;
    for line in
        ["fathom machines", "fathom schema --json", "fathom report small", "fathom report small --json"]
    {
        let status = "echo $? >&2";
        let did = user.shell(&format!("{{ {line}; {status}; }} | head -c 1 >/dev/null"));
        assert!(matches!(did.err.trim(), "0" | "3" | "5"), "{line}: {}", did.err);
    }
    // stderr is not writable either.
    let did = user.shell("fathom report none 2>/dev/full; echo $?");
    assert_eq!(did.out, "2\n");
    let did = user.shell("fathom machines >/dev/full");
    did.failed(1, &["cannot write to stdout", "No space left"]);
}

#[test]
fn fathom_without_arguments_prints_introduction() {
    let user = User::new();
    let did = user.run(&[]);
    let out = did.ended(0);
    assert!(out.starts_with("Fathom measures what memory does to code"), "{out}");
    assert_eq!(out.lines().last(), Some("Next: fathom survey"));
    assert_fits(out, "fathom");
    assert!(out.contains("fathom doctor") && !out.contains("Measured last"), "{out}");
    // If there are records, the newest three are listed, newest first.
    for second in 1..=4 {
        user.write(&format!(".local/share/fathom/records/2026010{second}T000000-1-survey-host.fathom"), "");
    }
    let out = user.run(&[]).ended(0).to_owned();
    let kept: Vec<&str> = out.lines().filter(|l| l.contains("-survey-host")).map(str::trim).collect();
    assert_eq!(kept.len(), 3, "{out}");
    assert!(kept[0].starts_with("20260104") && kept[2].starts_with("20260102"), "{out}");
    assert_eq!(out.lines().last(), Some("Next: fathom survey"));
}

#[test]
fn help_fits_and_shows_examples_and_statuses() {
    let user = User::new();
    for arguments in [
        &["-h"][..],
        &["--help"],
        &["survey", "-h"],
        &["survey", "--help"],
        &["report", "--help"],
        &["describe", "--help"],
        &["machines", "--help"],
        &["subjects", "--help"],
        &["schema", "--help"],
        &["doctor", "--help"],
        &["share", "--help"],
        &["compare", "--help"],
        &["serve", "--help"],
        &["serve", "host", "--help"],
        &["serve", "model", "--help"],
    ] {
        let did = user.run(arguments);
        let out = did.ended(0);
        assert!(out.contains("Usage: fathom"), "{out}");
        assert!(!out.contains("--patience") && !out.contains("--parent"), "{out}");
        assert_fits(out, &arguments.join(" "));
    }
    let survey = user.run(&["survey", "-h"]).out;
    assert!(survey.contains("Examples:") && survey.contains("Exit status:"), "{survey}");
    assert!(user.run(&["-h"]).out.contains("Begin with:  fathom survey"));
    assert_eq!(user.run(&["--version"]).ended(0), concat!("fathom ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn machines_are_listed_shown_and_read_back() {
    let user = User::new();
    let shown = user.run(&["machines", "bcm2835"]).ended(0).to_owned();
    assert!(shown.contains("format = 1") && shown.contains("[[level]]"), "{shown}");
    // The shown text is a valid description: by path, and under a user-defined name.
    user.write("mine.toml", &shown);
    assert_eq!(user.run(&["machines", "./mine.toml"]).ended(0), shown);
    user.write(".config/fathom/machines/own.toml", &shown);
    assert_eq!(user.run(&["machines", "own"]).ended(0), shown);
    user.write(".config/fathom/machines/broken.toml", "format = 1\n");
    let list = user.run(&["machines"]).ended(0).to_owned();
    for name in MACHINES.iter().chain(&["own", "broken"]) {
        assert!(list.lines().any(|l| l.starts_with(&format!("{name} "))), "{name} in {list}");
    }
    let survey = user.run(&["survey", "--on", "own", "--budget", "400ms", "--json"]);
    assert!(matches!(survey.status, 0 | 3), "{survey:?}");
}

#[test]
fn subjects_lists_host_user_subjects_and_machines() {
    let user = User::new();
    let text = "[pi]\ncommand = [\"ssh\", \"pi\", \"fathom\", \"serve\", \"host\"]\nabout = \"the board\"\n";
    user.write(".config/fathom/subjects.toml", text);
    let list = user.run(&["subjects"]).ended(0).to_owned();
    let names: Vec<&str> = list.lines().map(|l| l.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(names[..2], ["host", "pi"]);
    assert!(list.contains("the board"), "{list}");
    for machine in MACHINES {
        assert!(names.contains(&machine), "{list}");
    }
}

#[test]
fn schema_prints_text_and_json() {
    let user = User::new();
    let text = user.run(&["schema"]).ended(0).to_owned();
    assert!(text.contains("tier.{tier}.latency") && text.contains("damaged-record"), "{text}");
    let json: Value = serde_json::from_str(user.run(&["schema", "--json"]).ended(0)).expect("JSON");
    assert!(json.to_string().contains("tier"));
}

#[test]
fn completions_and_manual_pages_list_every_verb() {
    let user = User::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = user.run(&["generate", "completions", shell]).ended(0).to_owned();
        for expected in ["latency", "fail-if", "describe", "against"] {
            assert!(text.contains(expected), "{shell}: {text}");
        }
    }
    user.run(&["generate", "man", "pages"]).ended(0);
    for (page, expected) in
        [("fathom.1", "survey"), ("fathom-compare.1", "fail"), ("fathom-describe.1", "output")]
    {
        let text = user.read(&format!("pages/{page}"));
        assert!(text.starts_with(".ie") && text.contains(expected), "{page}: {text}");
    }
    user.run(&["generate", "man", "/dev/null/pages"]).failed(2, &["/dev/null/pages", "can be written"]);
    user.run(&["generate", "completions", "tcl"]).failed(2, &["bash"]);
}

/// Returns whether the file is a record that can be reported.
fn is_record(user: &User, name: &str) -> bool {
    user.read(name).starts_with("fathom.record") && user.run(&["report", name, "--json"]).status != 2
}

/// Returns both orders of the two options.
fn both_orders(record: &str, page: &str) -> [String; 2] {
    [format!("--record {record} --html {page}"), format!("--html {page} --record {record}")]
}

#[test]
fn a_page_never_replaces_the_record_of_its_own_command() {
    let survey = "fathom survey --on bcm2835 --budget 400ms -q";
    // Name of the record, name of the page, and the shell command that makes both names one file.
    let spellings = [
        ("R", "R", "true"),
        ("R", "./R", "true"),
        ("d/R", "d/../d/R", "mkdir d"),
        ("d/R", "t/../R", "mkdir -p d/s && ln -s d/s t"),
        ("R", "$PWD/R", "true"),
        ("R", "L", "ln -s R L"),
        ("R", "M", "ln -s R L && ln -s L M"),
        ("L", "R", "ln -s R L"),
        ("L", "M", "ln -s R L && ln -s R M"),
        ("l/R", "d/R", "mkdir d && ln -s d l"),
        // The file exists before.
        ("R", "./R", "echo old > R"),
        ("R", "L", "echo old > R && ln -s R L"),
        ("L", "R", "echo old > R && ln -s R L"),
        ("R", "H", "echo old > R && ln R H"),
        ("R", "/dev/fd/9", "exec 9>> R"),
        ("R", "/proc/self/fd/9", "exec 9>> R"),
        ("/dev/fd/9", "R", "exec 9>> R"),
        ("/dev/fd/9", "/proc/self/fd/9", "exec 9>> R"),
    ];
    for (record, page, before) in spellings {
        for options in both_orders(record, page) {
            let user = User::new();
            let did = user.shell(&format!("{before}; {survey} {options}"));
            did.failed(2, &["--html", "refusing to overwrite a record"]);
            // Refused before the measurement: no file was created, and an existing one is unchanged.
            let left = std::fs::read_to_string(user.path("R")).ok();
            let expected = before.contains("echo").then_some("old\n");
            let expected = if before.contains("exec") { Some("") } else { expected };
            assert_eq!(left.as_deref(), expected, "{before}; {options}");
        }
    }
}

/// A name under /proc/self/fd may not exist at the check, and may be the record's file after that was opened.
#[test]
fn page_does_not_replace_record_opened_after_the_check() {
    let user = User::new();
    let mut caught = 0;
    for fd in 3..20 {
        for options in both_orders("R", &format!("/proc/self/fd/{fd}")) {
            // An inherited descriptor is a file or a terminal of somebody else: no page is written to it.
            let skip = format!("[ ! -e /proc/$$/fd/{fd} ] || exit 77");
            let survey = format!("fathom survey --on bcm2835 --budget 100ms -q {options}");
            let did = user.shell(&format!("rm -f R; {skip}; {survey}"));
            if did.status == 77 {
                fathom_skip::skipped!(Unchecked, "descriptor {fd} is inherited");
                continue;
            }
            caught += usize::from(did.status == 2 && did.err.contains("refusing to overwrite a record"));
            let left = std::fs::read_to_string(user.path("R")).unwrap_or_default();
            assert!(left.is_empty() || left.starts_with("fathom.record"), "{options}: {left:.60}");
        }
    }
    assert!(caught >= 2, "no number was that of the record's file");
}

#[test]
fn a_page_never_replaces_a_file_that_the_command_reads() {
    let user = User::new();
    user.run(&["survey", "--on", "bcm2835", "--budget", "400ms", "--record", "R", "-q"]);
    let record = user.read("R");
    user.run(&["report", "R", "--html", "P"]);
    user.shell("cp R Q; ln R H; ln -s R L; ln P I; ln -s P J; mkdir d");
    let page = user.read("P");
    for (reads, html) in [
        ("report R", "R"),
        ("report R", "./R"),
        ("report R", "d/../R"),
        ("report R", "H"),
        ("report H", "R"),
        ("report R", "L"),
        ("report L", "R"),
        ("report R", "/proc/self/fd/9"),
        ("report R", "/dev/fd/9"),
        ("report R P", "I"),
        ("report P", "P"),
        ("report P", "I"),
        ("report J", "P"),
        ("compare R Q", "H"),
        ("compare R Q", "Q"),
        ("wakeup --resume R", "H"),
        ("wakeup --resume R --record N", "L"),
    ] {
        for line in
            [format!("{reads} --html {html}"), format!("{} --html {html} {}", verb(reads), rest(reads))]
        {
            user.shell(&format!("exec 9>> R; fathom {line}"))
                .failed(2, &["refusing to overwrite a record or an input file"]);
            assert_eq!((user.read("R"), user.read("P")), (record.clone(), page.clone()), "{line}");
        }
    }
    assert!(!user.path("N").exists());
    assert!(is_record(&user, "R") && is_record(&user, "Q"));
    // /dev/null keeps no data, and may be used for both.
    let null = ["--record", "/dev/null", "--html", "/dev/null"];
    let did = user.run(&[&["survey", "--on", "bcm2835", "--budget", "400ms", "-q"][..], &null].concat());
    assert!(did.err.is_empty() && did.status != 2, "{did:?}");
    // A page may replace an older page.
    user.run(&["report", "R", "--html", "P"]);
    assert_eq!(user.read("P"), page);
}

fn verb(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

fn rest(line: &str) -> &str {
    line.split_once(' ').map_or("", |(_, rest)| rest)
}

#[test]
fn page_is_written_reported_and_never_overwrites_a_record() {
    let user = User::new();
    let survey = ["survey", "--on", "bcm2835", "--budget", "400ms", "--record", "R", "-q"];
    user.run(&survey);
    let record = user.read("R");
    // A record is never overwritten by its page, because findings alone cannot be judged again.
    user.run(&["report", "R", "--html", "R"]).failed(2, &["--html R: refusing to overwrite a record"]);
    user.run(&["survey", "--on", "bcm2835", "--record", "N", "--html", "./N"])
        .failed(2, &["refusing to overwrite a record"]);
    assert!(!user.path("N").exists(), "nothing was measured");
    assert_eq!(user.read("R"), record);
    user.run(&["report", "R", "--html", "no/such/P"]).failed(2, &["no/such/P", "No such file"]);
    user.run(&["report", "R", "--html", "-", "--json"]).failed(2, &["both use stdout"]);

    // A killed run leaves no page, not even an empty one.
    let killed = "fathom survey --on neoverse-n1 --html K -q & p=$!; sleep 0.5; kill -9 $p; test ! -e K";
    user.shell(killed).ended(0);

    let text = user.run(&["report", "R", "--html", "P"]).out.clone();
    let page = user.read("P");
    assert_eq!(user.run(&["report", "R", "--html", "-"]).out, page);
    assert_eq!(user.run(&["report", "P"]).out, text);
    user.run(&["compare", "P", "R"]).failed(2, &["P: a page has findings and no samples"]);
    let half = &page[..page.find("fathom-data").expect("the data")];
    user.write("H", half);
    user.run(&["report", "H"]).failed(2, &["H: no data in this page"]);
    // A page that needs more memory than is available is refused with the limit.
    user.write("L", &format!("{half}{}", " ".repeat(9 << 20)));
    user.shell("ulimit -v 131072; fathom report L").failed(2, &["L: it needs", "MiB may be taken here"]);
}
