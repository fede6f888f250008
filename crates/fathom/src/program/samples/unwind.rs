//! Callers of a sampled function: from its registers and stack, by the tables that programs have for their exceptions
//! (`.eh_frame`, or `.debug_frame`), and by frame pointers where a file has none.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use fathom_host::{Registers, StackMemory};
use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::{Object, ObjectSection as _, ObjectSegment as _, ReadCache};

use crate::program::symbols::Version;

/// Callers of a function, at most: of a stack of 8 KiB, more do not fit in.
pub const MAX_CALLERS: usize = 512;

type Bytes = Arc<[u8]>;

/// The tables of a file with code.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Loaded segments: offset in the file, bytes, virtual address.
    segments: Vec<(u64, u64, u64)>,
    sections: ExplicitModuleSectionInfo<Bytes>,
}

impl Tables {
    /// Reads those of a file; none, if it is not the one of this version or has none.
    pub fn read(path: &Path, version: &Version) -> Tables {
        Tables::read_if(path, version).unwrap_or_default()
    }

    fn read_if(path: &Path, version: &Version) -> Option<Tables> {
        // Devices and pipes may be in memory too, and have no end.
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        if !version.is_as_old(&metadata) {
            return None;
        }
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = object::File::parse(&cache).ok()?;
        if !version.has_build(&elf) {
            return None;
        }
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let data: Bytes = section.uncompressed_data().ok()?.into();
            Some((section.address()..section.address().checked_add(section.size())?, data))
        };
        let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
        let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
        let debug_frame = if eh_frame.is_none() { section(".debug_frame") } else { None };
        let range = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let sections = ExplicitModuleSectionInfo {
            text_svma: range(".text"),
            got_svma: range(".got"),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            debug_frame: debug_frame.map(|(_, data)| data),
            ..Default::default()
        };
        let segments = elf.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            (offset, bytes, segment.address())
        });
        Some(Tables { segments: segments.collect(), sections })
    }

    /// Returns what is in memory at `code`, which begins at an offset of the file.
    fn module(&self, code: Range<u64>, offset: u64) -> Option<Module<Bytes>> {
        let inside =
            |(start, bytes, _): &&(u64, u64, u64)| offset.checked_sub(*start).is_some_and(|at| at < *bytes);
        // A mapping begins at a page, before the segment's first byte too.
        let last =
            |(start, ..): &&(u64, u64, u64)| (offset..offset + (code.end - code.start)).contains(start);
        let (start, _, address) =
            self.segments.iter().find(inside).or_else(|| self.segments.iter().find(last))?;
        let base = code.start.wrapping_sub(offset).wrapping_add(*start).wrapping_sub(*address);
        Some(Module::new(String::new(), code, base, self.sections.clone()))
    }
}

/// The tables of all code in the memory of a process.
#[derive(Clone, Default)]
pub struct Code {
    x86_64: UnwinderX86_64<Bytes>,
    aarch64: UnwinderAarch64<Bytes>,
}

impl Code {
    /// Adds the code of a file, which begins at an offset of it. It does not overlap other code.
    pub fn add(&mut self, code: Range<u64>, offset: u64, tables: &Tables) {
        if let Some(module) = tables.module(code, offset) {
            self.aarch64.add_module(module.clone());
            self.x86_64.add_module(module);
        }
    }
}

/// Finds callers, and keeps what it has found out about code.
#[derive(Default)]
pub struct Unwinder {
    x86_64: CacheX86_64,
    aarch64: CacheAarch64,
}

impl Unwinder {
    /// Returns addresses in the calls that led to a sample, the nearest first, and whether the last one is in what started the
    /// thread.
    pub fn callers(&mut self, code: &Code, stack: &StackMemory) -> (Vec<u64>, bool) {
        match stack.registers {
            Registers::X86_64 { pc, sp, fp } => {
                let registers = UnwindRegsX86_64::new(pc, sp, fp);
                callers(&code.x86_64, pc, registers, &mut self.x86_64, (sp, &stack.bytes))
            }
            Registers::Aarch64 { pc, lr, sp, fp } => {
                // Return addresses may be signed in the bits above those of the highest address.
                let mask = PtrAuthMask::from_max_known_address(code.aarch64.max_known_code_address().max(1));
                let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, lr, sp, fp);
                callers(&code.aarch64, pc, registers, &mut self.aarch64, (sp, &stack.bytes))
            }
        }
    }
}

fn callers<U: framehop::Unwinder>(
    unwinder: &U,
    pc: u64,
    registers: U::UnwindRegs,
    cache: &mut U::Cache,
    (sp, stack): (u64, &[u8]),
) -> (Vec<u64>, bool) {
    let mut read = |address: u64| {
        let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
        let bytes = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| ())
    };
    let mut frames = unwinder.iter_frames(pc, registers, cache, &mut read);
    let mut found = Vec::new();
    while found.len() <= MAX_CALLERS {
        match frames.next() {
            // A return address is behind the call; this is in it.
            Ok(Some(frame)) if frame.is_return_address() => found.push(frame.address_for_lookup()),
            // The sample's own instruction.
            Ok(Some(_)) => {}
            Ok(None) => return (found, true),
            Err(_) => return (found, false),
        }
    }
    (found, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables and stacks of any content: callers end, and nothing panics.
    #[test]
    fn hostile_tables_end() {
        let mut state = 0x1234_5678_9abc_def0_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let own = std::env::current_exe().expect("this program");
        let real = Tables::read(&own, &Version::default());
        assert!(real.sections.eh_frame.is_some() && !real.segments.is_empty());
        let mut unwinder = Unwinder::default();
        for round in 0..200 {
            let mut tables = real.clone();
            let mut damage = |bytes: &mut Option<Bytes>| {
                let Some(all) = bytes else { return };
                // The tables of a debug build are long; their begin is what is read here.
                let mut some = all[..all.len().min(4096)].to_vec();
                for _ in 0..round {
                    let at = random() as usize % some.len();
                    some[at] = random() as u8;
                }
                *bytes = Some(some.into());
            };
            damage(&mut tables.sections.eh_frame);
            damage(&mut tables.sections.eh_frame_hdr);
            if round % 3 == 0 {
                tables.sections.eh_frame_hdr = None;
            }
            let mut code = Code::default();
            code.add(0x10_0000..0x1000_0000, 0, &tables);
            for _ in 0..50 {
                let within = 0x10_0000 + random() % 0xff0_0000;
                let (sp, fp, lr) =
                    (random() % 0x1000 * 8, random() % 0x1000 * 8, 0x10_0000 + random() % 0xff0_0000);
                let bytes: Vec<u8> =
                    (0..64).flat_map(|_| (0x10_0000 + random() % 0xff0_0000).to_le_bytes()).collect();
                for registers in [
                    Registers::X86_64 { pc: within, sp, fp },
                    Registers::Aarch64 { pc: within, lr, sp, fp },
                    Registers::X86_64 { pc: random(), sp: random(), fp: random() },
                ] {
                    let stack = StackMemory { registers, bytes: bytes.clone() };
                    assert!(unwinder.callers(&code, &stack).0.len() <= MAX_CALLERS + 1);
                }
            }
        }
    }

    #[test]
    fn file_of_another_version_has_no_tables() {
        let own = std::env::current_exe().expect("this program");
        let version = Version { build: Some(vec![1; 20]), ..Version::default() };
        assert!(Tables::read(&own, &version).segments.is_empty());
        assert!(Tables::read(Path::new("/dev/zero"), &Version::default()).segments.is_empty());
    }
}
