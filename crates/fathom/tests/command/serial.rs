//! Boards on serial ports: pseudo-terminals with a model's probe at the other end.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::common::{User, kill, same_tiers, wait};

/// A port, and the board's end of it.
struct Port {
    board: OwnedFd,
    held: OwnedFd,
    path: String,
}

impl Port {
    /// Opens a port with unusual settings: no echo, and an uncommon baud rate.
    fn new() -> Port {
        let board = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo-terminal");
        grantpt(&board).and_then(|()| unlockpt(&board)).expect("its other end");
        let path = ptsname(&board, Vec::new()).expect("its name").into_string().expect("UTF-8");
        let held = open(path.as_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
            .expect("it opens");
        let mut set = tcgetattr(&held).expect("its settings");
        set.make_raw();
        set.set_speed(4800).expect("a speed");
        tcsetattr(&held, OptionalActions::Now, &set).expect("it is set");
        Port { board, held, path }
    }

    fn settings(&self) -> String {
        let Termios { input_modes, output_modes, control_modes, local_modes, .. } =
            tcgetattr(&self.held).expect("its settings");
        format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?}")
    }

    fn subject(&self) -> String {
        format!("serial:{}", self.path)
    }

    /// Switches a board on: a model's probe.
    fn switch_on(&self, user: &User) -> Child {
        let end = || Stdio::from(self.board.try_clone().expect("a handle"));
        let mut board = user.command(&["serve", "model", "s1-8way"]);
        board.stdin(end()).stdout(end()).spawn().expect("it starts")
    }
}

const SURVEY: [&str; 6] = ["--budget", "2s", "--record", "A", "--force", "--json"];

fn survey(subject: &str) -> Vec<&str> {
    ["survey", "--on", subject].into_iter().chain(SURVEY).collect()
}

#[test]
fn serial_survey_equals_pipe_survey_and_restores_the_port() {
    let user = User::new();
    let port = Port::new();
    let before = port.settings();
    let mut board = port.switch_on(&user);
    let subject = port.subject();
    let did = user.run(&[&survey(&subject)[..], &["--seed", "1"]].concat());
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    assert!(user.read("A").contains("\nend status=complete"), "{}", user.read("A"));
    assert_eq!(port.settings(), before);
    let direct = user.run(&["survey", "--on", "s1-8way", "--budget", "2s", "--json"]);
    same_tiers(&did.out, &direct.out);
    let _ = board.wait();
    user.nothing_left(Instant::now());
}

#[test]
fn unusable_port_is_named_with_remedy() {
    let user = User::new();
    let none = user.run(&survey("serial:/dev/ttyUSB-none"));
    none.failed(2, &["/dev/ttyUSB-none: No such file", "plugged in", "ls /dev/tty"]);
    user.run(&survey("serial:ttyUSB0")).failed(2, &["by its path", "serial:/dev/ttyX[@BAUD]"]);
    user.run(&survey("serial:/dev/ttyUSB0@fast")).failed(2, &["'fast' is not a baud rate"]);
    user.run(&survey("serial:/dev/null")).failed(1, &["/dev/null: not a serial port"]);
    let port = Port::new();
    flock(&port.held, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
    user.run(&survey(&port.subject())).failed(1, &["busy", "another program has it", "fathom report A"]);
    assert!(user.read("A").contains("end status=failed"));
    user.nothing_left(Instant::now());
}

#[test]
fn port_without_permission_is_refused() {
    let user = User::new();
    let file = user.write("port", "");
    let mut rights = std::fs::metadata(&file).expect("it is there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0);
    std::fs::set_permissions(&file, rights).expect("it is ours");
    if std::fs::File::open(&file).is_ok() {
        return fathom_skip::skipped!(Unchecked, "root may use every port");
    }
    let subject = format!("serial:{}", file.display());
    user.run(&survey(&subject)).failed(2, &["Permission denied", "dialout"]);
}

#[test]
fn silent_board_is_abandoned() {
    let user = User::new();
    let port = Port::new();
    let subject = port.subject();
    let before = port.settings();
    let requested: Vec<&str> = survey(&subject).into_iter().chain(["--patience", "1s"]).collect();
    user.run(&requested)
        .failed(1, &["sent nothing for 1 s", "is the board on", "TX to RX", "fathom report A"]);
    assert!(user.record("A").contains("\nhello\n"), "it was asked: {}", user.read("A"));
    assert_eq!(port.settings(), before);
    user.nothing_left(Instant::now());
}

/// Runs a survey of a board until its record has some trials, calls `what`, and returns the survey's exit status and
/// output.
fn disturbed(what: impl FnOnce(&User, &mut Child, Port, u32)) -> (User, crate::common::Did) {
    let user = User::new();
    let port = Port::new();
    let mut board = port.switch_on(&user);
    let subject = port.subject();
    let harness = user.spawn(&["survey", "--on", &subject, "--budget", "60s", "--record", "A"]);
    user.lines("A", 40);
    what(&user, &mut board, port, harness.id());
    let did = wait(harness);
    let _ = board.kill();
    let _ = board.wait();
    (user, did)
}

#[test]
fn unplugged_board_fails_the_survey_and_keeps_the_record() {
    let (user, did) = disturbed(|_, board, port, _| {
        board.kill().expect("it ran");
        board.wait().expect("it ended");
        drop(port);
    });
    did.failed(1, &["the port is gone", "unplugged", "fathom report A"]);
    assert!(user.read("A").contains("\nend status=failed"));
    assert_eq!(user.run(&["report", "A"]).status, 3);
    user.nothing_left(Instant::now());
}

#[test]
fn interrupt_restores_the_port_settings() {
    let mut then = None;
    let (user, did) = disturbed(|user, _, port, harness| {
        kill(harness, Signal::INT);
        let path = port.path.clone();
        then = Some((port, path));
        user.wait(crate::common::SOON, |all| all.iter().all(|p| !p.2.contains("survey")));
    });
    let (port, path) = then.expect("it ran");
    assert_eq!(did.status, 130, "{did:?}");
    assert!(user.read("A").contains("\nend status=interrupted"));
    assert_eq!(port.settings(), Port::new().settings(), "{path}");
    user.nothing_left(Instant::now());
}

#[test]
fn reset_board_is_greeted_again_and_the_survey_completes() {
    let user = User::new();
    let port = Port::new();
    let mut board = port.switch_on(&user);
    let subject = port.subject();
    let harness =
        user.spawn(&["survey", "--on", &subject, "--budget", "2s", "--record", "A", "--patience", "8s"]);
    user.lines("A", 40);
    board.kill().expect("it ran");
    board.wait().expect("it ended");
    let mut board = port.switch_on(&user);
    let did = wait(harness);
    assert_eq!(did.status, 3, "{did:?}");
    let record = user.read("A");
    assert!(record.contains("\nend status=complete"), "{did:?}");
    assert!(did.out.contains("the probe was started again"), "{}", did.out);
    assert!(record.matches("\nprobe wire=1 ").count() >= 2, "{record}");
    let _ = board.wait();
    assert!(Path::new(&port.path).exists());
    user.nothing_left(Instant::now());
}

/// A board that does not read (a hung adapter) must not delay the exit.
#[test]
fn full_serial_port_is_closed_on_exit() {
    let user = User::new();
    let port = Port::new();
    let mut bridge = user.command(&["serve", "serial", &port.path]);
    let mut bridge = bridge.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let mut to = bridge.stdin.take().expect("a pipe");
    // More than the port and the bridge can buffer: the rest stays in the pipe.
    to.write_all(&[b'x'; 48 << 10]).expect("the pipe takes it");
    drop(to);
    let since = Instant::now();
    bridge.wait().expect("it ends");
    assert!(since.elapsed() < crate::common::SOON, "{:?}", since.elapsed());
    assert_eq!(port.settings(), Port::new().settings());
    user.nothing_left(since);
}
