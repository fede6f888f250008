//! Files of perf whose content is known by construction (tools/perf/Documentation/perf.data-file-format.txt of Linux).

/// Bytes of `struct perf_event_attr` that are written (`PERF_ATTR_SIZE_VER3`).
const ATTRIBUTE: usize = 96;
/// `sample_id_all`.
const ID_OF_ALL: u64 = 1 << 18;
/// Numbers of features: the machine, the events.
const MACHINE: u32 = 6;
const EVENTS: u32 = 12;

/// An event.
pub struct Event {
    pub name: &'static str,
    /// `type` of its PMU.
    pub kind: u32,
    /// Events of a sample.
    pub period: u64,
    /// `sample_type`.
    pub sampled: u64,
}

impl Event {
    fn attribute(&self) -> Vec<u8> {
        let numbers = longs(&[0, self.period, self.sampled, 0, ID_OF_ALL]);
        let mut all = [words(&[self.kind, ATTRIBUTE as u32]), numbers].concat();
        all.resize(ATTRIBUTE, 0);
        all
    }
}

pub fn longs(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|one| one.to_le_bytes()).collect()
}

pub fn words(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|one| one.to_le_bytes()).collect()
}

pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = (8 + body.len()) as u16;
    [words(&[kind]), misc.to_le_bytes().to_vec(), size.to_le_bytes().to_vec(), body.to_vec()].concat()
}

/// Text of the file's feature sections: its padded length, and bytes.
pub fn text(of: &str) -> Vec<u8> {
    let mut bytes = of.as_bytes().to_vec();
    bytes.resize(64, 0);
    [words(&[64]), bytes].concat()
}

/// The feature that names the machine, as `uname -m` does.
pub fn machine(name: &str) -> (u32, Vec<u8>) {
    (MACHINE, text(name))
}

/// A file with these events, numbered from 1, these records, and these features by number beside the events' own.
pub fn perf_file(events: &[Event], features: &[(u32, Vec<u8>)], records: &[Vec<u8>]) -> Vec<u8> {
    let data: Vec<u8> = records.concat();
    let mut described = words(&[events.len() as u32, ATTRIBUTE as u32]);
    for (event, id) in events.iter().zip(1u64..) {
        described.extend([event.attribute(), words(&[1]), text(event.name), longs(&[id])].concat());
    }
    let mut features: Vec<(u32, Vec<u8>)> = features.to_vec();
    features.push((EVENTS, described));
    features.sort_by_key(|(number, _)| *number);
    let header = 104u64;
    let entry = ATTRIBUTE as u64 + 16;
    // Behind the attributes, the number of each event.
    let numbers_at = header + entry * events.len() as u64;
    let of = |(event, at): (&Event, u64)| [event.attribute(), longs(&[numbers_at + 8 * at, 8])].concat();
    let attributes: Vec<u8> = events.iter().zip(0..).flat_map(of).collect();
    let numbers = longs(&(1..=events.len() as u64).collect::<Vec<u64>>());
    let begin = numbers_at + numbers.len() as u64;
    let mut at = begin + data.len() as u64 + 16 * features.len() as u64;
    let (mut sections, mut bits, mut contents) = (Vec::new(), 0, Vec::new());
    for (number, content) in features {
        sections.extend(longs(&[at, content.len() as u64]));
        at += content.len() as u64;
        bits |= 1 << number;
        contents.extend(content);
    }
    let head = longs(&[
        header,
        entry,
        header,
        attributes.len() as u64,
        begin,
        data.len() as u64,
        0,
        0,
        bits,
        0,
        0,
        0,
    ]);
    [b"PERFILE2".to_vec(), head, attributes, numbers, data, sections, contents].concat()
}
