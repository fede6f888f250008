//! Runs the command as a user does, in a temporary home directory. A marker in the environment finds all processes that
//! the command leaves.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fathom_experiment::record::file::{resumable, sealed};
use rustix::process::{Pid, Signal, kill_process};

/// The environment variable that marks a test's processes; children inherit it.
const MARK: &str = "FATHOM_TEST_MARK";
/// Timeout for events that are immediate on an idle machine; long enough for a loaded one.
pub const SOON: Duration = Duration::from_secs(120);
/// Design limit: when any one process dies, all others must have ended within this time.
pub const GONE: Duration = Duration::from_secs(2);

/// A user: a temporary home directory, and processes that can be identified.
pub struct User {
    pub home: tempfile::TempDir,
    mark: String,
}

/// Exit status and output of a command.
#[derive(Debug)]
pub struct Did {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Did {
    fn new(output: Output) -> Did {
        Did {
            // A process that was ended by a signal has no exit status; tests of signals expect -1.
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            err: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }

    /// Asserts a failure: this status, nothing on stdout, and each of these words on stderr.
    #[track_caller]
    pub fn failed(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.out, "", "a failure prints nothing on stdout");
        for word in words {
            assert!(self.err.contains(word), "no '{word}' in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }

    /// Asserts this exit status and an empty stderr; returns stdout.
    #[track_caller]
    pub fn ended(&self, status: i32) -> &str {
        assert_eq!((self.status, self.err.as_str()), (status, ""), "{}", self.out);
        &self.out
    }
}

impl User {
    pub fn new() -> User {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("fathom-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        User { home: tempfile::tempdir().expect("a temporary directory"), mark }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file below the home.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Writes the lines of a record as a file.
    pub fn write_record(&self, name: &str, lines: &str) -> PathBuf {
        self.write(name, &sealed(lines.lines()))
    }

    /// Returns the lines of a record.
    pub fn record(&self, name: &str) -> String {
        resumable(&self.read(name)).into_iter().map(|line| line + "\n").collect()
    }

    /// Defines a subject `name` whose command is a shell script.
    pub fn subject(&self, name: &str, script: &str) {
        let line = format!("[{name}]\ncommand = [\"sh\", \"-c\", '''{script}''']\n");
        self.write(".config/fathom/subjects.toml", &line);
    }

    /// Returns a command in the home directory, with an environment of PATH, HOME and the marker only.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command
            .args(arguments)
            .current_dir(self.home.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            // Tests run at the same time, and wait for each other's measurements only where they say so.
            .env("FATHOM_LOCKS", self.home.path())
            .env(MARK, &self.mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Did {
        wait(self.spawn(arguments))
    }

    /// Runs the command with this text on stdin.
    pub fn run_with(&self, arguments: &[&str], text: &[u8]) -> Did {
        use std::io::Write as _;
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let text = text.to_vec();
        let feeder = std::thread::spawn(move || {
            // The command may close the pipe before it has read everything.
            let _ = stdin.write_all(&text);
        });
        let did = wait(child);
        feeder.join().expect("the feeder");
        did
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().expect("it starts")
    }

    /// Runs a shell command line with `fathom` in its path.
    pub fn shell(&self, line: &str) -> Did {
        let mut command = Command::new("sh");
        let program = Path::new(env!("CARGO_BIN_EXE_fathom")).parent().expect("a directory");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        command.args(["-c", line]).current_dir(self.home.path()).env_clear();
        command.env("PATH", path).env("HOME", self.home.path()).env(MARK, &self.mark);
        command.env("FATHOM_LOCKS", self.home.path());
        // Else Go compiles pprof for each test, which takes half a minute.
        command.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        wait(command.spawn().expect("a shell"))
    }

    /// Returns the marked processes as (pid, parent, command line). Zombies are not found: they have no environment and
    /// use no CPU time.
    pub fn processes(&self) -> Vec<(u32, u32, String)> {
        let wanted = format!("{MARK}={}", self.mark);
        let entries = std::fs::read_dir("/proc").expect("/proc");
        entries.flatten().filter_map(|e| process(&e.path(), wanted.as_bytes())).collect()
    }

    /// Waits until `what` returns true for the marked processes.
    #[track_caller]
    pub fn wait(&self, patience: Duration, what: impl Fn(&[(u32, u32, String)]) -> bool) {
        let until = Instant::now() + patience;
        loop {
            let now = self.processes();
            if what(&now) {
                return;
            }
            assert!(Instant::now() < until, "still there: {now:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asserts that no marked process is left two seconds after `since`.
    #[track_caller]
    pub fn nothing_left(&self, since: Instant) {
        self.wait(GONE.saturating_sub(since.elapsed()), <[_]>::is_empty);
    }

    /// Waits until the file `name` in the home directory has `lines` lines.
    #[track_caller]
    pub fn lines(&self, name: &str, lines: usize) {
        let until = Instant::now() + SOON;
        while std::fs::read_to_string(self.path(name)).map_or(0, |t| t.lines().count()) < lines {
            assert!(Instant::now() < until, "{name} does not grow: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the probe that `parent` has started.
    #[track_caller]
    pub fn child_of(&self, parent: u32) -> u32 {
        let all = self.processes();
        all.iter().find(|p| p.1 == parent).unwrap_or_else(|| panic!("no child of {parent} in {all:?}")).0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // A failed test must not leave processes either.
        for (pid, _, _) in self.processes() {
            kill(pid, Signal::KILL);
        }
    }
}

fn process(proc: &Path, wanted: &[u8]) -> Option<(u32, u32, String)> {
    let pid: u32 = proc.file_name()?.to_str()?.parse().ok()?;
    let environment = std::fs::read(proc.join("environ")).ok()?;
    if !environment.split(|&b| b == 0).any(|entry| entry == wanted) {
        return None;
    }
    let status = std::fs::read_to_string(proc.join("status")).ok()?;
    let parent = status.lines().find_map(|l| l.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let line = std::fs::read(proc.join("cmdline")).ok()?;
    Some((pid, parent, String::from_utf8_lossy(&line).replace('\0', " ")))
}

/// Returns the names of tiers and their latencies in ns, from a survey's JSON.
pub fn tiers(json: &str) -> Vec<(String, f64)> {
    let document: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let all = document["findings"].as_array().expect("a list").iter();
    let named = |f: &serde_json::Value| {
        let name = f["name"].as_str()?;
        let tier = name.starts_with("tier.") && name.ends_with(".latency");
        Some((name.to_owned(), f["value"].as_f64()?)).filter(|_| tier)
    };
    all.filter_map(named).collect()
}

/// Asserts equal tiers, within 3 %: a trial that was repeated or reordered finds different lines in the caches.
#[track_caller]
pub fn same_tiers(one: &str, other: &str) {
    let (one, other) = (tiers(one), tiers(other));
    let same = |a: &(String, f64), b: &(String, f64)| a.0 == b.0 && (a.1 / b.1 - 1.0).abs() < 0.03;
    assert!(
        one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| same(a, b)),
        "{one:?}, {other:?}"
    );
    assert_eq!(one.len(), 3, "{one:?}");
}

/// Returns a shell command line that runs `line` in a tracefs mount. The kernel has one such file system; it is mounted
/// for this line only.
pub fn in_tracefs(line: &str) -> String {
    format!("mkdir -p t && unshare -m sh -c 'mount -t tracefs nodev t && cd t && {line}'")
}

/// Sends a signal; a process that has already ended is not an error.
pub fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process number");
    let _ = kill_process(pid, signal);
}

/// Waits until a child has ended and its streams are closed. A test that would hang fails instead.
#[track_caller]
pub fn wait(child: Child) -> Did {
    let pid = child.id();
    let ended = std::thread::spawn(move || Did::new(child.wait_with_output().expect("it ends")));
    let until = Instant::now() + SOON;
    while !ended.is_finished() {
        if Instant::now() > until {
            kill(pid, Signal::KILL);
            panic!("{pid} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    ended.join().expect("the waiter")
}

/// Waits until a running command has told `text` on stderr, which is read until then.
#[track_caller]
pub fn until_told(child: &mut Child, text: &str) {
    let stderr = child.stderr.as_mut().expect("a pipe");
    let (mut told, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&told).contains(text) {
        let read = stderr.read(&mut byte).expect("a pipe");
        assert!(read > 0, "it ended without '{text}': {}", String::from_utf8_lossy(&told));
        told.push(byte[0]);
    }
}

/// Asserts that the text fits 80 columns. Lines with a command are exempt.
#[track_caller]
pub fn fits(text: &str) {
    for line in text.lines().filter(|line| !line.starts_with("Next: ") && !line.contains('`')) {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

/// Returns whether a line of the text begins with `what`, as the head line of a report does. The headline is above it.
pub fn is_of(text: &str, what: &str) -> bool {
    text.lines().any(|line| line.starts_with(what))
}

/// Returns whether this host refused a measurement, with a reason and a remedy; then tells that the test is not run.
#[track_caller]
pub fn is_refused(did: &Did) -> bool {
    match did.status {
        1 => fathom_skip::skipped!(HostProbe, "this host refuses a probe: {}{}", did.out, did.err),
        5 => fathom_skip::skipped!(Unchecked, "nothing was measured on this host: {}{}", did.out, did.err),
        _ => return false,
    }
    assert!(did.err.contains("remedy: ") || did.out.contains("remedy"), "{did:?}");
    true
}

/// A program that runs until this is dropped. It has no pipe of the test's.
pub struct Background(pub std::process::Child);

impl Background {
    pub fn start(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Background {
        let mut command = std::process::Command::new(program);
        command.args(arguments).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Background(command.spawn().expect("it starts"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
