use super::*;
use crate::stress::slots::Slot;

#[test]
fn quarter_of_the_free_space_is_allowed() {
    assert_eq!(within(25, 100), Ok(()));
    assert_eq!(within(26, 100), Err(25));
    assert_eq!(within(1, 0), Err(0));
    let directory = tempfile::tempdir().expect("a directory");
    check(directory.path(), 1).expect("a byte is free");
    let refusal = check(directory.path(), u64::MAX).expect_err("no disk is that large");
    assert!(refusal.reason.contains("a quarter of its free space"), "{}", refusal.reason);
    assert!(check(Path::new("/nowhere"), 1).is_err());
}

#[test]
fn file_systems_in_memory_are_not_chosen() {
    let refusal = choose(&["/proc".into(), "/nowhere".into()]).expect_err("no such disk");
    assert!(
        refusal.reason.contains("/proc, /nowhere") && refusal.remedy.contains("TMPDIR"),
        "{}",
        refusal.reason
    );
    let on_disk = tempfile::tempdir_in(".").expect("a directory");
    let memory = |path: &Path| statfs(path).is_ok_and(|s| MEMORY_FILE_SYSTEMS.contains(&(s.f_type as u64)));
    if memory(on_disk.path()) {
        fathom_skip::skipped!(Unchecked, "this checkout is in memory");
    } else {
        assert_eq!(choose(&["/nowhere".into(), on_disk.path().into()]).expect("a disk"), on_disk.path());
    }
    if memory(Path::new("/dev/shm")) {
        assert!(choose(&["/dev/shm".into()]).is_err(), "memory is no disk");
    } else {
        fathom_skip::skipped!(Unchecked, "/dev/shm is no memory here");
    }
}

#[test]
fn disk_load_files_are_unnamed_and_freed() {
    let directory = tempfile::tempdir().expect("a directory");
    let slot = Slot::default();
    let mut tally = Tally::new(&slot);
    let bytes = (2 << 20) + 5;
    let mut disk = Disk::open(directory.path(), bytes).expect("a file");
    for _ in 0..3 {
        disk.pass(&mut tally).expect("it is written");
        assert_eq!(disk.file.metadata().expect("a file").len(), 0);
    }
    assert_eq!(slot.bytes.load(std::sync::atomic::Ordering::Relaxed), 3 * bytes);
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0, "no name is left");
    // Fallback for a file system that cannot create unnamed files.
    let mut file = File::from(open_and_unlink(directory.path()).expect("a file"));
    file.write_all(b"gone with its descriptor").expect("it is written");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0, "no name is left");
    let refused = Disk::open(Path::new("/nowhere"), 1).err().expect("no such place");
    assert_eq!(refused.stage, Stage::File);
}
