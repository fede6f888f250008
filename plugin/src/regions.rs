//! Where regions of the program begin and end: the marks in the files whose code it executes.
//!
//! A file is read when code of it is translated first, so that libraries have regions however they are found and loaded.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use fathom_simulation::protocol::Mapping;
use fathom_simulation::{Event, MAX_REGIONS, Note};

/// Memory of code without a mapping, such as a page that QEMU makes, is known by parts of this size.
const UNMAPPED: u64 = 4096;

/// The marks of the program.
#[derive(Debug, Default)]
pub struct Regions {
    /// Names, by number.
    names: Vec<String>,
    /// Events by address.
    events: HashMap<u64, Event>,
    /// Events of the files that have been read, by offset.
    files: HashMap<String, Vec<(u64, Event)>>,
    /// Parts of the memory of which is known what they have.
    known: Vec<Range<u64>>,
}

impl Regions {
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Returns what happens at an address.
    pub fn event(&self, pc: u64) -> Option<Event> {
        self.events.get(&pc).copied()
    }

    /// Returns whether it is known what is at an address.
    pub fn knows(&self, pc: u64) -> bool {
        self.known.iter().any(|part| part.contains(&pc))
    }

    /// Forgets where files are in memory, because that has changed.
    pub fn moved(&mut self) {
        self.known.clear();
        self.events.clear();
    }

    /// Finds the marks of the file that has the code at an address. Returns whether it has any.
    ///
    /// # Errors
    /// There are too many regions.
    pub fn learn(&mut self, pc: u64, mappings: &[Mapping]) -> Result<bool, String> {
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
            let events = self.read(&of.file)?;
            self.files.insert(of.file.clone(), events);
        }
        let events = &self.files[&of.file];
        // Segments share a page of the file where one ends and the next begins: in memory, that page is in both, and code is
        // executed in one of them only.
        for own in mappings.iter().filter(|mapping| mapping.file == of.file) {
            let memory = range(own);
            self.events.extend(events.iter().filter_map(|(offset, event)| {
                let address = own.start.wrapping_add(offset.checked_sub(own.offset)?);
                memory.contains(&address).then_some((address, *event))
            }));
            self.known.push(memory);
        }
        Ok(!events.is_empty())
    }

    /// Reads a file, and numbers its regions.
    fn read(&mut self, file: &str) -> Result<Vec<(u64, Event)>, String> {
        let notes = Note::all_of(Path::new(file)).into_iter();
        notes.map(|note| Ok((note.offset, self.event_of(&note)?))).collect()
    }

    fn event_of(&mut self, note: &Note) -> Result<Event, String> {
        let known = self.names.iter().position(|name| *name == note.region);
        let number = known.unwrap_or(self.names.len());
        if number >= MAX_REGIONS {
            return Err(format!("the program and its libraries mark more than {MAX_REGIONS} regions"));
        }
        if known.is_none() {
            self.names.push(note.region.clone());
        }
        let number = number as u32;
        Ok(if note.begins { Event::Begin(number) } else { Event::End(number) })
    }
}

/// Returns the addresses of a mapping. That of QEMU's own memory may be negative for the program, and has none.
fn range(of: &Mapping) -> Range<u64> {
    of.start..of.end
}
