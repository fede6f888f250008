//! Functions that allocate and free memory, by the symbols of a file: those of C (ISO C 7.24.3, POSIX, malloc(3)) and C++.

use object::read::elf::{ElfFile32, ElfFile64};
use object::{Architecture, Object, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

/// A function of an allocator: which of its arguments, from 0, say what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// Returns a block of as many bytes as the argument says.
    Allocate(usize),
    /// The same, of the product of arguments 0 and 1.
    Array,
    /// Returns a block of as many bytes as argument 1 says, in place of the block of argument 0.
    Resize,
    /// The same, of the product of arguments 1 and 2.
    ResizeArray,
    /// Stores the address of a block of as many bytes as argument 2 says where argument 0 points, and returns 0.
    Store,
    /// Gives back the block of argument 0.
    Free,
}

impl Allocator {
    /// Returns the function of a name, as the linker knows it.
    #[must_use]
    pub fn named(name: &str) -> Option<Allocator> {
        Some(match name {
            "malloc" | "valloc" | "pvalloc" => Allocator::Allocate(0),
            "aligned_alloc" | "memalign" => Allocator::Allocate(1),
            "calloc" => Allocator::Array,
            "realloc" => Allocator::Resize,
            "reallocarray" => Allocator::ResizeArray,
            "posix_memalign" => Allocator::Store,
            "free" | "cfree" => Allocator::Free,
            // `operator new` and `new[]` of all signatures, whose first argument is the size; not placement new, which allocates nothing.
            _ if ["_Znw", "_Zna"].iter().any(|new| name.starts_with(new)) && !name.contains("Pv") => {
                Allocator::Allocate(0)
            }
            _ if ["_Zdl", "_Zda"].iter().any(|delete| name.starts_with(delete)) => Allocator::Free,
            _ => return None,
        })
    }

    /// Returns the functions of a file with this contents, with their offsets in it. What is no ELF file has none.
    #[must_use]
    pub fn all_of(bytes: &[u8]) -> Vec<(u64, Allocator)> {
        if let Ok(elf) = ElfFile64::<object::Endianness>::parse(bytes) {
            return of_elf(&elf);
        }
        ElfFile32::<object::Endianness>::parse(bytes).map(|elf| of_elf(&elf)).unwrap_or_default()
    }
}

fn of_elf<'a>(elf: &impl Object<'a>) -> Vec<(u64, Allocator)> {
    // The lowest bit of a function of ARM tells that it is Thumb code (ELF for the Arm Architecture, 5.5.3).
    let mask = if elf.architecture() == Architecture::Arm { !1 } else { !0 };
    let offset = |address: u64| {
        elf.segments().find_map(|segment| {
            let (start, bytes) = segment.file_range();
            let within = address.checked_sub(segment.address()).filter(|within| *within < bytes)?;
            Some(start + within)
        })
    };
    let symbols = elf.symbols().chain(elf.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let mut all: Vec<(u64, Allocator)> = functions
        .filter_map(|symbol| {
            let allocator = Allocator::named(symbol.name().ok()?)?;
            Some((offset(symbol.address() & mask)?, allocator))
        })
        .collect();
    all.sort_by_key(|(offset, _)| *offset);
    all.dedup_by_key(|(offset, _)| *offset);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_name() {
        for (name, allocator) in [
            ("malloc", Some(Allocator::Allocate(0))),
            ("aligned_alloc", Some(Allocator::Allocate(1))),
            ("_Znwm", Some(Allocator::Allocate(0))),
            ("_ZnamSt11align_val_tRKSt9nothrow_t", Some(Allocator::Allocate(0))),
            ("_ZnwmPv", None),
            ("_ZdlPvm", Some(Allocator::Free)),
            ("malloc_stats", None),
            ("xmalloc", None),
        ] {
            assert_eq!(Allocator::named(name), allocator, "{name}");
        }
    }
}
