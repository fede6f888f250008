//! The reasons of misses by name: objects, and pairs of them.

use std::collections::HashMap;

use fathom_experiment::record::{MAX_HOT, SimulatedEnd, SimulatedObject, SimulatedPair};
use fathom_simulation::protocol::HeapSites;
use fathom_simulation::{Accessor, LineCounts, PairCounts, REASONS, Reason, StoryCounts};

use super::guest_data::GuestData;
use crate::program::objects::{Datum, Objects};
use crate::program::symbols::{Named, Symbols};

/// What has the line if a walk of page tables took it.
const TABLES: &str = "page tables";

/// Names for addresses, and for allocation sites.
pub enum Data<'a> {
    /// Of a program.
    Objects(Objects, Vec<Site>),
    /// Of a guest.
    Guest(GuestData<'a>),
    /// Of a trace that does not tell its program: the addresses themselves, by line.
    Addresses,
}

/// Name of an allocation site, and the program or library that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    name: String,
    file: String,
}

impl Site {
    /// Returns the names of all sites.
    pub fn all(sites: &HeapSites, symbols: &mut Symbols) -> Vec<Site> {
        let site = |&address: &u64| {
            // The call is before the address to which it returns.
            let named = symbols.name(address.wrapping_sub(1));
            let source = named.source();
            let name = match source.is_empty() {
                true => format!("heap: {}", named.function),
                false => format!("heap: {} ({source})", named.function),
            };
            Site { name, file: named.file }
        };
        sites.returns.iter().map(site).collect()
    }
}

impl Data<'_> {
    fn find(&self, (address, by): (u64, Accessor), block: Option<(u32, u32)>, line_bytes: u64) -> Datum {
        match (self, block) {
            (Data::Guest(guest), _) => guest.find(address, by),
            (Data::Objects(objects, _), None) => objects.find(address),
            (Data::Objects(_, sites), Some((site, offset))) => {
                let Site { name, file } = site_of(sites, site as usize);
                Datum { object: name, file, offset: offset.into() }
            }
            (Data::Addresses, _) => {
                let start = address / line_bytes * line_bytes;
                Datum { object: format!("{start:#x}"), file: String::new(), offset: address - start }
            }
        }
    }
}

/// Returns the name of a site. The last one stands for those that are too many.
fn site_of(sites: &[Site], number: usize) -> Site {
    let others = || Site { name: "heap: other sites".to_owned(), file: String::new() };
    sites.get(number).cloned().unwrap_or_else(others)
}

/// Objects by name and file.
type ByName = HashMap<(String, String), SimulatedObject>;

/// Adds counts to an object.
fn add<'a>(all: &'a mut ByName, name: (String, String), line: &LineCounts) -> &'a mut SimulatedObject {
    let of = all.entry(name).or_insert_with_key(|(name, file)| SimulatedObject {
        name: name.clone(),
        file: file.clone(),
        misses: vec![0; line.misses.len()],
        ..SimulatedObject::default()
    });
    of.misses.iter_mut().zip(&line.misses).for_each(|(sum, more)| *sum += more);
    of.reasons.iter_mut().zip(line.reasons).for_each(|(sum, more)| *sum += more);
    of.walks += line.walks;
    of.units += line.units;
    *of.overlapped.get_or_insert_default() += line.overlapped_units;
    if line.sharing.has_any() {
        let sum = of.sharing.get_or_insert_default();
        sum.invalidated += line.sharing.invalidated;
        sum.transfers += line.sharing.transfers;
        sum.upgrades += line.sharing.upgrades;
    }
    of
}

/// Returns the objects, those with the longest time first. `overlap`: whether it is described how many accesses overlap.
pub fn objects(story: &StoryCounts, overlap: bool, data: &Data) -> Vec<SimulatedObject> {
    let mut all = ByName::new();
    for line in &story.lines {
        let Datum { object, file, .. } = data.find((line.address, line.accessor), None, story.line_bytes);
        add(&mut all, (object, file), line);
    }
    if let Data::Objects(_, sites) = data {
        // A site that has never missed has no line, but one beside it may.
        let counted = story.heap.iter().enumerate();
        for (number, heap) in counted.filter(|(_, heap)| heap.blocks > 0) {
            let Site { name, file } = site_of(sites, number);
            let none = LineCounts { misses: vec![0; story.levels.len()], ..LineCounts::default() };
            let of = add(&mut all, (name, file), story.sites.get(number).unwrap_or(&none));
            let sums = of.heap.get_or_insert_default();
            let more = [heap.blocks, heap.bytes, heap.peak, heap.accesses];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    let known = |of: SimulatedObject| SimulatedObject { overlapped: of.overlapped.filter(|_| overlap), ..of };
    let mut all: Vec<SimulatedObject> = all.into_values().map(known).collect();
    all.sort_by(|a, b| b.units.cmp(&a.units).then_with(|| (&a.name, &a.file).cmp(&(&b.name, &b.file))));
    all.truncate(MAX_HOT);
    all
}

/// Returns pairs of objects, those with the most misses first, of lines of `line_bytes` or of pages. `names` are those of the places.
pub fn pairs(pairs: &[PairCounts], line_bytes: u64, data: &Data, names: &[Named]) -> Vec<SimulatedPair> {
    let end = |of: (u64, Accessor), block: Option<(u32, u32)>, place: u64, cpu: u32| {
        let Datum { object, offset, .. } = data.find(of, block, line_bytes);
        let named = names.get(place as usize).cloned().unwrap_or_default();
        let source = named.source();
        SimulatedEnd { object, offset, function: named.function, source, cpu: cpu.into() }
    };
    let mut all: HashMap<(u64, u64, String, String), SimulatedPair> = HashMap::new();
    // Those with the most misses come first, so that they are the example of their objects.
    for pair in pairs {
        let of = end((pair.address, pair.accessor), pair.block, pair.place, pair.cpu);
        let by = match pair.by {
            Some((address, place)) => end((address, pair.by_accessor), pair.by_block, place, pair.by_cpu),
            None => {
                SimulatedEnd { object: TABLES.to_owned(), cpu: pair.by_cpu.into(), ..SimulatedEnd::default() }
            }
        };
        let key = (pair.level, pair.reason, of.object.clone(), by.object.clone());
        let (level, reason, set) = (pair.level, pair.reason, pair.set);
        let new = || SimulatedPair { level, reason, set, count: 0, end: of, by };
        all.entry(key).or_insert_with(new).count += pair.count;
    }
    let mut all: Vec<SimulatedPair> = all.into_values().collect();
    all.sort_by(|a, b| {
        let key = |pair: &SimulatedPair| (pair.level, pair.reason);
        b.count
            .cmp(&a.count)
            .then_with(|| key(a).cmp(&key(b)))
            .then_with(|| (&a.end.object, &a.by.object).cmp(&(&b.end.object, &b.by.object)))
    });
    all.truncate(MAX_HOT);
    all
}

/// Returns the reasons by number of the place.
pub fn by_place(story: &StoryCounts, places: usize) -> Vec<[u64; REASONS]> {
    let mut all = vec![[0; REASONS]; places];
    for (place, reasons) in &story.places {
        if let Some(slot) = all.get_mut(*place as usize) {
            *slot = *reasons;
        }
    }
    all
}

const _: () = assert!(Reason::ALL.len() == fathom_experiment::record::REASONS);

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_analysis::metrics::simulate::REASON_NAMES;
    use fathom_experiment::record::SimulatedSharing;
    use fathom_simulation::SharingCounts;

    #[test]
    fn names_of_reasons_are_in_the_order_of_their_numbers() {
        for (reason, name) in Reason::ALL.into_iter().zip(REASON_NAMES) {
            let plain = format!("{reason:?}").to_lowercase();
            assert_eq!(plain, name.replace('-', ""));
        }
    }

    #[test]
    fn lines_and_pairs_of_an_object_add_up_and_the_worst_is_the_example() {
        let line = |address, units| LineCounts {
            address,
            accessor: Accessor::Program,
            misses: vec![2, 1],
            walks: 1,
            units,
            overlapped_units: units / 5,
            reasons: [1, 0, 1, 0, 0, 0],
            sharing: SharingCounts { invalidated: u64::from(units < 10), transfers: 2, upgrades: 0 },
        };
        let pair = |count, address, by| PairCounts { count, address, by, reason: 2, ..Default::default() };
        let story = StoryCounts {
            lines: vec![line(0x1000, 5), line(0x1010, 6), line(0x2000, 30)],
            line_bytes: 64,
            pairs: vec![
                pair(9, 0x1010, Some((0x2000, 1))),
                pair(4, 0x1000, Some((0x2010, 0))),
                pair(1, 0x1000, None),
            ],
            ..Default::default()
        };
        let found = objects(&story, false, &Data::Addresses);
        assert!(found.iter().all(|object| object.overlapped.is_none()), "it is not described");
        let found = objects(&story, true, &Data::Addresses);
        let shown: Vec<_> = found.iter().map(|o| (o.name.as_str(), o.units, o.misses[0])).collect();
        assert_eq!(shown, [("0x2000", 30, 2), ("0x1000", 11, 4)]);
        assert_eq!((found[1].walks, found[1].overlapped, found[1].reasons), (2, Some(2), [2, 0, 2, 0, 0, 0]));
        let sharing = SimulatedSharing { invalidated: 2, transfers: 4, upgrades: 0 };
        assert_eq!(found[1].sharing, Some(sharing));
        let names = [Named { function: "a".into(), ..Named::default() }, Named::default()];
        let found = pairs(&story.pairs, 64, &Data::Addresses, &names);
        assert_eq!((found[0].count, found[0].end.offset, found[0].by.object.as_str()), (13, 16, "0x2000"));
        assert_eq!((found[0].end.function.as_str(), found[0].by.function.as_str()), ("a", ""));
        assert_eq!((found[1].count, found[1].by.object.as_str()), (1, TABLES));
    }
}
