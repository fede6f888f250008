//! `ssh:HOST`: a fathom on another host, through the system's own ssh: found there, or brought there.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::Subject;
use crate::failure::{Failure, tell};
use crate::output::shell;

/// What the name begins with.
pub const PREFIX: &str = "ssh:";
/// The form of the name.
pub const FORM: &str = "ssh:HOST";
/// Names a directory with programs that run anywhere: `fathom-aarch64`, `fathom-x86_64`.
const STATIC_DIR: &str = "FATHOM_STATIC_DIR";
/// Where a program is put there, below the home.
const PLACE: &str = ".cache/fathom";
/// Never asks for a password, which nobody could type; gives up in time, and notices a line that went dead.
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

/// The subject of this name, behind its prefix.
pub fn subject(name: &str, host: &str) -> Result<Subject, Failure> {
    checked(host)?;
    Ok(Subject {
        command: ["fathom", "serve", "ssh", host].map(String::from).to_vec(),
        ..Subject::named(name, format!("the host {host}, by ssh"))
    })
}

/// A host's name as ssh takes it. One that begins with `-` would be an option, which may start programs.
fn checked(host: &str) -> Result<(), Failure> {
    let wrong = host.is_empty()
        || host.starts_with('-')
        || host.contains(|c: char| c.is_whitespace() || c.is_control());
    if !wrong {
        return Ok(());
    }
    let what = format!("'{host}' is no host's name");
    Err(Failure::usage(what, format!("write {FORM}, with a host as `ssh HOST` takes it")))
}

/// What is asked of the far side: its architecture, and which programs are there. The tilde is the far shell's.
const SURVEY: &str = "uname -m; for f in \"$(command -v fathom)\" ~/.cache/fathom/fathom; do \
    test -x \"$f\" && echo \"$(\"$f\" --version 2>/dev/null) $f\"; done; true";

/// What was found there.
#[derive(Debug, PartialEq, Eq)]
struct Far {
    arch: String,
    /// Version and path of each fathom, as far as they said one.
    programs: Vec<(String, String)>,
}

impl Far {
    fn read(text: &str) -> Far {
        let mut lines = text.lines();
        let arch = lines.next().unwrap_or_default().trim().to_owned();
        let program = |line: &str| {
            let (version, path) = line.strip_prefix("fathom ")?.split_once(' ')?;
            Some((version.to_owned(), path.to_owned()))
        };
        Far { arch, programs: lines.filter_map(program).collect() }
    }
}

/// Becomes the ssh that serves the far host.
pub fn serve(host: &str) -> Result<(), Failure> {
    checked(host)?;
    let found = remote(host, SURVEY, None)?;
    let far = Far::read(&String::from_utf8_lossy(&found.stdout));
    let path = match far.programs.iter().find(|(version, _)| version == env!("CARGO_PKG_VERSION")) {
        Some((_, path)) => path.clone(),
        None => bring(host, &far)?,
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

/// Runs a command there, with `input` as its stdin, and waits for its end.
fn remote(host: &str, command: &str, input: Option<std::fs::File>) -> Result<Output, Failure> {
    let stdin = input.map_or_else(Stdio::null, Stdio::from);
    let mut ssh = ssh(host, command);
    let output = ssh.stdin(stdin).stderr(Stdio::inherit()).output().map_err(|e| no_ssh(&e))?;
    if output.status.success() {
        return Ok(output);
    }
    // 255 is ssh's own (ssh(1), EXIT STATUS); everything else is the far command's.
    Err(match output.status.code() {
        Some(255) => Failure::new(
            format!("{host} cannot be reached by ssh"),
            format!("ssh {} true has to work without a question: ssh-copy-id {}", shell(host), shell(host)),
        ),
        _ => Failure::new(
            format!("{host}: the command there failed ({})", output.status),
            "look at its words above",
        ),
    })
}

/// Puts a program of this version there; returns its path.
fn bring(host: &str, far: &Far) -> Result<String, Failure> {
    let file = match portable(&far.arch) {
        Some(file) => file,
        None => return other_version(host, far),
    };
    tell(&format!(
        "{host} has no fathom {}: {} goes to ~/{PLACE} there",
        env!("CARGO_PKG_VERSION"),
        file.display()
    ));
    let open = std::fs::File::open(&file)
        .map_err(|e| Failure::new(format!("{}: {e}", file.display()), "make it readable"))?;
    // Under a name of its own first: one that runs already is not written over, and half a file is never run.
    // A line that breaks is the end of a file to the far side: what is not as long as it was sent is none.
    let bytes = open.metadata().map_err(|e| Failure::new(format!("{}: {e}", file.display()), ""))?.len();
    let put = format!(
        "set -e; umask 077; mkdir -p ~/{PLACE}; cd ~/{PLACE}; trap 'rm -f new.$$' EXIT; cat > new.$$; \
         test \"$(wc -c < new.$$)\" -eq {bytes}; chmod 700 new.$$; mv new.$$ fathom; echo \"$PWD/fathom\""
    );
    let output = remote(host, &put, Some(open))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if path.starts_with('/') {
        return Ok(path);
    }
    Err(Failure::new(
        format!("{host}: no program could be put there"),
        format!("copy one there by hand, to ~/{PLACE}/fathom"),
    ))
}

/// What is left where nothing can be brought: another version, which says itself whether it speaks this wire.
fn other_version(host: &str, far: &Far) -> Result<String, Failure> {
    let own = env!("CARGO_PKG_VERSION");
    if let Some((version, path)) = far.programs.first() {
        tell(&format!("{host} has fathom {version}, this is {own}: their figures may differ"));
        return Ok(path.clone());
    }
    let arch = &far.arch;
    Err(Failure::new(
        format!("{host} ({arch}) has no fathom, and there is none here that runs there"),
        format!(
            "install fathom {own} on {host}, or build a static one (cargo build --release --target {arch}-unknown-linux-musl), \
             and name its directory: {STATIC_DIR}=DIR, with the file fathom-{arch}"
        ),
    ))
}

/// A program that runs on any Linux of this architecture: in the directory that is named for such, beside this
/// program, or this program itself.
fn portable(arch: &str) -> Option<PathBuf> {
    let machine = machine_of(arch)?;
    let own = std::env::current_exe().ok()?;
    let name = format!("fathom-{arch}");
    let named = std::env::var_os(STATIC_DIR).map(|dir| Path::new(&dir).join(&name));
    let beside = own.parent().map(|dir| dir.join(&name));
    [named, beside, Some(own)].into_iter().flatten().find(|file| is_static(file, machine).unwrap_or(false))
}

/// The ELF machine of what `uname -m` says.
fn machine_of(arch: &str) -> Option<u16> {
    fathom_host::PROGRAMS.iter().find(|program| program.uname == arch).map(|program| program.elf_machine)
}

/// Is it an ELF program for this machine that needs no interpreter? (ELF gABI: 64-bit little-endian header and
/// program headers; PT_INTERP is 3.)
fn is_static(file: &Path, machine: u16) -> std::io::Result<bool> {
    let mut head = Vec::new();
    // The program headers stand right behind the header in every linker's output.
    std::fs::File::open(file)?.take(4096).read_to_end(&mut head)?;
    let half = |at: usize| head.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let word = |at: usize| Some(u32::from(half(at)?) | u32::from(half(at + 2)?) << 16);
    if !head.starts_with(b"\x7fELF\x02\x01") || half(18) != Some(machine) {
        return Ok(false);
    }
    let (Some(at), Some(size), Some(count)) = (word(32), half(54), half(56)) else { return Ok(false) };
    let kinds = (0..usize::from(count)).map(|i| word(at as usize + i * usize::from(size)));
    let kinds: Option<Vec<u32>> = kinds.collect();
    Ok(kinds.is_some_and(|kinds| !kinds.contains(&3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_is_no_option() {
        for host in ["pi", "me@pi.local", "[fe80::1%eth0]"] {
            assert!(checked(host).is_ok(), "{host}");
        }
        for host in ["", "-oProxyCommand=touch x", "a b", "a\nb"] {
            assert!(checked(host).unwrap_err().remedy.contains(FORM), "{host}");
        }
    }

    #[test]
    fn remote_answer_is_parsed() {
        let far =
            Far::read("aarch64\nfathom 0.1.0 /usr/bin/fathom\nfathom 0.0.9 /home/me/a b/fathom\n? /x\n");
        assert_eq!(far.arch, "aarch64");
        let program = |v: &str, p: &str| (v.to_owned(), p.to_owned());
        assert_eq!(
            far.programs,
            [program("0.1.0", "/usr/bin/fathom"), program("0.0.9", "/home/me/a b/fathom")]
        );
        assert_eq!(Far::read("").arch, "");
    }

    #[test]
    fn a_program_that_needs_an_interpreter_runs_nowhere_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("program");
        let program = |machine: u16, kinds: &[u32]| {
            let mut bytes = vec![0u8; 64];
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            bytes[18..20].copy_from_slice(&machine.to_le_bytes());
            bytes[32] = 64;
            bytes[54] = 56;
            bytes[56] = u8::try_from(kinds.len()).expect("few");
            for kind in kinds {
                bytes.extend(kind.to_le_bytes());
                bytes.extend([0; 52]);
            }
            std::fs::write(&file, bytes).expect("a file");
        };
        for (machine, kinds, runs) in
            [(183, &[1, 1][..], true), (183, &[1, 3], false), (62, &[1], false), (183, &[], true)]
        {
            program(machine, kinds);
            assert_eq!(is_static(&file, 183).expect("it is read"), runs, "{machine} {kinds:?}");
        }
        std::fs::write(&file, "#!/bin/sh\n").expect("a file");
        assert!(!is_static(&file, 183).expect("it is read"));
    }
}
