//! The program to simulate: its file, its instruction set, the emulator for it, and its libraries.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _};

use crate::failure::Failure;

/// Environment variable of QEMU with the directory of a program's libraries.
const QEMU_PREFIX: &str = "QEMU_LD_PREFIX";

/// An instruction set that can be simulated.
#[derive(Debug)]
pub struct Isa {
    /// `e_machine` of ELF, and whether addresses have 64 bits.
    machine: (u16, bool),
    /// QEMU's user-mode emulator.
    pub qemu: &'static str,
    /// Its CPU, if its default lacks instructions of ordinary programs.
    pub cpu: Option<&'static str>,
    /// Names of the directories below /usr that have Debian's libraries for it, each with the package.
    sysroots: &'static [(&'static str, &'static str)],
}

/// The instruction sets, little endian.
const ISAS: [Isa; 4] = [
    Isa {
        machine: (elf::EM_AARCH64, true),
        qemu: "qemu-aarch64",
        cpu: None,
        sysroots: &[("aarch64-linux-gnu", "libc6-arm64-cross")],
    },
    Isa {
        machine: (elf::EM_ARM, false),
        qemu: "qemu-arm",
        cpu: None,
        sysroots: &[("arm-linux-gnueabihf", "libc6-armhf-cross"), ("arm-linux-gnueabi", "libc6-armel-cross")],
    },
    Isa {
        machine: (elf::EM_RISCV, true),
        qemu: "qemu-riscv64",
        cpu: None,
        sysroots: &[("riscv64-linux-gnu", "libc6-riscv64-cross")],
    },
    Isa {
        machine: (elf::EM_X86_64, true),
        qemu: "qemu-x86_64",
        // qemu64 has none of the instructions after SSE2 that libraries and compilers for this host use.
        cpu: Some("max"),
        sysroots: &[("x86_64-linux-gnu", "libc6-amd64-cross")],
    },
];

/// A program.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its instruction set.
    pub isa: &'static Isa,
    /// The emulator's file.
    pub qemu: PathBuf,
    /// Directory of its libraries, if it is not the root.
    pub sysroot: Option<PathBuf>,
    /// Whether it has libraries.
    pub is_dynamic: bool,
}

impl Program {
    /// Finds a program, as a shell does, and what it needs.
    ///
    /// # Errors
    /// What cannot be simulated, with the remedy.
    pub fn find(name: &OsStr, sysroot: Option<&Path>) -> Result<Program, Failure> {
        let path = file_of(name)?;
        let shown = path.display().to_string();
        let bytes = std::fs::read(&path)
            .map_err(|e| Failure::usage(format!("{shown}: {e}"), "name a program that can be read"))?;
        let headers = Headers::read(&bytes).map_err(|(what, remedy)| {
            Failure::usage(format!("{shown}: {what}"), remedy.replace("PROGRAM", &shown))
        })?;
        let isa = headers.isa().map_err(|what| {
            Failure::usage(
                format!("{shown}: {what}"),
                "build it for AArch64, ARM, RISC-V 64 or x86-64, little endian",
            )
        })?;
        let qemu = on_path(OsStr::new(isa.qemu)).ok_or_else(|| {
            let what = format!("{shown}: {} is not on PATH, and executes such programs", isa.qemu);
            Failure::new(
                what,
                "install QEMU's user mode, Debian's package qemu-user: scripts/simulate --setup",
            )
        })?;
        let sysroot = match &headers.interpreter {
            Some(interpreter) => isa.sysroot(interpreter, sysroot, &shown)?,
            None => sysroot.map(Path::to_owned),
        };
        Ok(Program { path, isa, qemu, sysroot, is_dynamic: headers.interpreter.is_some() })
    }

    /// Returns the name of its file, without directories.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Returns the file of a program: a path if it has a slash, else the first of that name on PATH.
fn file_of(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = name.to_string_lossy();
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.is_file() {
            true => Ok(path),
            false => Err(Failure::usage(format!("{shown}: no such file"), "name the program's file")),
        };
    }
    on_path(name).ok_or_else(|| {
        let remedy = match Path::new(name).is_file() {
            true => format!("name it with its directory: ./{shown}"),
            false => "name the program's file".to_owned(),
        };
        Failure::usage(format!("no program '{shown}' is on PATH"), remedy)
    })
}

/// Returns the first executable file of this name on PATH.
pub fn on_path(name: &OsStr) -> Option<PathBuf> {
    let executable = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(executable)
}

/// What the headers of an ELF file say.
#[derive(Debug, PartialEq, Eq)]
struct Headers {
    machine: u16,
    is_64: bool,
    little: bool,
    /// The dynamic linker.
    interpreter: Option<String>,
}

/// What is wrong, and the remedy.
type Wrong = (String, &'static str);

impl Headers {
    fn read(bytes: &[u8]) -> Result<Headers, Wrong> {
        if bytes.starts_with(b"#!") {
            let remedy = "name the interpreter first: fathom simulate -- /path/of/interpreter PROGRAM";
            return Err(("this is a script; its interpreter is the program".to_owned(), remedy));
        }
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(("this is not an ELF file".to_owned(), "name a program for Linux"));
        }
        let read = match bytes.get(4) {
            Some(&elf::ELFCLASS32) => Headers::of::<FileHeader32<Endianness>>(bytes),
            _ => Headers::of::<FileHeader64<Endianness>>(bytes),
        };
        read.unwrap_or_else(|e| Err((format!("this ELF file is damaged: {e}"), "build it again")))
    }

    fn of<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> object::Result<Result<Headers, Wrong>> {
        let header = E::parse(bytes)?;
        let endian = header.endian()?;
        let kind = header.e_type(endian);
        let mut interpreter = None;
        let programs = header.program_headers(endian, bytes)?;
        for program in programs {
            if let Some(name) = program.interpreter(endian, bytes)? {
                interpreter = Some(String::from_utf8_lossy(name).into_owned());
            }
        }
        let entry: u64 = header.e_entry(endian).into();
        if !matches!(kind, elf::ET_EXEC | elf::ET_DYN) || entry == 0 || programs.is_empty() {
            let what = "this ELF file is an object, a library or a core, and no program".to_owned();
            return Ok(Err((what, "name a linked program")));
        }
        Ok(Ok(Headers {
            machine: header.e_machine(endian),
            is_64: header.is_class_64(),
            little: endian == Endianness::Little,
            interpreter,
        }))
    }

    /// Returns the instruction set, or why it cannot be simulated.
    fn isa(&self) -> Result<&'static Isa, String> {
        let known = ISAS.iter().find(|isa| isa.machine == (self.machine, self.is_64));
        match known {
            Some(isa) if self.little => Ok(isa),
            Some(_) => Err("big-endian programs are not simulated".to_owned()),
            None => {
                let bits = if self.is_64 { 64 } else { 32 };
                let name = match self.machine {
                    elf::EM_386 => " (i386)",
                    elf::EM_X86_64 => " (x32)",
                    elf::EM_RISCV => " (RISC-V)",
                    elf::EM_PPC64 => " (PowerPC)",
                    elf::EM_S390 => " (S/390)",
                    elf::EM_MIPS => " (MIPS)",
                    elf::EM_LOONGARCH => " (LoongArch)",
                    _ => "",
                };
                Err(format!("programs of ELF machine {}{name}, {bits} bits, are not simulated", self.machine))
            }
        }
    }
}

impl Isa {
    /// Returns the directory in which `interpreter` and the libraries of a program are; `None` for the root, or if QEMU has
    /// been told.
    fn sysroot(
        &self,
        interpreter: &str,
        given: Option<&Path>,
        shown: &str,
    ) -> Result<Option<PathBuf>, Failure> {
        let inside = |root: &Path| root.join(interpreter.trim_start_matches('/')).exists();
        if let Some(root) = given {
            let missing = || {
                let what =
                    format!("--sysroot {}: {interpreter}, which {shown} needs, is not in it", root.display());
                Failure::usage(what, "name the directory that has its libraries below lib")
            };
            return if inside(root) { Ok(Some(root.to_owned())) } else { Err(missing()) };
        }
        if std::env::var_os(QEMU_PREFIX).is_some_and(|root| !root.is_empty()) || inside(Path::new("/")) {
            return Ok(None);
        }
        let known =
            self.sysroots.iter().map(|(name, _)| Path::new("/usr").join(name)).find(|root| inside(root));
        if known.is_some() {
            return Ok(known);
        }
        let packages: Vec<&str> = self.sysroots.iter().map(|(_, package)| *package).collect();
        let what = format!("{shown} needs {interpreter} and its libraries, and they are not here");
        let remedy = format!(
            "install {}, name a directory with them (--sysroot DIR), or link the program statically",
            packages.join(" or ")
        );
        Err(Failure::new(what, remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a small ELF file: its headers, and a name of a dynamic linker.
    fn file(machine: u16, class: u8, data: u8, interpreter: Option<&str>) -> Vec<u8> {
        assert_eq!((class, data), (elf::ELFCLASS64, elf::ELFDATA2LSB), "the only kind made here");
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, data, 1];
        bytes.resize(16, 0);
        bytes.extend(elf::ET_EXEC.to_le_bytes());
        bytes.extend(machine.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        for word in [0x1000u64, 64, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        for half in [64u16, 56, 1, 64, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        let text = interpreter.unwrap_or_default();
        let kind = if interpreter.is_some() { elf::PT_INTERP } else { elf::PT_LOAD };
        bytes.extend(kind.to_le_bytes());
        bytes.extend(4u32.to_le_bytes());
        for word in [120u64, 0, 0, text.len() as u64 + 1, text.len() as u64 + 1, 1] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(text.as_bytes());
        bytes.push(0);
        bytes
    }

    fn little(machine: u16, interpreter: Option<&str>) -> Result<Headers, Wrong> {
        Headers::read(&file(machine, elf::ELFCLASS64, elf::ELFDATA2LSB, interpreter))
    }

    #[test]
    fn instruction_set_and_linker_are_read() {
        for (machine, qemu) in [
            (elf::EM_AARCH64, "qemu-aarch64"),
            (elf::EM_RISCV, "qemu-riscv64"),
            (elf::EM_X86_64, "qemu-x86_64"),
        ] {
            assert_eq!(little(machine, None).unwrap().isa().unwrap().qemu, qemu);
        }
        let dynamic = little(elf::EM_AARCH64, Some("/lib/ld-linux-aarch64.so.1")).unwrap();
        assert_eq!(dynamic.interpreter.as_deref(), Some("/lib/ld-linux-aarch64.so.1"));
        let arm = Headers { machine: elf::EM_ARM, is_64: false, little: true, interpreter: None };
        assert_eq!(arm.isa().unwrap().qemu, "qemu-arm");
    }

    #[test]
    fn what_cannot_be_simulated_is_named() {
        let armeb = Headers { machine: elf::EM_ARM, is_64: false, little: false, interpreter: None };
        assert!(armeb.isa().unwrap_err().contains("big-endian"));
        let x32 = Headers { machine: elf::EM_X86_64, is_64: false, little: true, interpreter: None };
        assert!(x32.isa().unwrap_err().contains("x32"));
        assert!(little(elf::EM_S390, None).unwrap().isa().unwrap_err().contains("S/390"));
        assert!(Headers::read(b"#!/bin/sh\n").unwrap_err().1.contains("interpreter"));
        assert!(Headers::read(b"hello").unwrap_err().0.contains("not an ELF"));
        assert!(Headers::read(b"\x7fELF\x02\x01").unwrap_err().0.contains("damaged"));
        let mut object = file(elf::EM_X86_64, elf::ELFCLASS64, elf::ELFDATA2LSB, None);
        object[16] = 1;
        assert!(Headers::read(&object).unwrap_err().0.contains("no program"));
    }

    #[test]
    fn libraries_are_searched_for_the_linker() {
        let arm = &ISAS[1];
        let missing = arm.sysroot("/lib/ld-nowhere.so.9", None, "./p").unwrap_err();
        assert!(missing.remedy.contains("libc6-armhf-cross or libc6-armel-cross"), "{missing}");
        let root = tempfile::tempdir().expect("a directory");
        let wrong = arm.sysroot("/lib/ld-nowhere.so.9", Some(root.path()), "./p").unwrap_err();
        assert!(wrong.what.contains("--sysroot"), "{wrong}");
        std::fs::create_dir(root.path().join("lib")).expect("a directory");
        std::fs::write(root.path().join("lib/ld-nowhere.so.9"), "").expect("a file");
        let found = arm.sysroot("/lib/ld-nowhere.so.9", Some(root.path()), "./p").expect("it is there");
        assert_eq!(found.as_deref(), Some(root.path()));
    }
}
