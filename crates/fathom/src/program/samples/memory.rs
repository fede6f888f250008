//! Code in the memory of sampled processes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use fathom_host::StackMemory;

use super::unwind::{Code, Tables, Unwinder};
use crate::program::symbols::Version;

/// Mappings of a process, at most: a program that maps code without end would fill the memory.
pub const MAX_MAPPINGS: usize = 10_000;

/// A file with code, as it was when a process mapped it; or the kernel's name of other code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeFile {
    pub name: String,
    pub build: Option<Vec<u8>>,
}

impl CodeFile {
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
    all: Vec<CodeFile>,
    numbers: HashMap<CodeFile, usize>,
}

impl Files {
    /// Returns the number of a file.
    pub fn number(&mut self, file: CodeFile) -> usize {
        let next = self.all.len();
        let number = *self.numbers.entry(file.clone()).or_insert(next);
        if number == next {
            self.all.push(file);
        }
        number
    }

    /// Returns the file with a number.
    pub fn get(&self, number: usize) -> &CodeFile {
        &self.all[number]
    }
}

/// Code in the memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    pub start: u64,
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Number of the file.
    pub file: usize,
}

/// All code of a process, the newest mapping last.
#[derive(Clone, Default)]
pub struct Memory {
    mappings: Vec<Mapped>,
    /// Its tables, once a sample needs them.
    code: OnceCell<Code>,
}

impl Memory {
    /// Adds code. Older code that it covers is gone. Returns whether other code had to be forgotten.
    pub fn map(&mut self, code: Mapped) -> bool {
        self.code.take();
        self.mappings.retain(|old| old.start < code.start || code.end < old.end);
        let is_full = self.mappings.len() >= MAX_MAPPINGS;
        if is_full {
            self.mappings.remove(0);
        }
        self.mappings.push(code);
        is_full
    }

    /// Returns the code at an address.
    pub fn at(&self, address: u64) -> Option<&Mapped> {
        self.mappings.iter().rev().find(|code| (code.start..code.end).contains(&address))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.mappings.len()
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
        let code = memory.code.get_or_init(|| {
            let mut code = Code::default();
            for Mapped { start, end, offset, file } in &memory.mappings {
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
