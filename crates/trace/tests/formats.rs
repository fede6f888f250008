//! Traces that are written by hand: their accesses and counts are known, and what is wrong is told with its place.

use std::io::Cursor;

use fathom_model::{Access, Kind};
use fathom_trace::{At, Batch, Error, Format, Reader, Told};

/// What is read: the format, accesses with their threads, what is told.
type Read = (Format, Vec<(u32, Access)>, Told);

fn read_as(trace: &[u8], format: Option<Format>, fetch_shift: Option<u32>) -> Result<Read, Error> {
    let mut reader = Reader::open(Cursor::new(trace.to_vec()), format, fetch_shift)?;
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while reader.read(&mut batch)? {
        assert!(!batch.accesses.is_empty());
        all.extend(batch.accesses.iter().map(|&access| (batch.thread, access)));
    }
    Ok((reader.format(), all, reader.told()))
}

fn read(trace: &[u8]) -> Read {
    read_as(trace, None, Some(6)).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(trace: &[u8], format: Option<Format>) -> Error {
    read_as(trace, format, Some(6)).map(|read| read.0).expect_err("it is wrong")
}

/// Returns the accesses, without threads, with the addresses of their instructions.
fn by_address(read: &Read) -> Vec<Access> {
    let pc = |access: &Access| read.2.run.places[access.pc as usize].pc;
    read.1.iter().map(|(_, access)| access.at(pc(access))).collect()
}

/// Returns the access with this number of instructions since the last one of data. Further accesses of an instruction have none.
fn after(instructions: u32, access: Access) -> Access {
    Access { instructions, ..access }
}

/// Returns address, executions, loads and stores of each instruction.
fn places(read: &Read) -> Vec<(u64, u64, u64, u64)> {
    let all = read.2.run.places.iter().filter(|place| place.executed + place.loads + place.stores > 0);
    all.map(|place| (place.pc, place.executed, place.loads, place.stores)).collect()
}

const UNKNOWN: u64 = u64::MAX;

#[test]
fn din_is_a_label_and_an_address() {
    let read = read(
        b"2 401000 call\r\n0 7fff0010\n1 0x7FFF0018\n\n3 1234\n2 401004\n2 401040\n  0\tffffffffffffffff",
    );
    assert_eq!(read.0, Format::Din);
    let expected = [
        Access::fetch(0x40_1000, 1).at(0x40_1000),
        Access::load(0x7fff_0010, 1).at(0x40_1000),
        after(0, Access::store(0x7fff_0018, 1).at(0x40_1000)),
        Access::fetch(0x40_1040, 1).at(0x40_1040),
        after(2, Access::load(u64::MAX, 1).at(0x40_1040)),
    ];
    assert_eq!(by_address(&read), expected);
    assert_eq!(places(&read), [(0x40_1000, 1, 1, 1), (0x40_1004, 1, 0, 0), (0x40_1040, 1, 1, 0)]);
    assert!(read.2.all_instructions);
}

#[test]
fn din_without_fetches_knows_no_instructions() {
    let read = read(b"0 0\n1 8\n0 10\n");
    assert_eq!(by_address(&read)[1], Access::store(8, 1).at(UNKNOWN));
    assert_eq!((places(&read), read.2.all_instructions), (vec![(UNKNOWN, 0, 2, 1)], false));
}

#[test]
fn wrong_lines_of_din_are_told() {
    for (trace, line, what) in [
        (&b"0 10\n7 10\n"[..], 2, "'7 10' (this label is unknown)"),
        (b"0 10\n0\n", 2, "'0'"),
        (b"0 10\n0 12345678123456789\n", 2, "1 to 16 digits"),
        (b"0 10\n1 20\n4 0\n", 3, "flush of all caches is not simulated"),
        (b"0 10\n\xff\xfe\x00\n", 2, "'\\xff\\xfe\\x00'"),
    ] {
        let error = wrong(trace, None);
        assert_eq!(error.at, At::Line(line), "{error}");
        assert!(error.what.contains(what) && error.what.contains("expected a label"), "{error}");
    }
    let long = wrong(&[b"0 10\n0 ", &[b'1'; 300_000][..]].concat(), None);
    assert!(long.at == At::Line(2) && long.what.contains("more than 65536 bytes"), "{long}");
}

#[test]
fn lackey_has_instructions_and_their_data() {
    let text = b"==7== Lackey, an example Valgrind tool\n==7== \nI  04001000,3\n L 1ffefff,8\nI  04001003,7\n M 1fff000,4\n\
                 SB 04001040\nI  04001040,2\n S 1fff008,16\n--7-- told\n**7** printed\n";
    let read = read(text);
    assert_eq!(read.0, Format::Lackey);
    let expected = [
        Access::fetch(0x400_1000, 3).at(0x400_1000),
        Access::load(0x1ff_efff, 8).at(0x400_1000),
        Access::load(0x1ff_f000, 4).at(0x400_1003),
        after(0, Access::store(0x1ff_f000, 4).at(0x400_1003)),
        Access::fetch(0x400_1040, 2).at(0x400_1040),
        Access::store(0x1ff_f008, 16).at(0x400_1040),
    ];
    assert_eq!(by_address(&read), expected);
    assert_eq!(places(&read), [(0x400_1000, 1, 1, 0), (0x400_1003, 1, 1, 1), (0x400_1040, 1, 0, 1)]);
    // Without fetches the instructions are counted nevertheless.
    let (_, data, told) = read_as(text, None, None).expect("a trace");
    assert_eq!(data.len(), 4);
    assert_eq!(told.run.places.iter().map(|place| place.executed).sum::<u64>(), 3);
}

#[test]
fn wrong_lines_of_lackey_are_told() {
    for line in
        ["hello", "I  zz,3", "I  1000,0", "I  1000,99999", " X 1000,4", " L 1000", " L 1000,4294967297", " L"]
    {
        let error = wrong(format!("I  04001000,3\n{line}\n").as_bytes(), None);
        assert_eq!(error.at, At::Line(2), "{error}");
        assert!(
            error.what.starts_with(&format!("'{line}'")) && error.what.contains("' L ADDRESS,SIZE'"),
            "{error}"
        );
        assert!(error.remedy.contains("--log-file"), "{}", error.remedy);
    }
}

/// Returns a record of ChampSim.
fn record(pc: u64, branch: [u8; 2], written: [u64; 2], read: [u64; 4]) -> Vec<u8> {
    let mut all = pc.to_le_bytes().to_vec();
    all.extend(branch);
    all.extend([1, 2, 3, 4, 5, 6]);
    written.iter().chain(&read).for_each(|address| all.extend(address.to_le_bytes()));
    assert_eq!(all.len(), 64);
    all
}

#[test]
fn champsim_has_records_of_64_bytes() {
    let trace = [
        record(0x40_1000, [0, 0], [0x9000, 0], [0x8000, 0, 0x8008, 0]),
        record(0x40_1004, [1, 1], [0, 0], [0; 4]),
        record(0x40_2000, [0, 0], [0x9008, 0x9010], [0x8010, 0, 0, 0]),
    ]
    .concat();
    let read = read(&trace);
    assert_eq!(read.0, Format::ChampSim);
    let expected = [
        Access::fetch(0x40_1000, 1).at(0x40_1000),
        Access::load(0x8000, 1).at(0x40_1000),
        after(0, Access::load(0x8008, 1).at(0x40_1000)),
        after(0, Access::store(0x9000, 1).at(0x40_1000)),
        Access::fetch(0x40_2000, 1).at(0x40_2000),
        after(2, Access::load(0x8010, 1).at(0x40_2000)),
        after(0, Access::store(0x9008, 1).at(0x40_2000)),
        after(0, Access::store(0x9010, 1).at(0x40_2000)),
    ];
    assert_eq!(by_address(&read), expected);
    assert_eq!(places(&read)[1], (0x40_1004, 1, 0, 0));
    let cut = wrong(&trace[..150], None);
    assert_eq!(cut.at, At::Byte(128), "{cut}");
    assert!(cut.what.contains("22 bytes, expected 64"), "{cut}");
    let mut damaged = trace.repeat(100);
    damaged[64 * 200 + 8] = 7;
    assert_eq!(wrong(&damaged, Some(Format::ChampSim)).at, At::Byte(64 * 200));
    assert!(wrong(&[7; 640], None).what.contains("none of fathom"));
}

#[test]
fn memtrace_of_dynamorio_has_instructions_with_accesses() {
    let read = read(
        b"Format: <data address>: <data size>, <(r)ead/(w)rite/opcode>\n0x00007f59c2d002d3:  5, call\n\
          0x00007ffeacab0ec8:  8, w\n0x00007f59c2d002e0:  3, rep movs\n0x10:  8, r\n0x20:  8, w\n",
    );
    assert_eq!(read.0, Format::Memtrace);
    let (call, movs) = (0x7f59_c2d0_02d3, 0x7f59_c2d0_02e0);
    let expected = [
        Access::store(0x7ffe_acab_0ec8, 8).at(call),
        Access::load(0x10, 8).at(movs),
        after(0, Access::store(0x20, 8).at(movs)),
    ];
    assert_eq!(by_address(&read), expected, "no fetches: other instructions are not in the trace");
    assert_eq!((places(&read), read.2.all_instructions), (vec![(call, 1, 0, 1), (movs, 1, 1, 1)], false));
    let error = wrong(b"0x10:  8, r\n0x10  8, r\n", None);
    assert!(error.at == At::Line(2) && error.what.contains("0xADDRESS: SIZE"), "{error}");
}

#[test]
fn view_of_drmemtrace_has_threads() {
    let text = "Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n\
        ------------------------------------------------------------\n\
        \x20          1           0:     2765542 <marker: version 5>\n\
        \x20      47445       37770:     2765543 ifetch       5 byte(s) @ 0x0000000000404a7e 48 8b 5c 24 08       mov    %rbx\n\
        \x20      47446       37770:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0000000000404a7e\n\
        ------------------------------------------------------------\n\
        \x20      47454       37775:     2765542 ifetch       1 byte(s) @ 0x000000000040257d 55                   push\n\
        \x20      47455       37775:     2765542 write        8 byte(s) @ 0x00007ffd90c13950 by PC 0x000000000040257d\n\
        \x20      47456       37776:     2765543 ifetch       1 byte(s) @ 0x0000000000404a83 90                   nop\n\
        View tool results:\n              3 : total instructions\n";
    let read = read(text.as_bytes());
    assert_eq!(read.0, Format::DrMemtrace);
    let threads: Vec<u32> = read.1.iter().map(|(thread, _)| *thread).collect();
    assert_eq!((threads, read.2.run.threads), (vec![0, 0, 1, 1], 2));
    let expected = [
        Access::fetch(0x40_4a7e, 5).at(0x40_4a7e),
        Access::load(0x7fdf_64e2_adc8, 8).at(0x40_4a7e),
        Access::fetch(0x40_257d, 1).at(0x40_257d),
        Access::store(0x7ffd_90c1_3950, 8).at(0x40_257d),
    ];
    // The last instruction of thread 0 is on the line of its first.
    assert_eq!(by_address(&read), expected);
    assert_eq!(places(&read).iter().map(|place| place.1).sum::<u64>(), 3);
    let error = wrong(b"  1  0: 7 ifetch 4 byte(s) @ 0x1000 nop\n  2  1: 7 rumour 8 byte(s)\n", None);
    assert!(error.at == At::Line(2) && error.what.contains("this kind of record"), "{error}");
}

#[test]
fn batches_of_long_traces_are_bounded() {
    let text: String =
        (0..100_000u64).map(|n| format!("I  {:x},4\n M {:x},8\n", 4 * (n % 500), 64 * n)).collect();
    let mut reader = Reader::open(Cursor::new(text.into_bytes()), None, Some(6)).expect("a trace");
    let (mut batch, mut loads, mut stores, mut largest) = (Batch::default(), 0, 0, 0);
    while reader.read(&mut batch).expect("whole") {
        loads += batch.accesses.iter().filter(|access| access.kind == Kind::Load).count();
        stores += batch.accesses.iter().filter(|access| access.kind == Kind::Store).count();
        largest = largest.max(batch.accesses.len());
    }
    assert_eq!((loads, stores), (100_000, 100_000));
    assert!((4096..=4100).contains(&largest), "{largest}");
    let told = reader.told();
    assert!(
        told.run.places[1..]
            .iter()
            .all(|place| (place.executed, place.loads, place.stores) == (200, 200, 200))
    );
}

#[test]
fn other_compression_and_nothing_are_told_with_the_remedy() {
    for (start, program) in
        [(&b"\xfd7zXZ\0rest"[..], "xzcat"), (b"\x1f\x8b\x08rest", "zcat"), (b"BZh9rest", "bzcat")]
    {
        let error = wrong(start, None);
        assert!(error.remedy.contains(program), "{error}: {}", error.remedy);
    }
    assert!(wrong(b"", None).what.contains("empty"));
    let unknown = wrong(b"hello\n", None);
    assert!(unknown.what.contains("lackey") && unknown.remedy.contains("--trace-format"), "{unknown}");
    // Two frames of zstd, as after `cat a.zst b.zst`, and a frame that is skipped.
    let frame =
        |text: &[u8]| ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest);
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
    let trace = [&frame(b"0 1000\n0 20")[..], skipped, &frame(b"00\n1 3000\n")].concat();
    let addresses: Vec<u64> = read(&trace).1.iter().map(|(_, access)| access.address).collect();
    assert_eq!(addresses, [0x1000, 0x2000, 0x3000]);
}
