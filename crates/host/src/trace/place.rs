//! Where the kernel's trace files are, and the instances in them.
//!
//! An instance outlives its process, and so would a mount: the instance is named after its process and removed
//! by the next one (`sweep`), and a mount of our own is never put anywhere: it is a file descriptor (`fsmount`),
//! which the kernel closes with the process, however that ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use fathom_probe::machine::Refusal;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::owner::{left_behind, name};
use crate::procfs::Root;

/// Where distributions mount it (Linux, Documentation/trace/ftrace.rst).
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The trace files.
pub(crate) struct Place {
    path: PathBuf,
    /// The mount that `path` leads into, where it is our own.
    _mount: Option<OwnedFd>,
}

/// An instance of our own, which goes with this.
pub(crate) struct Instance {
    place: Place,
    root: Root,
    name: String,
    path: PathBuf,
}

/// Settings of the tracers osnoise and timerlat. The system has one of each and not an instance, so they are put
/// back, and an instance's name says to what: it is there as long as they are changed, whatever becomes of us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Osnoise {
    /// `timerlat_period_us`.
    pub period: String,
    /// `cpus`, the list of CPUs that they run on.
    pub cpus: String,
}

impl Instance {
    /// Its directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the tracers' settings, which go back with this instance where its name says so.
    pub(crate) fn osnoise(&self, root: &Root, settings: &Osnoise) -> Result<(), Refusal> {
        self.place.osnoise(settings).map_err(|e| refused(root, "set osnoise/timerlat_period_us and cpus", &e))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What stays is removed by the next process's sweep.
        let _ = self.place.remove(&self.root, &self.name);
    }
}

/// In an instance's name, before settings.
const OSNOISE: &str = ".osnoise.";

/// Longest list of CPUs that fits into a name (`NAME_MAX` is 255) beside all else.
const MAX_CPU_LIST: usize = 180;

impl Osnoise {
    /// What is in force; nothing where it is not understood, or would not fit into a name.
    pub(crate) fn read(place: &Place) -> Option<Osnoise> {
        let text = |name: &str| std::fs::read_to_string(place.path.join("osnoise").join(name)).ok();
        let (period, cpus) = (text("timerlat_period_us")?, text("cpus")?);
        Osnoise { period: period.trim().into(), cpus: cpus.trim().into() }.sound()
    }

    fn sound(self) -> Option<Osnoise> {
        let digits = |text: &str, more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || more.contains(c))
        };
        let sound = digits(&self.period, "") && digits(&self.cpus, ",-");
        (sound && self.period.len() + self.cpus.len() <= MAX_CPU_LIST).then_some(self)
    }

    /// The end of an instance's name.
    pub(crate) fn keep(&self) -> String {
        format!("{OSNOISE}{}.{}", self.period, self.cpus)
    }

    /// What an instance's name says.
    fn kept(name: &str) -> Option<Osnoise> {
        let (period, cpus) = name.split_once(OSNOISE)?.1.split_once('.')?;
        Osnoise { period: period.into(), cpus: cpus.into() }.sound()
    }
}

impl Place {
    /// Finds the trace files where they are mounted, or mounts them for this process alone.
    pub(crate) fn find(root: &Root) -> Result<Place, Refusal> {
        Place::found(root).map_or_else(|| Place::mount(root), Ok)
    }

    fn found(root: &Root) -> Option<Place> {
        let mounts = root.text("/proc/self/mounts").unwrap_or_default();
        let elsewhere = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let directory = words.next()?;
            // A name with a blank in it is written `\040` (proc_pid_mounts(5)); such a place is passed over.
            (words.next() == Some("tracefs")).then(|| root.path(directory))
        });
        let usual = USUAL.into_iter().map(|path| root.path(path));
        let path = usual.chain(elsewhere).find(|path| path.join("instances").is_dir())?;
        Some(Place { path, _mount: None })
    }

    fn mount(root: &Root) -> Result<Place, Refusal> {
        let mount = || -> rustix::io::Result<OwnedFd> {
            let tracefs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&tracefs)?;
            fsmount(&tracefs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        // Where it is mounted and was not found, it is closed to this user.
        let mounts = root.text("/proc/self/mounts").unwrap_or_default();
        let what = if mounts.contains(" tracefs ") { "open tracefs" } else { "mount tracefs" };
        let mount = mount().map_err(|e| refused(root, what, &e.into()))?;
        let path = root.path(&format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Place { path, _mount: Some(mount) })
    }

    /// Where an instance of this name is.
    fn instance(&self, name: &str) -> PathBuf {
        self.path.join("instances").join(name)
    }

    /// Makes an instance of this process. Its name ends with `keep`: what a process that is killed would have had
    /// to put back (`sweep`). `hold` is told its directory before it is there, so that at no moment a kill leaves one
    /// that nobody knows of.
    pub(crate) fn make(
        self,
        root: &Root,
        keep: &str,
        hold: impl FnOnce(&Path) -> Result<(), Refusal>,
    ) -> Result<Instance, Refusal> {
        let name = name(root) + keep;
        let path = self.instance(&name);
        hold(&path)?;
        std::fs::create_dir(&path).map_err(|e| refused(root, "make a trace instance", &e))?;
        Ok(Instance { place: self, root: root.clone(), name, path })
    }

    /// Removes an instance, and puts back what its name says.
    pub(crate) fn remove(&self, root: &Root, name: &str) -> io::Result<()> {
        let heir = self.take_over(root, name)?;
        self.put_back(name);
        heir.map_or(Ok(()), |heir| std::fs::remove_dir(self.instance(&heir)))
    }

    /// Removes an instance; another one, whose name is answered, takes over what its name says, if anything. Settings
    /// that were put back first might be those of a process that lives: only that an instance can be removed shows that
    /// nobody uses it. And were they put back last, a kill in between would leave nobody who knows them.
    fn take_over(&self, root: &Root, gone: &str) -> io::Result<Option<String>> {
        let heir = Osnoise::kept(gone).map(|kept| name(root) + &kept.keep());
        // Where there can be no other one, that kill is the lesser evil.
        let heir = heir.filter(|heir| std::fs::create_dir(self.instance(heir)).is_ok());
        // The kernel keeps an instance of which somebody has a file open (EBUSY).
        let removed = std::fs::remove_dir(self.instance(gone));
        if let (Err(_), Some(heir)) = (&removed, &heir) {
            std::fs::remove_dir(self.instance(heir))?;
        }
        removed.map(|()| heir)
    }

    /// Puts back what an instance's name says.
    fn put_back(&self, name: &str) {
        if let Some(kept) = Osnoise::kept(name) {
            // A kernel that has lost these files since has nothing to put back.
            let _ = self.osnoise(&kept);
        }
    }

    /// Sets the tracers' settings.
    fn osnoise(&self, settings: &Osnoise) -> io::Result<()> {
        let write = |name: &str, value: &str| {
            File::options()
                .write(true)
                .open(self.path.join("osnoise").join(name))?
                .write_all(value.as_bytes())
        };
        // Each for itself: what one does not take is no reason to leave the other.
        let written = write("timerlat_period_us", &settings.period);
        write("cpus", &settings.cpus).and(written)
    }

    /// A file that the whole system has one of.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(name)).ok()
    }

    /// The names of all instances.
    pub(crate) fn instances(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path.join("instances")) else { return Vec::new() };
        entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
    }

    /// Makes an instance as a process leaves it that was killed.
    #[cfg(test)]
    pub(crate) fn leave(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join("instances").join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    /// Removes the instances of processes that are gone; their names.
    pub(crate) fn sweep(&self, root: &Root) -> Vec<String> {
        let mut gone = self.instances();
        // One whose process cannot be seen from here, being in another PID namespace, is open, and so is kept.
        gone.retain(|name| left_behind(root, name) && self.remove(root, name).is_ok());
        gone.sort();
        gone
    }
}

/// Writes one setting. Without `O_CREAT`: in tracefs it makes "not permitted" of what is not there.
pub(crate) fn set(root: &Root, path: &Path, value: &str) -> Result<(), Refusal> {
    let write = || File::options().write(true).truncate(true).open(path)?.write_all(value.as_bytes());
    write().map_err(|e| {
        // Without what leads there: it may be a number of a file descriptor.
        let shown: PathBuf = path.components().rev().take(2).collect();
        let shown: PathBuf = shown.components().rev().collect();
        refused(root, &format!("write \"{value}\" to {}", shown.display()), &e)
    })
}

/// Why something cannot be done to the trace files.
pub(crate) fn refused(root: &Root, what: &str, error: &io::Error) -> Refusal {
    let lockdown = root.text("/sys/kernel/security/lockdown").unwrap_or_default();
    let remedy = match error.raw_os_error() {
        // Integrity leaves tracefs open (LOCKDOWN_TRACEFS is a matter of confidentiality, Linux,
        // include/linux/security.h).
        Some(libc::EPERM | libc::EACCES) if lockdown.contains("[confidentiality]") => {
            "this kernel is locked down for confidentiality, which closes tracefs: boot it without"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "run as root, or with CAP_SYS_ADMIN; in a container also with tracefs not masked; without it the \
             user's place alone is measured"
        }
        Some(libc::ENODEV | libc::ENOENT) => "a kernel with CONFIG_FTRACE and CONFIG_EVENT_TRACING has it",
        Some(libc::ENOSYS) => {
            "mount it: mount -t tracefs nodev /sys/kernel/tracing (Linux before 5.2 has no mounts without a place)"
        }
        Some(libc::ENOMEM) => "free memory, or ask for fewer activations in a trial",
        Some(libc::EBUSY) => "another program uses it: end that one",
        _ => "see that error in Documentation/trace/ftrace.rst of Linux",
    };
    Refusal::new(format!("cannot {what} ({error})"), remedy)
}

#[cfg(test)]
mod tests;
