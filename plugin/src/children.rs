//! Processes that the program has started: they end with an interrupted simulation.

/// Ends all descendants of this process.
pub fn end_all() {
    let mut all = vec![std::process::id()];
    let mut next = 0;
    let parents = parents();
    while let Some(&parent) = all.get(next) {
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    for &child in &all[1..] {
        // SAFETY: sends a signal, and has no further condition.
        unsafe { libc::kill(child.cast_signed(), libc::SIGKILL) };
    }
}

/// Returns all processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pair = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // proc_pid_stat(5): `pid (comm) state ppid ...`; the name may contain anything.
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        Some((pid, parent))
    };
    processes.filter_map(pair).collect()
}
