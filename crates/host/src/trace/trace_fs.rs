//! Location of the kernel's trace files, and trace instances.
//!
//! An instance outlives its process, so it is named after its process, and the next one removes it (`remove_stale`).
//! A mount would outlive the process, too. So tracefs is mounted without a path, as a file descriptor (`fsmount`),
//! which the kernel closes with the process, however that ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use fathom_probe::machine::Refusal;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::owner::{left_behind, name};
use crate::procfs::Root;

/// Usual mount points (Linux, Documentation/trace/ftrace.rst).
const USUAL_PATHS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The directory of the trace files.
pub(crate) struct TraceFs {
    path: PathBuf,
    /// The mount that `path` leads into, if this process mounted it.
    _mount: Option<OwnedFd>,
}

/// A trace instance of this process, removed when this is dropped.
pub(crate) struct Instance {
    trace_fs: TraceFs,
    root: Root,
    name: String,
    path: PathBuf,
}

/// Settings of the tracers osnoise and timerlat. They are per system and not per instance, so they are restored
/// afterwards. An instance's name contains the original values: it exists as long as they are changed, however this
/// process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OsnoiseSettings {
    /// `timerlat_period_us`.
    pub period: String,
    /// `cpus`, the list of CPUs that they run on.
    pub cpus: String,
}

impl Instance {
    /// Returns its directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the tracers' settings. They are restored with this instance if its name contains the original values.
    pub(crate) fn write_settings(&self, root: &Root, settings: &OsnoiseSettings) -> Result<(), Refusal> {
        self.trace_fs
            .write_settings(settings)
            .map_err(|e| refused(root, "set osnoise/timerlat_period_us and cpus", &e))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance that could not be removed is removed by the next process.
        let _ = self.trace_fs.remove(&self.root, &self.name);
    }
}

/// Separator before the settings in an instance's name.
const OSNOISE: &str = ".osnoise.";

/// Maximum length of the settings in a name, bytes (`NAME_MAX` is 255).
const MAX_SETTINGS_BYTES: usize = 180;

impl OsnoiseSettings {
    /// Returns the current settings; `None` if their format is unknown, or too long for a name.
    pub(crate) fn read(trace_fs: &TraceFs) -> Option<OsnoiseSettings> {
        let text = |name: &str| std::fs::read_to_string(trace_fs.path.join("osnoise").join(name)).ok();
        let (period, cpus) = (text("timerlat_period_us")?, text("cpus")?);
        OsnoiseSettings { period: period.trim().into(), cpus: cpus.trim().into() }.validated()
    }

    fn validated(self) -> Option<OsnoiseSettings> {
        let digits = |text: &str, more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || more.contains(c))
        };
        let is_valid = digits(&self.period, "") && digits(&self.cpus, ",-");
        (is_valid && self.period.len() + self.cpus.len() <= MAX_SETTINGS_BYTES).then_some(self)
    }

    /// Returns the settings as the end of an instance's name.
    pub(crate) fn name_suffix(&self) -> String {
        format!("{OSNOISE}{}.{}", self.period, self.cpus)
    }

    /// Parses the settings in an instance's name.
    fn from_name(name: &str) -> Option<OsnoiseSettings> {
        let (period, cpus) = name.split_once(OSNOISE)?.1.split_once('.')?;
        OsnoiseSettings { period: period.into(), cpus: cpus.into() }.validated()
    }
}

impl TraceFs {
    /// Finds the trace files where tracefs is mounted, or mounts it for this process alone.
    pub(crate) fn find(root: &Root) -> Result<TraceFs, Refusal> {
        TraceFs::find_mounted(root).map_or_else(|| TraceFs::mount(root), Ok)
    }

    fn find_mounted(root: &Root) -> Option<TraceFs> {
        let mounts = root.text("/proc/self/mounts").unwrap_or_default();
        let elsewhere = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let directory = words.next()?;
            // A blank in a path is written as `\\040` (proc_pid_mounts(5)); such a path is skipped.
            (words.next() == Some("tracefs")).then(|| root.path(directory))
        });
        let usual = USUAL_PATHS.into_iter().map(|path| root.path(path));
        let path = usual.chain(elsewhere).find(|path| path.join("instances").is_dir())?;
        Some(TraceFs { path, _mount: None })
    }

    fn mount(root: &Root) -> Result<TraceFs, Refusal> {
        let mount = || -> rustix::io::Result<OwnedFd> {
            let tracefs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&tracefs)?;
            fsmount(&tracefs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        // If tracefs is mounted and was not found, this user may not open it.
        let mounts = root.text("/proc/self/mounts").unwrap_or_default();
        let what = if mounts.contains(" tracefs ") { "open tracefs" } else { "mount tracefs" };
        let mount = mount().map_err(|e| refused(root, what, &e.into()))?;
        let path = root.path(&format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(TraceFs { path, _mount: Some(mount) })
    }

    /// Returns the directory of the instance `name`.
    fn instance(&self, name: &str) -> PathBuf {
        self.path.join("instances").join(name)
    }

    /// Creates an instance of this process. Its name ends with `settings`, which are to be restored if the process is
    /// killed (`remove_stale`). `hold` registers its directory before it is created, so that a kill at any moment
    /// leaves no unknown instance.
    pub(crate) fn create(
        self,
        root: &Root,
        settings: &str,
        hold: impl FnOnce(&Path) -> Result<(), Refusal>,
    ) -> Result<Instance, Refusal> {
        let name = name(root) + settings;
        let path = self.instance(&name);
        hold(&path)?;
        std::fs::create_dir(&path).map_err(|e| refused(root, "make a trace instance", &e))?;
        Ok(Instance { trace_fs: self, root: root.clone(), name, path })
    }

    /// Removes an instance, and restores the settings in its name.
    pub(crate) fn remove(&self, root: &Root, name: &str) -> io::Result<()> {
        let successor = self.hand_over(root, name)?;
        self.restore_settings(name);
        successor.map_or(Ok(()), |successor| std::fs::remove_dir(self.instance(&successor)))
    }

    /// Removes an instance. A new instance takes over the settings in its name, if any; its name is returned. The
    /// settings cannot be restored before the removal: they might be those of a running process, and only a
    /// successful removal shows that none uses the instance. Nor can they simply be restored after it: a kill in
    /// between would lose the original values.
    fn hand_over(&self, root: &Root, gone: &str) -> io::Result<Option<String>> {
        let successor = OsnoiseSettings::from_name(gone).map(|settings| name(root) + &settings.name_suffix());
        // If no other instance can be created, a possible kill is the lesser risk.
        let successor = successor.filter(|successor| std::fs::create_dir(self.instance(successor)).is_ok());
        // The kernel keeps an instance with an open file (EBUSY).
        let removed = std::fs::remove_dir(self.instance(gone));
        if let (Err(_), Some(successor)) = (&removed, &successor) {
            std::fs::remove_dir(self.instance(successor))?;
        }
        removed.map(|()| successor)
    }

    /// Restores the settings in an instance's name.
    fn restore_settings(&self, name: &str) {
        if let Some(settings) = OsnoiseSettings::from_name(name) {
            // A kernel that no longer has these files has nothing to restore.
            let _ = self.write_settings(&settings);
        }
    }

    /// Writes the tracers' settings.
    fn write_settings(&self, settings: &OsnoiseSettings) -> io::Result<()> {
        let write = |name: &str, value: &str| {
            File::options()
                .write(true)
                .open(self.path.join("osnoise").join(name))?
                .write_all(value.as_bytes())
        };
        // Both are written, even if one is rejected.
        let written = write("timerlat_period_us", &settings.period);
        write("cpus", &settings.cpus).and(written)
    }

    /// Returns the text of a file that exists once per system.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(name)).ok()
    }

    /// Returns the names of all instances.
    pub(crate) fn instances(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path.join("instances")) else { return Vec::new() };
        entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
    }

    /// Creates an instance as left by a killed process.
    #[cfg(test)]
    pub(crate) fn create_abandoned(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join("instances").join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    /// Removes the instances of dead processes, and returns their names.
    pub(crate) fn remove_stale(&self, root: &Root) -> Vec<String> {
        let mut gone = self.instances();
        // An instance of a process in another PID namespace cannot be checked, but it has open files, so it is kept.
        gone.retain(|name| left_behind(root, name) && self.remove(root, name).is_ok());
        gone.sort();
        gone
    }
}

/// Writes one setting. Without `O_CREAT`: in tracefs it turns "not found" into "not permitted".
pub(crate) fn set(root: &Root, path: &Path, value: &str) -> Result<(), Refusal> {
    let write = || File::options().write(true).truncate(true).open(path)?.write_all(value.as_bytes());
    write().map_err(|e| {
        // Without the leading directories, which may be the number of a file descriptor.
        let shown: PathBuf = path.components().rev().take(2).collect();
        let shown: PathBuf = shown.components().rev().collect();
        refused(root, &format!("write \"{value}\" to {}", shown.display()), &e)
    })
}

/// Returns why an operation on the trace files failed.
pub(crate) fn refused(root: &Root, what: &str, error: &io::Error) -> Refusal {
    let lockdown = root.text("/sys/kernel/security/lockdown").unwrap_or_default();
    let remedy = match error.raw_os_error() {
        // Lockdown for integrity permits tracefs (LOCKDOWN_TRACEFS belongs to confidentiality, Linux,
        // include/linux/security.h).
        Some(libc::EPERM | libc::EACCES) if lockdown.contains("[confidentiality]") => {
            "this kernel is locked down for confidentiality, which blocks tracefs: boot without that"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "run as root, or with CAP_SYS_ADMIN; in a container, tracefs must not be masked; without it only \
             the user-space place is measured"
        }
        Some(libc::ENODEV | libc::ENOENT) => "use a kernel with CONFIG_FTRACE and CONFIG_EVENT_TRACING",
        Some(libc::ENOSYS) => {
            "mount it: mount -t tracefs nodev /sys/kernel/tracing (Linux before 5.2 cannot mount without a directory)"
        }
        Some(libc::ENOMEM) => "free memory, or use fewer activations per trial",
        Some(libc::EBUSY) => "another program uses it: end that one",
        _ => "see this error in Documentation/trace/ftrace.rst of Linux",
    };
    Refusal::new(format!("cannot {what} ({error})"), remedy)
}

#[cfg(test)]
mod tests;
