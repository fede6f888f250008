//! Claims of `/sys/devices/system/cpu/cpu0/cache/index*`, as printed by Linux.
//!
//! The attributes are described in the kernel's `Documentation/ABI/testing/sysfs-devices-system-cpu`.

use super::{Claim, Decoded, Facts, Holds, Source};

const PREFIX: &str = "sysfs.cpu0.cache.index";

pub(super) fn decode(facts: &Facts, out: &mut Decoded) {
    for index in facts.numbers(PREFIX) {
        if let Some((fact, claim)) = one(facts, index, out) {
            out.claim(&fact, claim);
        }
    }
}

fn one(facts: &Facts, index: u64, out: &mut Decoded) -> Option<(String, Claim)> {
    let name = |attribute: &str| format!("{PREFIX}{index}.{attribute}");
    let fact = format!("{PREFIX}{index}");
    let Some(level) = number(facts, &name("level"), out) else {
        out.complain(&fact, "has no readable level, so it is left out");
        return None;
    };
    let Some(level) = u8::try_from(level).ok().filter(|level| *level > 0) else {
        out.complain(&name("level"), format_args!("{level} is not a cache level"));
        return None;
    };
    let kind = facts.text(&name("type"), &mut out.complaints);
    let Some(holds) = kind.and_then(holds) else {
        let found = kind.unwrap_or("nothing");
        out.complain(&name("type"), format_args!("expected Data, Instruction or Unified, found {found}"));
        return None;
    };
    let mut claim = Claim::new(Source::Sysfs, level, holds);
    claim.size = size(facts, &name("size"), out);
    claim.line = number(facts, &name("coherency_line_size"), out).filter(|line| *line != 0);
    claim.sets = number(facts, &name("number_of_sets"), out).filter(|sets| *sets != 0);
    match number(facts, &name("ways_of_associativity"), out) {
        // Linux leaves the ways of a fully associative cache at 0 (drivers/base/cacheinfo.c).
        Some(0) => claim.fully_associative = true,
        ways => claim.ways = ways.and_then(|ways| u32::try_from(ways).ok()),
    }
    let shared = name("shared_cpu_list");
    if let Some(list) = facts.text(&shared, &mut out.complaints) {
        match cpu_count(list) {
            Some(count) => claim.shared_by = Some(count),
            None => out.complain(&shared, format_args!("{list:?} is not a list of CPUs such as 0-3,8")),
        }
    }
    Some((fact, claim))
}

fn holds(kind: &str) -> Option<Holds> {
    match kind {
        "Data" => Some(Holds::Data),
        "Instruction" => Some(Holds::Instructions),
        "Unified" => Some(Holds::Unified),
        _ => None,
    }
}

/// Reads a decimal attribute. Absence is not an error, because Linux hides unknown attributes.
fn number(facts: &Facts, name: &str, out: &mut Decoded) -> Option<u64> {
    let text = facts.text(name, &mut out.complaints)?;
    let parsed = text.parse().ok();
    if parsed.is_none() {
        out.complain(name, format_args!("{text:?} is not a number"));
    }
    parsed
}

/// Reads a size such as `48K`. Linux always prints KiB; other units are accepted too.
fn size(facts: &Facts, name: &str, out: &mut Decoded) -> Option<u64> {
    let text = facts.text(name, &mut out.complaints)?;
    match fathom_units::parse(text) {
        Ok(0) | Err(_) => {
            out.complain(name, format_args!("{text:?} is not a size such as 48K"));
            None
        }
        Ok(bytes) => Some(bytes),
    }
}

/// Returns the number of CPUs in a list such as `0-3,8`. Reversed or overlapping ranges are refused.
fn cpu_count(list: &str) -> Option<u32> {
    let mut count = 0u32;
    let mut next = 0u64;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if u64::from(first) < next || last < first {
            return None;
        }
        next = u64::from(last) + 1;
        count = count.checked_add((last - first).checked_add(1)?)?;
    }
    Some(count)
}
