//! `fathom doctor`: examines a machine, Fathom's own requirements, and leftovers of killed probes.

use std::path::{Path, PathBuf};

use clap::Args;

use fathom_analysis::examination::{Row, State};
use fathom_experiment::doctor::examine;
use rustix::fs::{Access, access};

use super::{Context, Verb};
use crate::failure::{Exit, Failure};
use crate::output::shell;
use crate::{measure, record_writer, subjects};

/// Text for `--restore` if nothing was left.
const NOTHING_TO_RESTORE: &str = "Fathom changes no setting of a machine. Priority, affinity, locked memory, co-running load and \
    the probe itself end with their processes, and a reaper removes trace instances and resource groups. There is \
    nothing to restore. (The kernel module, where it is loaded, may split large pages of the kernel's own mapping until \
    the next boot: driver/README.md.)";

/// Options of the examination.
#[derive(Debug, Args)]
struct Doctor {
    /// What to examine: a subject of `fathom subjects`. Default: this host.
    #[arg(long, value_name = "SUBJECT")]
    on: Option<String>,
    /// CPU to examine. Default: as for a survey.
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Only search for leftovers of a killed fathom, and remove them. No setting is ever changed.
    #[arg(long, conflicts_with_all = ["on", "cpu"])]
    restore: bool,
    /// Print the rows as JSON: {format, version, subject, rows: [{what, state, found, cost, command}]}.
    #[arg(long)]
    json: bool,
}

/// The verb.
pub fn verb() -> Verb {
    Verb::of::<Doctor>(
        "doctor",
        "Examines what limits measurements on a machine, the effects, and the commands that change it",
        "Examples:
  fathom doctor                this machine
  fathom doctor --on pi        a user-defined subject
  fathom doctor --json         for a script
  fathom doctor --restore      remove leftovers of a killed fathom

It changes no settings. Exit status: 0 no limitation, 1 failed, 2 wrong command line or file, \
         3 a setting limits measurement quality, 5 nothing can be measured",
        run,
    )
}

/// Examines, prints, and returns the exit status.
fn run(options: &Doctor, context: &Context) -> Result<Exit, Failure> {
    let out = &context.out;
    let mut rows = Vec::new();
    let mut name = "host".to_owned();
    if !options.restore {
        let (subject, record) = measure::facts(options.on.as_deref(), options.cpu)?;
        rows.extend(examine(&record));
        name = subject.name;
    }
    if options.on.is_none() {
        if !options.restore {
            rows.extend([records_kept(), own_subjects()]);
        }
        rows.extend([orphan_probes(Path::new("/proc")), truncated_records()]);
    }
    let removed = if options.restore { restore() } else { Vec::new() };
    if options.restore {
        rows.push(kernel_leftovers(&removed));
    }
    let worst = rows.iter().map(|row| row.state).max().unwrap_or(State::Good);
    if options.json {
        out.text(&fathom_report::json::examination(&name, &rows))?;
    } else {
        let on = options.on.as_ref().map(|on| format!(" --on {}", shell(on))).unwrap_or_default();
        let next = match worst {
            State::Prevents => "fathom machines".to_owned(),
            _ => format!("fathom survey{on}"),
        };
        let title =
            if options.restore { "leftovers of a killed fathom".into() } else { format!("doctor: {name}") };
        out.text(&fathom_report::examination(
            &title,
            &rows,
            &closing(options, &rows, &removed),
            &next,
            out.style(),
        ))?;
    }
    Ok(match worst {
        State::Good | State::Note => Exit::Done,
        State::Costs => Exit::LowConfidence,
        State::Prevents => Exit::Refused,
    })
}

fn closing(options: &Doctor, rows: &[Row], removed: &[String]) -> String {
    if options.restore {
        return match removed.len() {
            0 => NOTHING_TO_RESTORE.to_owned(),
            1 => "Removed 1 kernel directory left by a killed probe and its reaper.".to_owned(),
            n => {
                format!("Removed {n} kernel directories left by killed probes and their reapers.")
            }
        };
    }
    if rows.iter().any(|row| row.state == State::Prevents) {
        return "Nothing can be measured in this state. Nothing was changed.".to_owned();
    }
    match rows.iter().filter(|row| row.state >= State::Costs).count() {
        0 => "No avoidable limitation found.".to_owned(),
        1 => "1 setting limits measurement quality. Nothing was changed.".to_owned(),
        n => format!("{n} settings limit measurement quality. Nothing was changed."),
    }
}

/// Examines whether copies of records can be kept.
fn records_kept() -> Row {
    let cost = "no copy of a record is kept; --record FILE still works";
    let Some(dir) = record_writer::data_dir() else {
        return Row::costs(
            "records",
            "neither XDG_DATA_HOME nor HOME names a directory",
            cost,
            "export HOME=DIRECTORY",
        );
    };
    // The nearest existing directory; the rest is created on demand.
    let existing = dir.ancestors().find(|d| d.exists()).unwrap_or(&dir);
    let shown = existing.display();
    if !existing.is_dir() {
        let command = format!("mv {0} {0}.old", quoted(existing));
        return Row::costs("records", format!("{shown} is not a directory"), cost, &command);
    }
    match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Row::good("records", format!("copies are kept in {}", dir.display())),
        Err(e) => {
            let command = format!("sudo chown -R \"$(id -u)\" {}", quoted(existing));
            Row::costs("records", format!("{shown} cannot be written: {e}"), cost, &command)
        }
    }
}

fn quoted(path: &Path) -> String {
    shell(&path.display().to_string())
}

/// Examines the user's subjects and descriptions.
fn own_subjects() -> Row {
    let list = match subjects::all() {
        Ok(list) => list,
        Err(e) => {
            let file = subjects::config_dir().map(|d| d.join("subjects.toml")).unwrap_or_default();
            let command = format!("${{EDITOR:-vi}} {}", quoted(&file));
            return Row::costs("subjects", e.what, "no subject but this host can be named", &command);
        }
    };
    let broken = subjects::broken();
    if let Some((file, why)) = broken.first() {
        let found = format!("invalid machine descriptions: {}, the first: {why}", broken.len());
        let command = format!("fathom machines {}", quoted(file));
        return Row::costs("subjects", found, "that machine cannot be measured", &command);
    }
    Row::good("subjects", format!("{} can be measured (`fathom subjects`)", list.len()))
}

/// Examines probes whose harness has ended. They normally end with their input; one that is left hangs.
fn orphan_probes(proc: &Path) -> Row {
    let orphans: Vec<u32> = std::fs::read_dir(proc)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| orphan(&entry.path()))
        .collect();
    if orphans.is_empty() {
        return Row::good("orphan-probes", "none");
    }
    let list = orphans.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let found = format!("probes without a harness: {list}");
    Row::costs("orphan-probes", found, "they may use the measured CPU", &format!("kill {list}"))
}

/// Returns the id of the process in this directory of `/proc` if it is a probe whose harness has ended: its parent is
/// not the given harness, or, without one, its parent is process 1.
fn orphan(process: &Path) -> Option<u32> {
    let pid: u32 = process.file_name()?.to_str()?.parse().ok()?;
    let line = std::fs::read(process.join("cmdline")).ok()?;
    let words: Vec<&[u8]> = line.split(|&b| b == 0).collect();
    let program = Path::new(std::str::from_utf8(words.first()?).ok()?).file_name()?;
    if program != "fathom" || *words.get(1)? != b"serve" {
        return None;
    }
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let parent: u32 = status.lines().find_map(|l| l.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let at = words.iter().position(|w| *w == b"--parent");
    let harness = at.and_then(|at| std::str::from_utf8(words.get(at + 1)?).ok()?.parse::<u32>().ok());
    (harness.is_some_and(|harness| harness != parent) || harness.is_none() && parent == 1).then_some(pid)
}

/// Removes leftovers of probes that were killed together with their reapers; returns their names.
#[cfg(target_os = "linux")]
fn restore() -> Vec<String> {
    fathom_host::remove_leftovers()
}

#[cfg(not(target_os = "linux"))]
fn restore() -> Vec<String> {
    Vec::new()
}

/// Reports the removed trace instances and resource groups of killed probes.
fn kernel_leftovers(removed: &[String]) -> Row {
    match removed {
        [] => Row::good("kernel-leftovers", "none visible to this user"),
        some => {
            Row::note("kernel-leftovers", format!("removed: {}", some.join(" ")), "left by a killed probe")
        }
    }
}

/// Reports kept records without an end whose process is gone, so it was killed. They are valid up to there.
fn truncated_records() -> Row {
    let cut: Vec<PathBuf> = record_writer::data_dir().map(|dir| cut_in(&dir)).unwrap_or_default();
    match cut.last() {
        None => Row::good("truncated-records", "none"),
        Some(last) => Row {
            command: format!("fathom report {}", quoted(last)),
            ..Row::note(
                "truncated-records",
                format!("{} end early; the last one below", cut.len()),
                "they can be read normally",
            )
        },
    }
}

fn cut_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut cut: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|x| x == "fathom") && !is_growing(path) && !has_end(path))
        .collect();
    cut.sort();
    cut
}

/// Returns whether a session is writing the record.
fn is_growing(path: &Path) -> bool {
    std::fs::File::open(path).is_ok_and(|file| record_writer::is_being_written(&file))
}

/// Returns whether the record ends with an `end` line, which the harness writes last.
fn has_end(path: &Path) -> bool {
    use std::io::{Read as _, Seek as _, SeekFrom};
    // An `end` line is some forty bytes long.
    let tail = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(256)))?;
        let mut bytes = Vec::new();
        file.take(256).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    // An unreadable record is not reported as cut.
    tail().map_or(true, |bytes| {
        String::from_utf8_lossy(&bytes).lines().any(|line| line.starts_with("end status="))
    })
}

#[cfg(test)]
mod tests {
    use fathom_experiment::record::file::sealed;

    use super::*;

    fn process(proc: &Path, pid: u32, command: &str, parent: u32) {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("cmdline"), command.replace(' ', "\0") + "\0").expect("a file");
        std::fs::write(dir.join("status"), format!("Name:\tfathom\nPPid:\t{parent}\n")).expect("a file");
    }

    #[test]
    fn only_orphaned_probes_are_reported() {
        let proc = tempfile::tempdir().expect("a directory");
        let proc = proc.path();
        process(proc, 10, "/usr/bin/fathom serve host --parent 9", 9);
        process(proc, 11, "fathom serve host", 8);
        process(proc, 12, "fathom survey", 1);
        process(proc, 13, "sleep serve", 1);
        std::fs::create_dir_all(proc.join("self")).expect("a directory");
        assert_eq!(orphan_probes(proc).state, State::Good);
        process(proc, 20, "/usr/bin/fathom serve host --parent 9", 700);
        process(proc, 21, "fathom serve model zen3", 1);
        let row = orphan_probes(proc);
        assert_eq!(row.state, State::Costs);
        let mut left: Vec<&str> = row.command.split(' ').skip(1).collect();
        left.sort_unstable();
        assert_eq!(left, ["20", "21"]);
    }

    #[test]
    fn truncated_records_of_ended_processes_are_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let end = "end status=complete elapsed_ms=1";
        let of =
            |lines: &[&str]| sealed(["fathom.record version=1"].into_iter().chain(lines.iter().copied()));
        for (name, text) in [
            ("1-survey-host.fathom", of(&["trial"])),
            ("2-survey-host.fathom", of(&[end])),
            ("3-survey-host.fathom", of(&[])),
            ("notes.txt", "mine".to_owned()),
        ] {
            std::fs::write(dir.path().join(name), text).expect("a file");
        }
        let open = std::fs::File::open(dir.path().join("3-survey-host.fathom")).expect("a record");
        open.lock().expect("a lock");
        assert_eq!(cut_in(dir.path()), [dir.path().join("1-survey-host.fathom")]);
        assert!(cut_in(&dir.path().join("none")).is_empty());
    }
}
