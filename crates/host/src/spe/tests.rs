use proptest::prelude::*;

use super::*;

/// Header and payload of a packet, as the tables of the manual have them.
fn packet(header: &[u8], payload: &[u8]) -> Vec<u8> {
    [header, payload].concat()
}

/// An address packet with this index.
fn at(index: u8, address: u64) -> Vec<u8> {
    packet(&[0b1011_0000 | index], &address.to_le_bytes())
}

/// A load of 0x5010 by the instruction at 0x401234, of 230 cycles, 12 of them until it was issued, from the system cache of a Neoverse
/// (0b1011): retired, L1 accessed and refilled, TLB accessed and walked, LLC accessed and missed. It is 64 bytes, with padding.
fn load() -> Vec<u8> {
    let parts = [
        at(0, 0x40_1234),
        packet(&[0b0110_0100], &7u32.to_le_bytes()),
        packet(&[0b0100_1001], &[0b0000_0000]),
        packet(&[0b1001_1000], &230u16.to_le_bytes()),
        packet(&[0b1001_1001], &12u16.to_le_bytes()),
        packet(&[0b0101_0010], &0b11_0011_1110u16.to_le_bytes()),
        at(2, 0xb400_0000_0000_5010),
        packet(&[0b0100_0011], &[0b1011]),
        at(3, 0x8000_0000_1234_5010),
        packet(&[0b0111_0001], &99_000u64.to_le_bytes()),
    ];
    let mut bytes = parts.concat();
    bytes.resize(64, 0);
    bytes
}

fn known() -> SpeRecord {
    SpeRecord {
        instruction: Some(0x40_1234),
        data: Some(0x5010),
        latency: Some(230),
        events: 0x33e,
        source: Some(11),
        operation: Some((1, 0)),
        thread: Some(7),
        time: Some(99_000),
    }
}

fn records(bytes: &[u8]) -> Vec<SpeRecord> {
    let trace = read_spe(bytes, 0);
    assert_eq!(trace.unreadable, 0);
    trace.records
}

#[test]
fn whole_record_is_read() {
    assert_eq!(records(&load()), [known()]);
    assert_eq!(records(&[load(), vec![0; 64], load()].concat()), [known(); 2]);
    assert_eq!(records(&[]), []);
}

/// Each packet alone, in a record of the instruction at 0x1000.
#[test]
fn packets_are_those_of_the_manual() {
    let of = |packet: &[u8]| records(&[&at(0, 0x1000)[..], packet, &[0b0000_0001]].concat());
    let base = SpeRecord { instruction: Some(0x1000), ..SpeRecord::default() };
    for (bytes, record) in [
        // No more, and padding.
        (vec![], base),
        (vec![0, 0, 0], base),
        // Events of one, two, four and eight bytes.
        (packet(&[0x42], &[0x2a]), SpeRecord { events: 0x2a, ..base }),
        (packet(&[0x52], &[0x2a, 0x07]), SpeRecord { events: 0x72a, ..base }),
        (packet(&[0x62], &[1, 2, 3, 4]), SpeRecord { events: 0x0403_0201, ..base }),
        (packet(&[0x72], &[1, 0, 0, 0, 0, 0, 0, 0x80]), SpeRecord { events: 1 << 63 | 1, ..base }),
        // Data sources of one byte and of two.
        (packet(&[0x43], &[0x0e]), SpeRecord { source: Some(14), ..base }),
        (packet(&[0x53], &[0x34, 0x12]), SpeRecord { source: Some(0x1234), ..base }),
        // Context of EL1 and of EL2.
        (packet(&[0x64], &[0x39, 0x30, 0, 0]), SpeRecord { thread: Some(12345), ..base }),
        (packet(&[0x65], &[0, 0, 0, 0x80]), SpeRecord { thread: Some(1 << 31), ..base }),
        // Other, a store of SIMD, a conditional branch.
        (packet(&[0x48], &[0]), SpeRecord { operation: Some((0, 0)), ..base }),
        (packet(&[0x49], &[5]), SpeRecord { operation: Some((1, 5)), ..base }),
        (packet(&[0x4a], &[1]), SpeRecord { operation: Some((2, 1)), ..base }),
        // Total, issue and translation latency; total with an extended header, whose upper bits are 0 and 1.
        (packet(&[0x98], &[0xff, 0xff]), SpeRecord { latency: Some(65535), ..base }),
        (packet(&[0x99], &[9, 0]), base),
        (packet(&[0x9a], &[9, 0]), base),
        (packet(&[0x20, 0x98], &[9, 0]), SpeRecord { latency: Some(9), ..base }),
        (packet(&[0x21, 0x98], &[9, 0]), base),
        // Branch target, data (an address of the upper half, and one with a tag), physical address, an extended one.
        (at(1, 0x2000), base),
        (at(2, 0x00ff_8000_0000_0000), SpeRecord { data: Some(0xffff_8000_0000_0000), ..base }),
        (at(2, 0x5500_ffff_1234_5678), SpeRecord { data: Some(0xffff_1234_5678), ..base }),
        (at(3, 0x3000), base),
        (packet(&[0x23, 0xb7], &[1; 8]), base),
    ] {
        assert_eq!(of(&bytes), [record], "{bytes:x?}");
    }
    // An instruction at EL1, non-secure: the upper byte is not of the address, which is the kernel's.
    let of_kernel = records(&[at(0, 0xa0ff_8000_0801_0000), vec![1]].concat());
    assert_eq!(of_kernel[0].instruction, Some(0xffff_8000_0801_0000));
    let of_user = records(&[at(0, 0x8000_aaaa_0801_0000), vec![1]].concat());
    assert_eq!(of_user[0].instruction, Some(0xaaaa_0801_0000));
}

/// An alignment packet ends at the next multiple in the buffer, not in what was read of it.
#[test]
fn alignment_is_that_of_the_buffer() {
    for (header, to) in [(0x20u8, 2u64), (0x21, 4), (0x22, 8), (0x23, 16), (0x25, 64), (0x2a, 2048)] {
        for begin in [0u64, 6, 30, 62] {
            let skipped = ((to - begin % to) as usize).max(2);
            let mut bytes = vec![header, 0];
            bytes.resize(skipped, 0xff);
            bytes.extend(load());
            let trace = read_spe(&bytes, begin);
            assert_eq!((trace.records.as_slice(), trace.unreadable), (&[known()][..], 0), "{to} {begin}");
        }
    }
}

/// Unknown headers and cut records cost what is there of them, and nothing behind the next multiple of 64.
#[test]
fn damage_costs_one_record() {
    // Reserved headers, also behind an extended one, and sizes that the packet does not have.
    for bad in
        [&[0x02][..], &[0x2b, 0], &[0x80], &[0xff], &[0x73], &[0x54], &[0x20, 0x42], &[0x24, 0xb0], &[0x30]]
    {
        let mut damaged = load();
        damaged[9..9 + bad.len()].copy_from_slice(bad);
        let trace = read_spe(&[load(), damaged, load()].concat(), 640);
        assert_eq!((trace.records.as_slice(), trace.unreadable), (&[known(); 2][..], 1), "{bad:x?}");
    }
    // What a buffer that was full has of the last record, and bytes of the one before.
    let whole = load();
    let end = whole.iter().rposition(|byte| *byte != 0).expect("bytes");
    for length in 1..end {
        let trace = read_spe(&[&load()[..], &whole[..length]].concat(), 0);
        assert_eq!((trace.records.as_slice(), trace.unreadable), (&[known()][..], 1), "{length}");
    }
    let trace = read_spe(&[&whole[28..], &whole[..]].concat(), 28);
    assert_eq!(trace.records.last(), Some(&known()));
    // Without an instruction it is no sample.
    assert_eq!(read_spe(&[0x98, 1, 0, 1], 0), SpeTrace { records: vec![], unreadable: 1 });
}

#[test]
fn samples_have_what_the_record_tells() {
    let source = DataSource::Spe { events: 0x33e, number: Some(11), midr: Some(0x413f_d0c1) };
    let expected = Sampled::Sample {
        process: 7,
        address: 0x40_1234,
        weight: 65_536,
        stack: Stack::Unknown,
        data: Some(0x5010),
        access: Some(SampledAccess { latency: 230, source }),
    };
    assert_eq!(known().sample(7, 65_536, Some(0x413f_d0c1)), Some(expected));
    assert_eq!(SpeRecord::default().sample(7, 1, None), None);
}

#[test]
fn ticks_are_times_of_the_kernel() {
    // 25 MHz: 40 ns each.
    let clock = SpeClock { shift: 10, factor: 40 << 10, zero: 1_000_000, short: None };
    assert_eq!([0, 25].map(|ticks| clock.ns(ticks)), [1_000_000, 1_001_000]);
    // A counter of 56 bits that has wrapped since the kernel's reading.
    let mask = (1 << 56) - 1;
    let short = SpeClock { short: Some((mask - 9, mask)), zero: 0, ..clock };
    assert_eq!(short.ns(15), (mask - 9 + 25).wrapping_mul(40));
    // No shift of a damaged file is too large.
    assert_eq!(SpeClock { shift: 200, ..clock }.ns(1 << 60), 1_000_000);
}

proptest! {
    /// Any bytes end, and none is told twice: a record has at least the address of its instruction and an end.
    #[test]
    fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..600), offset in any::<u64>()) {
        let trace = read_spe(&bytes, offset);
        prop_assert!(10 * trace.records.len() <= bytes.len());
        prop_assert!(trace.unreadable <= bytes.len() as u64);
    }

    /// So do damaged traces, of which the records before the damage come back.
    #[test]
    fn damaged_traces_end(damaged in 0usize..640, with in any::<[u8; 3]>()) {
        let mut bytes: Vec<u8> = (0..10).flat_map(|_| load()).collect();
        let end = (damaged + with.len()).min(bytes.len());
        bytes[damaged..end].copy_from_slice(&with[..end - damaged]);
        let trace = read_spe(&bytes, 0);
        let whole = damaged / 64;
        prop_assert_eq!(&trace.records[..whole], &vec![known(); whole][..]);
    }
}
