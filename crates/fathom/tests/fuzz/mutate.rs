//! A small mutator with a fixed seed: every test run has the same inputs.
//!
//! It changes bytes, lines and numbers, and recomputes checksums: without new checksums most damage to a record would
//! only fail the checksum.

use fathom_probe::splitmix::SplitMix64;

/// Numbers at which arithmetic may overflow or wrap.
const EXTREMES: [&str; 14] = [
    "0",
    "1",
    "2",
    "-1",
    "63",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999",
];

/// Source of the random changes.
pub struct Random(SplitMix64);

impl Random {
    /// Returns a source with this seed.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }
}

/// Makes one to four changes to `input`; text may be spliced in from `other`.
pub fn mutated(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        change(&mut bytes, other, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(12) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at),
        3 => {
            let end = bytes.len().min(at + 1 + random.below(64));
            bytes.drain(at.min(end)..end);
        }
        4 => {
            let new: Vec<u8> = (0..=random.below(8)).map(|_| random.next() as u8).collect();
            bytes.splice(at..at, new);
        }
        5 => {
            let from = random.below(other.len());
            let end = other.len().min(from + 1 + random.below(400));
            bytes.splice(at..at, other[from.min(end)..end].iter().copied());
        }
        6..=8 => lines(bytes, other, random),
        _ => number(bytes, random),
    }
}

/// Swaps two lines, duplicates one, removes one, or inserts one from `other`.
fn lines(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let mut list: Vec<Vec<u8>> = bytes.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    let (a, b) = (random.below(list.len()), random.below(list.len()));
    if list.is_empty() {
        return;
    }
    match random.below(4) {
        0 => list.swap(a, b),
        1 => list.insert(b, list[a].clone()),
        2 => drop(list.remove(a)),
        _ => {
            let others: Vec<&[u8]> = other.split_inclusive(|&b| b == b'\n').collect();
            if let Some(line) = others.get(random.below(others.len())) {
                list.insert(a, line.to_vec());
            }
        }
    }
    *bytes = list.concat();
}

/// Replaces a number by an extreme one; changes nothing if there is no number.
fn number(bytes: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(bytes.len());
    let digit = |b: &u8| b.is_ascii_digit();
    let Some(start) = bytes[from..].iter().position(digit).map(|n| from + n) else { return };
    let end = bytes[start..].iter().position(|b| !digit(b)).map_or(bytes.len(), |n| start + n);
    let new = EXTREMES[random.below(EXTREMES.len())];
    bytes.splice(start..end, new.bytes());
}

/// Renumbers and reseals every sealed line of a probe, and seals all lines of the file, so that the damage passes the
/// checksums.
#[allow(dead_code, reason = "the target of the tables has no lines")]
pub fn resealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let (mut seq, mut digest) = (0u64, crc32fast::Hasher::new());
    for (number, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
        let text = unsealed(line.strip_suffix(b"\n").unwrap_or(line));
        let start = out.len();
        match rfind(text, b" crc=0x") {
            Some(at) => {
                seq += 1;
                out.extend_from_slice(&text[..rfind(&text[..at], b" seq=").unwrap_or(at)]);
                out.extend(format!(" seq={seq}").bytes());
                let crc = crc32fast::hash(&out[start..]);
                out.extend(format!(" crc=0x{crc:08x}").bytes());
            }
            None => out.extend_from_slice(text),
        }
        let checksum = crc32fast::hash(&out[start..]);
        digest.update(&out[start..]);
        digest.update(b"\n");
        let total = digest.clone().finalize();
        let number = number + 1;
        out.extend(format!(" @{number}:{checksum:08x}:{total:08x}").bytes());
        if line.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
    out
}

/// Returns a line without the seal of its file.
pub fn unsealed(line: &[u8]) -> &[u8] {
    rfind(line, b" @").map_or(line, |at| &line[..at])
}

fn rfind(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|w| w == what)
}
