//! Names of a program's data: variables, stack, heap, other memory.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use fathom_simulation::protocol::{Mapping, STACK};
use object::{ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SymbolKind};

use crate::program::symbols::{Version, demangled};

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
    images: Vec<Loaded>,
    /// Number of the program's image.
    program: Option<usize>,
}

/// A program or library in memory, and what the addresses in its file are moved by.
#[derive(Debug)]
struct Loaded {
    image: Image,
    moved: u64,
}

/// A name for a range of addresses: first address, bytes, name.
type Named = (u64, u64, String);

/// A segment of a program or library.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// First byte in the file, and their number.
    offset: u64,
    bytes: u64,
    /// First address, and bytes in memory. What the file does not have are zeros.
    address: u64,
    memory: u64,
}

/// The data of a program or library, by the addresses in its file.
#[derive(Debug, Default)]
pub struct Image {
    file: String,
    segments: Vec<Segment>,
    /// Variables in the order of addresses.
    variables: Vec<Named>,
    sections: Vec<Named>,
}

impl Objects {
    /// Creates it for a program of this name, with this memory.
    pub fn new(mappings: &[Mapping], program: &str) -> Objects {
        let mut mappings = mappings.to_vec();
        mappings.sort_by_key(|mapping| mapping.start);
        let mut images: Vec<Loaded> = Vec::new();
        let mut known: Vec<&str> = Vec::new();
        for mapping in mappings.iter().filter(|mapping| mapping.file.starts_with('/')) {
            if !known.contains(&mapping.file.as_str()) {
                known.push(&mapping.file);
                images.extend(Loaded::open(mapping));
            }
        }
        let program = images.iter().position(|of| of.image.file == program);
        Objects { images, program, mappings }
    }

    /// Returns the variable or section of a program or library that an address is in.
    pub fn in_file(&self, address: u64) -> Option<Datum> {
        self.images.iter().find(|of| of.range().contains(&address)).and_then(|of| of.find(address))
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
        let end = self.images[self.program?].range().end;
        (mapping.start <= end.next_multiple_of(PAGE) && mapping.end > end).then_some(end)
    }
}

impl Loaded {
    /// Reads a file, unless it has changed since.
    fn open(mapping: &Mapping) -> Option<Loaded> {
        let version = Version { checksum: mapping.checksum, ..Version::default() };
        let image = Image::open(Path::new(&mapping.file), &version)?;
        let moved = image.moved(mapping.start..mapping.end, mapping.offset)?;
        Some(Loaded { image, moved })
    }

    /// Returns its addresses, uninitialised data included.
    fn range(&self) -> Range<u64> {
        let low = self.image.segments.iter().map(|of| of.address).min().unwrap_or(0);
        self.moved.wrapping_add(low)..self.moved.wrapping_add(self.image.end())
    }

    fn find(&self, address: u64) -> Option<Datum> {
        self.image.find(address.wrapping_sub(self.moved))
    }
}

impl Image {
    /// Reads a file. `None` if it is no program or library, or not of this version.
    pub fn open(path: &Path, version: &Version) -> Option<Image> {
        // Devices and pipes may be in memory too, and have no end.
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        if !version.is_as_old(&metadata) {
            return None;
        }
        if let Some(sum) = version.checksum
            && sum != crc32fast::hash(&std::fs::read(path).ok()?)
        {
            return None;
        }
        // Files of data, which may be large, are not read any further than that they are no programs.
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = object::File::parse(&cache).ok()?;
        version.has_build(&elf).then(|| Image::read(&elf, name_of(&path.to_string_lossy())))
    }

    fn read<'a>(elf: &impl object::Object<'a>, file: String) -> Image {
        let segments = elf.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            Segment { offset, bytes, address: segment.address(), memory: segment.size() }
        });
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        let variables = symbols.filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition());
        let variables = variables.filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
            (symbol.size() > 0).then(|| (symbol.address(), symbol.size(), demangled(name)))
        });
        let mut variables: Vec<Named> = variables.collect();
        // Of several names of a variable the largest, then the first by name, so that it is always the same.
        variables.sort_by(|a, b| (a.0, b.1, &a.2).cmp(&(b.0, a.1, &b.2)));
        variables.dedup_by_key(|variable| variable.0);
        let sections = elf.sections().filter(|section| section.address() > 0 && section.size() > 0);
        let sections = sections
            .filter(|section| section.kind() != object::SectionKind::UninitializedTls)
            .filter_map(|section| Some((section.address(), section.size(), section.name().ok()?.to_owned())));
        Image { file, segments: segments.collect(), variables, sections: sections.collect() }
    }

    /// Returns what the addresses in the file are moved by, if this memory has the file from an offset on.
    pub fn moved(&self, memory: Range<u64>, offset: u64) -> Option<u64> {
        self.moves(memory, offset).first().copied()
    }

    /// Returns all that they may be moved by: segments that share a page of the file are not told apart by its offset.
    pub fn moves(&self, memory: Range<u64>, offset: u64) -> Vec<u64> {
        let begins = |of: &Segment| of.offset / PAGE * PAGE == offset;
        let inside = |of: &Segment| offset.checked_sub(of.offset).is_some_and(|at| at < of.bytes);
        let bytes = memory.end.saturating_sub(memory.start);
        // Of larger pages.
        let within = |of: &Segment| of.offset.checked_sub(offset).is_some_and(|at| at < bytes);
        let base = memory.start.wrapping_sub(offset);
        let moved = |of: &Segment| base.wrapping_add(of.offset).wrapping_sub(of.address);
        let having = |has: &dyn Fn(&Segment) -> bool| -> Vec<u64> {
            self.segments.iter().filter(|of| has(of)).map(moved).collect()
        };
        let found = having(&begins);
        if !found.is_empty() {
            return found;
        }
        let one = having(&inside).first().copied().or_else(|| having(&within).first().copied());
        one.into_iter().collect()
    }

    /// Returns the end of its addresses, uninitialised data included.
    pub fn end(&self) -> u64 {
        self.segments.iter().map(|of| of.address.saturating_add(of.memory)).max().unwrap_or(0)
    }

    /// Returns whether an address has zeros that the file does not have: uninitialised data.
    pub fn has_zeros_at(&self, address: u64) -> bool {
        let at = |of: &Segment| address.checked_sub(of.address);
        self.segments.iter().any(|of| at(of).is_some_and(|at| (of.bytes..of.memory).contains(&at)))
    }

    /// Returns the variable or section at an address.
    pub fn find(&self, address: u64) -> Option<Datum> {
        let within = |(start, bytes, _): &&Named| (*start..start.saturating_add(*bytes)).contains(&address);
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
        let segments = vec![Segment { offset: 0, bytes: 0x2000, address: 0x1000, memory: 0x2800 }];
        let image = Image { file: "p".into(), segments, ..Image::default() };
        let mapping = |start, end| Mapping { start, end, offset: 0, file: String::new(), checksum: None };
        let objects = Objects {
            mappings: vec![mapping(0x3000, 0x9000), mapping(0x20_000, 0x30_000)],
            images: vec![Loaded { image, moved: 0 }],
            program: Some(0),
        };
        assert_eq!((objects.find(0x3900).object.as_str(), objects.find(0x3900).offset), ("heap", 0x100));
        assert_eq!(objects.find(0x21_000).object, "memory at 0x20000");
    }

    /// Two segments share a page of the file; the third begins within a page of 64 KiB.
    #[test]
    fn segments_are_found_by_their_place_in_the_file() {
        let segment = |offset, bytes, address, memory| Segment { offset, bytes, address, memory };
        let segments = vec![
            segment(0, 0x1800, 0x40_0000, 0x1800),
            segment(0x1800, 0x800, 0x41_1800, 0x9000),
            segment(0x2_3000, 0x1000, 0x44_3000, 0x1000),
        ];
        let image = Image { segments, ..Image::default() };
        let base = 0x7000_0000;
        for (address, bytes, offset) in
            [(0x40_0000, 0x2000, 0), (0x41_1000, 0x1000, 0x1000), (0x44_0000, 0x1_0000, 0x2_0000)]
        {
            let start = base + address;
            assert_eq!(image.moved(start..start + bytes, offset), Some(base), "{address:#x}");
        }
        // A part of the first one, whose protection has changed.
        let image = Image { segments: vec![segment(0, 0x3000, 0x40_0000, 0x3000)], ..image };
        assert_eq!(image.moved(base..base + 0x1000, 0x2000), Some(base - 0x40_2000));
        assert_eq!(image.moved(base..base + 0x1000, 0x3000), None, "no part of it");
        assert!(!image.has_zeros_at(0x40_2fff) && !image.has_zeros_at(0x40_3000));
        let image = Image { segments: vec![segment(0x1800, 0x800, 0x41_1800, 0x9000)], ..image };
        let zeros = [0x41_1fff, 0x41_2000, 0x41_a7ff, 0x41_a800].map(|at| image.has_zeros_at(at));
        assert_eq!(zeros, [false, true, true, false]);
    }
}
