//! Properties of decoded claims that hold for any facts. The fuzz target of the tables includes this file.

use fathom_analysis::claims::environment::environment;
use fathom_analysis::claims::{Decoded, Facts, decode, disagreements};

/// Decodes facts and asserts the properties of the result.
pub fn sane(facts: &Facts) -> Decoded {
    let decoded = decode(facts);
    for claim in &decoded.claims {
        assert!(
            (1..=7).contains(&claim.level)
                || claim.source.token() == "sysfs"
                || claim.source.token() == "description"
        );
        if let (Some(size), Some(line), Some(ways), Some(sets)) =
            (claim.size, claim.line, claim.ways, claim.sets)
        {
            let product = line.checked_mul(u64::from(ways)).and_then(|n| n.checked_mul(sets));
            let complained = decoded.complaints.iter().any(|c| c.contains("inconsistent: "));
            assert!(product == Some(size) || complained, "{claim:?}: {:?}", decoded.complaints);
        }
    }
    for complaint in &decoded.complaints {
        let name = complaint.split(": ").next().unwrap_or_default();
        assert!(name.contains('.'), "{complaint}");
    }
    let _ = disagreements(&decoded.claims);
    let _ = environment(facts);
    decoded
}
