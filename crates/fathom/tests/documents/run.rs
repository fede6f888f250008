//! Runs the commands of documents: each in its document's directory. Commands on a built-in described machine run only
//! once for all documents.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use super::block::{Step, differs};
use super::{excerpt, names, record};

/// The record that the documents show.
pub const RECORD: &str = "crates/fathom/tests/documents/guest.fathom";

/// Programs that a command line may begin with, in addition to `cargo` and the scripts.
const PROGRAMS: [&str; 9] =
    ["fathom", "printf", "sed", "cat", "mkdir", "yes", "ulimit", COMPILER, CROSS_COMPILER];

/// The compiler of the programs that documents simulate.
const CROSS_COMPILER: &str = "arm-linux-gnueabi-gcc";

/// The compiler of the programs whose regions documents count.
const COMPILER: &str = "gcc";

/// Programs that cut an output. The harness cuts instead, so that readers see complete commands.
const CUTTERS: [&str; 5] = ["sed", "grep", "head", "tail", "cut"];

/// Exit status and output of a command.
type Ran = (i32, String);

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file of the repository.
pub fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Returns whether documents are to be updated.
pub fn blessing() -> bool {
    std::env::var_os("FATHOM_BLESS").is_some()
}

/// Replaces the documents' record by the one that `FATHOM_RECORD` names, once and before any test reads it.
pub fn take_record() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let Some(from) = std::env::var_os("FATHOM_RECORD") else { return };
        let record = std::fs::read_to_string(&from).unwrap_or_else(|e| panic!("{from:?}: {e}"));
        std::fs::write(root().join(RECORD), record::published(&record)).expect("the record can be written");
    });
}

/// Returns a temporary home directory with links to the repository's files.
pub fn temporary_home() -> tempfile::TempDir {
    take_record();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["machines", "crates", "records", "examples", "include"] {
        std::os::unix::fs::symlink(root().join(name), dir.path().join(name)).expect("a link");
    }
    dir
}

/// Runs a command line; returns its exit status and its output.
pub fn shell(line: &str, dir: &Path) -> Ran {
    let fathom = Path::new(env!("CARGO_BIN_EXE_fathom"));
    let mut path = fathom.parent().expect("a directory").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let out = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {line}")])
        .current_dir(dir)
        .env("PATH", path)
        .env("HOME", dir)
        .env("FATHOM_LOCKS", dir)
        .env("XDG_DATA_HOME", dir.join("data"))
        .env("XDG_CONFIG_HOME", dir.join("config"))
        .env("LC_ALL", "C.UTF-8")
        .env_remove("CLICOLOR_FORCE")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("sh starts");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stdout).into_owned())
}

/// As `shell`, but runs a repeatable command only once.
fn shell_once(line: &str, dir: &Path) -> Ran {
    static SEEN: Mutex<Option<HashMap<String, Arc<OnceLock<Ran>>>>> = Mutex::new(None);
    if !repeats(line) {
        return shell(line, dir);
    }
    let mut seen = SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let slot = Arc::clone(seen.get_or_insert_default().entry(line.to_owned()).or_default());
    drop(seen);
    slot.get_or_init(|| shell(line, dir)).clone()
}

/// Returns whether a command prints the same in any directory and creates no files: it measures a built-in described
/// machine and writes no file.
fn repeats(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--on").and_then(|n| words.get(n + 1));
    let described = at.is_some_and(|name| {
        !name.contains(['/', ':', ','])
            && words.get(1) != Some(&"simulate")
            && root().join(format!("machines/{name}.toml")).is_file()
    });
    let writes = ["--record", "--html", "-o", "--output"];
    described
        && words[0] == "fathom"
        && !line.contains(['>', '<', '|', ';', '&', '$', '`'])
        && !words.iter().any(|word| writes.contains(word))
}

/// Error of a step, and the text that would replace the one in the document.
#[derive(Default)]
pub struct Checked {
    pub trouble: Option<String>,
    pub blessed: Option<Vec<String>>,
}

impl Checked {
    fn wrong(trouble: String) -> Checked {
        Checked { trouble: Some(trouble), blessed: None }
    }
}

/// Runs a step in `dir`.
pub fn check(step: &Step, dir: &Path) -> Checked {
    // Variables may precede the program, as in `A=1 cargo test`.
    let first = step.command.split_whitespace().find(|w| !w.contains('=')).unwrap_or_default();
    if first == "cargo" || first.starts_with("scripts/") || [".ci/run", "packages/test"].contains(&first) {
        return Checked { trouble: names::unknown(&root(), &step.command), blessed: None };
    }
    if !PROGRAMS.contains(&first) {
        return Checked::wrong(format!(
            "'{first}' is not run here; the programs are {}",
            PROGRAMS.join(", ")
        ));
    }
    if let Some(missing) = missing(&step.command) {
        fathom_skip::skipped!(
            Unchecked,
            "documents: `{}`: no {missing}: scripts/simulate --setup",
            step.command
        );
        return Checked::default();
    }
    if let Some(cutter) = cut_by(step) {
        return Checked::wrong(format!("'{cutter}' cuts what is shown: show '...' for what is left out"));
    }
    let host = step.command.contains("fathom survey") && !step.command.contains("--on ");
    let command = if host && !step.command.contains("--budget") {
        step.command.replace("fathom survey", "fathom survey --budget 1s")
    } else {
        step.command.clone()
    };
    let (status, printed) = shell_once(&command, dir);
    compare(step, host, status, &printed)
}

/// Returns what is missing here for a command that simulates a program or counts its regions, or builds one.
fn missing(command: &str) -> Option<&'static str> {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if command.starts_with(COMPILER) || command.contains("fathom count --region") {
        return (!runs(COMPILER)).then_some(COMPILER);
    }
    if !command.contains("fathom simulate") && !command.contains(CROSS_COMPILER) {
        return None;
    }
    let plugin = Path::new(env!("CARGO_BIN_EXE_fathom")).with_file_name("libfathom_plugin.so");
    match () {
        () if !runs(CROSS_COMPILER) => Some(CROSS_COMPILER),
        () if !runs("qemu-arm") => Some("qemu-arm"),
        () if !plugin.is_file() => Some("plugin for QEMU"),
        () => None,
    }
}

/// Returns the program that cuts fathom's output before it is shown.
fn cut_by(step: &Step) -> Option<&str> {
    let (before, last) = step.command.rsplit_once('|')?;
    let program = last.split_whitespace().next()?;
    let cuts = !step.shown.is_empty() && before.contains("fathom") && !last.contains('>');
    (cuts && CUTTERS.contains(&program)).then_some(program)
}

/// Compares output and exit status of a step with the shown ones.
fn compare(step: &Step, host: bool, status: i32, printed: &str) -> Checked {
    let any = host && step.status.is_none();
    let fits = if any { [0, 3, 5].contains(&status) } else { status == step.status.unwrap_or(0) };
    // Failures and panics must be fixed, and are never blessed.
    let sane = any || [0, 2, 3, 4, 5].contains(&status);
    let excerpt_lines = excerpt::recut(&step.shown, printed).and_then(|lines| still_open(step, lines));
    let trouble = if !fits {
        Some(format!("exit status {status}, shown {:?}; it printed:\n{printed}", step.status))
    } else if step.shown.is_empty() {
        None
    } else {
        differs(&step.shown, printed).map(|trouble| match &excerpt_lines {
            // Reports the difference of the excerpt, not of the complete output.
            Ok(lines) => differs(&step.shown, &lines.join("\n")).unwrap_or(trouble),
            Err(e) => e.clone(),
        })
    };
    let blessed = excerpt_lines.ok().filter(|_| sane && !step.shown.is_empty()).map(|mut lines| {
        if status != 0 && !any {
            lines.push(format!("? {status}"));
        }
        lines
    });
    Checked { trouble, blessed }
}

/// Returns the lines. Fails if the document has a line with a wildcard that would be replaced by a line with a changing
/// value.
fn still_open(step: &Step, lines: Vec<String>) -> Result<Vec<String>, String> {
    let open = step.shown.iter().filter(|line| line.contains("[..]"));
    let lost = open.into_iter().find(|line| !lines.contains(line));
    lost.map_or(Ok(lines), |line| Err(format!("no line printed is like {line:?}: cut it anew")))
}

#[test]
fn only_commands_on_built_in_machines_run_once() {
    assert!(repeats("fathom survey --on bcm2835 --budget 1s"));
    for line in [
        "fathom survey --budget 1s",
        "fathom survey --on ./bcm2835",
        "fathom survey --on qemu:virt",
        "fathom survey --on bad",
        "fathom survey --on bcm2835 --record a",
        "fathom survey --on bcm2835 > a",
        "fathom report a.fathom",
    ] {
        assert!(!repeats(line), "{line}");
    }
}

#[test]
fn command_that_cuts_its_output_is_refused() {
    let step = |command: &str, shown: &[&str]| Step {
        command: command.to_owned(),
        line: 1,
        shown: shown.iter().map(|l| (*l).to_owned()).collect(),
        lines: 1..1,
        status: None,
    };
    assert_eq!(cut_by(&step("fathom report a | sed -n 1p", &["x"])), Some("sed"));
    assert_eq!(cut_by(&step("fathom report a | head -1", &["x"])), Some("head"));
    assert_eq!(cut_by(&step("fathom machines a | sed s/a/b/ > c", &[])), None);
    assert_eq!(cut_by(&step("printf x | fathom serve model zen3", &["x"])), None);
}

#[test]
fn difference_is_reported_for_the_excerpt_only() {
    let shown = ["...", "Tiers", "1  2.5", "..."].map(str::to_owned).to_vec();
    let step = Step { command: String::new(), line: 1, shown, lines: 1..5, status: None };
    let checked = compare(&step, false, 0, "a machine\n\nTiers\n1  3.5\n\nClaims\n");
    assert_eq!(checked.blessed.unwrap(), ["...", "Tiers", "1  3.5", "..."]);
    let trouble = checked.trouble.unwrap();
    assert!(
        trouble.contains("shown as \"1  2.5\"") && trouble.contains("printed as \"1  3.5\""),
        "{trouble}"
    );
    assert!(compare(&step, false, 0, "a machine\n\nTiers\n1  2.5\n").trouble.is_none());
    assert!(compare(&step, false, 3, "Tiers\n1  2.5\n").trouble.unwrap().contains("exit status 3"));
}
