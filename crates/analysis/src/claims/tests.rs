//! Tests of private functions; whole tables are in `tests/claims`.

use super::*;
use environment::{Environment, environment};

#[test]
fn source_and_side_tokens_round_trip() {
    for source in Source::ALL {
        assert_eq!(Source::from_token(source.token()), Some(source));
    }
    for holds in Holds::ALL {
        assert_eq!(Holds::from_token(holds.token()), Some(holds));
    }
    let mut tokens: Vec<&str> = Source::ALL.iter().map(|source| source.token()).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), Source::ALL.len());
}

#[test]
fn every_cache_descriptor_is_consistent() {
    let mut caches = 0;
    for byte in 0..=u8::MAX {
        let Some(descriptors::Descriptor::Cache { level, holds, kib, ways, line }) =
            descriptors::lookup(byte, 6, 0)
        else {
            continue;
        };
        caches += 1;
        let mut claim = Claim::new(Source::Cpuid, level, holds);
        (claim.size, claim.line, claim.ways) =
            (Some(u64::from(kib) << 10), Some(u64::from(line)), Some(ways));
        assert_eq!(claim.complete(), Ok(()), "{byte:#x}");
        // EBH alone has 18 MiB in 24 ways: three times a power of two.
        let sets = claim.sets.map(|sets| if byte == 0xeb { sets / 3 } else { sets });
        assert!(sets.is_some_and(u64::is_power_of_two), "{byte:#x}: {claim:?}");
    }
    assert_eq!(caches, 63, "rows of caches in the manual's table 3-12");
}

#[test]
fn a_missing_quantity_follows_from_the_others() {
    let all = (Some(32768), Some(64), Some(8), Some(64));
    for missing in 0..4 {
        let mut claim = Claim::new(Source::Cpuid, 1, Holds::Data);
        (claim.size, claim.line, claim.ways, claim.sets) = all;
        match missing {
            0 => claim.size = None,
            1 => claim.line = None,
            2 => claim.ways = None,
            _ => claim.sets = None,
        }
        assert_eq!(claim.complete(), Ok(()));
        assert_eq!((claim.size, claim.line, claim.ways, claim.sets), all);
    }
}

#[test]
fn facts_are_found_by_prefix() {
    let facts: Facts = ["a.1.x", "a.10.x", "a.2.x", "a.y", "b.3"]
        .into_iter()
        .map(|name| (name.to_owned(), FactValue::Int(0)))
        .collect();
    assert_eq!(facts.numbers("a."), [1, 2, 10]);
    assert_eq!(facts.under("a.1").count(), 2);
}

fn registers(one: u32, signature: &[u8; 12]) -> Facts {
    let mut leaf_1 = vec![0; 16];
    leaf_1[8..12].copy_from_slice(&one.to_le_bytes());
    let mut leaf_40 = vec![0; 4];
    leaf_40.extend(signature);
    [("cpuid.1.0", leaf_1), ("cpuid.40000000.0", leaf_40)]
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), FactValue::Bytes(bytes)))
        .collect()
}

#[test]
fn hypervisors_and_translators_are_named() {
    assert_eq!(environment(&Facts::default()), Environment::NothingFound);
    // Without the hypervisor bit, leaf 4000_0000 returns the data of some other leaf.
    assert_eq!(environment(&registers(0, b"KVMKVMKVM\0\0\0")), Environment::NothingFound);
    assert_eq!(
        environment(&registers(1 << 31, b"KVMKVMKVM\0\0\0")),
        Environment::Virtual("CPUID says that a hypervisor is present, and names KVM.".to_owned())
    );
    assert_eq!(
        environment(&registers(1 << 31, b"TCGTCGTCGTCG")),
        Environment::Emulated("CPUID leaf 40000000 names TCG, QEMU's binary translator.".to_owned())
    );
    let midr = |midr| Facts::from_iter([("arm.midr_el1".to_owned(), FactValue::Int(midr))]);
    assert!(matches!(environment(&midr(0x000f_0510)), Environment::Emulated(_)));
    // A real Cortex-A53.
    assert_eq!(environment(&midr(0x410f_d034)), Environment::NothingFound);
    let dmi = |text: &str| Facts::from_iter([("virt.dmi".to_owned(), FactValue::Text(text.to_owned()))]);
    assert!(matches!(environment(&dmi("QEMU Standard PC (Q35 + ICH9, 2009)")), Environment::Virtual(_)));
    assert!(matches!(environment(&dmi("Amazon EC2 c7g.large")), Environment::Virtual(_)));
    assert_eq!(environment(&dmi("Amazon EC2 a1.metal")), Environment::NothingFound);
    // The finding with the lowest trust is returned.
    let mut both = registers(1 << 31, b"KVMKVMKVM\0\0\0");
    both.0.insert("arm.midr_el1".to_owned(), FactValue::Int(0x000f_0510));
    assert!(matches!(environment(&both), Environment::Emulated(_)));
}
