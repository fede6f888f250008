//! What the files that a program executes have at which addresses. A file is read when code of it is translated first, so that
//! libraries count however they are found and loaded.

use std::collections::HashMap;
use std::ops::Range;

use fathom_simulation::protocol::Mapping;

/// Memory of code without a mapping, such as a page that QEMU makes, is known by parts of this size.
const UNMAPPED: u64 = 4096;

/// Things of one kind in the code of all files.
#[derive(Debug)]
pub struct InFiles<T> {
    /// By address.
    at: HashMap<u64, T>,
    /// Those of the files that have been read, by offset.
    files: HashMap<String, Vec<(u64, T)>>,
    /// Parts of the memory of which is known what they have.
    known: Vec<Range<u64>>,
}

impl<T> Default for InFiles<T> {
    fn default() -> Self {
        InFiles { at: HashMap::new(), files: HashMap::new(), known: Vec::new() }
    }
}

impl<T: Copy> InFiles<T> {
    /// Returns what is at an address.
    pub fn at(&self, pc: u64) -> Option<T> {
        self.at.get(&pc).copied()
    }

    /// Returns whether it is known what is at an address.
    pub fn knows(&self, pc: u64) -> bool {
        self.known.iter().any(|part| part.contains(&pc))
    }

    /// Forgets where files are in memory, because that has changed.
    pub fn moved(&mut self) {
        self.known.clear();
        self.at.clear();
    }

    /// Finds what the file has whose code is at an address. `read` returns it by offset. Returns whether there is any.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn learn<E>(
        &mut self,
        pc: u64,
        mappings: &[Mapping],
        read: impl FnOnce(&str) -> Result<Vec<(u64, T)>, E>,
    ) -> Result<bool, E> {
        let Some(of) = mappings.iter().find(|mapping| range(mapping).contains(&pc)) else {
            let page = pc & !(UNMAPPED - 1);
            self.known.push(page..page.saturating_add(UNMAPPED));
            return Ok(false);
        };
        if of.file.is_empty() {
            self.known.push(range(of));
            return Ok(false);
        }
        if !self.files.contains_key(&of.file) {
            self.files.insert(of.file.clone(), read(&of.file)?);
        }
        let all = &self.files[&of.file];
        // Segments share a page of the file where one ends and the next begins: in memory, that page is in both, and code is
        // executed in one of them only.
        for own in mappings.iter().filter(|mapping| mapping.file == of.file) {
            let memory = range(own);
            self.at.extend(all.iter().filter_map(|(offset, of)| {
                let address = own.start.wrapping_add(offset.checked_sub(own.offset)?);
                memory.contains(&address).then_some((address, *of))
            }));
            self.known.push(memory);
        }
        Ok(!all.is_empty())
    }
}

/// Returns the addresses of a mapping. That of QEMU's own memory may be negative for the program, and has none.
fn range(of: &Mapping) -> Range<u64> {
    of.start..of.end
}
