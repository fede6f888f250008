//! Files of perf: recognised, and read by a process of its own.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use fathom_experiment::profile;
use fathom_experiment::record::{End, Record, Run};
use fathom_probe::wire::Line;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::samples;
use crate::child::end_with_parent;
use crate::failure::{Exit, Failure, print_styled};
use crate::output::short;

/// First bytes of a file of perf, in both byte orders.
const MAGIC: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];
/// Memory that reading a file may take, bytes.
const MAX_MEMORY: u64 = if cfg!(target_pointer_width = "64") { 8 << 30 } else { 1 << 30 };

/// Returns whether this is a file of perf.
pub fn is_one(path: &Path) -> bool {
    let mut begin = [0; 8];
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let read = is_file && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok();
    read && MAGIC.contains(&&begin)
}

/// Prints the lines of a profile: what the other process does, for as long as `parent` waits for it.
pub fn print_lines(path: &Path, event: Option<&str>, parent: u32) -> Result<Exit, Failure> {
    let failed = |e: rustix::io::Errno| {
        Failure::new(format!("cannot limit the memory for {}: {e}", path.display()), "")
    };
    end_with_parent(Some(parent))?;
    let most = getrlimit(Resource::As).maximum.map_or(MAX_MEMORY, |most| most.min(MAX_MEMORY));
    setrlimit(Resource::As, Rlimit { current: Some(most), maximum: Some(most) }).map_err(failed)?;
    let profile = samples::read(path, event)?;
    let lines: String = profile.record_lines().iter().map(|line| line.render() + "\n").collect();
    super::super::print(lines.as_bytes())
}

/// Returns the lines of a record with the samples of a file, or the exit status of what could not read it and has told why.
pub fn lines(path: &Path, event: Option<&str>, command: &str) -> Result<Result<Vec<String>, Exit>, Failure> {
    let shown = path.display();
    let cannot =
        |e: std::io::Error| Failure::new(format!("{shown}: cannot start a process that reads it: {e}"), "");
    let mut reader = Command::new("/proc/self/exe");
    reader
        .args(["import", &format!("--lines-for={}", std::process::id())])
        .args(event.map(|event| format!("--event={event}")))
        .arg("--")
        .arg(path);
    let done = reader.stdin(Stdio::null()).output().map_err(cannot)?;
    match done.status.code() {
        Some(0) => {}
        Some(code @ (1 | 2)) => {
            print_styled(&String::from_utf8_lossy(&done.stderr));
            return Ok(Err(if code == 2 { Exit::Usage } else { Exit::Failed }));
        }
        _ => {
            let what = format!(
                "{shown}: damaged, or needs more than {} GiB to be read ({})",
                MAX_MEMORY >> 30,
                done.status
            );
            return Err(Failure::usage(what, samples::RECORD_AGAIN));
        }
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let head = text.lines().next().and_then(|line| Line::parse(line).ok());
    let program = head.as_ref().and_then(|head| head.fields().text("name").ok().flatten());
    let run = Run {
        experiment: profile::NAME.to_owned(),
        subject: short(program.unwrap_or_default()),
        build: crate::build_id::id(),
        command: short(command),
        ..Run::default()
    };
    let end = End { status: "complete".to_owned(), elapsed_ms: 0 };
    let mut all = vec![Record::first_line(), run.line().render()];
    all.extend(text.lines().map(str::to_owned));
    all.push(end.line().render());
    Ok(Ok(all))
}
