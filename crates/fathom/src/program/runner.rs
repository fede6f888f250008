//! A run of a program.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fathom_host::{ProgramUsage, end_with_this_thread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::Input;
use crate::child::left;
use crate::failure::Failure;
use crate::measure::stop::Stop;

/// Interval at which signals are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The same for the program's end, on kernels that cannot tell it (before Linux 5.3).
const COARSE_INTERVAL: Duration = Duration::from_millis(1);
/// Where programs are looked for without PATH: execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Time in which a program has to end after a signal.
const END_GRACE: Duration = Duration::from_secs(2);

/// Runs the program.
pub struct Runner<'a> {
    /// Program and arguments.
    pub command: &'a [OsString],
    /// Whether the program's stdout is sent to stderr.
    pub divert: bool,
    /// Its stdin.
    pub input: Input,
    /// Signals to this process.
    pub stop: Stop,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// Time from start to end.
    pub wall: Duration,
    /// What the kernel accounted for it, and for what it left that has ended by now.
    pub used: ProgramUsage,
    /// Whether processes that it has started are still running.
    pub left: bool,
}

impl Ended {
    /// Returns how it ended, if not with status 0, else an empty text.
    pub fn failure(&self) -> String {
        if self.status.success() { String::new() } else { self.status.to_string() }
    }
}

impl Runner<'_> {
    /// Runs it once, on the calling thread, whose counters and samples of programs it has. `meanwhile` returns in which time it is to
    /// be called again, at the latest; it may be called before.
    ///
    /// # Errors
    /// It cannot be started; with the remedy.
    pub fn run(&self, meanwhile: &mut dyn FnMut() -> Duration) -> Result<Ended, Failure> {
        self.run_in(&[], meanwhile)
    }

    /// The same with some variables of the environment.
    ///
    /// # Errors
    /// Those of [`Runner::run`].
    pub fn run_in(
        &self,
        environment: &[(&str, String)],
        meanwhile: &mut dyn FnMut() -> Duration,
    ) -> Result<Ended, Failure> {
        let mut command = self.prepared()?;
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        // What an earlier run has left is not of this one.
        left::reap();
        let before = ProgramUsage::of_children();
        let begin = Instant::now();
        let child = command.spawn().map_err(|e| cannot_start(&self.command[0], &e))?;
        let (status, wall) = self.wait(child, begin, meanwhile)?;
        let left = left::reap();
        Ok(Ended { status, wall, used: ProgramUsage::of_children().since(before), left })
    }

    fn prepared(&self) -> Result<Command, Failure> {
        let failed = |e: std::io::Error| {
            Failure::new(
                format!("cannot prepare the program's files: {e}"),
                "mount /proc, and raise the limit on open files",
            )
        };
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(self.input.begin().map_err(failed)?);
        // Whatever ends this process, the program does not go on without it.
        end_with_this_thread(&mut command);
        if self.divert {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
            command.stdout(Stdio::from(stderr));
        }
        Ok(command)
    }

    /// Waits for the program's end. Returns how it ended, and the time since its start.
    fn wait(
        &self,
        child: Child,
        begin: Instant,
        meanwhile: &mut dyn FnMut() -> Duration,
    ) -> Result<(ExitStatus, Duration), Failure> {
        let pid = Pid::from_child(&child);
        let mut running = Running { child: Some(child) };
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok();
        let mut asked: Option<Instant> = None;
        loop {
            wait_a_while(descriptor.as_ref(), meanwhile());
            let wall = begin.elapsed();
            if let Some(status) = running.ended()? {
                if self.stop.signal().is_some() {
                    left::end_children();
                }
                return Ok((status, wall));
            }
            let Some(signal) = self.stop.signal() else { continue };
            match asked {
                None => {
                    asked = Some(Instant::now() + END_GRACE);
                    // A terminal sends its own signal to the program too.
                    let forwarded = Signal::from_named_raw(signal).filter(|signal| *signal != Signal::INT);
                    forwarded.map(|signal| kill_process(pid, signal));
                }
                Some(until) if Instant::now() > until => drop(kill_process(pid, Signal::KILL)),
                Some(_) => {}
            }
        }
    }
}

/// Finds a program, before anything is written for it: in PATH, unless its name has a slash.
///
/// # Errors
/// There is none, or it may not be executed; with the remedy.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let files: Vec<PathBuf> = match name.as_bytes().contains(&b'/') {
        true => vec![name.into()],
        false => std::env::split_paths(&path).map(|folder| folder.join(name)).collect(),
    };
    let is_program = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    let exists = files.iter().any(|file| file.exists());
    let found = files.into_iter().find(is_program);
    let error = if exists { Errno::ACCESS } else { Errno::NOENT };
    found.ok_or_else(|| cannot_start(name, &error.into()))
}

fn cannot_start(name: &OsStr, e: &std::io::Error) -> Failure {
    let is_folder = Path::new(name).is_dir();
    let name = name.to_string_lossy();
    let remedy = match e.kind() {
        std::io::ErrorKind::NotFound if !name.contains('/') => {
            "check its name: it is not in PATH; for a file here, write ./NAME"
        }
        std::io::ErrorKind::NotFound => "check its path, and the interpreter that it names",
        std::io::ErrorKind::PermissionDenied if is_folder => "it is a folder: name the program in it",
        std::io::ErrorKind::PermissionDenied => "make it executable: chmod +x",
        _ => "start it without fathom to see why",
    };
    Failure::usage(format!("cannot start {name}: {e}"), remedy)
}

/// Waits until the process ends or a signal arrives, but not long.
pub fn wait_a_while(descriptor: Option<&OwnedFd>, most: Duration) {
    let Some(descriptor) = descriptor else { return std::thread::sleep(COARSE_INTERVAL.min(most)) };
    let timeout = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.min(most).subsec_nanos().into() };
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    // An interruption is what is waited for.
    let _ = poll(&mut polled, Some(&timeout));
}

/// A running program. It is killed if nobody waits for it any more.
struct Running {
    child: Option<Child>,
}

impl Running {
    /// Returns how it ended, if it has.
    fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let failed = |e| Failure::new(format!("cannot wait for the program: {e}"), "");
        let status = child.try_wait().map_err(failed)?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
