//! Data that samples have accessed: variables, stack, heap, other memory, mapped files.

use std::collections::HashMap;
use std::path::Path;
use std::time::SystemTime;

use fathom_experiment::record::{MAX_HOT, ProfileObject};
use fathom_host::SampledAccess;

use super::accesses::Accesses;
use super::memory::{Files, Mapped, Memory};
use super::{KERNEL, Places};
use crate::program::objects::{Image, name_of};
use crate::program::symbols::UNKNOWN;

/// The kernel's names of memory, as its records and /proc/PID/maps have them.
const STACK: &str = "[stack]";
const HEAP: &str = "[heap]";
const NO_FILE: &str = "//anon";

/// From the end of a program's data to the heap, bytes at most (`arch_randomize_brk` of Linux for x86-64 and arm64).
const BEFORE_HEAP: u64 = 1 << 30;

/// An object, and the program, library or other file that has it; empty if none does.
type Object = (String, String);

/// What was sampled of data so far.
#[derive(Debug, Default)]
pub struct Data {
    /// Programs and libraries by the number of their file; `None` of other files.
    images: HashMap<usize, Option<Image>>,
    counts: HashMap<Object, Accesses>,
    /// Whether a sample has had an address.
    is_told: bool,
}

impl Data {
    /// Adds a sample with this address in a process.
    pub fn add(
        &mut self,
        address: Option<u64>,
        memory: &Memory,
        files: &Files,
        since: Option<SystemTime>,
        weight: u64,
        access: Option<SampledAccess>,
    ) {
        let unknown = || (UNKNOWN.to_owned(), String::new());
        // Samples of an event that does not tell it have 0.
        let address = address.filter(|address| *address > 0);
        self.is_told |= address.is_some();
        let object = match address {
            Some(address) if Places::is_kernel(address) => (KERNEL.to_owned(), String::new()),
            Some(address) => self.find(address, memory, files, since).unwrap_or_else(unknown),
            None => unknown(),
        };
        self.counts.entry(object).or_default().add(weight, access);
    }

    fn find(
        &mut self,
        address: u64,
        memory: &Memory,
        files: &Files,
        since: Option<SystemTime>,
    ) -> Option<Object> {
        let found = memory.all.at(address);
        if let Some(mapped) = found.filter(|mapped| files.get(mapped.file).is_file()) {
            let in_image = self.image(mapped, memory, files, since).and_then(|(image, moved)| {
                let datum = image.find(address.wrapping_sub(moved))?;
                Some((datum.object, datum.file))
            });
            let file = || ("mapped file".to_owned(), name_of(&files.get(mapped.file).name));
            return Some(in_image.unwrap_or_else(file));
        }
        // Uninitialised data follow the file's part in memory of no file.
        if let Some(found) = self.uninitialised(address, memory, files, since) {
            return Some(found);
        }
        let of_no_file = |object: String| Some((object, String::new()));
        match found.map(|mapped| (mapped.start, files.get(mapped.file).name.as_str())) {
            Some((_, STACK)) => of_no_file("stack".to_owned()),
            Some((_, HEAP)) => of_no_file("heap".to_owned()),
            Some((start, NO_FILE)) if self.is_heap(address, start, memory, files, since) => {
                of_no_file("heap".to_owned())
            }
            Some((start, NO_FILE)) => of_no_file(format!("memory at {start:#x}")),
            Some((_, other)) => of_no_file(other.to_owned()),
            // The stack grows by a fault, and its new begin is told after that.
            None => {
                let above = memory.all.all().filter(|mapped| mapped.start > address);
                let next = above.min_by_key(|mapped| mapped.start)?;
                if files.get(next.file).name == STACK { of_no_file("stack".to_owned()) } else { None }
            }
        }
    }

    /// Returns the variable or section of uninitialised data at an address that no file has.
    fn uninitialised(
        &mut self,
        address: u64,
        memory: &Memory,
        files: &Files,
        since: Option<SystemTime>,
    ) -> Option<Object> {
        memory.all.all().filter(|mapped| files.get(mapped.file).is_file()).find_map(|mapped| {
            let (image, moved) = self.image(mapped, memory, files, since)?;
            let in_file = address.wrapping_sub(moved);
            let found = image.has_zeros_at(in_file).then(|| image.find(in_file)).flatten()?;
            Some((found.object, found.file))
        })
    }

    /// Returns whether an address in memory of no file that begins at `start` is on the heap (brk(2)): the kernel names it only in
    /// /proc/PID/maps. It follows the program's data, before all other files.
    fn is_heap(
        &mut self,
        address: u64,
        start: u64,
        memory: &Memory,
        files: &Files,
        since: Option<SystemTime>,
    ) -> bool {
        let of_program = memory.all.all().filter(|mapped| Some(mapped.file) == memory.program);
        let Some(last) = of_program.max_by_key(|mapped| mapped.end) else { return false };
        let data_end =
            self.image(last, memory, files, since).map(|(image, moved)| moved.wrapping_add(image.end()));
        let end = data_end.unwrap_or(last.end).max(last.end);
        let other =
            |mapped: &Mapped| files.get(mapped.file).is_file() && (end..address).contains(&mapped.start);
        address >= end && start < end.saturating_add(BEFORE_HEAP) && !memory.all.all().any(other)
    }

    /// Returns the program or library that is mapped there, and what the addresses in its file are moved by.
    fn image(
        &mut self,
        mapped: &Mapped,
        memory: &Memory,
        files: &Files,
        since: Option<SystemTime>,
    ) -> Option<(&Image, u64)> {
        let file = files.get(mapped.file);
        let read = || Image::open(Path::new(&file.name), &file.version(since));
        let image = self.images.entry(mapped.file).or_insert_with(read).as_ref()?;
        let moves = |mapped: &Mapped| image.moves(mapped.start..mapped.end, mapped.offset);
        let mut all = moves(mapped);
        if all.len() > 1 {
            // All parts of a file are moved by the same.
            let others = || memory.all.all().filter(|other| other.file == mapped.file);
            all.sort_by_cached_key(|moved| {
                std::cmp::Reverse(others().filter(|other| moves(other).contains(moved)).count())
            });
        }
        Some((image, *all.first()?))
    }

    /// Returns the objects with the most events; none, if no sample tells its address.
    pub fn objects(self) -> Vec<ProfileObject> {
        if !self.is_told {
            return Vec::new();
        }
        let object = |((object, file), accesses): (Object, Accesses)| ProfileObject {
            object,
            file,
            samples: accesses.count.samples,
            weight: accesses.count.weight,
            latency: accesses.latency(),
        };
        let mut all: Vec<ProfileObject> = self.counts.into_iter().map(object).collect();
        all.sort_by(|a, b| {
            b.weight.cmp(&a.weight).then_with(|| (&a.object, &a.file).cmp(&(&b.object, &b.file)))
        });
        all.truncate(MAX_HOT);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::MappedFile;
    use super::*;

    static PLANTED: [u64; 40] = [7; 40];
    static mut ZEROS: [u8; 1 << 16] = [0; 1 << 16];

    /// The memory of this process, as the kernel tells it.
    fn own(files: &mut Files) -> Memory {
        let mut memory = Memory::default();
        for event in fathom_host::mapped(std::process::id(), true) {
            let fathom_host::Sampled::Mapped { start, bytes, offset, file, is_code, build, .. } = event.what
            else {
                panic!("{event:?}");
            };
            let file = files.number(MappedFile { name: file, build });
            memory.map(Mapped { start, end: start + bytes, offset, file }, files, is_code, true);
        }
        memory
    }

    #[test]
    fn data_of_this_process_are_found() {
        let mut files = Files::default();
        // One that is large enough for a mapping of its own, and is there before the mappings are read.
        let far = vec![1u8; 64 << 20];
        let memory = own(&mut files);
        let mut data = Data::default();
        let program = name_of(&std::env::current_exe().expect("this program").display().to_string());
        let mut at = |address: u64| data.find(address, &memory, &files, None);
        let (object, file) = at(&raw const PLANTED as u64 + 24).expect("a variable");
        assert!(object.ends_with("data::tests::PLANTED") && file == program, "{object} {file}");
        let (object, file) = at(&raw const ZEROS as u64 + 40_000).expect("a variable");
        assert!(object.ends_with("data::tests::ZEROS") && file == program, "{object} {file}");
        let (object, file) = at(far.as_ptr() as u64).expect("memory");
        assert!(object.starts_with("memory at 0x") && file.is_empty(), "{object}");
        let stack = memory.all.all().find(|mapped| files.get(mapped.file).name == STACK).expect("a stack");
        for address in [stack.end - 64, stack.start - 64] {
            assert_eq!(at(address), Some(("stack".to_owned(), String::new())));
        }
        assert_eq!(at(16), None);
    }

    /// The heap is memory of no file, as all other, and neither begins with nor is far from the program's data.
    #[test]
    fn heap_is_what_follows_the_program() {
        let mut files = Files::default();
        let number =
            |files: &mut Files, name: &str| files.number(MappedFile { name: name.to_owned(), build: None });
        let mut memory = Memory::default();
        for (start, bytes, name) in [
            (0x40_0000, 0x2000, "/no/program"),
            (0x7f00_0000, 0x1000, "/no/library"),
            (0x4_4000, 0x1000, NO_FILE),
            (0x150_0000, 0x3000, NO_FILE),
            (0x7f10_0000, 0x1000, NO_FILE),
            (0x1_0000_0000, 0x1000, NO_FILE),
        ] {
            let file = number(&mut files, name);
            memory.map(Mapped { start, end: start + bytes, offset: 0, file }, &files, false, true);
        }
        let mut data = Data::default();
        let objects = [0x4_4100, 0x150_2000, 0x7f10_0000, 0x1_0000_0000]
            .map(|address| data.find(address, &memory, &files, None).map(|(object, _)| object));
        let other = |start: &str| Some(format!("memory at {start}"));
        assert_eq!(
            objects,
            [other("0x44000"), Some("heap".to_owned()), other("0x7f100000"), other("0x100000000")]
        );
    }

    #[test]
    fn samples_without_an_address_and_those_of_the_kernel_are_told_apart() {
        let (files, memory) = (Files::default(), Memory::default());
        let mut data = Data::default();
        for address in [None, Some(0), Some(0x1000), Some(1 << 63)] {
            data.add(address, &memory, &files, None, 10, None);
        }
        let objects = data.objects();
        let shown: Vec<_> = objects.iter().map(|of| (of.object.as_str(), of.samples, of.weight)).collect();
        assert_eq!(shown, [(UNKNOWN, 3, 30), (KERNEL, 1, 10)]);
        let mut data = Data::default();
        data.add(Some(0), &memory, &files, None, 10, None);
        assert_eq!(data.objects(), []);
    }
}
