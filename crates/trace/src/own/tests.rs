//! What is written is read back, and damage is told.

use fathom_model::{Access, GUEST_BATCH, GUEST_PAGE, Kind};
use fathom_simulation::Accessor;
use fathom_simulation::origin::pc_of;
use fathom_simulation::protocol::{Answer, End, GuestAnswer, HeapSites, Mapping, Place};

use super::*;
use crate::{Batch, Error, Format, Reader};

/// Accesses of three threads: loops over arrays, a walk at random, fetches.
fn accesses(rounds: u64) -> Vec<(u32, Vec<Access>)> {
    let mut state = 88_172_645_463_325_252u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let batch = |round: u64| {
        let mut all = Vec::new();
        for n in 0..round * 977 % 5000 {
            all.push(Access::fetch(0x40_1000 + 32 * (n % 3), 4).at(n % 3));
            all.push(Access::load(0x7fff_0000_0000 + 8 * n, 8).at(3));
            all.push(Access::store(0x10_0000u64.wrapping_sub(8 * n), 4).at(4));
            if n % 7 == 0 {
                // The largest number and none among them.
                let instructions = [7, 0, u32::MAX, random() as u32][random() as usize % 4];
                let load = Access::load(random(), 1 + (n % 5) as u16).at(5 + random() % 40);
                all.push(Access { instructions, ..load });
            }
        }
        ((round % 3) as u32, all)
    };
    (0..rounds).map(batch).collect()
}

fn run() -> Answer {
    let place = |pc| Place { pc, executed: 7, loads: 3, stores: 1 };
    Answer {
        end: End::Killed,
        status: 6,
        target: "arm".into(),
        threads: 3,
        unseen: vec![("dc zva".into(), 2)],
        places: (0..45).map(|n| place(0x40_1000 + 4 * n)).collect(),
        mappings: vec![Mapping {
            start: 0x40_0000,
            end: 0x40_2000,
            offset: 0,
            file: "/p".into(),
            checksum: Some(9),
        }],
        regions: vec!["inner".into()],
        heap: HeapSites { returns: vec![0x40_1004], problem: Some("2 calls".into()) },
        calls: None,
        guest: None,
        machines: vec![],
    }
}

fn written(batches: &[(u32, Vec<Access>)]) -> Vec<u8> {
    let header = Header { program: "p".into(), fetch_shift: Some(5), guest: false };
    let mut writer = Writer::new(Vec::new(), &header).expect("a trace");
    for (thread, batch) in batches {
        writer.add(*thread, batch).expect("it is written");
    }
    writer.finish(&run()).expect("the end")
}

fn read(trace: &[u8], fetch_shift: Option<u32>) -> Result<(Vec<(u32, Access)>, crate::Told), Error> {
    let mut reader = Reader::open(std::io::Cursor::new(trace.to_vec()), None, fetch_shift)?;
    assert_eq!(reader.format(), Format::Fathom);
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while reader.read(&mut batch)? {
        all.extend(batch.accesses.iter().map(|&access| (batch.thread, access)));
    }
    Ok((all, reader.told()))
}

/// Physical pages and whose code it is come back, and each batch is one, as long as those of a guest are.
#[test]
fn accesses_of_a_guest_are_read_back_by_batch() {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut access = |n: u64| {
        let place = random(30);
        let by = [Accessor::Program, Accessor::Kernel, Accessor::Others][place as usize % 3];
        let address = if place < 20 { 0xffff_8000_0800_0000 + 64 * n } else { random(1 << 40) };
        let space = (address / GUEST_PAGE) as u32 ^ if random(50) == 0 { random(9) as u32 } else { 0 };
        let access = if place < 10 { Access::store(address, 8) } else { Access::load(address, 8) };
        let instructions = if random(9) == 0 { random(300) as u32 } else { 1 };
        Access { space, instructions, ..access.at(pc_of(place as u32, 0, by)) }
    };
    let batches: Vec<(u32, Vec<Access>)> = (0..40u64)
        .map(|round| {
            let accesses = (1 + round * 53) % (GUEST_BATCH as u64 + 1);
            ((round / 2 % 2) as u32, (0..accesses).map(&mut access).collect())
        })
        .collect();
    let header = Header { program: "guest".into(), fetch_shift: None, guest: true };
    let mut writer = Writer::new(Vec::new(), &header).expect("a trace");
    for (cpu, batch) in &batches {
        writer.add(*cpu, batch).expect("it is written");
    }
    let guest = Some(GuestAnswer { kernel: 1 << 63, ..GuestAnswer::default() });
    let trace = writer.finish(&Answer { guest, ..run() }).expect("the end");
    let mut batch = Batch::default();
    let mut begun = Reader::open(std::io::Cursor::new(trace.clone()), None, Some(5)).expect("a trace");
    assert!(begun.read(&mut batch).expect("it is read"));
    assert!(begun.told().run.guest.is_some(), "also if the rest is not wanted");
    let mut reader = Reader::open(std::io::Cursor::new(trace), None, Some(5)).expect("a trace");
    assert!(reader.is_guest());
    let mut found = Vec::new();
    while reader.read(&mut batch).expect("it is read") {
        found.push((batch.thread, batch.accesses.clone()));
    }
    let whole: Vec<_> = batches.into_iter().filter(|(_, batch)| !batch.is_empty()).collect();
    assert!(whole.len() > 30);
    assert!(
        found == whole,
        "batches of {:?}",
        found.iter().map(|(_, batch)| batch.len()).collect::<Vec<_>>()
    );
}

/// What happens to blocks of the heap is where it was among the accesses.
#[test]
fn blocks_of_the_heap_are_read_back_in_their_places() {
    let header = Header { program: "p".into(), fetch_shift: None, guest: false };
    let mut writer = Writer::new(Vec::new(), &header).expect("a trace");
    let block = |address, site| HeapEvent::Allocated { address, bytes: u64::MAX - address, site };
    let events = [(1, block(64, 0)), (0, HeapEvent::Freed(64)), (4095, block(u64::MAX, MAX_SITES - 1))];
    for (thread, event) in events {
        writer.add(1, &[Access::load(8, 8).at(1)]).expect("it is written");
        writer.heap(thread, event).expect("it is written");
    }
    let trace = writer.finish(&run()).expect("the end");
    let mut reader = Reader::open(std::io::Cursor::new(trace), None, None).expect("a trace");
    let (mut batch, mut found, mut accesses) = (Batch::default(), Vec::new(), 0);
    while reader.read(&mut batch).expect("it is read") {
        accesses += batch.accesses.len();
        found.extend(batch.heap.map(|event| (accesses, batch.thread, event)));
    }
    assert_eq!(found, [1, 2, 3].map(|n| (n, events[n - 1].0, events[n - 1].1)));
    assert_eq!(reader.told().run.heap, run().heap);
}

#[test]
fn impossible_blocks_of_the_heap_are_refused() {
    let mut bytes = written_heap(HeapEvent::Allocated { address: 1, bytes: 2, site: MAX_SITES - 1 });
    assert!(heap_of(&bytes).is_some());
    bytes[19] = 1;
    assert_eq!(heap_of(&bytes), None, "a site beyond the last");
    let mut bytes = written_heap(HeapEvent::Freed(1));
    assert!(heap_of(&bytes).is_some());
    bytes[0] = 2;
    assert_eq!(heap_of(&bytes), None);
    assert_eq!(heap_of(&bytes[1..]), None);
}

/// Marks are where they were among the accesses.
#[test]
fn marks_are_read_back_in_their_places() {
    let header = Header { program: "p".into(), fetch_shift: None, guest: false };
    let mut writer = Writer::new(Vec::new(), &header).expect("a trace");
    let mark = |event, instructions| Mark { event, instructions };
    let loads = |from: u64| (from..from + 5000).map(|n| Access::load(8 * n, 8).at(n % 9)).collect::<Vec<_>>();
    let marks = [
        (1, mark(Event::Begin(0), u64::MAX)),
        (0, mark(Event::End(1023), 0)),
        (4095, mark(Event::Now, 7)),
        (0, mark(Event::Over, 9)),
        (3, mark(Event::From(7), 1)),
        (3, mark(Event::Away, 2)),
        (3, mark(Event::Back, 3)),
        (3, mark(Event::To(7), 4)),
    ];
    let mut expected = Vec::new();
    for (n, &(thread, mark)) in (0..).zip(&marks) {
        writer.add(1, &loads(n * 5000)).expect("it is written");
        writer.mark(thread, mark).expect("it is written");
        expected.push(((n + 1) * 5000, thread, mark));
    }
    writer.add(2, &loads(0)).expect("it is written");
    let trace = writer.finish(&run()).expect("the end");
    let mut reader = Reader::open(std::io::Cursor::new(trace), None, None).expect("a trace");
    let (mut batch, mut found, mut accesses) = (Batch::default(), Vec::new(), 0);
    while reader.read(&mut batch).expect("it is read") {
        assert!(batch.accesses.is_empty() || batch.mark.is_none());
        accesses += batch.accesses.len() as u64;
        found.extend(batch.mark.map(|mark| (accesses, batch.thread, mark)));
    }
    assert_eq!((found, accesses), (expected, 45_000));
    assert_eq!(reader.told().run.regions, ["inner"]);
}

#[test]
fn impossible_marks_are_refused() {
    for (bytes, allowed) in [
        (vec![0; MARK], true),
        (vec![0; MARK - 1], false),
        (vec![0; MARK + 1], false),
        ([vec![8], vec![0; MARK - 1]].concat(), false),
        ([vec![0, 0, 4, 0, 0], vec![0; 8]].concat(), false),
    ] {
        assert_eq!(mark_of(&bytes).is_some(), allowed, "{bytes:?}");
    }
}

fn flat(batches: &[(u32, Vec<Access>)]) -> Vec<(u32, Access)> {
    batches.iter().flat_map(|(thread, all)| all.iter().map(|&access| (*thread, access))).collect()
}

/// Returns the bytes without compression.
fn plain(trace: &[u8]) -> Vec<u8> {
    let mut input = crate::input::Input::new(std::io::Cursor::new(trace.to_vec())).expect("it is read");
    input.want(usize::MAX).expect("it is decompressed");
    input.bytes().to_vec()
}

#[test]
fn what_is_written_is_read_back() {
    let batches = accesses(200);
    let trace = written(&batches);
    let (all, told) = read(&trace, Some(5)).expect("a trace");
    assert!(all == flat(&batches), "{} accesses of {}", all.len(), flat(&batches).len());
    assert_eq!((told.run, told.program.as_str(), told.all_instructions), (run(), "p", true));
    // Most of it is predicted, and what is at random has eight bytes.
    assert!(trace.len() < all.len(), "{} bytes for {} accesses", trace.len(), all.len());
    assert_eq!(read(&plain(&trace), Some(5)).expect("without compression").0, all);
}

/// Access after access in one block: each has as many instructions before it as its operation had last, unless that is told.
#[test]
fn instructions_before_accesses_come_back() {
    let counts = [1, 1, 5, 5, 0, 1, u32::MAX, 2, 2, 2, 300, 1];
    let access = |(n, instructions): (u64, &u32)| {
        let of = Access::load(0x1000 + 8 * n, 8).at(n % 2);
        [Access::fetch(64 * n, 4).at(2), Access { instructions: *instructions, ..of }]
    };
    let all: Vec<Access> = (0..).zip(&counts).flat_map(access).collect();
    let trace = written(&[(0, all.clone())]);
    let (found, _) = read(&trace, Some(5)).expect("a trace");
    assert_eq!(found.iter().map(|(_, access)| *access).collect::<Vec<_>>(), all);
    // Also where the fetches are left out.
    let (found, _) = read(&trace, None).expect("a trace");
    assert_eq!(found.iter().map(|(_, access)| access.instructions).collect::<Vec<_>>(), counts);
}

#[test]
fn too_many_instructions_before_an_access_are_refused() {
    // A new operation of place 0 that loads 8 bytes at 64, after 2^32 instructions; after 2^32 - 1; and cut off.
    let read = |instructions: &[u8]| {
        let payload = [&[0, 0b1000_0110, 0, 0, 8, 128][..], instructions].concat();
        let mut all = Vec::new();
        let mut decoder = predict::Decoder::new(false);
        decoder.begin();
        decoder.read(&payload, 0, 1, 1, &mut all).map(|_| all[0].instructions)
    };
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
    for wrong in [&[0x80, 0x80, 0x80, 0x80, 0x10][..], &[0x80], &[]] {
        assert_eq!(read(wrong), Err((1, "the instructions before an access are cut off, or too many")));
    }
}

#[test]
fn a_loop_takes_no_bytes() {
    let access = |n: u64| {
        [
            Access::fetch(0x1000, 4).at(0),
            Access { instructions: 9, ..Access::load(8 * n, 8).at(1) },
            Access::store(0x8000 + 64 * n, 8).at(2),
        ]
    };
    let all: Vec<Access> = (0..1 << 20).flat_map(access).collect();
    let trace = written(&[(0, all)]);
    assert!(trace.len() < 12_000, "{} bytes for three million accesses", trace.len());
}

#[test]
fn fetches_are_those_that_are_wanted() {
    let batches = accesses(20);
    let trace = written(&batches);
    let (all, _) = read(&trace, None).expect("a trace");
    let data: Vec<(u32, Access)> = flat(&batches).into_iter().filter(|of| of.1.kind != Kind::Fetch).collect();
    assert!(all == data);
    // Three lines of 32 bytes are in two of 64.
    let fetches = |shift| {
        let (all, _) = read(&trace, Some(shift)).expect("a trace");
        all.iter().filter(|(_, access)| access.kind == Kind::Fetch).count()
    };
    assert!(fetches(6) < fetches(5) && fetches(12) <= 20, "{} of {}", fetches(6), fetches(5));
    let shorter = read(&trace, Some(4)).unwrap_err();
    assert!(
        shorter.what.contains("lines of 32 bytes") && shorter.remedy.contains("--no-fetches"),
        "{shorter}"
    );
}

#[test]
fn damage_is_told_with_its_place() {
    let trace = plain(&written(&accesses(9)));
    let error = |bytes: &[u8]| read(bytes, Some(5)).map(|_| ()).expect_err("damaged");
    for end in [14, 40, 1000, trace.len() - 1] {
        let cut = error(&trace[..end]);
        assert!(
            cut.what.contains("ends with") && matches!(cut.at, crate::At::Byte(at) if at <= end as u64),
            "{cut}"
        );
    }
    for at in (MAGIC.len()..trace.len()).step_by(trace.len() / 50) {
        let mut damaged = trace.clone();
        damaged[at] ^= 0x10;
        error(&damaged);
    }
    let longer = error(&[&trace[..], b"A"].concat());
    assert!(longer.what.contains("follows the end"), "{longer}");
    // Damage of what is compressed.
    let whole = written(&accesses(9));
    let cut = error(&whole[..whole.len() - 5]);
    assert!(cut.what.contains("zstd"), "{cut}");
}
