//! Levels and TLBs of the machine description, which the model reports as facts.

use super::{Claim, Decoded, Facts, Holds, Source, TlbClaim};

const LEVEL: &str = "described.level.";
const TLB: &str = "described.tlb.";

pub(super) fn decode(facts: &Facts, out: &mut Decoded) {
    // A description lists its levels nearest first. A level's number counts the nearer levels on the same side, data or
    // instructions.
    let (mut data, mut instructions) = (0u8, 0u8);
    for n in facts.numbers(LEVEL) {
        let fact = format!("{LEVEL}{n}");
        let key = |key: &str| format!("{LEVEL}{n}.{key}");
        let word = facts.text(&key("holds"), &mut out.complaints);
        let Some(holds) = word.and_then(Holds::from_token) else {
            let found = word.unwrap_or("nothing");
            out.complain(
                &key("holds"),
                format_args!("expected data, instructions or unified, found {found}"),
            );
            continue;
        };
        let level = match holds {
            Holds::Data => data.saturating_add(1),
            Holds::Instructions => instructions.saturating_add(1),
            Holds::Unified => data.max(instructions).saturating_add(1),
        };
        if holds.data() {
            data = level;
        }
        if holds != Holds::Data {
            instructions = level;
        }
        let mut claim = Claim::new(Source::Description, level, holds);
        claim.size = facts.int(&key("size"), &mut out.complaints);
        claim.line = facts.int(&key("line"), &mut out.complaints);
        claim.ways = narrow(facts, &key("ways"), out);
        claim.sets = facts.int(&key("sets"), &mut out.complaints);
        // 0: one per CPU. The number of CPUs that share a shared level depends on `core.cpus`, which no claim needs.
        claim.shared_by = narrow(facts, &key("shared"), out).and_then(|shared| match shared {
            0 => Some(1),
            1 => None,
            cpus => Some(cpus),
        });
        out.claim(&fact, claim);
    }
    for (level, n) in (1u8..).zip(facts.numbers(TLB)) {
        let Some(entries) = narrow(facts, &format!("{TLB}{n}.entries"), out) else {
            out.complain(&format!("{TLB}{n}"), "has no readable number of entries, so it is left out");
            continue;
        };
        let ways = narrow(facts, &format!("{TLB}{n}.ways"), out);
        out.tlbs.push(TlbClaim {
            source: Source::Description,
            level,
            holds: Holds::Unified,
            page_bytes: Vec::new(),
            entries,
            ways,
            fully_associative: ways == Some(entries),
        });
    }
}

fn narrow(facts: &Facts, name: &str, out: &mut Decoded) -> Option<u32> {
    let n = facts.int(name, &mut out.complaints)?;
    let narrow = u32::try_from(n).ok();
    if narrow.is_none() {
        out.complain(name, format_args!("{n} is too large"));
    }
    narrow
}
