//! `[[neighbour]]`: another user of the machine, which takes a part of it in bursts.

use toml::de::DeValue;

use super::place::{At, Check};
use super::show::Shown;
use super::source::Result;
use super::table::Table;
use super::units::{self, show_duration};
use super::{Description, nearest};

/// An inclusive range from which a value is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// The smallest value.
    pub least: u64,
    /// The largest value.
    pub most: u64,
}

/// `[[neighbour]]`: what a neighbour takes from CPU 0 while it has a burst. Bursts and pauses alternate, pauses first.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// Its name; unique among the neighbours.
    pub name: String,
    /// Duration of a burst, ns.
    pub bursts: Between,
    /// Duration of the pause before each burst, ns.
    pub pauses: Between,
    /// Names of the cache levels whose ways it takes.
    pub levels: Vec<String>,
    /// Names of the TLBs whose ways it takes.
    pub tlbs: Vec<String>,
    /// Share of the ways of each set that it takes, percent; present if and only if a level or TLB is named.
    pub ways_taken: Option<Between>,
    /// Growth of the latency of memory, percent.
    pub memory_slower: Option<Between>,
    /// Loss of core clock, percent.
    pub clock_slower: Option<Between>,
}

pub(super) const KEYS: &[&str] =
    &["name", "bursts", "pauses", "levels", "tlbs", "ways_taken", "memory_slower", "clock_slower"];

/// Limits of the durations in ns: 1 us and 1000 s.
const DURATION_NS: (u64, u64) = (1_000, 1_000_000_000_000);
/// Limits of the percentages. A neighbour leaves something of what it shares.
const PERCENT: [(&str, u64); 3] = [("ways_taken", 99), ("memory_slower", 900), ("clock_slower", 90)];
/// Maximum number of neighbours.
const MAX_NEIGHBOURS: usize = 16;

pub(super) fn read(t: &Table) -> Result<Neighbour> {
    let between = |(least, most)| Between { least, most };
    let percent =
        |key| t.value(key).map(|_| t.pair(key, "a list of two integers", whole).map(between)).transpose();
    let name = |value: &DeValue| value.as_str().map(|name| Ok(name.to_string()));
    let names = |key| match t.value(key) {
        Some(_) => t.list(key, "a list of quoted names", name),
        None => Ok(Vec::new()),
    };
    let quoted = |value: &DeValue| value.as_str().map(units::duration);
    let duration = |key| t.pair(key, "a list of two quoted durations", quoted).map(between);
    Ok(Neighbour {
        name: t.text("name")?.0.to_string(),
        bursts: duration("bursts")?,
        pauses: duration("pauses")?,
        levels: names("levels")?,
        tlbs: names("tlbs")?,
        ways_taken: percent("ways_taken")?,
        memory_slower: percent("memory_slower")?,
        clock_slower: percent("clock_slower")?,
    })
}

fn whole(value: &DeValue) -> Option<std::result::Result<u64, units::QuantityError>> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Ok)
}

pub(super) fn check(d: &Description) -> Check {
    if d.neighbours.len() > MAX_NEIGHBOURS {
        let message = format!("more than {MAX_NEIGHBOURS} neighbours");
        return Err(At("neighbour", MAX_NEIGHBOURS).flaw("", message, ""));
    }
    for (index, neighbour) in d.neighbours.iter().enumerate() {
        let at = At("neighbour", index);
        at.name(&neighbour.name)?;
        if d.neighbours[..index].iter().any(|other| other.name == neighbour.name) {
            let message = format!("a second neighbour named \"{}\"", neighbour.name);
            return Err(at.flaw("name", message, "names are unique"));
        }
        check_ranges(at, neighbour)?;
        check_taken(at, d, neighbour)?;
    }
    Ok(())
}

fn check_ranges(at: At, neighbour: &Neighbour) -> Check {
    let (min, max) = DURATION_NS;
    for (key, range) in [("bursts", neighbour.bursts), ("pauses", neighbour.pauses)] {
        if range.least > range.most || range.least < min || range.most > max {
            let shown = format!("{} to {}", show_duration(range.least), show_duration(range.most));
            let help =
                format!("the shorter one first, from {} to {}", show_duration(min), show_duration(max));
            return Err(at.flaw(key, format!("a `{key}` of {shown}"), help));
        }
    }
    for ((key, max), range) in
        PERCENT.into_iter().zip([neighbour.ways_taken, neighbour.memory_slower, neighbour.clock_slower])
    {
        let Some(range) = range else { continue };
        if range.least > range.most || range.least == 0 || range.most > max {
            let message = format!("`{key}` from {} to {} percent", range.least, range.most);
            return Err(at.flaw(key, message, format!("the smaller one first, from 1 to {max}")));
        }
    }
    Ok(())
}

/// Checks that what a neighbour takes exists, and that it takes something.
fn check_taken(at: At, d: &Description, neighbour: &Neighbour) -> Check {
    let levels = d.levels.iter().map(|l| (l.name.as_str(), l.ways));
    let tlbs = d.tlbs.iter().map(|t| (t.name.as_str(), t.ways));
    let named = [
        ("levels", "level", &neighbour.levels, levels.collect::<Vec<_>>()),
        ("tlbs", "TLB", &neighbour.tlbs, tlbs.collect::<Vec<_>>()),
    ];
    let none = neighbour.levels.is_empty() && neighbour.tlbs.is_empty();
    match neighbour.ways_taken {
        None if !none => {
            let key = if neighbour.levels.is_empty() { "tlbs" } else { "levels" };
            let help = "add the share that it takes: ways_taken = [25, 75]";
            return Err(at.flaw(key, format!("`{key}` without `ways_taken`"), help));
        }
        Some(_) if none => {
            return Err(at.flaw(
                "ways_taken",
                "`ways_taken` without `levels` or `tlbs`",
                "name what is taken",
            ));
        }
        None if neighbour.memory_slower.is_none() && neighbour.clock_slower.is_none() => {
            let help = "add `levels` or `tlbs` with `ways_taken`, or `memory_slower`, or `clock_slower`; or remove it";
            return Err(at.flaw("", "a neighbour that takes nothing", help));
        }
        _ => {}
    }
    for (key, what, names, known) in named {
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                return Err(at.flaw(key, format!("\"{}\" twice", name.escape_debug()), "each once"));
            }
            let Some((_, ways)) = known.iter().find(|(known, _)| known == name) else {
                let help = match nearest(name, known.iter().map(|(name, _)| *name)) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!("name a {what} of this description"),
                };
                return Err(at.flaw(key, format!("no {what} is named \"{}\"", name.escape_debug()), help));
            };
            let most = neighbour.ways_taken.map_or(0, |range| range.most);
            if u64::from(*ways) * most < 100 {
                let message = format!("{most} percent of the ways of \"{name}\" are less than one of {ways}");
                return Err(at.flaw("ways_taken", message, format!("remove \"{name}\", or a larger share")));
            }
        }
    }
    Ok(())
}

impl Neighbour {
    pub(super) fn show(&self, t: &mut Shown) {
        let quoted = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("[{}]", names.join(", "))
        };
        let durations = |range: Between| quoted(&[show_duration(range.least), show_duration(range.most)]);
        t.quoted("name", &self.name);
        t.put("bursts", durations(self.bursts));
        t.put("pauses", durations(self.pauses));
        for (key, names) in [("levels", &self.levels), ("tlbs", &self.tlbs)] {
            if !names.is_empty() {
                t.put(key, quoted(names));
            }
        }
        for (key, range) in [
            ("ways_taken", self.ways_taken),
            ("memory_slower", self.memory_slower),
            ("clock_slower", self.clock_slower),
        ] {
            if let Some(range) = range {
                t.put(key, format!("[{}, {}]", range.least, range.most));
            }
        }
    }
}
