//! Capacities where base pages have random frames, which a machine tells or does not.

use fathom_analysis::findings::WarningKind;
use fathom_model::description::{Description, Frames, Holds};

use crate::adversarial::{MEMORY, base, holds, tiers, without_late_hits};
use crate::comparison::{Verdict, latency_curve};
use crate::entries::number;
use crate::survey::report_of;
use crate::wide;

/// Huge pages are slower, and of base pages in random frames a cache holds less than its size: frames are chosen.
#[test]
fn curve_beside_slower_huge_pages_is_measured_in_chosen_frames() {
    let mut d = base();
    without_late_hits(&mut d);
    d.memory.frames = Frames::Scattered;
    d.tlbs[0].pages = vec![4096];
    let report = report_of(&d, 1);
    let warning = report.warnings.iter().find(|w| w.kind == WarningKind::SlowHugePages).expect("a warning");
    assert!(warning.text.contains("in 4 KiB pages of chosen frames"), "{}", warning.text);
    tiers(&report, &[4.0, 12.0, MEMORY]);
    for (n, truth) in [(1, 32_768.0), (2, 262_144.0)] {
        let name = format!("tier.{n}.capacity");
        holds(&report, &name, truth);
        let (capacity, value) = number(&report, &name).unwrap();
        assert!(capacity.high.unwrap() - capacity.low.unwrap() < 0.06 * value, "{capacity:?}");
    }
    holds(&report, "tlb.1.entries", 48.0);
}

/// Returns a machine with base pages in random frames only: four page colours in the first level, 64 in the second one.
fn in_random_frames(page_map: bool) -> Description {
    let mut d = base();
    (d.memory.pages, d.memory.frames, d.memory.page_map) = (vec![4096], Frames::Scattered, page_map);
    for tlb in &mut d.tlbs {
        tlb.pages = vec![4096];
    }
    let mut levels = d.levels.iter_mut().filter(|level| level.holds != Holds::Instructions);
    let first = levels.next().unwrap();
    (first.size, first.ways) = (64 << 10, 4);
    levels.next().unwrap().size = 1 << 20;
    d
}

const IN_RANDOM_FRAMES: [(&str, f64); 2] = [("tier.1.capacity", 65_536.0), ("tier.2.capacity", 1_048_576.0)];

#[test]
fn capacities_are_exact_where_frames_are_known() {
    let report = report_of(&in_random_frames(true), 1);
    for (name, truth) in IN_RANDOM_FRAMES {
        holds(&report, name, truth);
        let (capacity, value) = number(&report, name).unwrap();
        assert!(capacity.high.unwrap() - capacity.low.unwrap() < 0.06 * value, "{capacity:?}");
    }
    let warning = report.warnings.iter().find(|w| w.kind == WarningKind::NoHugePages).expect("a warning");
    assert!(warning.text.contains("pages of chosen frames"), "{}", warning.text);
}

#[test]
fn capacities_in_unknown_frames_are_somewhere_on_the_rise_or_doubted() {
    for seed in 1..4 {
        let report = report_of(&in_random_frames(false), seed);
        for (name, truth) in IN_RANDOM_FRAMES {
            let doubted = number(&report, name).is_some_and(|(found, _)| !found.notes.is_empty());
            if seed == 1 || !doubted {
                holds(&report, name, truth);
            }
        }
    }
}

/// Three levels in random frames, where the rise of each begins long before it is full.
#[test]
fn levels_in_random_frames_are_counted() {
    let d = wide::clean(190_019);
    let rows = latency_curve(&d, &report_of(&d, 1));
    let wrong: Vec<_> = rows.iter().filter(|row| row.verdict == Verdict::Wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
