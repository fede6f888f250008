//! Where regions of the program begin and end: the marks in the files whose code it executes.

use std::path::Path;

use fathom_simulation::protocol::Mapping;
use fathom_simulation::{Event, MAX_REGIONS, Note};

use crate::in_files::InFiles;

/// The marks of the program.
#[derive(Debug, Default)]
pub struct Regions {
    /// Names, by number.
    names: Vec<String>,
    events: InFiles<Event>,
}

impl Regions {
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Returns what happens at an address.
    pub fn event(&self, pc: u64) -> Option<Event> {
        self.events.at(pc)
    }

    /// Returns whether it is known what is at an address.
    pub fn knows(&self, pc: u64) -> bool {
        self.events.knows(pc)
    }

    /// Forgets where files are in memory, because that has changed.
    pub fn moved(&mut self) {
        self.events.moved();
    }

    /// Finds the marks of the file that has the code at an address. Returns whether it has any.
    ///
    /// # Errors
    /// There are too many regions.
    pub fn learn(&mut self, pc: u64, mappings: &[Mapping]) -> Result<bool, String> {
        let names = &mut self.names;
        self.events.learn(pc, mappings, |file| read(names, file))
    }
}

/// Reads a file, and numbers its regions.
fn read(names: &mut Vec<String>, file: &str) -> Result<Vec<(u64, Event)>, String> {
    let notes = Note::all_of(Path::new(file)).into_iter();
    notes.map(|note| Ok((note.offset, event_of(names, &note)?))).collect()
}

fn event_of(names: &mut Vec<String>, note: &Note) -> Result<Event, String> {
    let known = names.iter().position(|name| *name == note.region);
    let number = known.unwrap_or(names.len());
    if number >= MAX_REGIONS {
        return Err(format!("the program and its libraries mark more than {MAX_REGIONS} regions"));
    }
    if known.is_none() {
        names.push(note.region.clone());
    }
    let number = number as u32;
    Ok(if note.begins { Event::Begin(number) } else { Event::End(number) })
}
