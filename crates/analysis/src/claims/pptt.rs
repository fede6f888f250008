//! Claims of ACPI's Processor Properties Topology Table.
//!
//! Source: ACPI Specification 6.5, 5.2.30: table 5.109 (header), 5.2.30.1 (processor hierarchy nodes) and 5.2.30.2
//! (cache type structures). Read by hand: the maintained ACPI library has no PPTT.

use super::{Claim, Decoded, Facts, Holds, Source};

const FACT: &str = "acpi.pptt";
/// Maximum depth of a hierarchy; thread, core, cluster, die and package make five levels.
const MAX_DEPTH: usize = 16;
/// Maximum number of caches that one processor reaches: seven levels, split, with a margin.
const MAX_CACHES: usize = 32;
/// Maximum number of processors for which sharing is counted, so that a hostile table costs only milliseconds. Linux
/// for ARM has the same limit of 4096 CPUs (`NR_CPUS`).
const MAX_LEAVES: usize = 4096;

/// A structure: its offset in the table and its bytes.
#[derive(Clone, Copy)]
struct Structure<'a> {
    offset: u32,
    bytes: &'a [u8],
}

impl Structure<'_> {
    const PROCESSOR: u8 = 0;
    const CACHE: u8 = 1;

    fn kind(&self) -> u8 {
        self.bytes[0]
    }

    fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Returns the parent's offset of a processor, or 0.
    fn parent(&self) -> u32 {
        self.word(8)
    }

    /// Returns the offsets of a processor's private resources, at most as many as fit into its bytes.
    fn resources(&self) -> impl Iterator<Item = u32> {
        let reported = self.word(16) as usize;
        self.bytes[20..].as_chunks::<4>().0.iter().take(reported).map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Returns the offset of a cache's next level, or 0.
    fn next(&self) -> u32 {
        self.word(8)
    }
}

struct Table<'a> {
    /// Ascending by offset, in table order.
    structures: Vec<Structure<'a>>,
}

pub(super) fn decode(facts: &Facts, out: &mut Decoded) {
    let Some(bytes) = facts.bytes(FACT, &mut out.complaints) else { return };
    let Some(table) = Table::read(bytes, out) else { return };
    let leaves = table.leaves();
    let Some(first) = leaves.first() else {
        out.complain(FACT, "has no processor");
        return;
    };
    let mut found = table.levels(first.offset, &mut |why| out.complain(FACT, why));
    found.sort_by_key(|(_, level)| *level);
    let counted = if leaves.len() > MAX_LEAVES {
        out.complain(FACT, format_args!("has {} processors: sharing of caches is not counted", leaves.len()));
        &[]
    } else {
        &leaves[..]
    };
    let reach: Vec<Vec<(u32, u8)>> =
        counted.iter().map(|leaf| table.levels(leaf.offset, &mut |_| {})).collect();
    for (offset, level) in found {
        let sharers = reach.iter().filter(|caches| caches.iter().any(|(at, _)| *at == offset)).count();
        if let Some(cache) = table.at(offset, Structure::CACHE) {
            one_cache(&cache, level, sharers, out);
        }
    }
}

impl<'a> Table<'a> {
    fn read(bytes: &'a [u8], out: &mut Decoded) -> Option<Table<'a>> {
        /// Bytes of the header that every ACPI table has.
        const HEADER: usize = 36;
        if bytes.len() < HEADER || !bytes.starts_with(b"PPTT") {
            out.complain(
                FACT,
                format_args!("its {} bytes do not begin with the header of a PPTT", bytes.len()),
            );
            return None;
        }
        let length = Structure { offset: 0, bytes }.word(4) as usize;
        let Some(bytes) = bytes.get(..length).filter(|bytes| bytes.len() >= HEADER) else {
            out.complain(FACT, format_args!("its header says {length} bytes, and it has {}", bytes.len()));
            return None;
        };
        let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        if sum != 0 {
            // Linux reads such tables too, after a warning.
            out.complain(FACT, format_args!("its checksum is off by {sum:#04x}"));
        }
        let mut structures = Vec::new();
        let mut at = HEADER;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = rest.get(1).map_or(0, |length| usize::from(*length));
            let min = match rest[0] {
                Structure::PROCESSOR => 20,
                Structure::CACHE => 24,
                _ => 2,
            };
            let Some(bytes) = rest.get(..length).filter(|_| length >= min) else {
                out.complain(FACT, format_args!("the structure at {at:#x} cannot have {length} bytes"));
                break;
            };
            structures.push(Structure { offset: at as u32, bytes });
            at += length;
        }
        Some(Table { structures })
    }

    fn at(&self, offset: u32, kind: u8) -> Option<Structure<'a>> {
        let index = self.structures.binary_search_by_key(&offset, |structure| structure.offset).ok()?;
        Some(self.structures[index]).filter(|structure| structure.kind() == kind)
    }

    /// Returns the processors that are not the parent of any other, in table order. If any of them has an ACPI
    /// processor id, only those with an id are returned, because an empty cluster has no children either. The leaf flag
    /// is not used: it exists only since revision 2.
    fn leaves(&self) -> Vec<Structure<'a>> {
        let of = |kind| self.structures.iter().filter(move |structure| structure.kind() == kind);
        let mut parents: Vec<u32> = of(Structure::PROCESSOR).map(Structure::parent).collect();
        parents.sort_unstable();
        let mut leaves: Vec<Structure> = of(Structure::PROCESSOR)
            .filter(|node| parents.binary_search(&node.offset).is_err())
            .copied()
            .collect();
        let has_id = |node: &Structure| node.word(4) & 1 << 1 != 0;
        if leaves.iter().any(has_id) {
            leaves.retain(has_id);
        }
        leaves
    }

    /// Returns the caches that a leaf processor reaches, with their levels. The leaf's private caches begin at level 1,
    /// those of a parent one level beyond its children's. A cache that is the next level of another need not be listed;
    /// if it is, it does not start a new chain.
    fn levels(&self, leaf: u32, complain: &mut dyn FnMut(String)) -> Vec<(u32, u8)> {
        let mut found: Vec<(u32, u8)> = Vec::new();
        let mut at = leaf;
        let mut below = 0u8;
        let mut depth = 0;
        while let Some(node) = self.at(at, Structure::PROCESSOR) {
            depth += 1;
            if depth > MAX_DEPTH {
                complain(format!(
                    "the processor at {leaf:#x} has over {MAX_DEPTH} ancestors, or is its own ancestor"
                ));
                break;
            }
            let caches: Vec<Structure> =
                node.resources().filter_map(|offset| self.at(offset, Structure::CACHE)).collect();
            let nexts: Vec<u32> = caches.iter().map(Structure::next).collect();
            let (heads, tails): (Vec<Structure>, Vec<Structure>) =
                caches.into_iter().partition(|cache| !nexts.contains(&cache.offset));
            if let (true, Some(tail)) = (heads.is_empty(), tails.first()) {
                complain(format!("the next levels of the cache at {:#x} form a cycle", tail.offset));
            }
            for cache in heads {
                self.follow(cache, below, &mut found, complain);
            }
            below = found.iter().map(|(_, level)| *level).max().unwrap_or(0);
            at = node.parent();
            if at == 0 {
                break;
            }
            if self.at(at, Structure::PROCESSOR).is_none() {
                complain(format!(
                    "the parent {at:#x} of the processor at {:#x} is not a processor",
                    node.offset
                ));
            }
        }
        found
    }

    /// Adds a cache and its next levels, up to one that is already known.
    fn follow(
        &self,
        mut cache: Structure<'a>,
        below: u8,
        found: &mut Vec<(u32, u8)>,
        complain: &mut dyn FnMut(String),
    ) {
        let (first, head) = (found.len(), cache.offset);
        let mut level = below;
        while !found.iter().any(|(at, _)| *at == cache.offset) {
            level = level.saturating_add(1);
            if level > 7 || found.len() == MAX_CACHES {
                complain(format!(
                    "the cache at {:#x} would be cache {} of level {level} on its way from one processor",
                    cache.offset,
                    found.len() + 1
                ));
                return;
            }
            found.push((cache.offset, level));
            match cache.next() {
                0 => return,
                next => match self.at(next, Structure::CACHE) {
                    Some(next) => cache = next,
                    None => {
                        complain(format!(
                            "the next level {next:#x} of the cache at {:#x} is not a cache",
                            cache.offset
                        ));
                        return;
                    }
                },
            }
        }
        if found[first..].iter().any(|(at, _)| *at == cache.offset) {
            complain(format!("the next levels of the cache at {head:#x} form a cycle"));
        }
    }
}

fn one_cache(cache: &Structure, level: u8, sharers: usize, out: &mut Decoded) {
    let fact = format!("{FACT}: the cache at {:#x}", cache.offset);
    let flags = cache.word(4);
    let valid = |bit: u32| flags & 1 << bit != 0;
    let mut claim = Claim::new(Source::Pptt, level, Holds::Unified);
    claim.size = valid(0).then(|| u64::from(cache.word(12))).filter(|size| *size != 0);
    claim.sets = valid(1).then(|| u64::from(cache.word(16))).filter(|sets| *sets != 0);
    claim.ways = valid(2).then(|| u32::from(cache.bytes[20])).filter(|ways| *ways != 0);
    claim.line = valid(6)
        .then(|| u64::from(u16::from_le_bytes([cache.bytes[22], cache.bytes[23]])))
        .filter(|n| *n != 0);
    if claim.size.is_none() && claim.sets.is_none() && claim.ways.is_none() && claim.line.is_none() {
        out.complain(&fact, "declares none of size, sets, associativity and line valid");
        return;
    }
    if valid(4) {
        claim.holds = match cache.bytes[21] >> 2 & 3 {
            0 => Holds::Data,
            1 => Holds::Instructions,
            _ => Holds::Unified,
        };
    } else {
        out.complain(&fact, "does not state its type; assumed to be unified");
    }
    claim.shared_by = u32::try_from(sharers).ok().filter(|sharers| *sharers != 0);
    out.claim(&fact, claim);
}
