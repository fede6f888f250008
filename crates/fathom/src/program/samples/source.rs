//! Where the data of an access were: `union perf_mem_data_src` of include/uapi/linux/perf_event.h, little endian, or what a record of
//! Arm's SPE tells.

use fathom_experiment::record::DataLevel;
use fathom_host::DataSource;

mod spe;

/// `mem_lvl`, 14 bits from bit 5 on: whether it hit, and where (`PERF_MEM_LVL_*`). Kernels write it beside the newer field.
const LEVELS: u32 = 5;
const HIT: u64 = 0x02;
const L1: u64 = 0x08;
const FILL_BUFFER: u64 = 0x10;
const L2: u64 = 0x20;
const L3: u64 = 0x40;
const LOCAL_MEMORY: u64 = 0x80;
const OTHER_MEMORY: u64 = 0x100 | 0x200;
const OTHER_CACHE: u64 = 0x400 | 0x800;
const DEVICE: u64 = 0x1000 | 0x2000;
/// `mem_lvl_num`, 4 bits from bit 33 on, `mem_remote`, bit 37 (since Linux 4.14).
const NUMBER: u32 = 33;
const REMOTE: u64 = 1 << 37;
/// `mem_hops`, 3 bits from bit 43 on (since 5.16): 1 another core of the node, 2 to 4 other nodes.
const HOPS: u32 = 43;

/// `mem_dtlb`, 7 bits from bit 26 on: whether the translation was in a TLB (`PERF_MEM_TLB_HIT` and `_MISS`).
const TLB: u32 = 26;
const TLB_HIT: u64 = 2;
const TLB_MISS: u64 = 4;

/// Returns where the data were, and the processor's number of the place if that is not known.
pub fn place(source: DataSource) -> (DataLevel, Option<u16>) {
    match source {
        DataSource::Kernel(source) => (level(source), None),
        DataSource::Spe { events, number, midr } => spe::place(events, number, midr),
    }
}

/// Returns whether page tables were walked, if that is told.
pub fn is_walked(source: DataSource) -> Option<bool> {
    match source {
        DataSource::Kernel(source) => {
            let tlb = source >> TLB;
            (tlb & (TLB_HIT | TLB_MISS) != 0).then_some(tlb & TLB_MISS != 0)
        }
        DataSource::Spe { events, .. } => spe::is_walked(events),
    }
}

/// Returns where the data were.
fn level(source: u64) -> DataLevel {
    let hops = source >> HOPS & 7;
    let is_remote = source & REMOTE != 0;
    let cache = |own: DataLevel| if is_remote || hops > 0 { DataLevel::OtherCache } else { own };
    let memory = if is_remote { DataLevel::OtherMemory } else { DataLevel::Memory };
    // `PERF_MEM_LVLNUM_*`; 15 is not told, 5 and 6 are buffers of levels.
    match source >> NUMBER & 15 {
        1 => cache(DataLevel::L1),
        2 | 5 => cache(DataLevel::L2),
        3 | 6 => cache(DataLevel::L3),
        4 => cache(DataLevel::L4),
        8 | 10 => DataLevel::Device,
        9 => DataLevel::OtherMemory,
        11 => DataLevel::OtherCache,
        12 => DataLevel::FillBuffer,
        // Memory, and persistent memory.
        13 | 14 => memory,
        _ => of_flags(source >> LEVELS & 0x3fff),
    }
}

/// Returns the same of the older field.
fn of_flags(flags: u64) -> DataLevel {
    let places = [
        (L1, DataLevel::L1),
        (FILL_BUFFER, DataLevel::FillBuffer),
        (L2, DataLevel::L2),
        (L3, DataLevel::L3),
        (LOCAL_MEMORY, DataLevel::Memory),
        (OTHER_MEMORY, DataLevel::OtherMemory),
        (OTHER_CACHE, DataLevel::OtherCache),
        (DEVICE, DataLevel::Device),
    ];
    // A miss in a level is where they were not.
    let found = places.into_iter().find(|(bits, _)| flags & HIT != 0 && flags & bits != 0);
    found.map_or(DataLevel::Unknown, |(_, level)| level)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values as the kernel's tables for processors write them: `P(OP, LOAD) | P(LVL, ..) | LEVEL(..) | ..`.
    #[test]
    fn places_of_processors_are_recognised() {
        let lvl = |flags: u64| 2 | flags << 5;
        let num = |number: u64| number << 33;
        for (source, level) in [
            // Intel (arch/x86/events/intel/ds.c, pebs_data_source): L1 hit, fill buffer, L2, L3, local and remote memory.
            (lvl(0x08 | HIT) | num(1), DataLevel::L1),
            (lvl(0x10 | HIT) | num(12), DataLevel::FillBuffer),
            (lvl(0x20 | HIT) | num(2), DataLevel::L2),
            (lvl(0x40 | HIT) | num(3), DataLevel::L3),
            (lvl(0x80 | HIT) | num(13), DataLevel::Memory),
            (lvl(0x100 | HIT) | num(13) | REMOTE, DataLevel::OtherMemory),
            (lvl(0x400 | HIT) | num(3) | REMOTE, DataLevel::OtherCache),
            // AMD (arch/x86/events/amd/ibs.c): a cache of another core of the node, and an extension memory.
            (lvl(0x400 | HIT) | num(11) | 1 << HOPS, DataLevel::OtherCache),
            (lvl(HIT) | num(9) | REMOTE, DataLevel::OtherMemory),
            (lvl(0x1000 | HIT) | num(10), DataLevel::Device),
            (num(14), DataLevel::Memory),
            // Before Linux 4.14 there are flags only.
            (lvl(0x08 | HIT), DataLevel::L1),
            (lvl(0x800 | HIT), DataLevel::OtherCache),
            (lvl(0x2000 | HIT), DataLevel::Device),
            // A miss in the third level, nothing, not told, and what does not exist yet.
            (lvl(0x40 | 4), DataLevel::Unknown),
            (0, DataLevel::Unknown),
            (lvl(1) | num(15), DataLevel::Unknown),
            (num(7), DataLevel::Unknown),
        ] {
            assert_eq!(super::level(source), level, "{source:#x}");
        }
    }

    /// TLBs as the kernel tells them: a hit in the first or second (`P(TLB, HIT) | P(TLB, L1) | P(TLB, L2)`), a miss in both, nothing.
    #[test]
    fn walks_are_misses_of_all_tlbs() {
        let walked = |tlb: u64| is_walked(DataSource::Kernel(2 | tlb << TLB));
        assert_eq!([2 | 8 | 0x10, 4 | 0x10, 1, 0].map(walked), [Some(false), Some(true), None, None]);
    }
}
