//! The notes that `fathom.h` leaves in the file of a program or a library: where regions begin and end.
//!
//! A note is that of a static probe (SystemTap's `sys/sdt.h`, section `.note.stapsdt`, type 3): three addresses (of the
//! instruction, of a section that is not used, of a semaphore that is not used), then the provider, the name and the arguments,
//! each ended by a zero. The provider is [`BEGIN`] or [`END`], the name that of the region.

use std::collections::BTreeSet;
use std::path::Path;

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};

/// Note that the marks of a file count for `fathom count`, too: its section, its owner and its type.
const COUNTED: (&[u8], &[u8], u32) = (b".note.fathom", b"fathom", 1);
/// Section with the notes.
const SECTION: &[u8] = b".note.stapsdt";
/// Owner of a note, and its type.
const OWNER: (&[u8], u32) = (b"stapsdt", 3);
/// Provider where a region begins.
const BEGIN: &[u8] = b"fathom_begin";
/// Provider where it ends.
const END: &[u8] = b"fathom_end";

/// An instruction at which a region begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its offset in the file.
    pub offset: u64,
    /// Name of the region.
    pub region: String,
    /// Whether the region begins there.
    pub begins: bool,
}

impl Note {
    /// Reads those of a file. One without them, that is no ELF file or that cannot be read, has none: a damaged file is told
    /// by whoever runs it.
    #[must_use]
    pub fn all_of(file: &Path) -> Vec<Note> {
        let bytes = std::fs::read(file).unwrap_or_default();
        Note::read(&bytes)
    }

    fn read(bytes: &[u8]) -> Vec<Note> {
        let notes = match bytes.get(4) {
            Some(&object::elf::ELFCLASS32) => notes::<FileHeader32<Endianness>>(bytes),
            _ => notes::<FileHeader64<Endianness>>(bytes),
        };
        notes.unwrap_or_default()
    }
}

/// The regions that a program's file marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedFile {
    /// Their names, in alphabetical order.
    pub regions: BTreeSet<String>,
    /// Whether the marks count for `fathom count`, too.
    pub counted: bool,
    /// Whether it has libraries, which may have marks of their own.
    pub is_dynamic: bool,
}

impl MarkedFile {
    /// Reads a file; `None` if it is no ELF file, or cannot be read.
    #[must_use]
    pub fn of(file: &Path) -> Option<MarkedFile> {
        let bytes = std::fs::read(file).ok()?;
        let read = match bytes.get(4) {
            Some(&object::elf::ELFCLASS32) => MarkedFile::read::<FileHeader32<Endianness>>(&bytes),
            _ => MarkedFile::read::<FileHeader64<Endianness>>(&bytes),
        };
        read.ok()
    }

    fn read<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> object::Result<MarkedFile> {
        let regions = notes::<E>(bytes)?.into_iter().map(|note| note.region).collect();
        let header = E::parse(bytes)?;
        let endian = header.endian()?;
        let mut is_dynamic = false;
        for program in header.program_headers(endian, bytes)? {
            is_dynamic |= program.interpreter(endian, bytes)?.is_some();
        }
        let sections = header.sections(endian, bytes)?;
        let mut counted = false;
        for section in sections.iter() {
            let Some(mut notes) = section.notes(endian, bytes)? else { continue };
            while sections.section_name(endian, section)? == COUNTED.0
                && let Some(note) = notes.next()?
            {
                counted |= (note.name(), note.n_type(endian)) == (COUNTED.1, COUNTED.2);
            }
        }
        Ok(MarkedFile { regions, counted, is_dynamic })
    }
}

fn notes<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> object::Result<Vec<Note>> {
    let header = E::parse(bytes)?;
    let endian = header.endian()?;
    let programs = header.program_headers(endian, bytes)?;
    // What is in no executable segment was removed by the linker.
    let offset = |address: u64| {
        programs.iter().find_map(|program| {
            let code = program.p_type(endian) == PT_LOAD && program.p_flags(endian) & PF_X != 0;
            let at = address.checked_sub(program.p_vaddr(endian).into()).filter(|_| code)?;
            (at < program.p_filesz(endian).into()).then(|| program.p_offset(endian).into() + at)
        })
    };
    let sections = header.sections(endian, bytes)?;
    let mut all = Vec::new();
    for section in sections.iter() {
        if sections.section_name(endian, section)? != SECTION {
            continue;
        }
        let Some(mut notes) = section.notes(endian, bytes)? else { continue };
        while let Some(note) = notes.next()? {
            if (note.name(), note.n_type(endian)) == OWNER
                && let Some((address, region, begins)) = marker(note.desc(), header.is_class_64(), endian)
                && let Some(offset) = offset(address)
            {
                all.push(Note { offset, region, begins });
            }
        }
    }
    Ok(all)
}

/// Returns the address, the name and whether the region begins; `None` for the probe of somebody else.
fn marker(desc: &[u8], is_64: bool, endian: Endianness) -> Option<(u64, String, bool)> {
    use object::Endian as _;
    let (address, texts) = if is_64 {
        let (address, rest) = desc.split_first_chunk::<8>()?;
        (endian.read_u64_bytes(*address), rest.get(16..)?)
    } else {
        let (address, rest) = desc.split_first_chunk::<4>()?;
        (u64::from(endian.read_u32_bytes(*address)), rest.get(8..)?)
    };
    let mut texts = texts.split(|&byte| byte == 0);
    let (provider, name) = (texts.next()?, texts.next()?);
    let begins = provider == BEGIN;
    (begins || provider == END).then(|| (address, String::from_utf8_lossy(name).into_owned(), begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(address: u64, texts: &str) -> Vec<u8> {
        [&address.to_le_bytes()[..], &[0; 16], texts.as_bytes()].concat()
    }

    #[test]
    fn notes_of_others_and_cut_ones_are_no_markers() {
        let read = |desc: &[u8], is_64| marker(desc, is_64, Endianness::Little);
        let inner = (7, "inner".to_owned(), true);
        assert_eq!(read(&desc(7, "fathom_begin\0inner\0\0"), true), Some(inner.clone()));
        assert_eq!(read(&desc(9, "fathom_end\0inner\0\0"), true), Some((9, "inner".to_owned(), false)));
        assert_eq!(read(&desc(7, "libc\0setjmp\0\0"), true), None);
        assert_eq!(read(&desc(7, "")[..20], true), None);
        let short = [&7u32.to_le_bytes()[..], &[0; 8], b"fathom_begin\0inner\0\0"].concat();
        assert_eq!(read(&short, false), Some(inner));
        assert_eq!(Note::read(b"no ELF file"), []);
        assert_eq!(Note::all_of(Path::new("/nowhere")), []);
    }
}
