//! Hosts over ssh: a substitute for `ssh` runs the remote commands on this host, in a separate home directory.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use crate::common::{Did, User};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns a user with a substitute for `ssh` that runs the remote host `pi`, with this architecture and this version
/// of fathom, if any.
fn user(arch: &str, far_fathom: Option<&str>) -> User {
    let user = User::new();
    let home = user.path("far").display().to_string();
    // `ssh` gets the host after `--`, and one command after the host: ssh(1).
    program(
        &user,
        "bin/ssh",
        &format!(
            "printf '%s\\n' \"$*\" >>ssh.log\nwhile test \"$1\" != --; do shift; done\n\
             test \"$2\" = pi || {{ echo \"ssh: connect to host $2 port 22: No route to host\" >&2; exit 255; }}\n\
             test $# = 3 || exit 99\nmkdir -p '{home}'\n\
             HOME='{home}' PATH='{home}/bin:/usr/bin:/bin' exec sh -c \"$3\""
        ),
    );
    program(&user, "far/bin/uname", &format!("echo {arch}"));
    if let Some(version) = far_fathom {
        program(&user, "far/bin/fathom", &served(version));
    }
    user
}

/// Returns the script of a remote fathom of this version, which measures a model.
fn served(version: &str) -> String {
    let own = env!("CARGO_BIN_EXE_fathom");
    format!("test \"$1\" = --version && {{ echo fathom {version}; exit; }}\nexec {own} serve model s1-8way")
}

fn program(user: &User, name: &str, script: &str) {
    let file = user.write(name, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).expect("it is ours");
}

fn survey(user: &User, host: &str, set: &str) -> Did {
    let did = user.shell(&format!(
        "PATH=\"$PWD/bin:$PATH\" {set} fathom survey --on ssh:{host} --budget 2s --record A --force --json"
    ));
    user.nothing_left(Instant::now());
    did
}

#[test]
fn existing_remote_fathom_is_used() {
    let user = user("aarch64", Some(VERSION));
    let did = survey(&user, "pi", "");
    assert!(matches!(did.status, 0 | 3) && did.err.is_empty(), "{did:?}");
    assert!(user.read("A").contains("\nend status=complete"));
    let log = user.read("ssh.log");
    assert!(log.lines().all(|line| line.contains("BatchMode=yes") && line.contains(" -- pi ")), "{log}");
    assert!(log.contains("far/bin/fathom serve host") && !log.contains("mkdir"), "{log}");
}

#[test]
fn other_remote_version_is_reported() {
    let user = user("riscv64", Some("0.0.1"));
    let did = survey(&user, "pi", "");
    assert!(matches!(did.status, 0 | 3), "{did:?}");
    assert!(did.err.contains(&format!("pi has fathom 0.0.1, this is {VERSION}")), "{}", did.err);
}

/// Returns the first bytes of a static program for AArch64: header and one program header (ELF gABI).
fn portable() -> Vec<u8> {
    let mut bytes = vec![0u8; 64 + 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18] = 183;
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 1;
    bytes[64] = 1;
    bytes.extend(b"fathom itself");
    bytes
}

#[test]
fn static_binary_is_copied_to_host_without_fathom() {
    let user = user("aarch64", None);
    // The copied bytes cannot run: the remote shell reports an error.
    std::fs::create_dir_all(user.path("static")).expect("a directory");
    std::fs::write(user.path("static/fathom-aarch64"), portable()).expect("a file");
    let did = survey(&user, "pi", "FATHOM_STATIC_DIR=$PWD/static");
    assert!(did.err.contains("static/fathom-aarch64 to ~/.cache/fathom"), "{did:?}");
    let there = user.path("far/.cache/fathom/fathom");
    assert_eq!(std::fs::read(&there).expect("it was brought"), portable());
    let mode = std::fs::metadata(&there).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let names: Vec<_> =
        std::fs::read_dir(user.path("far/.cache/fathom")).expect("a directory").flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    // The copied file is not a program: the harness reports that the probe ended.
    assert_eq!(did.status, 1, "{did:?}");
    assert!(did.err.contains("ended before its work did"), "{did:?}");
    // The next time the file is already there; here it is replaced by a program that runs.
    program(&user, "far/.cache/fathom/fathom", &served(VERSION));
    std::fs::remove_dir_all(user.path("static")).expect("it was ours");
    let did = survey(&user, "pi", "");
    assert!(matches!(did.status, 0 | 3) && did.err.is_empty(), "{did:?}");
    assert!(user.read("ssh.log").contains(".cache/fathom/fathom serve host"));
}

/// The package fathom-static has the programs in usr/lib/fathom, and fathom is in usr/bin.
#[test]
fn installed_static_programs_are_found() {
    let user = user("aarch64", None);
    for directory in ["usr/bin", "usr/lib/fathom"] {
        std::fs::create_dir_all(user.path(directory)).expect("a directory");
    }
    std::fs::copy(env!("CARGO_BIN_EXE_fathom"), user.path("usr/bin/fathom")).expect("a program");
    std::fs::write(user.path("usr/lib/fathom/fathom-aarch64"), portable()).expect("a file");
    let did = user.shell("PATH=\"$PWD/bin:$PATH\" usr/bin/fathom serve ssh pi </dev/null");
    assert!(did.err.contains("lib/fathom/fathom-aarch64 to ~/.cache/fathom"), "{did:?}");
    let there = std::fs::read(user.path("far/.cache/fathom/fathom")).expect("it was brought");
    assert_eq!(there, portable());
}

/// A program for ARMv6 runs on ARMv7, and not the other way round. Both have the same number in the ELF header.
#[test]
fn armv7_host_gets_the_best_program_and_armv6_host_no_other() {
    let arm = |content: &[u8]| {
        let mut bytes = portable();
        bytes[4] = 1;
        bytes[18..20].copy_from_slice(&40u16.to_le_bytes());
        // The program headers of a 32-bit file: their offset, size and number.
        bytes[28] = 64;
        (bytes[42], bytes[44]) = (32, 1);
        bytes.extend(content);
        bytes
    };
    for (arch, files, copied) in [
        ("armv7l", &["armv6l"][..], Some("armv6l")),
        ("armv7l", &["armv6l", "armv7l"], Some("armv7l")),
        ("armv6l", &["armv7l"], None),
        ("armv6l", &["armv7l", "armv6l"], Some("armv6l")),
    ] {
        let user = user(arch, None);
        std::fs::create_dir_all(user.path("static")).expect("a directory");
        for file in files {
            std::fs::write(user.path(&format!("static/fathom-{file}")), arm(file.as_bytes()))
                .expect("a file");
        }
        let did = survey(&user, "pi", "FATHOM_STATIC_DIR=$PWD/static");
        match copied {
            Some(name) => {
                let there = std::fs::read(user.path("far/.cache/fathom/fathom")).expect("it was brought");
                assert_eq!(there, arm(name.as_bytes()), "{arch} {files:?}: {did:?}");
            }
            None => {
                did.failed(1, &["no fathom on pi (armv6l)", "arm-unknown-linux-gnueabi", "fathom-armv6l"])
            }
        }
    }
}

#[test]
fn missing_static_binary_names_the_build_command() {
    let user = user("aarch64", None);
    let did = survey(&user, "pi", "FATHOM_STATIC_DIR=$PWD/none");
    did.failed(1, &["no fathom on pi (aarch64)", "aarch64-unknown-linux-musl", "FATHOM_STATIC_DIR=DIR"]);
    // A program that needs an interpreter is not portable, whatever its name.
    let mut dynamic = portable();
    dynamic[64] = 3;
    std::fs::create_dir_all(user.path("static")).expect("a directory");
    std::fs::write(user.path("static/fathom-aarch64"), dynamic).expect("a file");
    let did = survey(&user, "pi", "FATHOM_STATIC_DIR=$PWD/static");
    did.failed(1, &["no fathom on pi (aarch64)"]);
}

#[test]
fn unreachable_hosts_and_invalid_host_names_are_refused() {
    let user = user("aarch64", None);
    let did = survey(&user, "mars", "");
    did.failed(
        1,
        &["No route to host", "mars cannot be reached by ssh", "ssh-copy-id mars", "fathom report A"],
    );
    for host in ["-oProxyCommand=id", "'a b'", "''"] {
        survey(&user, host, "").failed(2, &["is not a host name", "ssh:HOST"]);
    }
    let did = user.shell("PATH=$PWD/none /proc/self/exe 2>/dev/null; fathom serve ssh -- -oProxyCommand=id");
    did.failed(2, &["is not a host name"]);
    assert!(!user.read("ssh.log").contains("ProxyCommand"));
}

#[test]
fn other_build_of_same_version_is_reported() {
    let user = user("anything", None);
    // One byte appended to the program does not change its behaviour.
    let own = std::fs::read(env!("CARGO_BIN_EXE_fathom")).expect("the program");
    for (more, reported) in [(&b""[..], false), (b"x", true)] {
        let file = user.path("far/bin/fathom");
        std::fs::write(&file, [&own, more].concat()).expect("a file");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("it is ours");
        let did = survey(&user, "pi", "");
        if crate::common::is_refused(&did) {
            return;
        }
        assert_eq!(did.err.contains("ssh:pi runs another build of fathom"), reported, "{did:?}");
    }
}

#[test]
fn truncated_copy_is_removed() {
    let user = user("aarch64", None);
    std::fs::create_dir_all(user.path("static")).expect("a directory");
    std::fs::write(user.path("static/fathom-aarch64"), portable()).expect("a file");
    // A connection that breaks in the middle of the copy: the remote side reads an end of file.
    let whole = user.read("bin/ssh");
    let broken = whole.replace("exec sh -c \"$3\"", "sh -c \"head -c 60 | { $3; }\"");
    assert_ne!(broken, whole);
    program(&user, "bin/ssh", broken.trim_start_matches("#!/bin/sh\n"));
    let did = survey(&user, "pi", "FATHOM_STATIC_DIR=$PWD/static");
    assert_eq!(did.status, 1, "{did:?}");
    let left = std::fs::read_dir(user.path("far/.cache/fathom")).map_or(0, |all| all.flatten().count());
    assert_eq!(left, 0, "{did:?}");
}

#[test]
fn endless_remote_output_is_cut_off() {
    let user = user("aarch64", None);
    program(&user, "far/bin/uname", "exec yes");
    let did = survey(&user, "pi", "");
    did.failed(1, &["sent more than 64 KiB", "its shell must be quiet"]);
}
