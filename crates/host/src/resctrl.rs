//! A share of the caches for co-running load, by the kernel's resource control (resctrl), over CAT of x86 or MPAM of
//! AArch64.
//!
//! A separate group gets the smallest part of every cache that can be partitioned, and the workers are put into it.
//! The default group is unchanged, so only the new group has to be removed afterwards. The task then has lines that
//! the load cannot evict. (Linux, Documentation/filesystems/resctrl.rst, describes the files.)

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use fathom_probe::machine::Refusal;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::owner::{left_behind, name};
use crate::procfs::Root;

/// A group of this process, removed when this is dropped.
pub(crate) struct Group {
    path: PathBuf,
    /// Its share of each cache, as text: `L3 1 of 20 parts`.
    pub(crate) share: String,
    /// The mount that `path` leads into, if this process mounted it. The kernel removes it with the last reference.
    _mount: Option<OwnedFd>,
}

/// Cache share of a group.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    /// Lines for its `schemata` file.
    schemata: Vec<String>,
    /// The same as text for the record.
    reported: String,
}

impl Group {
    /// Creates a group with the smallest share of every cache, and removes the groups of dead processes. `hold`
    /// registers the group for removal after a kill, before it is created.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if this machine cannot partition a cache, or does not permit it.
    pub(crate) fn create(
        root: &Root,
        hold: impl FnOnce(&Path) -> Result<(), Refusal>,
    ) -> Result<Group, Refusal> {
        let (place, mount) = match mount_point(root) {
            Some(place) => (place, None),
            None => mount_private(root)?,
        };
        remove_stale_in(root, &place);
        let share = share(root, &place)?;
        let path = place.join(name(root));
        let failed = |what: &str, e: &io::Error| refused(&place, what, e);
        hold(&path)?;
        std::fs::create_dir(&path).map_err(|e| failed("make a group", &e))?;
        // From here on, dropping `group` removes the directory.
        let group = Group { path, share: share.reported, _mount: mount };
        for line in &share.schemata {
            write(&group.path.join("schemata"), line).map_err(|e| failed(&format!("set {line}"), &e))?;
        }
        Ok(group)
    }

    /// Returns the group's directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a process with all of its threads into the group. Threads that they start later are in it, too.
    ///
    /// # Errors
    /// Returns a [`Refusal`] with the kernel's error.
    pub(crate) fn add_process(&self, pid: u32) -> Result<(), Refusal> {
        let place = self.path.parent().unwrap_or(&self.path);
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
        let threads = threads.map_err(|e| refused(place, &format!("list the threads of {pid}"), &e))?;
        for thread in threads.flatten() {
            let tid = thread.file_name().to_string_lossy().into_owned();
            match write(&self.path.join("tasks"), &tid) {
                // A thread that has ended does not fill caches.
                Err(e) if e.raw_os_error() != Some(libc::ESRCH) => {
                    return Err(refused(place, &format!("put {tid} into the group"), &e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that could not be removed is removed by the next process. Its tasks return to the default group.
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Removes the groups that dead processes left, and returns their names.
pub(crate) fn remove_stale(root: &Root) -> Vec<String> {
    mount_point(root).map(|place| remove_stale_in(root, &place)).unwrap_or_default()
}

fn remove_stale_in(root: &Root, place: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let mut gone: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    gone.retain(|name| left_behind(root, name) && std::fs::remove_dir(place.join(name)).is_ok());
    gone.sort();
    gone
}

/// Returns the directory where resctrl is mounted.
fn mount_point(root: &Root) -> Option<PathBuf> {
    let mounts = root.text("/proc/self/mounts")?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let directory = words.next()?;
        (words.next() == Some("resctrl")).then(|| root.path(directory))
    })
}

/// Mounts resctrl for this process alone.
fn mount_private(root: &Root) -> Result<(PathBuf, Option<OwnedFd>), Refusal> {
    let mount = || -> rustix::io::Result<OwnedFd> {
        let resctrl = fsopen("resctrl", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&resctrl)?;
        fsmount(&resctrl, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    let mount = mount().map_err(|e| refused(Path::new(""), "partition a cache", &e.into()))?;
    let path = root.path(&format!("/proc/self/fd/{}", mount.as_raw_fd()));
    Ok((path, Some(mount)))
}

/// Returns the smallest share of every cache: the fewest bits that a mask may have, the lowest ones, in each of its
/// domains.
fn share(root: &Root, place: &Path) -> Result<Share, Refusal> {
    let text = |name: &str| std::fs::read_to_string(place.join(name)).unwrap_or_default();
    let (mut schemata, mut reported) = (Vec::new(), Vec::new());
    for line in text("schemata").lines() {
        // `L3:0=fffff;1=fffff`, with blanks before it.
        let Some((resource, domains)) = line.trim().split_once(':') else { continue };
        let info = |file: &str| text(&format!("info/{resource}/{file}")).trim().to_owned();
        // A resource without a bit mask is not a cache: memory bandwidth has percentages.
        let Ok(all) = u64::from_str_radix(&info("cbm_mask"), 16) else { continue };
        let min_bits = info("min_cbm_bits").parse::<u32>().unwrap_or(1).clamp(1, 63);
        let mask = (1u64 << min_bits) - 1;
        if all & mask != mask || all == mask {
            continue;
        }
        let ids = domains.split(';').filter_map(|domain| domain.split_once('=')).map(|(id, _)| id.trim());
        let masks: Vec<String> = ids.map(|id| format!("{id}={mask:x}")).collect();
        schemata.push(format!("{resource}:{}\n", masks.join(";")));
        reported.push(format!("{resource} {min_bits} of {} parts", all.count_ones()));
    }
    if schemata.is_empty() {
        let remedy = if mount_point(root).is_some() {
            "use a CPU with cache allocation (CAT of x86, MPAM of AArch64): grep cat_l /proc/cpuinfo"
        } else {
            "mount -t resctrl resctrl /sys/fs/resctrl"
        };
        return Err(Refusal::new("no cache can be partitioned here (resctrl)", remedy));
    }
    Ok(Share { schemata, reported: reported.join(", ") })
}

/// Opens without `O_CREAT`: these files are the kernel's.
fn write(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

/// Returns why the caches are not partitioned; the kernel reports details in a separate file.
fn refused(place: &Path, what: &str, error: &io::Error) -> Refusal {
    let status = std::fs::read_to_string(place.join("info/last_cmd_status")).unwrap_or_default();
    let more = match status.trim() {
        "" | "ok" => String::new(),
        status => format!("; {status}"),
    };
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "run as root, if resctrl may be mounted",
        Some(libc::ENODEV | libc::ENOENT | libc::EOPNOTSUPP) => {
            "use a kernel with CONFIG_X86_CPU_RESCTRL (AArch64: MPAM) on a CPU with cache allocation; a guest's \
             host must pass it on"
        }
        Some(libc::EBUSY) => {
            "resctrl is mounted where this process does not see it: measure in that mount namespace"
        }
        Some(libc::ENOSPC) => "all groups are in use: remove one below /sys/fs/resctrl",
        Some(libc::ENOSYS) => {
            "mount -t resctrl resctrl /sys/fs/resctrl (Linux before 5.2 cannot mount without a directory)"
        }
        _ => "see this error in Documentation/filesystems/resctrl.rst of Linux",
    };
    Refusal::new(format!("cannot {what} with resctrl ({error}{more})"), remedy)
}

#[cfg(test)]
mod tests;
