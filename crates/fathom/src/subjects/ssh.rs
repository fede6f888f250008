//! `ssh:HOST`: fathom on another host, through the system's ssh. It is copied there if it is not installed.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_host::Program;

use super::Subject;
use crate::failure::{Failure, print_message};
use crate::output::shell;

/// Prefix of the name.
pub const PREFIX: &str = "ssh:";
/// Form of the name.
pub const FORM: &str = "ssh:HOST";
/// Environment variable with a directory of static programs: `fathom-aarch64`, `fathom-x86_64`.
const STATIC_DIR: &str = "FATHOM_STATIC_DIR";
/// Directory of such programs from the directory of this one: that of the package fathom-static.
const INSTALLED_DIR: &str = "../lib/fathom";
/// Directory for the program on the remote host, below the home directory.
const REMOTE_DIR: &str = ".cache/fathom";
/// Largest output of a remote command that is read, bytes: the architecture and two versions, or a path, after what
/// the remote shell says at its start.
const MAX_ANSWER: u64 = 64 << 10;
/// Options of ssh: no password prompt, and timeouts for connecting and for dead connections.
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=20",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=3",
];

/// Returns the subject of this name; `host` is the part after the prefix.
pub fn subject(name: &str, host: &str) -> Result<Subject, Failure> {
    check_name(host)?;
    Ok(Subject {
        command: ["fathom", "serve", "ssh", host].map(String::from).to_vec(),
        ..Subject::named(name, format!("the host {host}, by ssh"))
    })
}

/// Checks the name of a host. A name that begins with `-` would be an option, which may start programs.
fn check_name(host: &str) -> Result<(), Failure> {
    let wrong = host.is_empty()
        || host.starts_with('-')
        || host.contains(|c: char| c.is_whitespace() || c.is_control());
    if !wrong {
        return Ok(());
    }
    let what = format!("'{host}' is not a host name");
    Err(Failure::usage(what, format!("write {FORM}, with a host name that `ssh HOST` accepts")))
}

/// Command run on the remote host: prints its architecture and the installed programs. The remote shell expands the
/// tilde.
const FIND_PROGRAMS: &str = "uname -m; for f in \"$(command -v fathom)\" ~/.cache/fathom/fathom; do \
    test -x \"$f\" && echo \"$(\"$f\" --version 2>/dev/null) $f\"; done; true";

/// Output of that command.
#[derive(Debug, PartialEq, Eq)]
struct RemoteHost {
    arch: String,
    /// Version and path of each fathom that printed its version.
    programs: Vec<(String, String)>,
}

impl RemoteHost {
    fn read(text: &str) -> RemoteHost {
        let mut lines = text.lines();
        let arch = lines.next().unwrap_or_default().trim().to_owned();
        let program = |line: &str| {
            let (version, path) = line.strip_prefix("fathom ")?.split_once(' ')?;
            Some((version.to_owned(), path.to_owned()))
        };
        RemoteHost { arch, programs: lines.filter_map(program).collect() }
    }
}

/// Replaces this process by the ssh that serves the remote host.
pub fn serve(host: &str) -> Result<(), Failure> {
    check_name(host)?;
    let found = remote(host, FIND_PROGRAMS, None)?;
    let remote_host = RemoteHost::read(&found);
    let path = match remote_host.programs.iter().find(|(version, _)| version == env!("CARGO_PKG_VERSION")) {
        Some((_, path)) => path.clone(),
        None => copy_program(host, &remote_host)?,
    };
    let e = ssh(host, &format!("exec {} serve host", shell(&path))).exec();
    Err(no_ssh(&e))
}

fn ssh(host: &str, command: &str) -> Command {
    let mut ssh = Command::new("ssh");
    ssh.args(OPTIONS).args(["--", host, command]);
    ssh
}

fn no_ssh(e: &std::io::Error) -> Failure {
    Failure::new(format!("cannot start ssh: {e}"), "sudo apt-get install openssh-client")
}

/// Runs a command on the remote host, with `input` as its stdin, and waits for its end. Returns its output, which is
/// at most [`MAX_ANSWER`] bytes.
fn remote(host: &str, command: &str, input: Option<std::fs::File>) -> Result<String, Failure> {
    let stdin = input.map_or_else(Stdio::null, Stdio::from);
    let mut child = ssh(host, command).stdin(stdin).stdout(Stdio::piped()).spawn().map_err(|e| no_ssh(&e))?;
    let mut answer = Vec::new();
    let read = child.stdout.take().map(|from| from.take(MAX_ANSWER + 1).read_to_end(&mut answer));
    let too_long = answer.len() as u64 > MAX_ANSWER;
    if too_long {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| no_ssh(&e))?;
    if too_long {
        let what = format!("{host}: the remote command sent more than {} KiB", MAX_ANSWER >> 10);
        return Err(Failure::new(what, format!("its shell must be quiet: ssh {} true", shell(host))));
    }
    if let Some(Err(e)) = read {
        return Err(Failure::new(format!("{host}: its output cannot be read: {e}"), ""));
    }
    if status.success() {
        return Ok(String::from_utf8_lossy(&answer).into_owned());
    }
    // 255 is ssh's own status (ssh(1), EXIT STATUS); all others are the remote command's.
    Err(match status.code() {
        Some(255) => Failure::new(
            format!("{host} cannot be reached by ssh"),
            format!("ssh {} true must work without a prompt: ssh-copy-id {}", shell(host), shell(host)),
        ),
        _ => Failure::new(format!("{host}: the remote command failed ({status})"), "see its message above"),
    })
}

/// Copies a program of this version to the remote host; returns its path.
fn copy_program(host: &str, remote_host: &RemoteHost) -> Result<String, Failure> {
    let file = match portable(&remote_host.arch) {
        Some(file) => file,
        None => return other_version(host, remote_host),
    };
    print_message(&format!(
        "{host} has no fathom {}: copying {} to ~/{REMOTE_DIR}",
        env!("CARGO_PKG_VERSION"),
        file.display()
    ));
    let open = std::fs::File::open(&file)
        .map_err(|e| Failure::new(format!("{}: {e}", file.display()), "make it readable"))?;
    // The program is written under a temporary name first, so that a running one is not overwritten and an incomplete
    // one is never run. A broken connection looks like the end of the file on the remote host, so the length is
    // checked.
    let bytes = open.metadata().map_err(|e| Failure::new(format!("{}: {e}", file.display()), ""))?.len();
    let put = format!(
        "set -e; umask 077; mkdir -p ~/{REMOTE_DIR}; cd ~/{REMOTE_DIR}; trap 'rm -f new.$$' EXIT; cat > new.$$; \
         test \"$(wc -c < new.$$)\" -eq {bytes}; chmod 700 new.$$; mv new.$$ fathom; echo \"$PWD/fathom\""
    );
    let path = remote(host, &put, Some(open))?.trim().to_owned();
    if path.starts_with('/') {
        return Ok(path);
    }
    Err(Failure::new(
        format!("{host}: the program could not be copied"),
        format!("copy one by hand to ~/{REMOTE_DIR}/fathom"),
    ))
}

/// Returns another version, if nothing can be copied. It reports itself whether it supports this protocol.
fn other_version(host: &str, remote_host: &RemoteHost) -> Result<String, Failure> {
    let this_version = env!("CARGO_PKG_VERSION");
    if let Some((version, path)) = remote_host.programs.first() {
        print_message(&format!(
            "{host} has fathom {version}, this is {this_version}: their figures may differ"
        ));
        return Ok(path.clone());
    }
    let arch = &remote_host.arch;
    let known = fathom_host::PROGRAMS.iter().find(|program| program.runs_on(arch));
    let build = known.map_or(String::new(), |program| {
        format!(
            ", or build a static one (cargo build --release --target {}; where Rust has no such library, \
             scripts/cross), and name its directory: {STATIC_DIR}=DIR, with the file fathom-{}",
            program.target, program.uname
        )
    });
    Err(Failure::new(
        format!("no fathom on {host} ({arch}), and no local static binary for {arch}"),
        format!("install fathom {this_version} on {host}{build}"),
    ))
}

/// Returns a program that runs on any Linux of this architecture: in the named directory, in the directory of this
/// program, in that of the package fathom-static, or this program itself.
fn portable(arch: &str) -> Option<PathBuf> {
    let this_program = std::env::current_exe().ok()?;
    let named = std::env::var_os(STATIC_DIR).map(PathBuf::from);
    let own = this_program.parent().map(Path::to_owned);
    let installed = own.as_ref().map(|own| own.join(INSTALLED_DIR));
    let directories = [named, own, installed];
    let kinds = fathom_host::PROGRAMS.into_iter().filter(|program| program.runs_on(arch));
    let mut found = kinds.flat_map(|program| {
        let name = format!("fathom-{}", program.uname);
        let files = directories.iter().flatten().map(move |directory| directory.join(&name));
        files.map(move |file| (file, program)).collect::<Vec<_>>()
    });
    let this =
        Some((this_program.clone(), fathom_host::PROGRAM)).filter(|(_, program)| program.runs_on(arch));
    let is_static = |(file, program): &(PathBuf, Program)| is_static(file, program).unwrap_or(false);
    found.find(is_static).or(this.filter(is_static)).map(|(file, _)| file)
}

/// Returns whether the file is an ELF program of this kind without an interpreter. (ELF gABI: header and program
/// headers, little-endian; PT_INTERP is 3.)
fn is_static(file: &Path, program: &Program) -> std::io::Result<bool> {
    let mut head = Vec::new();
    // All linkers put the program headers directly after the header.
    std::fs::File::open(file)?.take(4096).read_to_end(&mut head)?;
    let half = |at: usize| head.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let word = |at: usize| Some(u32::from(half(at)?) | u32::from(half(at + 2)?) << 16);
    let class = program.elf_class;
    if !head.starts_with(&[0x7f, b'E', b'L', b'F', class, 1]) || half(18) != Some(program.elf_machine) {
        return Ok(false);
    }
    // Offsets of e_phoff, e_phentsize and e_phnum.
    let (offset, entry, entries) = if class == 1 { (28, 42, 44) } else { (32, 54, 56) };
    let (Some(at), Some(size), Some(count)) = (word(offset), half(entry), half(entries)) else {
        return Ok(false);
    };
    let kinds = (0..usize::from(count)).map(|i| word(at as usize + i * usize::from(size)));
    let kinds: Option<Vec<u32>> = kinds.collect();
    Ok(kinds.is_some_and(|kinds| !kinds.contains(&3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_cannot_be_an_option() {
        for host in ["pi", "me@pi.local", "[fe80::1%eth0]"] {
            assert!(check_name(host).is_ok(), "{host}");
        }
        for host in ["", "-oProxyCommand=touch x", "a b", "a\nb"] {
            assert!(check_name(host).unwrap_err().remedy.contains(FORM), "{host}");
        }
    }

    #[test]
    fn remote_answer_is_parsed() {
        let remote_host = RemoteHost::read(
            "aarch64\nfathom 0.1.0 /usr/bin/fathom\nfathom 0.0.9 /home/me/a b/fathom\n? /x\n",
        );
        assert_eq!(remote_host.arch, "aarch64");
        let program = |v: &str, p: &str| (v.to_owned(), p.to_owned());
        assert_eq!(
            remote_host.programs,
            [program("0.1.0", "/usr/bin/fathom"), program("0.0.9", "/home/me/a b/fathom")]
        );
        assert_eq!(RemoteHost::read("").arch, "");
    }

    /// Writes an ELF program with program headers of these kinds.
    fn write_program(file: &Path, program: &Program, kinds: &[u32]) {
        let (header, offset, entry, entries, size) =
            if program.elf_class == 1 { (52, 28, 42, 44, 32) } else { (64, 32, 54, 56, 56) };
        let mut bytes = vec![0u8; header];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', program.elf_class, 1]);
        bytes[18..20].copy_from_slice(&program.elf_machine.to_le_bytes());
        bytes[offset] = u8::try_from(header).expect("few");
        bytes[entry] = size;
        bytes[entries] = u8::try_from(kinds.len()).expect("few");
        for kind in kinds {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(vec![0; usize::from(size) - 4]);
        }
        std::fs::write(file, bytes).expect("a file");
    }

    #[test]
    fn only_static_programs_of_the_architecture_are_accepted() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("program");
        for program in fathom_host::PROGRAMS {
            for (kinds, runs) in [(&[1, 1][..], true), (&[1, 3], false), (&[], true)] {
                write_program(&file, &program, kinds);
                assert_eq!(is_static(&file, &program).expect("it is read"), runs, "{program:?} {kinds:?}");
                for other in fathom_host::PROGRAMS.iter().filter(|p| p.elf_machine != program.elf_machine) {
                    assert!(!is_static(&file, other).expect("it is read"), "{program:?} for {other:?}");
                }
            }
        }
        std::fs::write(&file, "#!/bin/sh\n").expect("a file");
        assert!(!is_static(&file, &fathom_host::PROGRAM).expect("it is read"));
    }
}
