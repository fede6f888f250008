//! Functions of a program or library, by the symbols of its file.

use object::read::elf::{ElfFile32, ElfFile64};
use object::{
    Architecture, Object, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SegmentFlags, SymbolKind,
};

/// A named range of addresses: a function, or a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRange {
    /// First virtual address in the file.
    pub start: u64,
    /// Bytes; 0, of functions of assembly: it ends with the next one.
    pub bytes: u64,
    /// Its name.
    pub name: String,
}

/// The code of a file.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Loaded segments: offset in the file, bytes, virtual address.
    segments: Vec<(u64, u64, u64)>,
    /// Those with code: offset in the file, bytes.
    executable: Vec<(u64, u64)>,
    /// In the order of addresses.
    functions: Vec<NamedRange>,
    sections: Vec<NamedRange>,
}

impl Code {
    /// Reads the symbols of a file. Names are those of the file, and may be mangled.
    #[must_use]
    pub fn read<'a>(elf: &impl Object<'a>) -> Code {
        let segments = elf.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            (offset, bytes, segment.address())
        });
        // p_flags of ELF.
        let is_code =
            |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_X != 0);
        let executable = elf.segments().filter(|segment| is_code(segment.flags()));
        let executable = executable.map(|segment| segment.file_range()).collect();
        // The lowest bit of a function of ARM tells that it is Thumb code (ELF for the Arm Architecture, 5.5.3).
        let mask = if elf.architecture() == Architecture::Arm { !1 } else { !0 };
        let symbols = elf.symbols().chain(elf.dynamic_symbols());
        let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        let functions = functions.filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
            Some(NamedRange { start: symbol.address() & mask, bytes: symbol.size(), name: name.to_owned() })
        });
        let mut functions: Vec<NamedRange> = functions.collect();
        // Of several names of a function, that with the size, then the first by name, so that it is always the same.
        functions.sort_by(|a, b| (a.start, b.bytes, &a.name).cmp(&(b.start, a.bytes, &b.name)));
        functions.dedup_by_key(|function| function.start);
        let sections = elf.sections().filter(|section| section.kind() == object::SectionKind::Text);
        let sections = sections.filter_map(|section| {
            let name = section.name().ok()?.to_owned();
            Some(NamedRange { start: section.address(), bytes: section.size(), name })
        });
        Code { segments: segments.collect(), executable, functions, sections: sections.collect() }
    }

    /// Reads a file's contents. What is no ELF file has no code.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Code {
        if let Ok(elf) = ElfFile64::<object::Endianness>::parse(bytes) {
            return Code::read(&elf);
        }
        ElfFile32::<object::Endianness>::parse(bytes).map(|elf| Code::read(&elf)).unwrap_or_default()
    }

    /// Gives its functions other names.
    #[must_use]
    pub fn renamed(mut self, name: impl Fn(&str) -> String) -> Code {
        self.functions.iter_mut().for_each(|function| function.name = name(&function.name));
        self
    }

    /// Returns the loaded segments: offset in the file, bytes, virtual address.
    pub fn segments(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.segments.iter().copied()
    }

    /// Returns the segments with code: offset in the file, bytes.
    pub fn executable(&self) -> impl Iterator<Item = (u64, u64)> {
        self.executable.iter().copied()
    }

    /// Returns the virtual address of an offset of the file, if it is loaded.
    #[must_use]
    pub fn address(&self, offset: u64) -> Option<u64> {
        let inside =
            |(start, bytes, _): &&(u64, u64, u64)| (*start..start.saturating_add(*bytes)).contains(&offset);
        self.segments.iter().find(inside).map(|(start, _, address)| (offset - start).wrapping_add(*address))
    }

    /// Returns the function at a virtual address.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<&NamedRange> {
        self.function_number(address).map(|(_, found)| found)
    }

    /// Returns the function at a virtual address, and its number.
    #[must_use]
    pub fn function_number(&self, address: u64) -> Option<(usize, &NamedRange)> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let number = after.checked_sub(1)?;
        let found = &self.functions[number];
        (found.bytes == 0 || address - found.start < found.bytes).then_some((number, found))
    }

    /// Returns the section with code at a virtual address.
    #[must_use]
    pub fn section(&self, address: u64) -> Option<&NamedRange> {
        self.sections.iter().find(|of| address >= of.start && address - of.start < of.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_end_where_they_end() {
        let range = |start: u64, bytes: u64, name: &str| NamedRange { start, bytes, name: name.to_owned() };
        let code = Code {
            segments: vec![(0x100, 0x1000, 0x40_0100)],
            executable: Vec::new(),
            functions: vec![range(0x40_0200, 16, "a"), range(0x40_0220, 0, "b"), range(0x40_0240, 8, "c")],
            sections: vec![range(0x40_0200, 0x100, ".text")],
        };
        for (offset, name) in [
            (0x200, Some("a")),
            (0x20f, Some("a")),
            (0x210, Some(".text")),
            (0x23f, Some("b")),
            (0x247, Some("c")),
            (0x248, Some(".text")),
            (0x400, None),
        ] {
            let address = code.address(offset).expect("in the segment");
            let found = code.function(address).or_else(|| code.section(address));
            assert_eq!(found.map(|of| of.name.as_str()), name, "{offset:#x}");
        }
        assert_eq!(code.address(0x5000), None, "in no segment");
    }
}
