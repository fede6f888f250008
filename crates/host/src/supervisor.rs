//! The supervisor: a thread of the probe that notices when another process of it ends, which nobody asked for.
//!
//! What is measured beside a load that is no longer there is measured beside another load, and what the reaper was
//! told is kept by nobody. So the probe then ends everything and leaves, saying which process it was. The thread
//! sleeps in `poll` on the processes' descriptors, on the load's CPUs and without priority: while nothing happens it
//! does nothing.

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fathom_probe::machine::Refusal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};

use crate::process::set_affinity;
use crate::quiet;
use crate::reaper::{OwnedResource, Reaper};

/// How often to look where a process has no descriptor (Linux before 5.3).
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// The supervisor, and the reaper that it looks after.
#[derive(Clone)]
pub(crate) struct Supervisor(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Counts up when there is something else to look at.
    changed: Option<OwnedFd>,
    /// Program and first arguments of a reaper.
    reaper: Option<Vec<String>>,
    /// The CPUs that neither of the two leaves.
    cpus: Vec<u32>,
}

#[derive(Default)]
struct State {
    awake: bool,
    watched: Vec<Watched>,
    reaper: Option<Reaper>,
    held: Vec<OwnedResource>,
}

struct Watched {
    pid: Pid,
    name: String,
    /// Readable when it has ended.
    descriptor: Option<Arc<OwnedFd>>,
}

impl Supervisor {
    /// One that sleeps until there is something to look at.
    pub(crate) fn new(reaper: Option<Vec<String>>, cpus: Vec<u32>) -> Supervisor {
        let changed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        Supervisor(Arc::new(Shared { state: Mutex::default(), changed, reaper, cpus }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic interrupted was a change of a list.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a child of this process from now on.
    pub(crate) fn watch(&self, child: &Child, name: String) -> Result<(), Refusal> {
        let mut state = self.state();
        self.wake(&mut state)?;
        state.watched.push(watched(child, name));
        self.change();
        Ok(())
    }

    /// Looks no more at children that are about to be ended.
    pub(crate) fn forget<'a>(&self, children: impl Iterator<Item = &'a Child>) {
        let pids: Vec<Pid> = children.map(Pid::from_child).collect();
        self.state().watched.retain(|w| !pids.contains(&w.pid));
        self.change();
    }

    /// Is there a reaper, or can there be one?
    pub(crate) fn has_reaper(&self) -> bool {
        self.0.reaper.is_some()
    }

    /// Has the reaper remove this when the probe ends before it has done so itself.
    pub(crate) fn holds(&self, path: &Path, directory: bool) -> Result<(), Refusal> {
        let held = OwnedResource::new(path, directory).ok_or_else(|| {
            Refusal::new(format!("{} is no name for what a reaper removes", path.display()), "")
        })?;
        let mut state = self.state();
        if state.reaper.is_none() {
            let program = self.0.reaper.as_deref().ok_or_else(|| {
                Refusal::new(
                    "this probe has no reaper that would remove what it makes if it is killed",
                    "start it as `fathom serve host`, which has one",
                )
            })?;
            let reaper = Reaper::start(program, &self.0.cpus).map_err(no_reaper)?;
            self.wake(&mut state)?;
            state.watched.push(watched(&reaper.child, "reaper".into()));
            state.reaper = Some(reaper);
            self.change();
        }
        if let Some(reaper) = &mut state.reaper {
            reaper.hold(&held).map_err(no_reaper)?;
        }
        state.held.push(held);
        Ok(())
    }

    /// It is removed.
    pub(crate) fn removed(&self, path: &Path) {
        let mut state = self.state();
        state.held.retain(|held| held.path != path);
        if let Some(reaper) = &mut state.reaper {
            reaper.done(path);
        }
    }

    /// Begins to look, once.
    fn wake(&self, state: &mut State) -> Result<(), Refusal> {
        if !state.awake {
            let supervisor = self.clone();
            let look = move || supervisor.look();
            std::thread::Builder::new().name("fathom-supervisor".into()).spawn(look).map_err(|e| {
                Refusal::new(
                    format!("cannot watch the probe's other processes ({e})"),
                    "raise the limit on processes or memory (ulimit -a shows them)",
                )
            })?;
            state.awake = true;
        }
        Ok(())
    }

    fn change(&self) {
        if let Some(changed) = &self.0.changed {
            let _ = rustix::io::write(changed, &1u64.to_ne_bytes());
        }
    }

    fn look(&self) {
        let _ = quiet::ordinary();
        let _ = set_affinity(&self.0.cpus);
        loop {
            self.abort_if_any_ended();
            let descriptors: Vec<Option<Arc<OwnedFd>>> =
                self.state().watched.iter().map(|w| w.descriptor.clone()).collect();
            let all = self.0.changed.is_some() && descriptors.iter().all(Option::is_some);
            let changed = self.0.changed.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
            let others =
                descriptors.iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
            let mut polled: Vec<PollFd<'_>> = changed.into_iter().chain(others).collect();
            let _ = poll(&mut polled, if all { None } else { Some(&GLANCE) });
            if let Some(changed) = &self.0.changed {
                let _ = rustix::io::read(changed, &mut [0u8; 8]);
            }
        }
    }

    /// Ends everything if a process has ended that is still being looked at. Who ends one himself forgets it before.
    fn abort_if_any_ended(&self) {
        let state = self.state();
        if let Some((name, how)) = state.watched.iter().find_map(|w| Some((w.named(), ended(w.pid)?))) {
            self.abort_with(state, &name, how);
        }
    }

    /// Ends everything, because this child has ended so.
    pub(crate) fn abort(&self, child: &Child, name: &str, how: End) -> ! {
        self.abort_with(self.state(), &named(name, Pid::from_child(child)), how)
    }

    fn abort_with(&self, mut state: MutexGuard<'_, State>, name: &str, how: End) -> ! {
        let reaper = state.reaper.as_ref().map(|k| Pid::from_child(&k.child));
        // Not yet waited for by anybody, so each number is still its own. What is not looked at yet ends with this
        // process.
        for other in state.watched.iter().filter(|w| Some(w.pid) != reaper) {
            let _ = kill_process(other.pid, Signal::KILL);
        }
        let mut reported =
            format!("{name} {how}, which nobody asked for: the probe ends everything and leaves");
        let gone = reaper.is_some_and(|pid| ended(pid).is_some());
        if gone && !state.held.is_empty() && !self.keep_again(&state.held) {
            reported += "\n  try: fathom doctor --restore, which removes what is left";
        }
        state.watched.clear();
        let _ = writeln!(std::io::stderr().lock(), "fathom: {reported}");
        std::process::exit(1);
    }

    /// A reaper instead of one that is gone, which removes everything as soon as this process has ended: what
    /// this process itself has open in a directory of trace files keeps it there until then.
    fn keep_again(&self, held: &[OwnedResource]) -> bool {
        let started = self.0.reaper.as_deref().and_then(|program| Reaper::start(program, &self.0.cpus).ok());
        started.is_some_and(|mut reaper| {
            let reported = held.iter().all(|held| reaper.hold(held).is_ok());
            // Its pipe ends with this process and not before.
            std::mem::forget(reaper);
            reported
        })
    }
}

fn no_reaper(error: std::io::Error) -> Refusal {
    Refusal::new(
        format!(
            "no reaper can be started, which would remove what the probe makes if it is killed ({error})"
        ),
        "raise the limit on processes or memory (ulimit -a shows them)",
    )
}

fn watched(child: &Child, name: String) -> Watched {
    let pid = Pid::from_child(child);
    Watched { pid, name, descriptor: pidfd_open(pid, PidfdFlags::empty()).ok().map(Arc::new) }
}

impl Watched {
    fn named(&self) -> String {
        named(&self.name, self.pid)
    }
}

fn named(name: &str, pid: Pid) -> String {
    format!("the {name} (process {})", pid.as_raw_pid())
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Something killed it.
    Signal(i32),
    /// It left by itself.
    Status(i32),
    /// Somebody else has waited for it.
    Gone,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Signal(signal) => write!(f, "was ended by signal {signal}"),
            End::Status(status) => write!(f, "ended with status {status}"),
            End::Gone => f.write_str("is gone"),
        }
    }
}

/// How a child has ended, if it has. It is not waited for.
pub(crate) fn ended(pid: Pid) -> Option<End> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options) {
        Ok(None) => None,
        Ok(Some(status)) => Some(match status.terminating_signal() {
            Some(signal) => End::Signal(signal),
            None => End::Status(status.exit_status().unwrap_or(0)),
        }),
        Err(_) => Some(End::Gone),
    }
}
