//! Hostile input: text that acts on a terminal, endless output of other machines, records that name other machines, and
//! files of the configuration that others can write.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use fathom_probe::wire::Line;
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use crate::common::{SOON, User, kill, wait};

/// Controls of C0 and C1, DEL, and characters that reverse the direction of writing or are invisible.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;title\u{7}b\u{9b}31mc\u{7f}d\u{202e}e\u{2066}f\u{200b}g";

/// Asserts that no character of an output acts on a terminal.
#[track_caller]
fn harmless(what: &str, text: &str) {
    let acts = |c: char| {
        c != '\n'
            && (c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    let found = text.chars().position(acts);
    assert!(
        found.is_none(),
        "{what}: {:?}",
        found.map(|at| text.chars().skip(at).take(20).collect::<String>())
    );
}

/// Writes a record whose texts are all hostile, for a described machine so that it can be described again.
fn hostile_record(user: &User, name: &str) {
    user.run(&["survey", "--on", "s1-8way", "--budget", "500ms", "--record", "good"]).ended(0);
    let lines = user.record("good");
    let mut seq = 0;
    let altered = lines.lines().map(|line| {
        seq += u64::from(line.contains(" seq="));
        if line.starts_with("run ") {
            let quoted = Line::new("x").text("x", HOSTILE).render();
            let quoted = quoted.trim_start_matches("x x=");
            return line
                .replace("\"s1-8way\"", quoted)
                .replace("\"fathom survey", &format!("{quoted} command2=\"fathom"));
        }
        if line.starts_with("fact name=\"machine.name\"") {
            return Line::new("fact").text("name", "machine.name").text("text", HOSTILE).seal(seq);
        }
        if line.starts_with("fact name=\"described.level.1.name\"") {
            return Line::new("fact").text("name", "described.level.1.name").text("text", HOSTILE).seal(seq);
        }
        line.to_owned()
    });
    let mut altered: Vec<String> = altered.collect();
    // A line outside the protocol is quoted.
    altered.insert(4, HOSTILE.to_owned());
    altered.insert(4, Line::new("fault").text("what", HOSTILE).render());
    user.write_record(name, &altered.join("\n"));
}

#[test]
fn text_of_a_record_acts_on_no_terminal_and_no_page() {
    let user = User::new();
    hostile_record(&user, "A");
    for arguments in [
        &["report", "A"][..],
        &["report", "A", "--json"],
        &["report", "A", "--html", "-"],
        &["report", "A", "good", "--html", "-"],
        &["compare", "A", "good"],
        &["compare", "A", "good", "--json"],
        &["describe", "A"],
        &["share", "A"],
        &["share", "A", "--json"],
        &["conflict", "--resume", "A"],
    ] {
        let did = user.run(arguments);
        let what = arguments.join(" ");
        harmless(&what, &did.out);
        harmless(&what, &did.err);
        let styled = user.run(&[arguments, &["--colour", "always"]].concat());
        for sequence in styled.out.split('\u{1b}').skip(1) {
            assert!(sequence.starts_with('[') && sequence.contains('m'), "{what}: {sequence:?}");
            let style = sequence.split('m').next().unwrap_or_default();
            assert!(style[1..].chars().all(|c| c.is_ascii_digit() || c == ';'), "{what}: {sequence:?}");
        }
    }
}

#[test]
fn names_of_files_and_subjects_act_on_no_terminal() {
    let user = User::new();
    hostile_record(&user, HOSTILE.replace('/', "").as_str());
    user.write(".config/fathom/machines/x.toml", "format = 1\nabout = \"\\u001b[2J\\u202e\"\n");
    user.subject("\"s\\u001b[2J\"", "exit 1");
    for arguments in [
        &["report", HOSTILE][..],
        &["report", "good", HOSTILE],
        &["compare", HOSTILE, "good"],
        &["report", "no\u{1b}[2J\u{9b}"],
        &["survey", "--on", "no\u{1b}[2J\u{9b}"],
        &["survey", "--on", "s\u{1b}[2J"],
        &["survey", "--on", "s1-8way", "--budget", "1s", "--record", "no/\u{1b}[2J"],
        &["subjects"],
        &["machines"],
        &["doctor", "--on", "s1-8way"],
        // Messages of the command line itself.
        &["no\u{1b}[2J\u{9b}"],
        &["survey", "--no\u{1b}[2J\u{202e}"],
        &["survey", "--budget", "1\u{1b}[2J\u{9b}s"],
        &["survey", "--load", "\u{1b}]0;title\u{7}"],
        &["report", "good", "\u{7f}", "--fail-if\u{1b}[2J"],
    ] {
        let did = user.run(arguments);
        let what = arguments.join(" ");
        harmless(&what, &did.out);
        harmless(&what, &did.err);
    }
    // Copies of records are named after subjects.
    let kept = user.path(".local/share/fathom/records");
    for entry in std::fs::read_dir(kept).expect("the copies") {
        harmless("a copy's name", &entry.expect("an entry").file_name().to_string_lossy());
    }
}

#[test]
fn messages_of_a_subject_are_shown_and_bounded() {
    let user = User::new();
    user.subject("odd", "printf 'no \\033[2J\\302\\233 route\\n' >&2; yes long >&2 & sleep 1; exit 3");
    let did = user.run(&["survey", "--on", "odd", "--record", "A"]);
    did.failed(1, &["no \\u{1b}[2J\\u{9b} route", "more of its messages are left out", "exit status: 3"]);
    harmless("stderr", &did.err);
    assert!(did.err.len() < 80 << 10, "{} bytes", did.err.len());
    user.nothing_left(Instant::now());
}

#[test]
fn record_names_no_machine_to_resume_on() {
    let user = User::new();
    user.subject("board", "touch reached; exit 1");
    user.run(&["wakeup", "--on", "am5728", "--budget", "5s", "--record", "good"]).ended(0);
    let lines = user.record("good");
    for subject in ["ssh:pi", "/dev/ttyS0", "serial:/dev/null", "board", "./x.toml"] {
        user.write_record("A", &lines.replace("subject=\"am5728\"", &format!("subject=\"{subject}\"")));
        user.run(&["wakeup", "--resume", "A"])
            .failed(2, &[&format!("the record is of '{subject}'"), &format!("--on {subject}")]);
        user.run(&["wakeup", "--resume", "A", "--on", "host"]).failed(2, &["the record is of"]);
    }
    assert!(!user.path("reached").exists());
    user.write_record("A", &lines.replace("subject=\"am5728\"", "subject=\"board\""));
    assert_eq!(user.run(&["wakeup", "--resume", "A", "--on", "board"]).status, 1);
    assert!(user.path("reached").exists(), "the machine that --on names is reached");
}

#[test]
fn subjects_file_that_others_can_write_is_refused() {
    let user = User::new();
    user.subject("board", "touch reached; exit 1");
    let file = user.path(".config/fathom/subjects.toml");
    let directory = user.path(".config/fathom");
    for (path, mode) in [(&file, 0o646), (&file, 0o664), (&directory, 0o777), (&directory, 0o775)] {
        let before = std::fs::metadata(path).expect("it exists").permissions();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
        user.run(&["survey", "--on", "board"]).failed(2, &["others can write", "chmod go-w"]);
        std::fs::set_permissions(path, before).expect("it is ours");
    }
    // Whoever can rename a directory on the way to it can put another file there, unless the directory is sticky.
    for (mode, refused) in [(0o777, true), (0o770, true), (0o1777, false)] {
        std::fs::set_permissions(user.home.path(), PermissionsExt::from_mode(mode)).expect("it is ours");
        let did = user.run(&["subjects"]);
        match refused {
            true => did.failed(2, &["others can write", "chmod go-w"]),
            false => assert!(did.ended(0).contains("board"), "{did:?}"),
        }
        std::fs::set_permissions(user.home.path(), PermissionsExt::from_mode(0o700)).expect("it is ours");
    }
    // A link to a file in a directory of others.
    let theirs = user.path("theirs");
    std::fs::create_dir(&theirs).expect("a directory");
    std::fs::rename(&file, theirs.join("s.toml")).expect("it is ours");
    std::os::unix::fs::symlink(theirs.join("s.toml"), &file).expect("a link");
    std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o777)).expect("it is ours");
    user.run(&["survey", "--on", "board"]).failed(2, &["others can write", "theirs", "chmod go-w"]);
    std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o755)).expect("it is ours");
    assert!(!user.path("reached").exists());
    assert_eq!(user.run(&["survey", "--on", "board"]).status, 1);
    assert!(user.path("reached").exists());
}

#[test]
fn subjects_file_replaces_no_subject_of_this_program() {
    let user = User::new();
    for name in ["host", "bcm2835", "qemu:virt", "ssh:pi", "image:bcm2711"] {
        user.subject(&format!("\"{name}\""), "touch reached");
        user.run(&["subjects"]).failed(2, &["subjects.toml", name, "another name"]);
    }
    assert!(!user.path("reached").exists());
}

#[test]
fn pipe_without_reader_is_left_by_one_signal() {
    let user = User::new();
    user.shell("mkfifo pipe").ended(0);
    let session = user.spawn(&["survey", "--on", "s1-8way", "--budget", "1s", "--record", "pipe"]);
    // The probe has begun, and the pipe has no reader.
    user.wait(Duration::from_secs(60), |processes| processes.len() >= 2);
    std::thread::sleep(Duration::from_millis(100));
    kill(session.id(), Signal::TERM);
    let did = wait(session);
    assert_eq!(did.status, 143, "{did:?}");
    assert!(did.err.contains("--record pipe: no process has opened this pipe"), "{did:?}");
    user.nothing_left(Instant::now());
    // With a reader it is a record.
    let did =
        user.shell("cat pipe >whole & fathom survey --on s1-8way --budget 1s --record pipe -q >out; wait");
    assert_eq!(did.err, "");
    user.run(&["report", "whole"]).ended(0);
}

#[test]
fn outputs_that_nobody_reads_are_left_by_one_signal() {
    let user = User::new();
    user.shell("mkfifo full").ended(0);
    let open = |flags| {
        rustix::fs::open(user.path("full"), flags | OFlags::NONBLOCK, Mode::empty()).expect("the pipe")
    };
    // Its reader does not read.
    let _reader = open(OFlags::RDONLY);
    let filler = open(OFlags::WRONLY);
    let wakeup = ["wakeup", "--on", "am5728", "--conditions", "unloaded", "--budget", "60m", "-q"];
    let session = user.spawn(&[&wakeup[..], &["--record", "full"]].concat());
    // It has begun: its copy has lines, too.
    let copies = user.path(".local/share/fathom/records");
    let begun = || {
        let mut files = std::fs::read_dir(&copies).into_iter().flatten().flatten();
        files.any(|file| file.metadata().is_ok_and(|about| about.len() > 0))
    };
    let until = Instant::now() + SOON;
    while !begun() {
        assert!(Instant::now() < until, "no record: {:?}", user.processes());
        std::thread::sleep(Duration::from_millis(20));
    }
    // From now on the pipe is full, and each further write of the session waits.
    while rustix::io::write(&filler, b"x").is_ok() {}
    kill(session.id(), Signal::TERM);
    let did = wait(session);
    assert_eq!(did.status, 143, "{did:?}");
    assert!(did.err.contains("ended by signal 15") && did.err.contains("still not read"), "{did:?}");
    user.nothing_left(Instant::now());
}

/// A stalled machine lets the process end long before the end of its stream is read, too.
#[test]
fn stream_that_outlives_a_complete_session_is_no_failure() {
    let user = User::new();
    user.subject("odd", "sleep 1000 & exec fathom serve model s1-8way");
    let did = user.shell("fathom survey --on odd --budget 1s --record A -q");
    assert!(matches!(did.status, 0 | 3) && !did.err.contains("ended before"), "{did:?}");
    assert!(user.read("A").contains("\nend status=complete"), "{did:?}");
    user.nothing_left(Instant::now());
    user.subject("odd", "sleep 1000 & fathom serve model s1-8way | head -n 3");
    let did = user.shell("fathom survey --on odd --budget 1s --record B -q");
    assert!(did.status == 1 && did.err.contains("ended before its work did"), "{did:?}");
    user.nothing_left(Instant::now());
}

#[test]
fn processes_that_leave_the_session_of_their_command_are_told() {
    let user = User::new();
    user.subject("odd", "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exec fathom serve model s1-8way");
    let did = user.shell("fathom survey --on odd --budget 1s --record A -q");
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    assert!(did.err.contains("the command of 'odd' left process"), "{did:?}");
    let named = did.err.split("kill ").nth(1).expect("how to end it").trim();
    let left = user.processes();
    assert!(
        left.len() == 1 && left[0].0.to_string() == named && left[0].2.contains("sleep"),
        "{left:?}: {did:?}"
    );
    kill(left[0].0, Signal::KILL);
    user.nothing_left(Instant::now());
    // Connections of ssh are meant to stay.
    user.subject("odd", "cp /bin/sleep ssh; setsid ./ssh 1000 </dev/null >/dev/null 2>&1 & sleep 0.2; exec fathom serve model s1-8way");
    assert_eq!(user.shell("fathom survey --on odd --budget 1s --record B -q").err, "");
    let left = user.processes();
    assert!(left.len() == 1 && left[0].2.contains("ssh"), "{left:?}");
    kill(left[0].0, Signal::KILL);
}

#[test]
fn page_has_no_path_of_its_reader_s_machine() {
    let user = User::new();
    let description = user.run(&["machines", "s1-8way"]).out;
    user.write("secret-directory/mine.toml", &description);
    let on = user.path("secret-directory/mine.toml").display().to_string();
    let record = user.path("secret-directory/A").display().to_string();
    user.run(&["survey", "--on", &on, "--budget", "500ms", "--record", &record, "--html", "P"]);
    user.run(&["report", &record, "--html", "Q"]);
    user.write("B", &user.read("secret-directory/A"));
    user.run(&["compare", &record, "B", "--html", "R"]);
    for page in ["P", "Q", "R"] {
        let text = user.read(page);
        assert!(text.contains("mine.toml") || page == "R", "{page} does not name its subject");
        assert!(!text.contains("secret-directory"), "{page} has the path of its subject");
    }
}

#[test]
fn refused_loads_lower_confidence() {
    let user = User::new();
    let wakeup = ["wakeup", "--on", "am5728", "--budget", "5s"];
    let out = user.run(&[&wakeup[..], &["--load", "disk"]].concat());
    assert!(out.ended(3).contains("loads-refused"), "{out:?}");
    let out = user.run(&[&wakeup[..], &["--load", "disk", "--load", "copy"]].concat());
    assert!(!out.ended(0).contains("loads-refused"), "{out:?}");
}
