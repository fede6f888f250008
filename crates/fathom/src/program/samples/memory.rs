//! Code and data in the memory of sampled processes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use fathom_host::StackMemory;

use super::unwind::{Code, Tables, Unwinder};
use crate::program::symbols::Version;

/// Mappings of a process, at most: a program that maps code without end would fill the memory.
pub const MAX_MAPPINGS: usize = 10_000;

/// A file, as it was when a process mapped it; or the kernel's name of other memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MappedFile {
    pub name: String,
    pub build: Option<Vec<u8>>,
}

impl MappedFile {
    /// Returns whether it is a file, and not `[vdso]` or `//anon`, which the program has made itself.
    pub fn is_file(&self) -> bool {
        self.name.starts_with('/') && !self.name.starts_with("//")
    }

    /// Returns its version, for a program that started then.
    pub fn version(&self, since: Option<SystemTime>) -> Version {
        Version { checksum: None, build: self.build.clone(), before: since }
    }
}

/// Every file that was mapped, by number.
#[derive(Debug, Default)]
pub struct Files {
    all: Vec<MappedFile>,
    numbers: HashMap<MappedFile, usize>,
}

impl Files {
    /// Returns the number of a file.
    pub fn number(&mut self, file: MappedFile) -> usize {
        let next = self.all.len();
        let number = *self.numbers.entry(file.clone()).or_insert(next);
        if number == next {
            self.all.push(file);
        }
        number
    }

    /// Returns the file with a number.
    pub fn get(&self, number: usize) -> &MappedFile {
        &self.all[number]
    }
}

/// A part of the memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    pub start: u64,
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Number of the file.
    pub file: usize,
}

/// Mappings, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Mappings(Vec<Mapped>);

impl Mappings {
    /// Adds one. Older ones that it covers are gone. Returns whether another one had to be forgotten.
    fn add(&mut self, new: Mapped) -> bool {
        let Mappings(all) = self;
        all.retain(|old| old.start < new.start || new.end < old.end);
        let is_full = all.len() >= MAX_MAPPINGS;
        if is_full {
            all.remove(0);
        }
        all.push(new);
        is_full
    }

    /// Returns what is mapped at an address.
    pub fn at(&self, address: u64) -> Option<&Mapped> {
        self.all().find(|one| (one.start..one.end).contains(&address))
    }

    /// Returns all, the newest first.
    pub fn all(&self) -> impl Iterator<Item = &Mapped> {
        self.0.iter().rev()
    }
}

/// The memory of a process.
#[derive(Clone, Default)]
pub struct Memory {
    /// Its code.
    pub code: Mappings,
    /// Everything, where that is told.
    pub all: Mappings,
    /// The file of its program: the kernel maps it before all others, and tells it first.
    pub program: Option<usize>,
    /// The tables of its code, once a sample needs them.
    tables: OnceCell<Code>,
}

impl Memory {
    /// Adds a mapping of one of these files. Returns whether another one had to be forgotten.
    pub fn map(&mut self, new: Mapped, files: &Files, is_code: bool, has_data: bool) -> bool {
        if files.get(new.file).is_file() {
            self.program.get_or_insert(new.file);
        }
        let mut is_full = false;
        if is_code {
            self.tables.take();
            is_full |= self.code.add(new);
        }
        if has_data {
            is_full |= self.all.add(new);
        }
        is_full
    }
}

/// Finds the callers of samples.
#[derive(Default)]
pub struct Unwinding {
    unwinder: Unwinder,
    /// Tables by the number of a file.
    tables: HashMap<usize, Tables>,
}

impl Unwinding {
    /// Returns addresses in the calls that led to a sample, the nearest first, and whether the last one is in what started the
    /// thread.
    pub fn callers(
        &mut self,
        memory: &Memory,
        files: &Files,
        since: Option<SystemTime>,
        stack: &StackMemory,
    ) -> (Vec<u64>, bool) {
        let Unwinding { unwinder, tables } = self;
        let code = memory.tables.get_or_init(|| {
            let mut code = Code::default();
            for Mapped { start, end, offset, file } in &memory.code.0 {
                let of = files.get(*file);
                if of.is_file() {
                    let read = || Tables::read(Path::new(&of.name), &of.version(since));
                    code.add(*start..*end, *offset, tables.entry(*file).or_insert_with(read));
                }
            }
            code
        });
        unwinder.callers(code, stack)
    }
}
