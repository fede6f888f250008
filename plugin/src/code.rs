//! Functions of the program's code, by number.

use std::collections::HashMap;
use std::ops::Range;

use fathom_simulation::Code;
use fathom_simulation::calls::Entry;
use fathom_simulation::protocol::Mapping;

/// Memory of code without a file is one function for each part of this size.
const PART: u64 = 4096;

/// A part of the program's memory.
struct Known {
    memory: Range<u64>,
    /// Number of its file, and what offsets in it are before; `None` without a file.
    file: Option<(usize, u64)>,
}

/// The functions of all files whose code has been translated.
#[derive(Default)]
pub struct Functions {
    /// Code of each file, by its path.
    files: Vec<(String, Code)>,
    known: Vec<Known>,
    /// By file (none: by address) and first address.
    numbers: HashMap<(Option<usize>, u64), u32>,
}

impl Functions {
    /// Forgets where files are in memory, because that has changed.
    pub fn moved(&mut self) {
        self.known.clear();
    }

    /// Returns the number of the function at an address, and where in it that is. `mappings` returns the program's memory.
    pub fn of(&mut self, pc: u64, mappings: impl Fn() -> Vec<Mapping>) -> (u32, Entry) {
        if !self.known.iter().any(|part| part.memory.contains(&pc)) {
            self.learn(pc, &mappings());
        }
        let file = self
            .known
            .iter()
            .find(|part| part.memory.contains(&pc))
            .and_then(|part| part.file.map(|(file, offset)| (file, pc - part.memory.start + offset)));
        let found = file.and_then(|(file, offset)| {
            let code = &self.files[file].1;
            let address = code.address(offset)?;
            let function = code
                .function(address)
                .map(|of| (of.start, if of.start == address { Entry::Begin } else { Entry::Middle }));
            function.or_else(|| Some((code.section(address)?.start, Entry::Unknown)))
        });
        let (start, entry) = found.unwrap_or((pc & !(PART - 1), Entry::Unknown));
        let file = file.filter(|_| found.is_some()).map(|(file, _)| file);
        let next = self.numbers.len() as u32;
        (*self.numbers.entry((file, start)).or_insert(next), entry)
    }

    fn learn(&mut self, pc: u64, mappings: &[Mapping]) {
        let range = |of: &Mapping| of.start..of.end;
        let Some(of) = mappings.iter().find(|mapping| range(mapping).contains(&pc)) else {
            let part = pc & !(PART - 1);
            self.known.push(Known { memory: part..part.saturating_add(PART), file: None });
            return;
        };
        let file = (!of.file.is_empty()).then(|| (self.file(&of.file), of.offset));
        self.known.push(Known { memory: range(of), file });
    }

    fn file(&mut self, path: &str) -> usize {
        if let Some(known) = self.files.iter().position(|(name, _)| name == path) {
            return known;
        }
        // What cannot be read has no functions.
        let code = Code::of_bytes(&std::fs::read(path).unwrap_or_default());
        self.files.push((path.to_owned(), code));
        self.files.len() - 1
    }
}
