//! The supervisor: a thread that ends the probe when a worker or the reaper exits unexpectedly.
//!
//! A measurement after a worker has ended has another load than recorded, and resources registered with a reaper that
//! has ended are never removed. So the supervisor then ends everything, reports which process it was, and exits. The
//! thread sleeps in `poll` on the processes' descriptors, on the load's CPUs and without priority. It does nothing
//! until a process ends.

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fathom_probe::machine::Refusal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};

use crate::process::set_affinity;
use crate::reaper::{OwnedResource, Reaper};
use crate::rt_priority;

/// Poll interval for a process without a descriptor (Linux before 5.3).
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// The supervisor, and the reaper that it watches.
#[derive(Clone)]
pub(crate) struct Supervisor(Arc<SupervisorInner>);

struct SupervisorInner {
    state: Mutex<State>,
    /// Event that wakes the thread when the list of processes has changed.
    changed: Option<OwnedFd>,
    /// Program and first arguments of a reaper.
    reaper: Option<Vec<String>>,
    /// CPUs of the supervisor's thread and of the reaper.
    cpus: Vec<u32>,
}

#[derive(Default)]
struct State {
    thread_started: bool,
    watched: Vec<WatchedProcess>,
    reaper: Option<Reaper>,
    held: Vec<OwnedResource>,
}

struct WatchedProcess {
    pid: Pid,
    name: String,
    /// Readable when the process has ended.
    descriptor: Option<Arc<OwnedFd>>,
}

/// Prints a message for the user on stderr, which may be closed.
pub(crate) fn print_message(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "fathom: {message}");
}

impl Supervisor {
    /// Creates a supervisor. Its thread starts with the first watched process.
    pub(crate) fn new(reaper: Option<Vec<String>>, cpus: Vec<u32>) -> Supervisor {
        let changed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Supervisor(Arc::new(SupervisorInner { state: Mutex::default(), changed, reaper, cpus }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic can only have interrupted a change of a list.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a child of this process from now on.
    pub(crate) fn watch(&self, child: &Child, name: String) -> Result<(), Refusal> {
        let mut state = self.state();
        self.start_thread(&mut state)?;
        state.watched.push(watched_process(child, name));
        self.notify();
        Ok(())
    }

    /// Stops watching children that are about to be ended.
    pub(crate) fn unwatch<'a>(&self, children: impl Iterator<Item = &'a Child>) {
        let pids: Vec<Pid> = children.map(Pid::from_child).collect();
        self.state().watched.retain(|w| !pids.contains(&w.pid));
        self.notify();
    }

    /// Returns whether a reaper is configured.
    pub(crate) fn has_reaper(&self) -> bool {
        self.0.reaper.is_some()
    }

    /// Registers a path with the reaper, which removes it if the probe ends without having removed it.
    pub(crate) fn hold(&self, path: &Path, directory: bool) -> Result<(), Refusal> {
        let held = OwnedResource::new(path, directory).ok_or_else(|| {
            Refusal::new(format!("{} is not a path that a reaper removes", path.display()), "")
        })?;
        let mut state = self.state();
        if state.reaper.is_none() {
            let program = self.0.reaper.as_deref().ok_or_else(|| {
                Refusal::new(
                    "this probe has no reaper, which removes its trace instances and groups if it is killed",
                    "start it as `fathom serve host`, which has one",
                )
            })?;
            let reaper = Reaper::start(program, &self.0.cpus).map_err(no_reaper)?;
            self.start_thread(&mut state)?;
            state.watched.push(watched_process(&reaper.child, "reaper".into()));
            state.reaper = Some(reaper);
            self.notify();
        }
        if let Some(reaper) = &mut state.reaper {
            reaper.register(&held).map_err(no_reaper)?;
        }
        state.held.push(held);
        Ok(())
    }

    /// Unregisters a path that the probe has removed.
    pub(crate) fn removed(&self, path: &Path) {
        let mut state = self.state();
        state.held.retain(|held| held.path != path);
        if let Some(reaper) = &mut state.reaper {
            reaper.release(path);
        }
    }

    /// Starts the thread, once.
    fn start_thread(&self, state: &mut State) -> Result<(), Refusal> {
        if !state.thread_started {
            let supervisor = self.clone();
            let run = move || supervisor.run();
            std::thread::Builder::new().name("fathom-supervisor".into()).spawn(run).map_err(|e| {
                Refusal::new(
                    format!("cannot watch the probe's other processes ({e})"),
                    "raise the limit on processes or memory (ulimit -a shows them)",
                )
            })?;
            state.thread_started = true;
        }
        Ok(())
    }

    fn notify(&self) {
        if let Some(changed) = &self.0.changed {
            let _ = rustix::io::write(changed, &1u64.to_ne_bytes());
        }
    }

    fn run(&self) {
        let _ = rt_priority::set_ordinary();
        let _ = set_affinity(&self.0.cpus);
        loop {
            self.abort_if_any_ended();
            let descriptors: Vec<Option<Arc<OwnedFd>>> =
                self.state().watched.iter().map(|w| w.descriptor.clone()).collect();
            let all_have_descriptors = self.0.changed.is_some() && descriptors.iter().all(Option::is_some);
            let changed = self.0.changed.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
            let others =
                descriptors.iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
            let mut polled: Vec<PollFd<'_>> = changed.into_iter().chain(others).collect();
            let _ = poll(&mut polled, if all_have_descriptors { None } else { Some(&POLL_INTERVAL) });
            if let Some(changed) = &self.0.changed {
                let _ = rustix::io::read(changed, &mut [0u8; 8]);
            }
        }
    }

    /// Ends everything if a watched process has ended. A process that is ended on purpose is unwatched before.
    fn abort_if_any_ended(&self) {
        let state = self.state();
        if let Some((name, how)) = state.watched.iter().find_map(|w| Some((w.description(), ended(w.pid)?))) {
            self.abort_with(state, &name, how);
        }
    }

    /// Ends everything, because this child has ended.
    pub(crate) fn abort(&self, child: &Child, name: &str, how: ProcessEnd) -> ! {
        self.abort_with(self.state(), &description(name, Pid::from_child(child)), how)
    }

    fn abort_with(&self, mut state: MutexGuard<'_, State>, name: &str, how: ProcessEnd) -> ! {
        let reaper = state.reaper.as_ref().map(|k| Pid::from_child(&k.child));
        // No process has been waited for yet, so no process id has been reused. Children that are not watched yet end
        // with this process.
        for other in state.watched.iter().filter(|w| Some(w.pid) != reaper) {
            let _ = kill_process(other.pid, Signal::KILL);
        }
        let mut message = format!("{name} {how} unexpectedly: the probe ends all its processes and exits");
        let gone = reaper.is_some_and(|pid| ended(pid).is_some());
        if gone && !state.held.is_empty() && !self.restart_reaper(&state.held) {
            message += "\n  remedy: fathom doctor --restore, which removes what is left";
        }
        state.watched.clear();
        print_message(&message);
        std::process::exit(1);
    }

    /// Starts a replacement for a reaper that is gone. It removes everything as soon as this process has ended: files
    /// that this process has open in a directory of trace files keep the directory until then.
    fn restart_reaper(&self, held: &[OwnedResource]) -> bool {
        let started = self.0.reaper.as_deref().and_then(|program| Reaper::start(program, &self.0.cpus).ok());
        started.is_some_and(|mut reaper| {
            let registered = held.iter().all(|held| reaper.register(held).is_ok());
            // Its pipe must stay open until this process ends.
            std::mem::forget(reaper);
            registered
        })
    }
}

fn no_reaper(error: std::io::Error) -> Refusal {
    Refusal::new(
        format!(
            "cannot start the reaper, which removes the probe's trace instances and groups if it is killed ({error})"
        ),
        "raise the limit on processes or memory (ulimit -a shows them)",
    )
}

fn watched_process(child: &Child, name: String) -> WatchedProcess {
    let pid = Pid::from_child(child);
    WatchedProcess { pid, name, descriptor: pidfd_open(pid, PidfdFlags::empty()).ok().map(Arc::new) }
}

impl WatchedProcess {
    fn description(&self) -> String {
        description(&self.name, self.pid)
    }
}

fn description(name: &str, pid: Pid) -> String {
    format!("the {name} (process {})", pid.as_raw_pid())
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// Killed by a signal.
    Signal(i32),
    /// Exited with a status.
    Status(i32),
    /// Already waited for by other code.
    Gone,
}

impl std::fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProcessEnd::Signal(signal) => write!(f, "was ended by signal {signal}"),
            ProcessEnd::Status(status) => write!(f, "ended with status {status}"),
            ProcessEnd::Gone => f.write_str("is gone"),
        }
    }
}

/// Returns how a child has ended, if it has. The child is not waited for.
pub(crate) fn ended(pid: Pid) -> Option<ProcessEnd> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options) {
        Ok(None) => None,
        Ok(Some(status)) => Some(match status.terminating_signal() {
            Some(signal) => ProcessEnd::Signal(signal),
            None => ProcessEnd::Status(status.exit_status().unwrap_or(0)),
        }),
        Err(_) => Some(ProcessEnd::Gone),
    }
}
