use super::*;
use crate::fixture;
use crate::owner::tests::stat;

const MOUNTS: &str = "proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl rw,relatime 0 0\n";

/// A server with two sockets (Linux, Documentation/filesystems/resctrl.rst).
const SERVER: [(&str, &str); 8] = [
    ("/proc/self/mounts", MOUNTS),
    ("/sys/fs/resctrl/schemata", "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n    L2:0=ff;1=ff;2=ff\n"),
    ("/sys/fs/resctrl/info/L3/cbm_mask", "fffff\n"),
    ("/sys/fs/resctrl/info/L3/min_cbm_bits", "2\n"),
    ("/sys/fs/resctrl/info/L2/cbm_mask", "ff\n"),
    ("/sys/fs/resctrl/info/L2/min_cbm_bits", "1\n"),
    ("/sys/fs/resctrl/info/MB/min_bandwidth", "10\n"),
    ("/sys/fs/resctrl/info/last_cmd_status", "mask f00 has non-consecutive 1-bits\n"),
];

/// Callback that registers a group; it must run before the group is created.
fn assert_not_created(path: &Path) -> Result<(), Refusal> {
    assert!(!path.exists(), "{}", path.display());
    Ok(())
}

#[test]
fn least_share_has_fewest_bits_per_cache_and_domain() {
    let (_keep, root) = fixture::root(&SERVER);
    let place = mount_point(&root).expect("it is mounted");
    let share = share(&root, &place).expect("a share");
    assert_eq!(share.schemata, ["L3:0=3;1=3\n", "L2:0=1;1=1;2=1\n"]);
    assert_eq!(share.reported, "L3 2 of 20 parts, L2 1 of 8 parts");
}

#[test]
fn machine_without_cache_partitioning_is_refused() {
    let bandwidth = [("/proc/self/mounts", MOUNTS), ("/sys/fs/resctrl/schemata", "MB:0=100\n")];
    let nonsense = [
        ("/proc/self/mounts", MOUNTS),
        ("/sys/fs/resctrl/schemata", "L3\n:\nL3:0\nL3:0=1\n"),
        ("/sys/fs/resctrl/info/L3/cbm_mask", "1\n"),
    ];
    for files in [&bandwidth[..], &nonsense[..]] {
        let (_keep, root) = fixture::root(files);
        let refusal = Group::create(&root, assert_not_created).err().expect("nothing to partition");
        assert!(refusal.reason.contains("no cache can be partitioned"), "{refusal:?}");
        assert!(refusal.remedy.contains("CAT"), "{refusal:?}");
    }
}

#[test]
fn group_accepts_its_processes() {
    let (keep, _root) = fixture::root(&SERVER);
    let path = keep.path().join("sys/fs/resctrl/group");
    std::fs::create_dir(&path).expect("a directory");
    // The kernel creates these with the directory.
    for file in ["schemata", "tasks"] {
        File::create(path.join(file)).expect("a file");
    }
    let group = Group { path: path.clone(), share: String::new(), _mount: None };
    group.add_process(std::process::id()).expect("this process");
    let written = std::fs::read_to_string(path.join("tasks")).expect("its tasks");
    assert!(written.parse::<u32>().is_ok(), "{written}");
    let refusal = group.add_process(u32::MAX).expect_err("no such process");
    assert!(refusal.reason.contains("list the threads"), "{refusal:?}");
}

#[test]
fn incomplete_resctrl_group_is_removed_and_reported() {
    let (keep, root) = fixture::root(&SERVER);
    let refusal = Group::create(&root, assert_not_created).err().expect("no schemata in a plain directory");
    assert!(refusal.reason.contains("L3:0=3;1=3"), "{refusal:?}");
    assert!(refusal.reason.contains("non-consecutive"), "the reason of the kernel: {refusal:?}");
    assert!(!refusal.remedy.is_empty());
    let left = root.names("/sys/fs/resctrl");
    assert!(left.iter().all(|name| !name.starts_with("fathom.")), "{left:?}");
    drop(keep);
}

#[test]
fn only_groups_of_dead_processes_are_removed() {
    let lives = stat("S", 777);
    let files = [&SERVER[..], &[("/proc/12/stat", lives.as_str())]].concat();
    let (keep, root) = fixture::root(&files);
    for name in ["fathom.12.777.0", "fathom.12.5.0", "fathom.99.5.1", "another"] {
        std::fs::create_dir(keep.path().join("sys/fs/resctrl").join(name)).expect("a directory");
    }
    assert_eq!(remove_stale(&root), ["fathom.12.5.0", "fathom.99.5.1"]);
    assert!(remove_stale(&root).is_empty());
    let left = root.names("/sys/fs/resctrl");
    assert!(left.contains(&"fathom.12.777.0".to_owned()) && left.contains(&"another".to_owned()), "{left:?}");
}

#[test]
fn this_machine_creates_a_group_or_gives_the_reason() {
    match Group::create(&Root::system(), assert_not_created) {
        Ok(group) => {
            let path = group.path().to_owned();
            assert!(path.join("tasks").exists() && !group.share.is_empty());
            drop(group);
            assert!(!path.exists());
        }
        Err(refusal) => {
            assert!(!refusal.remedy.is_empty(), "{refusal:?}");
            fathom_skip::skipped!(
                Unchecked,
                "a group of this machine's: {}: {}",
                refusal.reason,
                refusal.remedy
            );
        }
    }
}
