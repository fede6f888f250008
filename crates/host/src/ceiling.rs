//! How much memory may be taken without harming the machine.
//!
//! The probe takes at most half of what is free now, of the system and of every control group above it:
//! the other half is left to whoever else is running, and to the page cache that keeps them fast. The
//! figures are read again before each step that takes more.

use fathom_units::facts::CeilingSource;

use crate::read::{Root, kilobytes};

/// What may be had, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ceiling {
    /// Bytes in all, those already taken included.
    pub(crate) bytes: u64,
    /// The thing that sets the limit, in words that follow "limited by".
    pub(crate) limit: String,
    /// Which kind of thing that is.
    pub(crate) source: CeilingSource,
}

impl Ceiling {
    /// The lower of the two.
    pub(crate) fn and(self, bytes: u64, source: CeilingSource, limit: impl FnOnce() -> String) -> Ceiling {
        if bytes < self.bytes { Ceiling { bytes, limit: limit(), source } } else { self }
    }
}

/// The ceiling for a process that has already taken `taken` bytes of what it may have.
pub(crate) fn ceiling(root: &Root, taken: u64) -> Ceiling {
    let start = Ceiling { bytes: u64::MAX, limit: "nothing".into(), source: CeilingSource::Unknown };
    let reported = root.text("/proc/meminfo").is_some();
    let source = if reported { CeilingSource::System } else { CeilingSource::Unknown };
    let system = start.and(half(available(root), taken), source, || {
        match reported {
            true => "half of the memory that is available now (MemAvailable in /proc/meminfo)",
            false => "what is available, which nothing tells: /proc/meminfo cannot be read",
        }
        .into()
    });
    groups(root).into_iter().fold(system, |low, group| {
        // Its path names containers, services and users; records are meant to be published.
        low.and(half(group.room, taken), CeilingSource::ControlGroup, || {
            let whose = match group.up {
                0 => "the probe's own control group".to_owned(),
                up => format!("the control group {up} above the probe's"),
            };
            format!("half of the room left in {whose} ({}; which one it is: /proc/self/cgroup)", group.file)
        })
    })
}

/// Half of what there would be if nothing had been taken.
fn half(room: u64, taken: u64) -> u64 {
    room.saturating_add(taken) / 2
}

/// Memory that the system could hand out now, bytes. Kernels before 3.14 do not estimate it: what is
/// free is then the lower bound. Where `/proc/meminfo` cannot be read, zero: nothing is taken blindly.
fn available(root: &Root) -> u64 {
    let text = root.text("/proc/meminfo").unwrap_or_default();
    kilobytes(&text, "MemAvailable").or_else(|| kilobytes(&text, "MemFree")).unwrap_or(0)
}

/// Memory of the machine in all, bytes.
pub(crate) fn total(root: &Root) -> u64 {
    kilobytes(&root.text("/proc/meminfo").unwrap_or_default(), "MemTotal").unwrap_or(0)
}

/// A control group with a memory limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// How many groups it is above the process's own.
    pub(crate) up: usize,
    /// The file that holds the limit.
    pub(crate) file: &'static str,
    /// The limit, bytes.
    pub(crate) limit: u64,
    /// Bytes that may still be charged to it before the limit, the inactive page cache being given up.
    pub(crate) room: u64,
}

/// Limit and usage files of the two versions, and the keys of reclaimable page cache in `memory.stat`.
/// Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. `memory.high` is no hard limit,
/// but a group above it is throttled, which would be measured.
const V2: [(&str, &str, &str); 2] =
    [("memory.max", "memory.current", "inactive_file"), ("memory.high", "memory.current", "inactive_file")];
const V1: [(&str, &str, &str); 1] =
    [("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")];

/// Every memory limit of the control groups that this process is in, from its own group up to the root
/// of the mounted hierarchy.
pub(crate) fn groups(root: &Root) -> Vec<Group> {
    let mut groups = Vec::new();
    for (v2, up, directory) in directories(root, "memory") {
        let files: &[(&'static str, &str, &str)] = if v2 { &V2 } else { &V1 };
        for &(limit, usage, reclaimable) in files {
            groups.extend(group(root, up, &directory, limit, usage, reclaimable));
        }
    }
    groups
}

/// Every CPU quota of those groups, as version 2 writes it: microseconds in a period of microseconds.
pub(crate) fn quotas(root: &Root) -> Vec<String> {
    let one = |(v2, _, directory): (bool, usize, String)| {
        if v2 {
            return root.text(&format!("{directory}/cpu.max")).filter(|quota| !quota.starts_with("max"));
        }
        // -1 is no quota, and no number here.
        let quota = root.number(&format!("{directory}/cpu.cfs_quota_us"))?;
        Some(format!("{quota} {}", root.number(&format!("{directory}/cpu.cfs_period_us"))?))
    };
    directories(root, "cpu").into_iter().filter_map(one).collect()
}

/// The directories of the control groups of one controller, from the process's own upwards: is it a group of
/// version 2, how far up, and where.
fn directories(root: &Root, controller: &str) -> Vec<(bool, usize, String)> {
    let mounts = root.text("/proc/self/mountinfo").unwrap_or_default();
    let membership = root.text("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in membership.lines() {
        // hierarchy-ID:controller-list:path, cgroups(7); the path itself may hold colons.
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let v2 = id == "0" && controllers.is_empty();
        let mount = match v2 {
            true => mount_of(&mounts, "cgroup2", None),
            false if controllers.split(',').any(|c| c == controller) => {
                mount_of(&mounts, "cgroup", Some(controller))
            }
            false => None,
        };
        let all = upwards(&mount, path).into_iter().enumerate();
        found.extend(all.map(|(up, directory)| (v2, up, directory)));
    }
    found
}

/// Where a hierarchy is mounted: (root of the mount inside the hierarchy, mount point).
fn mount_of(mounts: &str, kind: &str, option: Option<&str>) -> Option<(String, String)> {
    mounts.lines().find_map(|line| {
        // proc_pid_mountinfo(5): fields 4 and 5 are root and mount point; after " - " come the type, the
        // source and the super block's options, among them a v1 hierarchy's controllers.
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (inner, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let found = right.next()? == kind
            && option.is_none_or(|o| right.nth(1).is_some_and(|all| all.split(',').any(|w| w == o)));
        found.then(|| (inner.to_owned(), point.to_owned()))
    })
}

/// The directory of the group `path` and of every group above it.
fn upwards(mount: &Option<(String, String)>, path: &str) -> Vec<String> {
    let Some((inner, point)) = mount else { return Vec::new() };
    // In a container without a namespace of its own the membership names the host's path, of which only
    // the part below the mount's root is visible.
    let below = path.strip_prefix(inner.trim_end_matches('/')).unwrap_or(path);
    let mut below = below.trim_end_matches('/');
    let mut all = Vec::new();
    loop {
        all.push(format!("{point}{below}"));
        match below.rfind('/') {
            Some(cut) => below = &below[..cut],
            None => return all,
        }
    }
}

/// One limit of one group; nothing where it has none (`max`, or v1's largest page count).
fn group(
    root: &Root,
    up: usize,
    directory: &str,
    file: &'static str,
    usage: &str,
    reclaimable: &str,
) -> Option<Group> {
    let limit = root.number(&format!("{directory}/{file}"))?;
    // v1 writes "no limit" as LONG_MAX rounded down to a page; no machine has 2^62 bytes.
    if limit >= 1 << 62 {
        return None;
    }
    let used = root.number(&format!("{directory}/{usage}")).unwrap_or(0);
    let stat = root.text(&format!("{directory}/memory.stat")).unwrap_or_default();
    let cache =
        stat.lines().find_map(|line| line.strip_prefix(reclaimable)?.trim().parse::<u64>().ok()).unwrap_or(0);
    let room = limit.saturating_sub(used.saturating_sub(cache));
    Some(Group { up, file, limit, room })
}

#[cfg(test)]
mod tests;
