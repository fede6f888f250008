//! Bytes of MAIR_EL1 are decoded by two independent decoders, in the probe and in the analysis; their results must
//! agree.

use fathom_analysis::attribute::{self, Memory};
use fathom_probe::mair::{self, Meaning};

/// A policy: kind, transient, read-allocate, write-allocate.
type Policy = (&'static str, bool, bool, bool);

fn analysis_policy(policy: attribute::Policy) -> Policy {
    match policy {
        attribute::Policy::NonCacheable => ("nc", false, false, false),
        attribute::Policy::WriteThrough { transient, read, write } => ("wt", transient, read, write),
        attribute::Policy::WriteBack { transient, read, write } => ("wb", transient, read, write),
    }
}

fn probe_policy(policy: mair::Policy) -> Policy {
    let of = |kind, h: mair::Hints| (kind, h.transient, h.read_allocate, h.write_allocate);
    match policy {
        mair::Policy::NonCacheable => ("nc", false, false, false),
        mair::Policy::WriteThrough(hints) => of("wt", hints),
        mair::Policy::WriteBack(hints) => of("wb", hints),
    }
}

#[test]
fn both_decoders_agree_on_every_byte() {
    for byte in 0..=u8::MAX {
        match (Memory::of(byte), Meaning::of(byte)) {
            (Memory::Device { gathers, reorders, early }, Meaning::Device(d)) => {
                assert_eq!((gathers, reorders, early), (d.gathering, d.reordering, d.early), "{byte:#04x}");
            }
            (Memory::Normal { outer, inner }, Meaning::Normal { outer: o, inner: i }) => {
                assert_eq!(
                    (analysis_policy(outer), analysis_policy(inner)),
                    (probe_policy(o), probe_policy(i)),
                    "{byte:#04x}"
                );
            }
            (Memory::Reserved, Meaning::Reserved) => {}
            (one, other) => panic!("{byte:#04x}: {one:?}, {other:?}"),
        }
    }
}
