//! One measurement at a time on a CPU: a lock that every Fathom on the machine takes, and that ends with its process.
//!
//! The lock is a flock(2) on the CPU's directory in sysfs. That directory exists on every Linux, nothing is created that
//! could be left behind, every user may lock it, and no other place has to be agreed on. It is that of a network namespace
//! (sysfs is mounted for one), so containers with networks of their own lock different directories: for them a
//! directory can be named that they share. Whoever may open the directory may also keep the lock, which SECURITY.md says.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fathom_probe::machine::{Fact, Refusal};
use fathom_units::facts;

use crate::facts::{int, text};
use crate::procfs::Root;

/// How the CPU is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// Directory with a file for each CPU, instead of sysfs.
    pub directory: Option<PathBuf>,
    /// Time to wait for another measurement.
    pub wait: Duration,
}

/// Interval at which a lock is tried again.
const TRY_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which other measurements are looked for between trials. A look takes some microseconds per CPU, and no session
/// is much shorter.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// The locks of a machine's CPUs, of which this process has one.
#[derive(Debug)]
pub(crate) struct CpuLock {
    root: Root,
    directory: Option<PathBuf>,
    cpu: u32,
    /// Other CPUs that were seen to be measured.
    measured: BTreeSet<u32>,
    looked: Option<Instant>,
    /// Keeps the lock while it is open.
    _locked: Option<File>,
}

impl CpuLock {
    /// Locks a CPU; waits if it is measured. Returns facts too: how it is locked, and how long that took.
    ///
    /// # Errors
    /// The CPU is still measured after the time to wait.
    pub(crate) fn acquire(
        root: &Root,
        options: &LockOptions,
        cpu: u32,
    ) -> Result<(CpuLock, Vec<Fact>), Refusal> {
        let directory = options.directory.clone();
        let mut lock = CpuLock {
            root: root.clone(),
            directory,
            cpu,
            measured: BTreeSet::new(),
            looked: None,
            _locked: None,
        };
        let file = match lock.create(cpu) {
            Ok(file) => file,
            Err(e) => return Ok((lock, vec![text(facts::CPU_LOCK, format!("none: {e}"))])),
        };
        let begin = Instant::now();
        let mut tries = 0u32;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(e)) => {
                    return Ok((lock, vec![text(facts::CPU_LOCK, format!("none: {e}"))]));
                }
                Err(TryLockError::WouldBlock) if begin.elapsed() >= options.wait => {
                    let remedy = "wait for its end (--wait TIME), or choose another CPU (--cpu N)";
                    return Err(Refusal::new(
                        format!("CPU {cpu} is measured by {}", lock.holder(&file)),
                        remedy,
                    ));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            tries += 1;
            // Another process looks at the locks for a moment only.
            if tries == 2 {
                crate::supervisor::print_message(&format!(
                    "CPU {cpu} is measured by {}: waiting up to {} s for its end",
                    lock.holder(&file),
                    options.wait.as_secs()
                ));
            }
            std::thread::sleep(TRY_INTERVAL.min(options.wait.saturating_sub(begin.elapsed())));
        }
        lock._locked = Some(file);
        let waited = if tries > 0 { begin.elapsed().as_millis() as u64 } else { 0 };
        Ok((lock, vec![text(facts::CPU_LOCK, "held"), int(facts::CPU_LOCK_WAITED_MS, waited)]))
    }

    /// Looks for other CPUs that are measured now, at most once per [`LOOK_INTERVAL`]. Called between trials: a measurement
    /// that begins and ends within one trial is not seen.
    pub(crate) fn look(&mut self) {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_INTERVAL) {
            self.look_now();
        }
    }

    /// Returns the fact that names the other CPUs that are measured now or were seen to be measured before; none if there
    /// are none.
    pub(crate) fn others(&mut self, prefix: &str) -> Option<Fact> {
        self.look_now();
        let measured: Vec<u32> = self.measured.iter().copied().collect();
        (!measured.is_empty())
            .then(|| text(format!("{prefix}.cpus.measured"), crate::process::list(&measured)))
    }

    fn look_now(&mut self) {
        let numbers = self.root.names("/sys/devices/system/cpu").into_iter();
        let cpus = numbers.filter_map(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        let measured: Vec<u32> = cpus.filter(|cpu| *cpu != self.cpu && self.is_locked(*cpu)).collect();
        self.measured.extend(measured);
        self.looked = Some(Instant::now());
    }

    /// Returns whether another process has the lock of a CPU.
    fn is_locked(&self, cpu: u32) -> bool {
        // The lock is free again at once, when the file is closed.
        self.open(cpu).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Opens what is locked for a CPU. For reading, so that a file of another user can be locked too; a link would lead
    /// elsewhere.
    fn open(&self, cpu: u32) -> io::Result<File> {
        let Some(path) = self.named(cpu) else {
            return File::open(self.root.path(&format!("/sys/devices/system/cpu/cpu{cpu}")));
        };
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
    }

    /// The same, and creates the file in a named directory.
    fn create(&self, cpu: u32) -> io::Result<File> {
        match (self.open(cpu), self.named(cpu)) {
            (Err(e), Some(path)) if e.kind() == io::ErrorKind::NotFound => {
                // Another process may have been first; it is opened then.
                OpenOptions::new().read(true).append(true).create(true).mode(0o644).open(path)
            }
            (opened, _) => opened,
        }
    }

    /// Returns the file of a CPU in a named directory.
    fn named(&self, cpu: u32) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("cpu{cpu}")))
    }

    /// Returns which process holds a lock, for a message: by `/proc/locks`, which shows those of this namespace. It is
    /// the probe; its parent is the command that the user knows.
    fn holder(&self, file: &File) -> String {
        let pid = || {
            let about = file.metadata().ok()?;
            let (major, minor) = (libc::major(about.dev()), libc::minor(about.dev()));
            // Documentation/filesystems/proc.rst: `1: FLOCK  ADVISORY  WRITE 708 00:16:3578 0 EOF`.
            let place = format!("{major:02x}:{minor:02x}:{}", about.ino());
            let locks = self.root.text("/proc/locks")?;
            let line = locks.lines().find(|line| line.contains("FLOCK") && line.contains(&place))?;
            line.split_whitespace().nth(4)?.parse::<u32>().ok()
        };
        let Some(pid) = pid() else { return "a process that is not seen from here".to_owned() };
        let parent =
            self.parent(pid).and_then(|parent| self.command(parent)).filter(|c| c.contains("fathom"));
        match parent.or_else(|| self.command(pid)) {
            Some(command) => format!("process {pid} ({command})"),
            None => format!("process {pid}"),
        }
    }

    /// Returns the parent of a process: proc_pid_status(5), `PPid`.
    fn parent(&self, pid: u32) -> Option<u32> {
        let status = self.root.text(&format!("/proc/{pid}/status"))?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    }

    /// Returns the first words of a process's command line, without characters that act on a terminal.
    fn command(&self, pid: u32) -> Option<String> {
        const MAX_BYTES: u64 = 120;
        let raw = self.root.bytes(&format!("/proc/{pid}/cmdline"), MAX_BYTES)?;
        let words = String::from_utf8_lossy(&raw).replace('\0', " ");
        let shown: String =
            words.trim().chars().map(|c| if c.is_ascii_graphic() { c } else { ' ' }).collect();
        (!shown.is_empty()).then_some(shown)
    }
}

#[cfg(test)]
mod tests;
