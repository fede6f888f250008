//! Accesses of a guest: what caches and TLBs see of virtual and physical addresses.

use fathom_model::{Access, Description, Detail, GUEST_BATCH, GUEST_PAGE, Kind, Model, Outcome, catalog};

/// A described machine, with other text in place of some.
fn machine(name: &str, other: &[(&str, &str)]) -> Description {
    let mut text = catalog::text(name).expect("embedded").to_owned();
    for (old, new) in other {
        assert!(text.contains(old), "{name}: {old}");
        text = text.replacen(old, new, 1);
    }
    Description::parse(name, &text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A load at an offset of a virtual page that is in a physical one.
fn load(page: u64, physical: u32, at: u64) -> Access {
    Access { space: physical, ..Access::load(page * GUEST_PAGE + at, 8) }
}

/// Makes accesses on a CPU. Returns what the nearest level or TLB did not serve.
fn made(model: &mut Model, cpu: u32, batch: &[Access]) -> Vec<(usize, Outcome)> {
    let mut all = Vec::new();
    model.accesses(cpu, Detail::Full, batch, |index, outcome| all.push((index, outcome))).expect("they fit");
    all
}

/// Returns whether an access missed in the nearest level, and in all TLBs.
fn missed(model: &mut Model, cpu: u32, access: Access) -> [bool; 2] {
    let told = made(model, cpu, &[access]);
    told.first().map_or([false; 2], |(_, outcome)| [outcome.level != Some(0), outcome.walked])
}

#[test]
fn caches_see_physical_addresses_and_tlbs_pairs_of_pages() {
    let mut model = Model::of_guest(&machine("bcm2837", &[]), 1).expect("pages of 4K");
    let (user, kernel) = (0x7f_ffff_e123, 0xffff_8000_0810_0000 / GUEST_PAGE);
    assert_eq!(missed(&mut model, 0, load(user, 0x40_123, 64)), [true; 2], "the first time");
    assert_eq!(missed(&mut model, 0, load(user, 0x40_123, 64)), [false; 2], "again");
    assert_eq!(missed(&mut model, 0, load(kernel, 0x40_123, 64)), [false, true], "the same line elsewhere");
    assert_eq!(missed(&mut model, 0, load(user, 0x40_777, 64)), [true; 2], "another task's page there");
    assert_eq!(missed(&mut model, 0, load(user, 0x40_777, 72)), [false; 2], "its line");
    assert_eq!(
        missed(&mut model, 0, load(user, 0x40_123, 64)),
        [false; 2],
        "the first one has its entry still"
    );
    assert_eq!(missed(&mut model, 1, load(user, 0x40_123, 64)), [true; 2], "each CPU has its own");
}

/// The model's pages have one size.
#[test]
fn machines_with_other_pages_are_refused() {
    let refusal = Model::of_guest(&machine("bcm2712", &[]), 1).expect_err("pages of 16K");
    assert!(refusal.reason.contains("16384") && refusal.remedy.contains("4K"), "{refusal:?}");
}

#[test]
fn more_memory_than_is_described_is_refused() {
    let mut model = Model::of_guest(&machine("bcm2837", &[]), 1).expect("pages of 4K");
    let bytes = machine("bcm2837", &[]).memory.size;
    let all: Vec<Access> = (0..=bytes >> 21).map(|n| load(n << 9, (n << 9) as u32, 0)).collect();
    let (fits, one_more) = all.split_at(all.len() - 1);
    assert_eq!(made(&mut model, 0, fits).len(), fits.len());
    let refusal = model.accesses(0, Detail::Full, one_more, |_, _| {}).expect_err("too much");
    assert!(refusal.remedy.contains("-m"), "{refusal:?}");
}

/// If each page is where its address says, a guest is a program: the same outcomes, on two CPUs, access by access.
#[test]
fn guest_whose_pages_do_not_move_is_a_program() {
    // With as much memory as a guest's pairs have, page tables are at the same addresses.
    let of = machine("bcm2711", &[("size = \"4G\"", "size = \"16G\"")]);
    let (mut guest, mut program) = (Model::of_guest(&of, 1).expect("pages of 4K"), Model::new(&of, 1));
    let mut state = 88_172_645_463_325_252u64;
    let mut draw = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % n
    };
    let mut told = 0;
    for turn in 0..200u32 {
        let batch: Vec<Access> = (0..GUEST_BATCH)
            .map(|_| {
                let region = [16 << 10, 1 << 20, 64 << 20][draw(3) as usize];
                let kind = [Kind::Load, Kind::Load, Kind::Store, Kind::Fetch][draw(4) as usize];
                Access { kind, ..Access::load(0x4000_0000 + draw(region) / 8 * 8, 8) }
            })
            .collect();
        let moved = batch.iter().map(|of| Access { space: (of.address / GUEST_PAGE) as u32, ..*of });
        let moved: Vec<Access> = moved.collect();
        let here = made(&mut guest, turn / 3 % 2, &moved);
        assert_eq!(here, made(&mut program, turn / 3 % 2, &batch), "{turn}");
        told += here.len();
    }
    assert_eq!(guest.totals(), program.totals());
    assert!(told > 50_000, "{told}");
}

/// A page that is in ever new physical pages: there is no end of pairs, and each is right.
#[test]
fn pairs_do_not_run_out() {
    let mut model = Model::of_guest(&machine("bcm2837", &[]), 1).expect("pages of 4K");
    let mut walks = 0;
    for turn in 0..20u32 {
        let batch: Vec<Access> = (0..2 * GUEST_BATCH as u32)
            .map(|n| load(0x55_5555, (turn * GUEST_BATCH as u32 + n / 2) % 200_000, 0))
            .collect();
        let (first, second) = batch.split_at(GUEST_BATCH);
        for half in [first, second] {
            let told = made(&mut model, 0, half);
            assert!(told.iter().all(|(index, outcome)| index % 2 == 1 || outcome.walked), "{turn}");
            walks += told.iter().filter(|(_, outcome)| outcome.walked).count();
        }
    }
    assert_eq!(walks, 20 * GUEST_BATCH);
}
