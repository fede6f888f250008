//! Names of a program's data: variables, stack, heap, other memory.

use std::path::Path;

use fathom_simulation::protocol::{Mapping, STACK};
use object::read::elf::{ElfFile32, ElfFile64};
use object::{ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use crate::program::symbols::demangled;

/// Bytes of the smallest page of all instruction sets: segments begin in files and in memory at multiples of it.
const PAGE: u64 = 4096;

/// Where an address is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datum {
    /// The object.
    pub object: String,
    /// Name of the program or library that has it, without directories; empty for memory without a file.
    pub file: String,
    /// Bytes from its start.
    pub offset: u64,
}

/// Finds the objects of addresses in a program's memory.
pub struct Objects {
    /// In the order of addresses.
    mappings: Vec<Mapping>,
    images: Vec<Image>,
    /// Number of the program's image.
    program: Option<usize>,
}

/// A name for a range of addresses: first address, bytes, name.
type Range = (u64, u64, String);

/// A program or library in memory.
#[derive(Debug, Default)]
struct Image {
    file: String,
    /// First address, and the end, uninitialised data included.
    start: u64,
    end: u64,
    /// Variables in the order of addresses.
    variables: Vec<Range>,
    sections: Vec<Range>,
}

impl Objects {
    /// Creates it for a program of this name, with this memory.
    pub fn new(mappings: &[Mapping], program: &str) -> Objects {
        let mut mappings = mappings.to_vec();
        mappings.sort_by_key(|mapping| mapping.start);
        let mut images: Vec<Image> = Vec::new();
        let mut known: Vec<&str> = Vec::new();
        for mapping in mappings.iter().filter(|mapping| mapping.file.starts_with('/')) {
            if !known.contains(&mapping.file.as_str()) {
                known.push(&mapping.file);
                images.extend(Image::open(mapping));
            }
        }
        let program = images.iter().position(|image| image.file == program);
        Objects { images, program, mappings }
    }

    /// Returns the variable or section of a program or library that an address is in.
    pub fn in_file(&self, address: u64) -> Option<Datum> {
        let inside = |image: &&Image| (image.start..image.end).contains(&address);
        self.images.iter().find(inside).and_then(|image| image.find(address))
    }

    /// Returns where an address is.
    pub fn find(&self, address: u64) -> Datum {
        if let Some(found) = self.in_file(address) {
            return found;
        }
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = after.checked_sub(1).map(|at| &self.mappings[at]);
        let datum =
            |object: String, start: u64| Datum { object, offset: address - start, ..Datum::default() };
        match mapping.filter(|mapping| address < mapping.end) {
            None => datum("memory that was unmapped later".to_owned(), 0),
            Some(mapping) if mapping.file == STACK => datum("stack".to_owned(), mapping.start),
            Some(mapping) if mapping.file.is_empty() => match self.heap_start(mapping) {
                Some(start) if address >= start => datum("heap".to_owned(), start),
                _ => datum(format!("memory at {:#x}", mapping.start), mapping.start),
            },
            Some(mapping) => Datum {
                object: "mapped file".to_owned(),
                file: name_of(&mapping.file),
                offset: address - mapping.start + mapping.offset,
            },
        }
    }

    /// Returns where the heap begins, if this mapping has it: it follows the program's uninitialised data (brk(2)).
    fn heap_start(&self, mapping: &Mapping) -> Option<u64> {
        let end = self.images[self.program?].end;
        (mapping.start <= end.next_multiple_of(PAGE) && mapping.end > end).then_some(end)
    }
}

impl Image {
    /// Reads a file, unless it has changed since.
    fn open(mapping: &Mapping) -> Option<Image> {
        let bytes = std::fs::read(&mapping.file).ok()?;
        if mapping.checksum.is_some_and(|sum| sum != crc32fast::hash(&bytes)) {
            return None;
        }
        let image = Image { file: name_of(&mapping.file), ..Image::default() };
        if let Ok(elf) = ElfFile64::<object::Endianness>::parse(&*bytes) {
            return image.read(&elf, mapping);
        }
        image.read(&ElfFile32::<object::Endianness>::parse(&*bytes).ok()?, mapping)
    }

    fn read<'a>(mut self, elf: &impl object::Object<'a>, mapping: &Mapping) -> Option<Image> {
        let pages = |at: u64| at / PAGE * PAGE;
        let first = elf.segments().find(|segment| pages(segment.file_range().0) == mapping.offset)?;
        // What the addresses in the file are moved by.
        let moved = mapping.start.wrapping_sub(pages(first.address()));
        let bounds = elf.segments().map(|segment| (segment.address(), segment.address() + segment.size()));
        let (low, high) =
            bounds.fold((u64::MAX, 0), |(low, high), (start, end)| (low.min(start), high.max(end)));
        (self.start, self.end) = (moved.wrapping_add(low), moved.wrapping_add(high));
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        let variables = symbols.filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition());
        let variables = variables.filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
            let name = demangled(name);
            (symbol.size() > 0).then(|| (moved.wrapping_add(symbol.address()), symbol.size(), name))
        });
        self.variables = variables.collect();
        // Of several names of a variable the largest, then the first by name, so that it is always the same.
        self.variables.sort_by(|a, b| (a.0, b.1, &a.2).cmp(&(b.0, a.1, &b.2)));
        self.variables.dedup_by_key(|variable| variable.0);
        let sections = elf.sections().filter(|section| section.address() > 0 && section.size() > 0);
        self.sections = sections
            .filter(|section| section.kind() != object::SectionKind::UninitializedTls)
            .filter_map(|section| {
                Some((moved.wrapping_add(section.address()), section.size(), section.name().ok()?.to_owned()))
            })
            .collect();
        Some(self)
    }

    fn find(&self, address: u64) -> Option<Datum> {
        let within = |(start, bytes, _): &&Range| (*start..start + bytes).contains(&address);
        let after = self.variables.partition_point(|(start, ..)| *start <= address);
        let variable = after.checked_sub(1).map(|at| &self.variables[at]).filter(within);
        let (start, _, name) = variable.or_else(|| self.sections.iter().find(within))?;
        Some(Datum { object: name.clone(), file: self.file.clone(), offset: address - start })
    }
}

/// Returns the name of a file, without directories.
pub fn name_of(file: &str) -> String {
    Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    static PLANTED: [u64; 40] = [7; 40];
    static mut ZEROS: [u8; 1 << 16] = [0; 1 << 16];

    /// Returns this process's memory as the plugin tells it.
    fn own() -> Vec<Mapping> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let mapping = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').expect("a range");
            let name = fields.get(5).copied().unwrap_or_default();
            let file = if name.starts_with('/') || name == STACK { name } else { "" };
            let (start, end, offset) = (hex(start), hex(end), hex(fields[2]));
            Mapping { start, end, offset, file: file.to_owned(), checksum: None }
        };
        maps.lines().map(mapping).collect()
    }

    #[test]
    fn variables_stack_and_other_memory_of_this_program_are_found() {
        let program = std::env::current_exe().expect("this program");
        let name = name_of(&program.display().to_string());
        let far = vec![1u8; 64 << 20];
        let objects = Objects::new(&own(), &name);
        let at = |address: usize| objects.find(address as u64);
        let planted = at(&raw const PLANTED[3] as usize);
        assert!(planted.object.ends_with("objects::tests::PLANTED"), "{planted:?}");
        assert_eq!((planted.offset, &planted.file), (24, &name));
        let zeros = at(&raw const ZEROS as usize + 4097);
        assert!(zeros.object.ends_with("objects::tests::ZEROS"), "{zeros:?}");
        assert_eq!(zeros.offset, 4097);
        let mapped = at(far.as_ptr() as usize);
        assert!(mapped.object.starts_with("memory at 0x"), "{mapped:?}");
        assert_eq!(at(8).object, "memory that was unmapped later");
        let environ = own().into_iter().find(|mapping| mapping.file == STACK).expect("a stack").end - 64;
        assert_eq!(at(environ as usize).object, "stack");
    }

    #[test]
    fn heap_follows_the_program() {
        let image = |start, end| Image { file: "p".into(), start, end, ..Image::default() };
        let mapping = |start, end| Mapping { start, end, offset: 0, file: String::new(), checksum: None };
        let objects = Objects {
            mappings: vec![mapping(0x3000, 0x9000), mapping(0x20_000, 0x30_000)],
            images: vec![image(0x1000, 0x3800)],
            program: Some(0),
        };
        assert_eq!((objects.find(0x3900).object.as_str(), objects.find(0x3900).offset), ("heap", 0x100));
        assert_eq!(objects.find(0x21_000).object, "memory at 0x20000");
    }
}
