//! A share of the caches for co-running load: the kernel's resource control, over CAT of x86 or MPAM of AArch64.
//!
//! A group of our own gets the least part of every cache that can be partitioned, and the workers are put into it.
//! The rest of the machine keeps what it has: the default group is left as it is, so that nothing has to be put back
//! but the group itself, and the task finds lines that the load cannot evict. (Linux, Documentation/filesystems/
//! resctrl.rst, has the files.)

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use fathom_probe::machine::Refusal;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::owner::{left_behind, name};
use crate::read::Root;

/// A group of this process's own, which is removed when this is dropped.
pub(crate) struct Group {
    path: PathBuf,
    /// What it has of each cache, for people: `L3 1 of 20 parts`.
    pub(crate) share: String,
    /// The mount that `path` leads into, where it is our own: the kernel undoes all of it with the last of us.
    _mount: Option<OwnedFd>,
}

/// What a group may fill.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    /// Lines for its `schemata`.
    schemata: Vec<String>,
    /// The same for people.
    reported: String,
}

impl Group {
    /// Makes a group with the least share of every cache, and removes those of processes that are gone. Whoever is to
    /// `hold` it, and to remove it after a kill, is told before it is there.
    ///
    /// # Errors
    /// A [`Refusal`] where this machine partitions no cache, or does not let us.
    pub(crate) fn make(
        root: &Root,
        hold: impl FnOnce(&Path) -> Result<(), Refusal>,
    ) -> Result<Group, Refusal> {
        let (place, mount) = match found(root) {
            Some(place) => (place, None),
            None => mounted(root)?,
        };
        sweep_in(root, &place);
        let share = share(root, &place)?;
        let path = place.join(name(root));
        let failed = |what: &str, e: &io::Error| refused(&place, what, e);
        hold(&path)?;
        std::fs::create_dir(&path).map_err(|e| failed("make a group", &e))?;
        // From here on the directory goes with this.
        let group = Group { path, share: share.reported, _mount: mount };
        for line in &share.schemata {
            write(&group.path.join("schemata"), line).map_err(|e| failed(&format!("give it {line}"), &e))?;
        }
        Ok(group)
    }

    /// The group's directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a process with all of its threads into the group. Those that they start later are in it, too.
    ///
    /// # Errors
    /// A [`Refusal`] with the kernel's answer.
    pub(crate) fn take(&self, pid: u32) -> Result<(), Refusal> {
        let place = self.path.parent().unwrap_or(&self.path);
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
        let threads = threads.map_err(|e| refused(place, &format!("list the threads of {pid}"), &e))?;
        for thread in threads.flatten() {
            let tid = thread.file_name().to_string_lossy().into_owned();
            match write(&self.path.join("tasks"), &tid) {
                // One that has ended fills nothing.
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
        // What stays is removed by the next process's sweep. Its tasks go back to the default group.
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Removes the groups that dead processes left; their names.
pub(crate) fn sweep(root: &Root) -> Vec<String> {
    found(root).map(|place| sweep_in(root, &place)).unwrap_or_default()
}

fn sweep_in(root: &Root, place: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let mut gone: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    gone.retain(|name| left_behind(root, name) && std::fs::remove_dir(place.join(name)).is_ok());
    gone.sort();
    gone
}

/// Where it is mounted.
fn found(root: &Root) -> Option<PathBuf> {
    let mounts = root.text("/proc/self/mounts")?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let directory = words.next()?;
        (words.next() == Some("resctrl")).then(|| root.path(directory))
    })
}

/// Mounts it for this process alone.
fn mounted(root: &Root) -> Result<(PathBuf, Option<OwnedFd>), Refusal> {
    let mount = || -> rustix::io::Result<OwnedFd> {
        let resctrl = fsopen("resctrl", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&resctrl)?;
        fsmount(&resctrl, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    };
    let mount = mount().map_err(|e| refused(Path::new(""), "partition a cache", &e.into()))?;
    let path = root.path(&format!("/proc/self/fd/{}", mount.as_raw_fd()));
    Ok((path, Some(mount)))
}

/// The least share of every cache: the fewest bits that a mask may have, the lowest ones, in each of its domains.
fn share(root: &Root, place: &Path) -> Result<Share, Refusal> {
    let text = |name: &str| std::fs::read_to_string(place.join(name)).unwrap_or_default();
    let (mut schemata, mut reported) = (Vec::new(), Vec::new());
    for line in text("schemata").lines() {
        // `L3:0=fffff;1=fffff`, with blanks before it.
        let Some((resource, domains)) = line.trim().split_once(':') else { continue };
        let info = |file: &str| text(&format!("info/{resource}/{file}")).trim().to_owned();
        // What has no mask of parts is no cache: memory bandwidth has percentages.
        let Ok(all) = u64::from_str_radix(&info("cbm_mask"), 16) else { continue };
        let least = info("min_cbm_bits").parse::<u32>().unwrap_or(1).clamp(1, 63);
        let mask = (1u64 << least) - 1;
        if all & mask != mask || all == mask {
            continue;
        }
        let ids = domains.split(';').filter_map(|domain| domain.split_once('=')).map(|(id, _)| id.trim());
        let masks: Vec<String> = ids.map(|id| format!("{id}={mask:x}")).collect();
        schemata.push(format!("{resource}:{}\n", masks.join(";")));
        reported.push(format!("{resource} {least} of {} parts", all.count_ones()));
    }
    if schemata.is_empty() {
        let remedy = if found(root).is_some() {
            "a CPU with cache allocation has it (CAT of x86, MPAM of AArch64): grep cat_l /proc/cpuinfo"
        } else {
            "mount -t resctrl resctrl /sys/fs/resctrl"
        };
        return Err(Refusal::new("no cache can be partitioned here (resctrl)", remedy));
    }
    Ok(Share { schemata, reported: reported.join(", ") })
}

/// Without `O_CREAT`: these files are the kernel's.
fn write(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(value.as_bytes())
}

/// Why the caches are not partitioned; the kernel says more in a file of its own.
fn refused(place: &Path, what: &str, error: &io::Error) -> Refusal {
    let status = std::fs::read_to_string(place.join("info/last_cmd_status")).unwrap_or_default();
    let more = match status.trim() {
        "" | "ok" => String::new(),
        said => format!("; {said}"),
    };
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "run as root, where resctrl may be mounted",
        Some(libc::ENODEV | libc::ENOENT | libc::EOPNOTSUPP) => {
            "a kernel with CONFIG_X86_CPU_RESCTRL (AArch64: MPAM) on a CPU with cache allocation has it; a guest's \
             host must pass it on"
        }
        Some(libc::EBUSY) => "resctrl is mounted where this process does not see it: measure there",
        Some(libc::ENOSPC) => "all groups are in use: remove one below /sys/fs/resctrl",
        Some(libc::ENOSYS) => {
            "mount -t resctrl resctrl /sys/fs/resctrl (Linux before 5.2 has no mounts without a place)"
        }
        _ => "see that error in Documentation/filesystems/resctrl.rst of Linux",
    };
    Refusal::new(format!("cannot {what} with resctrl ({error}{more})"), remedy)
}

#[cfg(test)]
mod tests;
