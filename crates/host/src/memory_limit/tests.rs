use super::*;
use crate::fixture;

const MIB: u64 = 1 << 20;

const MEMINFO: (&str, &str) = (
    "/proc/meminfo",
    "MemTotal:        2097152 kB\nMemFree:          102400 kB\nMemAvailable:    1048576 kB\nBuffers: 1 kB\n",
);
const V2_MOUNT: &str = "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn without_groups_the_limit_is_half_of_available_memory() {
    let (_keep, root) = fixture::root(&[MEMINFO]);
    let limit = memory_limit(&root, 0);
    assert_eq!(limit.bytes, 512 * MIB);
    assert!(limit.limit.contains("MemAvailable"), "{}", limit.limit);
    // Memory of the process is added to the available memory: half of (1024 + 100).
    assert_eq!(super::memory_limit(&root, 100 * MIB).bytes, 562 * MIB);
    assert_eq!(total(&root), 2048 * MIB);
}

#[test]
fn free_memory_is_used_without_memavailable() {
    let (_keep, root) = fixture::root(&[("/proc/meminfo", "MemFree:  204800 kB\n")]);
    assert_eq!(memory_limit(&root, 0).bytes, 100 * MIB);
    let (_keep, root) = fixture::root(&[]);
    assert_eq!(memory_limit(&root, 0).bytes, 0);
    assert!(memory_limit(&root, 0).limit.contains("cannot be read"));
}

#[test]
fn lowest_limit_in_the_hierarchy_is_used() {
    let (_keep, root) = fixture::root(&[
        MEMINFO,
        ("/proc/self/mountinfo", V2_MOUNT),
        ("/proc/self/cgroup", "0::/a/b/c\n"),
        ("/sys/fs/cgroup/a/b/c/memory.max", "max\n"),
        ("/sys/fs/cgroup/a/b/c/memory.current", "1048576\n"),
        ("/sys/fs/cgroup/a/b/memory.max", "209715200\n"),
        ("/sys/fs/cgroup/a/b/memory.current", "104857600\n"),
        ("/sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 52428800\nactive_file 7\n"),
        ("/sys/fs/cgroup/a/memory.max", "1073741824\n"),
        ("/sys/fs/cgroup/a/memory.current", "104857600\n"),
    ]);
    // 200 MiB minus 100 used, of which 50 are inactive page cache: room of 150, half of it.
    let limit = memory_limit(&root, 0);
    assert_eq!(limit.bytes, 75 * MIB);
    let limit = &limit.limit;
    assert!(limit.contains("group 1 above") && limit.contains("memory.max"), "{limit}");
    assert!(!limit.contains("/a/b"), "a group's path names containers and users: {limit}");
    assert_eq!(groups(&root).len(), 2, "a group without a limit is not listed");
}

#[test]
fn memory_high_is_a_limit_and_an_exhausted_group_has_no_room() {
    let (_keep, root) = fixture::root(&[
        MEMINFO,
        ("/proc/self/mountinfo", V2_MOUNT),
        ("/proc/self/cgroup", "0::/x\n"),
        ("/sys/fs/cgroup/x/memory.max", "max\n"),
        ("/sys/fs/cgroup/x/memory.high", "10485760\n"),
        ("/sys/fs/cgroup/x/memory.current", "20971520\n"),
    ]);
    let limit = memory_limit(&root, 0);
    assert_eq!(limit.bytes, 0);
    assert!(limit.limit.contains("memory.high"));
}

#[test]
fn version_1_and_hybrid_hierarchies_are_read() {
    let (_keep, root) = fixture::root(&[
        MEMINFO,
        (
            "/proc/self/mountinfo",
            "40 30 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             41 30 0:34 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory\n\
             42 30 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        ),
        ("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/one\n1:cpu,cpuacct:/\n0::/\n"),
        ("/sys/fs/cgroup/memory/job/one/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/sys/fs/cgroup/memory/job/one/memory.usage_in_bytes", "4096\n"),
        ("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "67108864\n"),
        ("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "4194304\n"),
        ("/sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 0\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ]);
    assert_eq!(memory_limit(&root, 0).bytes, 30 * MIB);
}

#[test]
fn cpu_quotas_have_one_form() {
    let (_keep, root) = fixture::root(&[
        ("/proc/self/mountinfo", V2_MOUNT),
        ("/proc/self/cgroup", "0::/a/b\n"),
        ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
    ]);
    assert_eq!(quotas(&root), ["50000 100000"]);
    let (_keep, root) = fixture::root(&[
        (
            "/proc/self/mountinfo",
            "40 30 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             41 30 0:34 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        ),
        ("/proc/self/cgroup", "4:memory:/\n1:cpu,cpuacct:/job\n"),
        ("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "20000\n"),
        ("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ]);
    assert_eq!(quotas(&root), ["20000 100000"]);
}

#[test]
fn paths_are_relative_to_the_mounted_part() {
    // Without a namespace: the group's path is that on the host, and the mount has only the part below.
    let (_keep, root) = fixture::root(&[
        MEMINFO,
        ("/proc/self/mountinfo", "31 23 0:27 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/docker/abc/inner\n"),
        ("/sys/fs/cgroup/memory.max", "41943040\n"),
        ("/sys/fs/cgroup/memory.current", "0\n"),
        ("/sys/fs/cgroup/inner/memory.max", "83886080\n"),
        ("/sys/fs/cgroup/inner/memory.current", "0\n"),
    ]);
    assert_eq!(memory_limit(&root, 0).bytes, 20 * MIB);
    assert_eq!(groups(&root).len(), 2);
}

#[test]
fn invalid_limits_are_ignored() {
    let (_keep, root) = fixture::root(&[
        MEMINFO,
        (
            "/proc/self/mountinfo",
            "garbage\n - \n1 2 3 - cgroup2\n31 23 0:27 / /sys/fs/cgroup rw - cgroup2 c rw\n",
        ),
        ("/proc/self/cgroup", "garbage\n0::\n::::\n0::/a:b\n"),
        ("/sys/fs/cgroup/memory.max", "-5\n"),
        ("/sys/fs/cgroup/a:b/memory.max", "99999999999999999999999\n"),
    ]);
    assert_eq!(memory_limit(&root, 0).bytes, 512 * MIB);
}
