//! What a byte of MAIR_EL1 says is decoded twice, where machines are and where findings are, by code that shares
//! nothing; here both are seen.

use fathom_analysis::attribute::{self, Memory};
use fathom_probe::mair::{self, Meaning};

/// A policy in words: kind, transient, read-allocate, write-allocate.
type Words = (&'static str, bool, bool, bool);

fn judged(policy: attribute::Policy) -> Words {
    match policy {
        attribute::Policy::NonCacheable => ("nc", false, false, false),
        attribute::Policy::WriteThrough { transient, read, write } => ("wt", transient, read, write),
        attribute::Policy::WriteBack { transient, read, write } => ("wb", transient, read, write),
    }
}

fn probed(policy: mair::Policy) -> Words {
    let of = |kind, h: mair::Hints| (kind, h.transient, h.read_allocate, h.write_allocate);
    match policy {
        mair::Policy::NonCacheable => ("nc", false, false, false),
        mair::Policy::WriteThrough(hints) => of("wt", hints),
        mair::Policy::WriteBack(hints) => of("wb", hints),
    }
}

#[test]
fn both_decoders_say_the_same_of_every_byte() {
    for byte in 0..=u8::MAX {
        match (Memory::of(byte), Meaning::of(byte)) {
            (Memory::Device { gathers, reorders, early }, Meaning::Device(d)) => {
                assert_eq!((gathers, reorders, early), (d.gathering, d.reordering, d.early), "{byte:#04x}");
            }
            (Memory::Normal { outer, inner }, Meaning::Normal { outer: o, inner: i }) => {
                assert_eq!((judged(outer), judged(inner)), (probed(o), probed(i)), "{byte:#04x}");
            }
            (Memory::Reserved, Meaning::Reserved) => {}
            (one, other) => panic!("{byte:#04x}: {one:?}, {other:?}"),
        }
    }
}
