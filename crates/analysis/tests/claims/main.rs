//! Claims decoded from committed table bytes of real machines, and from hostile ones.
//!
//! The first lines of a fixture give its source. Values that are built here from a manual's layout are marked
//! "constructed".

mod arm;
mod described;
mod hostile;
mod pptt;
mod sane;
mod x86;

use fathom_analysis::claims::{Claim, Decoded, FactValue, Facts, TlbClaim};

/// No lines.
const NOTHING: [&str; 0] = [];

/// Reads a fixture: `NAME r EAX EBX ECX EDX` (registers, hex) or `NAME t TEXT`.
fn facts(fixture: &str) -> Facts {
    fixture
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, rest) = line.split_once(' ').expect("name");
            let (kind, rest) = rest.split_once(' ').expect("kind");
            let value = match kind {
                "t" => FactValue::Text(rest.to_owned()),
                "r" => FactValue::Bytes(registers(rest)),
                other => panic!("unknown kind {other}"),
            };
            (name.to_owned(), value)
        })
        .collect()
}

fn registers(hex: &str) -> Vec<u8> {
    hex.split(' ').flat_map(|word| u32::from_str_radix(word, 16).expect("hex").to_le_bytes()).collect()
}

/// Reads a fixture of plain hex bytes.
fn bytes(fixture: &str) -> Vec<u8> {
    let digits: String = fixture.lines().filter(|line| !line.starts_with('#')).collect();
    let digits: Vec<u32> = digits.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn one(name: &str, value: FactValue) -> Facts {
    [(name.to_owned(), value)].into_iter().collect()
}

fn ints(list: &[(&str, u64)]) -> Facts {
    list.iter().map(|(name, value)| ((*name).to_owned(), FactValue::Int(*value))).collect()
}

/// Returns a claim in one line: `cpuid 1 data 32768 = 64 x 8 x 64, by 1`; `?` for a missing value.
fn line(claim: &Claim) -> String {
    let reported = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
    format!(
        "{} {} {} {} = {} x {}{} x {}, by {}",
        claim.source,
        claim.level,
        claim.holds,
        reported(claim.size),
        reported(claim.line),
        reported(claim.ways.map(u64::from)),
        if claim.fully_associative { " (full)" } else { "" },
        reported(claim.sets),
        reported(claim.shared_by.map(u64::from)),
    )
}

fn lines(decoded: &Decoded) -> Vec<String> {
    decoded.claims.iter().map(line).collect()
}

/// Returns a TLB claim in one line: `cpuid 1 data 4K: 64, 4 ways`.
fn tlb_line(tlb: &TlbClaim) -> String {
    let pages: Vec<String> = tlb.page_bytes.iter().map(|bytes| format!("{}K", bytes >> 10)).collect();
    let ways = match tlb.ways {
        _ if tlb.fully_associative => "full".to_owned(),
        Some(ways) => format!("{ways} ways"),
        None => "?".to_owned(),
    };
    format!("{} {} {} {}: {}, {ways}", tlb.source, tlb.level, tlb.holds, pages.join("+"), tlb.entries)
}

fn tlb_lines(decoded: &Decoded) -> Vec<String> {
    decoded.tlbs.iter().map(tlb_line).collect()
}
