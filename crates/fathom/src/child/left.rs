//! Processes that a subject's command leaves in sessions of their own, where ending its process group does not reach them.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

/// Name of the process that `ControlPersist` of ssh_config(5) leaves on purpose.
const MEANT_TO_STAY: &str = "ssh";

/// Generations of processes that are ended one after the other, at most.
const MAX_GENERATIONS: usize = 200;

/// A process that is left.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

/// Makes this process the parent of all processes whose own parent ends, from now on.
pub fn adopt() {
    // Every Linux since 3.4 does it: prctl(2). Without it, nothing is found below.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Reaps the children of this process that have ended. Returns whether others still run.
pub fn reap() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Ends all children of this process, and those that these leave.
pub fn end_children() {
    // Each round ends one generation: their children become this process's.
    for _ in 0..MAX_GENERATIONS {
        reap();
        let children: Vec<i32> =
            processes().filter(|&pid| parent(pid) == Some(getpid().as_raw_pid())).collect();
        if children.is_empty() {
            return;
        }
        for pid in children.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Returns all process ids.
fn processes() -> impl Iterator<Item = i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
}

/// Returns the parent of a process.
fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Returns the adopted processes that are not of the process group `ended`, which is being killed. Reaps those that have ended.
pub fn left(ended: Pid) -> Vec<Left> {
    reap();
    processes().filter_map(|pid| adopted(pid, ended.as_raw_pid())).collect()
}

/// Returns a process if it is a child of this one outside of a process group.
fn adopted(pid: i32, group: i32) -> Option<Left> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc_pid_stat(5): `pid (comm) state ppid pgrp ...`; the name may contain anything.
    let (begin, rest) = stat.rsplit_once(") ")?;
    let name = begin.split_once(" (")?.1;
    let mut fields = rest.split(' ').skip(1).map(|field| field.parse::<i32>().ok());
    let (parent, its_group) = (fields.next()??, fields.next()??);
    if parent != getpid().as_raw_pid() || its_group == group || name == MEANT_TO_STAY {
        return None;
    }
    let raw = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&raw).replace('\0', " ").trim().to_owned();
    Some(Left { pid, command: if command.is_empty() { name.to_owned() } else { command } })
}
