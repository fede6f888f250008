use super::*;
use crate::fixture;
use crate::owner::tests::stat;

/// Callback that registers an instance; it must run before the instance is created.
fn assert_not_created(path: &Path) -> Result<(), Refusal> {
    assert!(!path.exists(), "{}", path.display());
    Ok(())
}

#[test]
fn only_instances_of_dead_processes_are_removed() {
    let lives = stat("S", 777);
    let (settings, root) = fixture::root(&[("/proc/12/stat", &lives)]);
    let instances = settings.path().join("sys/kernel/debug/tracing/instances");
    for name in ["fathom.12.777.0", "fathom.12.5.0", "fathom.99.5.1", "another"] {
        std::fs::create_dir_all(instances.join(name)).expect("a directory");
    }
    // The kernel keeps a directory that has an open file; the fixture uses a directory that is not empty.
    std::fs::create_dir_all(instances.join("fathom.98.1.0/events")).expect("a directory");
    let trace_fs = TraceFs::find(&root).expect("the instance directory of debugfs");
    assert_eq!(trace_fs.remove_stale(&root), ["fathom.12.5.0", "fathom.99.5.1"]);
    assert_eq!(trace_fs.remove_stale(&root), Vec::<String>::new());
    let instance = trace_fs.create(&root, "", assert_not_created).expect("an instance");
    let path = instance.path().to_path_buf();
    assert!(path.is_dir());
    drop(instance);
    let left = root.names("/sys/kernel/debug/tracing/instances");
    assert_eq!(left, ["another", "fathom.12.777.0", "fathom.98.1.0"]);
}

#[test]
fn tracefs_is_found_at_its_mount_point() {
    let mounts =
        "proc /proc proc rw 0 0\nnodev /mnt/my\\040traces tracefs rw 0 0\nnodev /mnt/t tracefs rw 0 0\n";
    let (settings, root) = fixture::root(&[("/proc/self/mounts", mounts)]);
    std::fs::create_dir_all(settings.path().join("mnt/t/instances")).expect("a directory");
    assert_eq!(TraceFs::find_mounted(&root).expect("found").path, settings.path().join("mnt/t"));
    std::fs::create_dir_all(settings.path().join("sys/kernel/tracing/instances")).expect("a directory");
    assert_eq!(TraceFs::find_mounted(&root).expect("found").path, settings.path().join("sys/kernel/tracing"));
}

#[test]
fn each_error_has_a_remedy() {
    let (_keep, root) = fixture::root(&[]);
    let remedy = |root: &Root, error| {
        let refusal = refused(root, "mount tracefs", &io::Error::from_raw_os_error(error));
        assert!(refusal.reason.starts_with("cannot mount tracefs ("), "{refusal:?}");
        refusal.remedy
    };
    assert!(remedy(&root, libc::EPERM).contains("CAP_SYS_ADMIN"));
    assert!(remedy(&root, libc::ENODEV).contains("CONFIG_FTRACE"));
    assert!(remedy(&root, libc::ENOSYS).contains("mount -t tracefs"));
    assert!(remedy(&root, libc::ENOMEM).contains("memory"));
    assert!(!remedy(&root, libc::EIO).is_empty());
    for (locked, expected) in
        [("none [integrity] confidentiality", false), ("none integrity [confidentiality]", true)]
    {
        let (_keep, root) = fixture::root(&[("/sys/kernel/security/lockdown", locked)]);
        assert_eq!(remedy(&root, libc::EPERM).contains("locked down"), expected);
    }
}

#[test]
fn missing_trace_setting_is_named() {
    let (settings, root) = fixture::root(&[("/i/options/overwrite", "1\n")]);
    set(&root, &settings.path().join("i/options/overwrite"), "0").expect("written");
    assert_eq!(root.text("/i/options/overwrite").as_deref(), Some("0"));
    let refusal = set(&root, &settings.path().join("i/options/other"), "0").expect_err("not there");
    assert!(refusal.reason.starts_with("cannot write \"0\" to options/other ("), "{refusal:?}");
}

#[test]
fn settings_of_killed_process_are_restored_from_instance_name() {
    let osnoise = ("/sys/kernel/tracing/osnoise/timerlat_period_us", "1000\n");
    let cpus = ("/sys/kernel/tracing/osnoise/cpus", "0-3,8\n");
    let (settings, root) = fixture::root(&[osnoise, cpus]);
    let instances = settings.path().join("sys/kernel/tracing/instances");
    std::fs::create_dir_all(&instances).expect("a directory");
    let trace_fs = TraceFs::find(&root).expect("found");
    let before = OsnoiseSettings::read(&trace_fs).expect("in force");
    let now = || (root.number(osnoise.0).expect("a number"), root.text(cpus.0).expect("a text"));
    let changed = OsnoiseSettings { period: "100".into(), cpus: "2".into() };
    // Dropped.
    let instance = trace_fs.create(&root, &before.name_suffix(), assert_not_created).expect("an instance");
    let set = |instance: &Instance| {
        for (path, _) in [osnoise, cpus] {
            // Like the kernel's files, those of the fixture are overwritten completely.
            std::fs::write(root.path(path), "").expect("written");
        }
        instance.write_settings(&root, &changed).expect("set");
        assert_eq!(now(), (100, "2".to_owned()));
        std::fs::write(root.path(osnoise.0), "").expect("written");
        std::fs::write(root.path(cpus.0), "").expect("written");
    };
    set(&instance);
    drop(instance);
    assert_eq!(now(), (1000, "0-3,8".to_owned()));
    // Killed: the instance remains.
    let trace_fs = TraceFs::find(&root).expect("found");
    let dead = trace_fs.create(&root, &before.name_suffix(), assert_not_created).expect("an instance");
    set(&dead);
    std::fs::rename(dead.path(), instances.join(format!("fathom.9.9.0{}", before.name_suffix())))
        .expect("another's");
    drop(dead);
    assert_eq!(root.text(cpus.0).as_deref(), Some(""), "not there, so not removed");
    assert_eq!(TraceFs::find(&root).expect("found").remove_stale(&root), ["fathom.9.9.0.osnoise.1000.0-3,8"]);
    assert_eq!(now(), (1000, "0-3,8".to_owned()));
}

#[test]
fn restore_state_is_recorded_at_every_moment() {
    let osnoise = ("/sys/kernel/tracing/osnoise/timerlat_period_us", "100\n");
    let cpus = ("/sys/kernel/tracing/osnoise/cpus", "2\n");
    let (_keep, root) = fixture::root(&[osnoise, cpus]);
    let instances = || root.names("/sys/kernel/tracing/instances");
    let at = |name: &str| root.path("/sys/kernel/tracing/instances").join(name);
    std::fs::create_dir_all(at("fathom.9.9.0.osnoise.1000.0-3")).expect("a directory");
    let trace_fs = TraceFs::find(&root).expect("found");
    // Killed between removal and restoration: the next process has only the remaining instances.
    let successor =
        trace_fs.hand_over(&root, "fathom.9.9.0.osnoise.1000.0-3").expect("removed").expect("another");
    assert_eq!(instances(), std::slice::from_ref(&successor));
    let ours = format!("fathom.{}.", std::process::id());
    assert!(successor.starts_with(&ours) && OsnoiseSettings::from_name(&successor).is_some(), "{successor}");
    let left = successor.replace(&ours, "fathom.9.");
    std::fs::rename(at(&successor), at(&left)).expect("a dead one's");
    [osnoise, cpus].iter().for_each(|(path, _)| std::fs::write(root.path(path), "").expect("written"));
    assert_eq!(trace_fs.remove_stale(&root), [left]);
    let now = (root.number(osnoise.0), root.text(cpus.0));
    assert_eq!((now, instances()), ((Some(1000), Some("0-3".to_owned())), Vec::new()));
}

#[test]
fn running_process_keeps_its_trace_settings() {
    let cpus = ("/sys/kernel/tracing/osnoise/cpus", "2\n");
    let (settings, root) = fixture::root(&[cpus]);
    let name = "fathom.9.9.0.osnoise.1000.0-3";
    // The kernel keeps a directory that has an open file; the fixture uses a directory that is not empty.
    let open = settings.path().join("sys/kernel/tracing/instances").join(name).join("events");
    std::fs::create_dir_all(&open).expect("a directory");
    let trace_fs = TraceFs::find(&root).expect("found");
    assert_eq!(trace_fs.remove_stale(&root), Vec::<String>::new());
    assert_eq!(root.text(cpus.0).as_deref(), Some("2"));
    assert_eq!(root.names("/sys/kernel/tracing/instances"), [name]);
}

#[test]
fn invalid_trace_settings_are_not_written() {
    let from_name = |name: &str| OsnoiseSettings::from_name(name);
    assert_eq!(from_name("fathom.1.2.3"), None);
    assert_eq!(from_name("fathom.1.2.3.osnoise.1000"), None);
    assert_eq!(from_name("fathom.1.2.3.osnoise.x.0"), None);
    assert_eq!(from_name("fathom.1.2.3.osnoise.1000.0-3;"), None);
    assert_eq!(from_name("fathom.1.2.3.osnoise.1000."), None);
    assert_eq!(from_name(&format!("fathom.1.2.3.osnoise.1.{}", "1,".repeat(100))), None);
    let expected = OsnoiseSettings { period: "1000".into(), cpus: "0-3".into() };
    assert_eq!(from_name("fathom.1.2.3.osnoise.1000.0-3"), Some(expected));
}
