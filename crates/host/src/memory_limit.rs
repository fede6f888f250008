//! Memory that the probe may use without harming the machine.
//!
//! The probe takes at most half of the memory that is free now, of the system and of every control group above it.
//! The other half is left to other processes, and to the page cache that keeps them fast. The figures are read again
//! before each step that takes more.

use fathom_units::facts::CeilingSource;

use crate::procfs::{Root, kilobytes};

/// A limit on memory and its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Total bytes, including those already taken.
    pub bytes: u64,
    /// Cause of the limit, as text that follows "limited by".
    pub limit: String,
    /// Kind of the cause.
    pub(crate) source: CeilingSource,
}

impl MemoryLimit {
    /// Returns the lower of the two limits.
    pub(crate) fn and(
        self,
        bytes: u64,
        source: CeilingSource,
        limit: impl FnOnce() -> String,
    ) -> MemoryLimit {
        if bytes < self.bytes { MemoryLimit { bytes, limit: limit(), source } } else { self }
    }
}

/// Returns the limit of a process that has already taken `taken` bytes.
pub(crate) fn memory_limit(root: &Root, taken: u64) -> MemoryLimit {
    let start = MemoryLimit { bytes: u64::MAX, limit: "nothing".into(), source: CeilingSource::Unknown };
    let reported = root.text("/proc/meminfo").is_some();
    let source = if reported { CeilingSource::System } else { CeilingSource::Unknown };
    let system = start.and(half(available(root), taken), source, || {
        match reported {
            true => "half of the memory that is available now (MemAvailable in /proc/meminfo)",
            false => "available memory, which is unknown: /proc/meminfo cannot be read",
        }
        .into()
    });
    groups(root).into_iter().fold(system, |low, group| {
        // The group's path names containers, services and users, and records are meant to be published.
        low.and(half(group.room, taken), CeilingSource::ControlGroup, || {
            let group_name = match group.up {
                0 => "the probe's own control group".to_owned(),
                up => format!("the control group {up} above the probe's"),
            };
            format!("half of the room left in {group_name} ({}; its name: /proc/self/cgroup)", group.file)
        })
    })
}

/// Returns half of the memory that would be free if the process had taken nothing.
fn half(room: u64, taken: u64) -> u64 {
    room.saturating_add(taken) / 2
}

/// Returns the memory that the system could hand out now, bytes. Kernels before 3.14 do not estimate it; free memory
/// is then the lower bound. If `/proc/meminfo` cannot be read, returns zero, so that nothing is taken blindly.
fn available(root: &Root) -> u64 {
    let text = root.text("/proc/meminfo").unwrap_or_default();
    kilobytes(&text, "MemAvailable").or_else(|| kilobytes(&text, "MemFree")).unwrap_or(0)
}

/// Returns the total memory of the machine, bytes.
pub(crate) fn total(root: &Root) -> u64 {
    kilobytes(&root.text("/proc/meminfo").unwrap_or_default(), "MemTotal").unwrap_or(0)
}

/// A control group with a memory limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimit {
    /// Levels above the process's own group.
    pub(crate) up: usize,
    /// File that holds the limit.
    pub(crate) file: &'static str,
    /// The limit, bytes.
    pub(crate) limit: u64,
    /// Bytes that may still be charged to the group before the limit, with the inactive page cache reclaimed.
    pub(crate) room: u64,
}

/// Limit and usage files of the two versions, and the keys of reclaimable page cache in `memory.stat`. Linux
/// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. `memory.high` is not a hard limit, but a group
/// above it is throttled, which would disturb the measurement.
const CGROUP_V2_FILES: [(&str, &str, &str); 2] =
    [("memory.max", "memory.current", "inactive_file"), ("memory.high", "memory.current", "inactive_file")];
const CGROUP_V1_FILES: [(&str, &str, &str); 1] =
    [("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")];

/// Returns every memory limit of the control groups of this process, from its own group up to the root of the mounted
/// hierarchy.
pub(crate) fn groups(root: &Root) -> Vec<GroupLimit> {
    let mut groups = Vec::new();
    for (v2, up, directory) in directories(root, "memory") {
        let files: &[(&'static str, &str, &str)] = if v2 { &CGROUP_V2_FILES } else { &CGROUP_V1_FILES };
        for &(limit, usage, reclaimable) in files {
            groups.extend(group(root, up, &directory, limit, usage, reclaimable));
        }
    }
    groups
}

/// Returns every CPU quota of those groups in the format of version 2: microseconds per period in microseconds.
pub(crate) fn quotas(root: &Root) -> Vec<String> {
    let quota = |(v2, _, directory): (bool, usize, String)| {
        if v2 {
            return root.text(&format!("{directory}/cpu.max")).filter(|quota| !quota.starts_with("max"));
        }
        // -1 means no quota, and does not parse as a number here.
        let quota = root.number(&format!("{directory}/cpu.cfs_quota_us"))?;
        Some(format!("{quota} {}", root.number(&format!("{directory}/cpu.cfs_period_us"))?))
    };
    directories(root, "cpu").into_iter().filter_map(quota).collect()
}

/// Returns the directories of the control groups of one controller, from the process's own upwards: (version 2,
/// levels up, directory).
fn directories(root: &Root, controller: &str) -> Vec<(bool, usize, String)> {
    let mounts = root.text("/proc/self/mountinfo").unwrap_or_default();
    let membership = root.text("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in membership.lines() {
        // hierarchy-ID:controller-list:path, cgroups(7); the path itself may contain colons.
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

/// Returns where a hierarchy is mounted: (root of the mount inside the hierarchy, mount point).
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

/// Returns the directories of the group `path` and of every group above it.
fn upwards(mount: &Option<(String, String)>, path: &str) -> Vec<String> {
    let Some((inner, point)) = mount else { return Vec::new() };
    // In a container without its own cgroup namespace the membership is the host's path, of which only the part below
    // the mount's root is visible.
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

/// Returns one limit of one group; `None` if it has none (`max`, or v1's largest page count).
fn group(
    root: &Root,
    up: usize,
    directory: &str,
    file: &'static str,
    usage: &str,
    reclaimable: &str,
) -> Option<GroupLimit> {
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
    Some(GroupLimit { up, file, limit, room })
}

#[cfg(test)]
mod tests;
