use super::*;

const HEADER: &str = include_str!("../../../../../include/fathom_counters.h");
/// The same for Rust.
const OF_RUST: &str = include_str!("../../../../mark/src/counting/shared.rs");

fn asked(names: &[&str], all: bool) -> AskedRegions {
    AskedRegions { all, names: names.iter().map(|name| (*name).to_owned()).collect() }
}

fn marks(names: &[&str]) -> Marks {
    let events = [fathom_host::KERNEL_EVENTS[0], fathom_host::KERNEL_EVENTS[1]];
    Marks::create(&events, &asked(names, true)).expect("memory")
}

fn write(marks: &Marks, at: usize, bytes: &[u8]) {
    marks.file.write_all_at(bytes, at as u64).expect("memory");
}

#[test]
fn constants_are_those_of_the_header() {
    for (name, value) in
        [("EVENTS", EVENTS), ("REGIONS", MAX_REGIONS), ("NAME", NAME), ("THREADS", THREADS), ("PART", PART)]
    {
        assert!(HEADER.contains(&format!("#define FATHOM_1_{name} {value}\n")), "{name}");
        let kind = if name == "THREADS" { "u32" } else { "usize" };
        assert!(OF_RUST.contains(&format!("const {name}: {kind} = {value};\n")), "{name}");
    }
    let [high, low] = [MAGIC >> 32, MAGIC & 0xffff_ffff];
    assert!(HEADER.contains(&format!("(fathom_1_u64)0x{high:x} << 32 | 0x{low:x}")));
    const { assert!(ENTRIES + ENTRY_BYTES * MAX_REGIONS <= PART && HEAD_BYTES <= PART) };
}

/// What the marks have of the driver's interface.
#[test]
fn structures_of_the_driver_are_those_of_its_header() {
    const DRIVER: &str = include_str!("../../../../../driver/include/uapi/fathom.h");
    const GRANTED: &str = include_str!("../../../../mark/src/counting/granted.rs");
    // The driver refuses another size. What marks read in its page is tested in its guests (driver/test/marks.c).
    assert!(DRIVER.contains("#define FATHOM_EVENTS_MOST\t8\t"));
    assert!(
        HEADER.contains("#define FATHOM_1_GRANTED_EVENTS_ 8\n")
            && GRANTED.contains("const MOST: usize = 8;\n")
    );
    assert!(
        DRIVER.contains("_IOWR(FATHOM_IOC_MAGIC, 13, struct fathom_events)")
            && DRIVER.contains("IOC_MAGIC\t\t0xF7")
    );
    assert!(
        HEADER.contains("0xc000f70dul | sizeof grant << 16")
            && GRANTED.contains("const EVENTS_ON: usize = 0xc000_f70d;\n")
    );
}

/// Two threads have added a name at the same time, one has begun a region and not ended it, one was ended while it wrote.
#[test]
fn threads_add_up() {
    let marks = marks(&["a", "b"]);
    write(&marks, HEAD_ANSWERS, &1u32.to_ne_bytes());
    write(&marks, HEAD_ANSWERS + 4, &3u32.to_ne_bytes());
    write(&marks, HEAD_ANSWERS + 4 * LISTED, &4u32.to_ne_bytes());
    write(&marks, HEAD_READY + 4 * 3, &1u32.to_ne_bytes());
    write(&marks, HEAD_NAMES + NAME * 3, b"a");
    let entry = |writing: u32, depth: u32, words: [u64; 6]| {
        let halves = [writing, depth].into_iter().flat_map(u32::to_ne_bytes);
        halves.chain(words.into_iter().flat_map(u64::to_ne_bytes)).collect::<Vec<u8>>()
    };
    let at = |thread: usize, region: usize| (thread + 1) * PART + ENTRIES + ENTRY_BYTES * region;
    write(&marks, at(0, 1), &entry(2, 0, [1, 0, 100, 0, 7, 1]));
    write(&marks, at(1, 3), &entry(4, 1, [2, 3, 50, 1, 8, 2]));
    write(&marks, at(2, 2), &entry(5, 0, [9, 9, 9, 9, 9, 9]));
    let counted = marks.read(Duration::from_millis(1)).expect("memory");
    assert!(!counted.damaged && counted.attached == 1 && counted.threads == 3);
    let a = ProgramRegion {
        name: "a".to_owned(),
        entered: 3,
        unmatched: 4,
        shared: 1,
        torn: 0,
        ns: 150,
        counts: vec![15, 3],
    };
    let b = ProgramRegion { name: "b".to_owned(), torn: 1, counts: vec![0, 0], ..ProgramRegion::default() };
    assert_eq!(counted.regions, [a, b]);
}

/// Whatever the program writes there, it is told, and nothing of it is believed.
#[test]
fn memory_that_the_program_has_written_to_is_told() {
    let one = 1u32.to_ne_bytes();
    let huge = u64::MAX.to_ne_bytes();
    let first = PART + ENTRIES + ENTRY_BYTES;
    let damages: [(&str, usize, &[u8]); 9] = [
        ("magic", 0, &one),
        ("nonce", 8, &[0; 8]),
        ("an event", HEAD_EVENTS + 8, &one),
        ("threads", HEAD_ANSWERS + 4, &huge[..4]),
        ("a list that is too long", HEAD_ANSWERS + 4 * LISTED, &huge[..4]),
        ("no list", HEAD_ANSWERS + 4 * LISTED, &[0; 4]),
        ("a name without end", HEAD_NAMES + NAME, &[b'x'; NAME]),
        ("a name that is no text", HEAD_NAMES + NAME, &[0xff, 0]),
        ("a time that is longer than the run", first + 24, &huge),
    ];
    for (what, at, bytes) in damages {
        let marks = marks(&["a"]);
        write(&marks, HEAD_ANSWERS, &1u32.to_ne_bytes());
        write(&marks, HEAD_ANSWERS + 4, &1u32.to_ne_bytes());
        assert!(!marks.read(Duration::from_millis(1)).expect("memory").damaged);
        write(&marks, at, bytes);
        assert!(marks.read(Duration::from_millis(1)).expect("memory").damaged, "{what}");
    }
    // It cannot be made shorter, either.
    let marks = marks(&["a"]);
    assert!(marks.file.set_len(0).is_err());
    assert_eq!(marks.read(Duration::ZERO).expect("memory").attached, 0);
}
