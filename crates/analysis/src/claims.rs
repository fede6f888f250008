//! Claims about cache levels and TLBs by firmware, identification registers and descriptions.
//!
//! A probe records raw facts; this module decodes them into [`Claim`]s, so a record can be judged again by a later
//! decoder. Every fact is untrusted input: a malformed one becomes a complaint that names it, never a panic or a silent
//! guess. A claim is not evidence; the tiers are measured elsewhere.

use std::collections::BTreeMap;
use std::fmt;

mod arm;
mod cpuid;
mod description;
mod descriptors;
mod devicetree;
mod disagree;
pub mod environment;
mod identity;
mod pptt;
mod sysfs;

pub use disagree::disagreements;
pub use identity::{ProcessorIdentity, processor};

/// Value of one raw fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactValue {
    /// A number; its unit is the last part of the fact's name.
    Int(u64),
    /// Text as recorded.
    Text(String),
    /// Bytes as recorded.
    Bytes(Vec<u8>),
}

impl FactValue {
    fn kind(&self) -> &'static str {
        match self {
            FactValue::Int(_) => "a number",
            FactValue::Text(_) => "text",
            FactValue::Bytes(_) => "bytes",
        }
    }
}

/// Raw facts by name, sorted by name. Of two facts with one name the later one is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(BTreeMap<String, FactValue>);

impl FromIterator<(String, FactValue)> for Facts {
    fn from_iter<I: IntoIterator<Item = (String, FactValue)>>(iter: I) -> Facts {
        Facts(iter.into_iter().collect())
    }
}

impl Extend<(String, FactValue)> for Facts {
    fn extend<I: IntoIterator<Item = (String, FactValue)>>(&mut self, iter: I) {
        self.0.extend(iter);
    }
}

impl Facts {
    /// Returns the fact `name`, if recorded.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FactValue> {
        self.0.get(name)
    }

    /// Returns the number of facts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no facts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns every fact whose name begins with `prefix`, with the rest of its name.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a FactValue)> + 'a {
        self.0
            .range(prefix.to_owned()..)
            .map_while(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }

    /// Returns the distinct numbers N of the facts named `{prefix}N.…`, ascending.
    fn numbers(&self, prefix: &str) -> Vec<u64> {
        let mut found: Vec<u64> =
            self.under(prefix).filter_map(|(rest, _)| rest.split('.').next()?.parse().ok()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn int(&self, name: &str, complaints: &mut Vec<String>) -> Option<u64> {
        match self.get(name)? {
            FactValue::Int(n) => Some(*n),
            other => {
                complaints.push(format!("{name}: expected a number, found {}", other.kind()));
                None
            }
        }
    }

    fn text(&self, name: &str, complaints: &mut Vec<String>) -> Option<&str> {
        match self.get(name)? {
            FactValue::Text(text) => Some(text.trim()),
            other => {
                complaints.push(format!("{name}: expected text, found {}", other.kind()));
                None
            }
        }
    }

    fn bytes(&self, name: &str, complaints: &mut Vec<String>) -> Option<&[u8]> {
        match self.get(name)? {
            FactValue::Bytes(bytes) => Some(bytes),
            other => {
                complaints.push(format!("{name}: expected bytes, found {}", other.kind()));
                None
            }
        }
    }
}

/// Source of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Linux: `/sys/devices/system/cpu/cpu0/cache`. The kernel derives it from CPUID, CCSIDR, PPTT or a devicetree, so
    /// its agreement with one of them is weak evidence.
    Sysfs,
    /// The x86 CPUID instruction. A hypervisor may have set the values.
    Cpuid,
    /// The ARM cache type register: `CTR_EL0`, or the Cache Type Register before ARMv7.
    Ctr,
    /// `CLIDR_EL1` and `CCSIDR_EL1`. The architecture manual does not promise that they describe the real geometry,
    /// only the parameters for maintenance by set and way.
    Ccsidr,
    /// The flattened devicetree.
    Devicetree,
    /// ACPI's Processor Properties Topology Table.
    Pptt,
    /// The machine's description: exact if the machine is a model.
    Description,
}

impl Source {
    /// Every source, in the order in which reports list them.
    pub const ALL: [Source; 7] = [
        Source::Sysfs,
        Source::Cpuid,
        Source::Ctr,
        Source::Ccsidr,
        Source::Devicetree,
        Source::Pptt,
        Source::Description,
    ];

    /// Returns the stable token, as in the finding `claim.SOURCE.level.N.size`.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Source::Sysfs => "sysfs",
            Source::Cpuid => "cpuid",
            Source::Ctr => "ctr",
            Source::Ccsidr => "ccsidr",
            Source::Devicetree => "devicetree",
            Source::Pptt => "pptt",
            Source::Description => "description",
        }
    }

    /// Returns the source with this token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.token() == token)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

/// Content of a level or a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// Data only.
    Data,
    /// Instructions only.
    Instructions,
    /// Both.
    Unified,
}

impl Holds {
    /// Every kind.
    pub const ALL: [Holds; 3] = [Holds::Data, Holds::Instructions, Holds::Unified];

    /// Returns the stable token, as used in machine descriptions.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Holds::Data => "data",
            Holds::Instructions => "instructions",
            Holds::Unified => "unified",
        }
    }

    /// Returns the kind with this token.
    #[must_use]
    pub fn from_token(token: &str) -> Option<Holds> {
        Holds::ALL.into_iter().find(|holds| holds.token() == token)
    }

    /// Returns whether this level may serve a load.
    #[must_use]
    pub fn data(self) -> bool {
        self != Holds::Instructions
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

/// Claim of one source about one level. If a source gives all but one of size, line, ways and sets, the missing one is
/// computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Source of the claim.
    pub source: Source,
    /// Level, counted from 1.
    pub level: u8,
    /// Content of the level.
    pub holds: Holds,
    /// Capacity in bytes.
    pub size: Option<u64>,
    /// Line in bytes. From [`Source::Ctr`] it is the smallest line of all levels.
    pub line: Option<u64>,
    /// Ways. For a fully associative cache: all its lines, if known.
    pub ways: Option<u32>,
    /// Whether the source calls it fully associative.
    pub fully_associative: bool,
    /// Sets.
    pub sets: Option<u64>,
    /// Logical processors that share the level. CPUID leaf 4 gives only an upper bound: the number of ids reserved.
    pub shared_by: Option<u32>,
}

impl Claim {
    fn new(source: Source, level: u8, holds: Holds) -> Claim {
        Claim {
            source,
            level,
            holds,
            size: None,
            line: None,
            ways: None,
            fully_associative: false,
            sets: None,
            shared_by: None,
        }
    }

    /// Computes the missing one of size, line, ways and sets from the others.
    ///
    /// # Errors
    /// A sentence, if size = line x ways x sets does not or cannot hold.
    fn complete(&mut self) -> Result<(), String> {
        if self.fully_associative {
            self.sets = self.sets.or(Some(1));
        }
        let product = |factors: [Option<u64>; 3]| {
            factors.iter().try_fold(1u64, |product, factor| product.checked_mul((*factor)?))
        };
        let ways = self.ways.map(u64::from);
        match (self.size, self.line, ways, self.sets) {
            (Some(size), Some(line), Some(ways), Some(sets)) => {
                let is = product([Some(line), Some(ways), Some(sets)]);
                let found = is.map_or_else(String::new, |is| format!(" = {is}"));
                (is == Some(size)).then_some(()).ok_or_else(|| {
                    format!("inconsistent: size {size} is not line {line} x ways {ways} x sets {sets}{found}")
                })?;
            }
            (None, line, ways, sets) => self.size = product([line, ways, sets]),
            (Some(size), None, Some(ways), Some(sets)) => {
                self.line = Some(quotient(size, "ways x sets", product([Some(1), Some(ways), Some(sets)]))?);
            }
            (Some(size), Some(line), None, Some(sets)) => {
                let found = quotient(size, "line x sets", product([Some(1), Some(line), Some(sets)]))?;
                self.ways = u32::try_from(found).ok();
            }
            (Some(size), Some(line), Some(ways), None) => {
                self.sets = Some(quotient(size, "line x ways", product([Some(1), Some(line), Some(ways)]))?);
            }
            _ => {}
        }
        Ok(())
    }
}

fn quotient(size: u64, what: &str, by: Option<u64>) -> Result<u64, String> {
    let by = by.filter(|by| *by != 0 && size.is_multiple_of(*by)).ok_or_else(|| {
        format!(
            "inconsistent: size {size} is not a multiple of {what}{}",
            by.map_or_else(String::new, |by| format!(" = {by}"))
        )
    })?;
    Ok(size / by)
}

/// Claim of one source about one TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlbClaim {
    /// Source of the claim.
    pub source: Source,
    /// Level, counted from 1.
    pub level: u8,
    /// Kind of accesses whose translations it holds.
    pub holds: Holds,
    /// Page sizes that it holds, in bytes, ascending; empty if the source does not state them.
    pub page_bytes: Vec<u64>,
    /// Entries.
    pub entries: u32,
    /// Ways, if stated. For a fully associative TLB: all its entries.
    pub ways: Option<u32>,
    /// Whether the source calls it fully associative.
    pub fully_associative: bool,
}

/// Claims decoded from the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// The levels claimed, by source, level and kind.
    pub claims: Vec<Claim>,
    /// The TLBs claimed, by source, level and kind.
    pub tlbs: Vec<TlbClaim>,
    /// Errors in the facts; each sentence begins with the name of a fact.
    pub complaints: Vec<String>,
}

impl Decoded {
    /// Completes and stores a claim read from `fact`; adds a complaint if the claim contradicts itself.
    fn claim(&mut self, fact: &str, mut claim: Claim) {
        if let Err(why) = claim.complete() {
            self.complain(fact, why);
        }
        self.claims.push(claim);
    }

    fn complain(&mut self, fact: &str, what: impl fmt::Display) {
        self.complaints.push(format!("{fact}: {what}"));
    }
}

/// Decodes every fact that this module knows and ignores all others.
#[must_use]
pub fn decode(facts: &Facts) -> Decoded {
    let mut out = Decoded::default();
    sysfs::decode(facts, &mut out);
    cpuid::decode(facts, &mut out);
    arm::decode(facts, &mut out);
    devicetree::decode(facts, &mut out);
    pptt::decode(facts, &mut out);
    description::decode(facts, &mut out);
    out.claims.sort_by_key(|claim| (claim.source, claim.level, claim.holds));
    out.tlbs.sort_by(|a, b| {
        let key = |t: &TlbClaim| (t.source, t.level, t.holds);
        key(a).cmp(&key(b)).then_with(|| a.page_bytes.cmp(&b.page_bytes))
    });
    out
}

#[cfg(test)]
mod tests;
