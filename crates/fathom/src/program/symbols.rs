//! Names of a program's instructions: function, file, line of the source.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use addr2line::Loader;
use fathom_experiment::record::Instruction;
use fathom_simulation::Code;
use fathom_simulation::protocol::Mapping;
use object::Object;
use object::read::elf::{ElfFile32, ElfFile64};

/// Name of what no file covers: code that the program has made.
pub const UNKNOWN: &str = "?";

/// The name of an instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Named {
    /// Function, demangled; the section, if no symbol covers the instruction.
    pub function: String,
    /// Its address in the file, which tells functions of one name apart.
    pub at: u64,
    /// Name of the program or library, without directories.
    pub file: String,
    /// Line of the source, if the file has a line table for it.
    pub source: Option<SourceLine>,
}

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// Path of the file, as the compiler noted it.
    pub path: String,
    /// Number, from 1.
    pub number: u32,
}

impl SourceLine {
    /// Returns the name of the file, without directories.
    pub fn file(&self) -> String {
        Path::new(&self.path).file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Named {
    /// Returns file and line of the source: `matmul.c:21`; empty if they are not known.
    pub fn source(&self) -> String {
        self.source.as_ref().map(|line| format!("{}:{}", line.file(), line.number)).unwrap_or_default()
    }
}

/// What tells whether a file still is the one that was in a program's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// CRC-32 of it.
    pub checksum: Option<u32>,
    /// Build id.
    pub build: Option<Vec<u8>>,
    /// Without either: the file was not written, renamed or linked after this time.
    pub before: Option<SystemTime>,
}

impl Version {
    /// Returns whether a file with this metadata may be of this version, by its age.
    pub fn is_as_old(&self, metadata: &std::fs::Metadata) -> bool {
        self.build.is_some() || self.before.is_none_or(|before| changed_at(metadata) <= before)
    }

    /// Returns whether a file has the build id of this version, if that is known.
    pub fn has_build<'a>(&self, elf: &impl Object<'a>) -> bool {
        self.build.is_none() || elf.build_id().ok().flatten() == self.build.as_deref()
    }
}

/// Finds the names of addresses in a program's memory.
pub struct Symbols {
    /// In the order of addresses.
    mappings: Vec<Mapping>,
    files: HashMap<(String, Version), Binary>,
    /// Files that are not what they were in the program's memory.
    changed: Vec<String>,
}

impl Symbols {
    /// Creates it for a program with these files in its memory.
    pub fn new(mappings: &[Mapping]) -> Symbols {
        let files = mappings.iter().filter(|mapping| mapping.file.starts_with('/'));
        let mut mappings: Vec<Mapping> = files.cloned().collect();
        mappings.sort_by_key(|mapping| mapping.start);
        Symbols { mappings, files: HashMap::new(), changed: Vec::new() }
    }

    /// Returns the name of the instruction at a virtual address.
    pub fn name(&mut self, pc: u64) -> Named {
        self.instruction(pc).0
    }

    /// Returns the name of the instruction at a virtual address, and its place in its file, if a file has it.
    pub fn instruction(&mut self, pc: u64) -> (Named, Option<Instruction>) {
        let after = self.mappings.partition_point(|mapping| mapping.start <= pc);
        let found = after.checked_sub(1).map(|at| &self.mappings[at]).filter(|mapping| pc < mapping.end);
        let Some(mapping) = found else {
            let unknown = UNKNOWN.to_owned();
            return (Named { function: unknown.clone(), file: unknown, ..Named::default() }, None);
        };
        let version = Version { checksum: mapping.checksum, ..Version::default() };
        let (file, offset) = (mapping.file.clone(), pc - mapping.start + mapping.offset);
        self.instruction_in(&file, &version, offset)
    }

    /// Returns the name of the instruction at an offset of a file, and its place in it, if it has code there.
    pub fn instruction_in(
        &mut self,
        file: &str,
        version: &Version,
        offset: u64,
    ) -> (Named, Option<Instruction>) {
        let changed = &mut self.changed;
        let binary = self.files.entry((file.to_owned(), version.clone())).or_insert_with(|| {
            let (binary, is_changed) = Binary::open(Path::new(file), version);
            if is_changed && !changed.iter().any(|known| known == file) {
                changed.push(file.to_owned());
            }
            binary
        });
        binary.instruction(offset)
    }

    /// Returns the files whose names are not used, because they have changed since the program ran.
    pub fn changed(&self) -> &[String] {
        &self.changed
    }
}

/// Returns the name of a symbol in the words of its language. Names of C are left alone: `b` is the mangled name of the type
/// `bool`, too.
pub fn demangled(name: &str) -> String {
    match name.starts_with("_Z") || name.starts_with("_R") {
        true => addr2line::demangle_auto(std::borrow::Cow::Borrowed(name), None).into_owned(),
        false => name.to_owned(),
    }
}

/// Returns when a file was written, renamed or linked last.
fn changed_at(metadata: &std::fs::Metadata) -> SystemTime {
    let (seconds, ns) = (metadata.ctime().max(0) as u64, metadata.ctime_nsec().max(0) as u64);
    UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(ns)
}

/// A file with code.
struct Binary {
    name: String,
    /// With demangled names.
    code: Code,
    lines: Option<Loader>,
}

impl Binary {
    /// Reads a file. What cannot be read has no names, and neither has a file that has changed since; returns whether it has.
    fn open(path: &Path, version: &Version) -> (Binary, bool) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut binary = Binary { name, code: Code::default(), lines: None };
        // Devices and pipes may be in memory too, and have no end.
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        let bytes = metadata.as_ref().and_then(|_| std::fs::read(path).ok()).unwrap_or_default();
        let no_age = version.build.is_none() && version.before.is_some();
        if version.checksum.is_some_and(|sum| sum != crc32fast::hash(&bytes))
            || metadata.as_ref().map_or(no_age, |metadata| !version.is_as_old(metadata))
        {
            return (binary, true);
        }
        let is_it = if let Ok(elf) = ElfFile64::<object::Endianness>::parse(&*bytes) {
            binary.read(&elf, version)
        } else if let Ok(elf) = ElfFile32::<object::Endianness>::parse(&*bytes) {
            binary.read(&elf, version)
        } else {
            version.build.is_none()
        };
        if is_it {
            binary.lines = metadata.and_then(|_| Loader::new(path).ok());
        }
        (binary, !is_it)
    }

    /// Reads segments and symbols. Returns false, and reads none, if the file has another build id.
    fn read<'a>(&mut self, elf: &impl Object<'a>, version: &Version) -> bool {
        if !version.has_build(elf) {
            return false;
        }
        self.code = Code::read(elf).renamed(demangled);
        true
    }

    fn instruction(&self, offset: u64) -> (Named, Option<Instruction>) {
        let Some(address) = self.code.address(offset) else {
            let function = UNKNOWN.to_owned();
            return (Named { function, file: self.name.clone(), ..Named::default() }, None);
        };
        let found = self.code.function(address).or_else(|| self.code.section(address));
        let (at, function) = found.map_or((0, UNKNOWN), |of| (of.start, of.name.as_str()));
        let (function, source) = (function.to_owned(), self.source(address));
        let instruction = Instruction { address, offset: address.saturating_sub(at) };
        (Named { function, at, file: self.name.clone(), source }, Some(instruction))
    }

    fn source(&self, address: u64) -> Option<SourceLine> {
        let location = self.lines.as_ref()?.find_location(address).ok()??;
        let (path, number) = (location.file?.to_owned(), location.line?);
        Some(SourceLine { path, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose place in this program is known.
    #[inline(never)]
    fn planted(of: u64) -> u64 {
        std::hint::black_box(of) + 1
    }

    #[test]
    fn function_of_this_program_is_found() {
        assert_eq!(planted(1), 2);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let own = std::env::current_exe().expect("this program").display().to_string();
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let mappings = maps.lines().filter(|line| line.ends_with(&own)).map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').expect("a range");
            Mapping {
                start: hex(start),
                end: hex(end),
                offset: hex(fields[2]),
                file: own.clone(),
                checksum: None,
            }
        });
        let mut symbols = Symbols::new(&mappings.collect::<Vec<_>>());
        let (named, at) = symbols.instruction(planted as *const () as usize as u64);
        assert_eq!(at.map(|at| (at.address, at.offset)), Some((named.at, 0)));
        let (_, next) = symbols.instruction(planted as *const () as usize as u64 + 4);
        assert_eq!(next.map(|next| next.offset), Some(4));
        assert!(named.function.ends_with("symbols::tests::planted"), "{named:?}");
        assert!(own.ends_with(&named.file), "{named:?}");
        let line = named.source.as_ref().map(|line| line.number);
        assert!(line.is_some_and(|line| line.abs_diff(planted_line()) <= 2), "{named:?}");
        assert!(named.source().starts_with("symbols.rs:"), "{named:?}");
        assert_eq!(symbols.name(0).function, UNKNOWN);
    }

    /// Returns the line of `planted`.
    fn planted_line() -> u32 {
        let before = include_str!("symbols.rs").split("fn planted(").next().expect("the text before it");
        before.lines().count() as u32
    }

    #[test]
    fn names_of_c_are_left_alone() {
        assert_eq!((demangled("b"), demangled("main")), ("b".into(), "main".into()));
        assert_eq!(demangled("_ZN5shape4areaEv"), "shape::area()");
    }
}
