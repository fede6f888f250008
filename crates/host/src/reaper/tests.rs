use super::*;

#[test]
fn only_resources_with_fathom_names_are_accepted() {
    for path in ["/t/instances/fathom.12.34.0", "/t/fathom.7"] {
        assert!(OwnedResource::new(Path::new(path), true).is_some(), "{path}");
    }
    for path in
        ["fathom.1", "/etc", "/", "/t/fathom", "/t/fathom.1/..", "/t/other.1", "/t/fathom.1\nrmdir /x"]
    {
        assert!(OwnedResource::new(Path::new(path), true).is_none(), "{path:?}");
    }
}

#[test]
fn reaper_removes_leftovers_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let command = |word: &str, name: &str| format!("{word} {}", path(name).display()).into_bytes();
    for name in ["fathom.1", "fathom.2", "other.1"] {
        std::fs::create_dir(path(name)).expect("a directory");
    }
    std::fs::write(path("fathom.3"), "a file").expect("a file");
    let mut held = Vec::new();
    for line in [
        command("rmdir", "fathom.1"),
        command("rmdir", "fathom.2"),
        command("unlink", "fathom.3"),
        command("rmdir", "fathom.4"),
        command("rmdir", "other.1"),
        command("done", "fathom.2"),
        command("sing", "fathom.2"),
        Vec::new(),
    ] {
        handle_line(&line, &mut held);
    }
    assert_eq!(held.len(), 3);
    remove_all(held).expect("they go; the last was never there");
    let mut left: Vec<_> =
        std::fs::read_dir(directory.path()).expect("it").flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["fathom.2", "other.1"]);
}

#[test]
fn reaper_names_files_it_cannot_remove() {
    let directory = tempfile::tempdir().expect("a directory");
    let full = directory.path().join("fathom.1");
    std::fs::create_dir_all(full.join("something")).expect("directories");
    let left = remove_all(vec![OwnedResource::new(&full, true).expect("ours")]).expect_err("it is not empty");
    assert!(left.contains("fathom.1") && left.contains("cannot remove"), "{left}");
}
