//! The machine code of the images.

use fathom_metal::parameters::{code_bytes, memory_bytes};

use super::image;

/// The compiled chase: a loop of 32 dependent loads, `ldr xA, [xB, xA]`, one decrement and one branch.
#[test]
fn chase_loop_has_only_dependent_loads() {
    let Some(image) = image("aarch64") else { return };
    let words: Vec<u32> =
        image.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    // LDR (register), 64 bits, LSL #0 (DDI 0487): destination, offset, base.
    let load = |word: &u32| {
        let field = |from: u32| word >> from & 31;
        (word & 0xffe0_fc00 == 0xf860_6800).then(|| (field(0), field(16), field(5)))
    };
    // B.NE back over 33 words; the compiler may have put the decrement anywhere between.
    let back = |word: u32| word & 0xff00_001f == 0x5400_0001 && (word >> 5 & 0x7_ffff) == 0x8_0000 - 33;
    let loops = words.windows(34).filter(|turn| back(turn[33])).filter(|turn| {
        let loads: Vec<_> = turn[..33].iter().filter_map(load).collect();
        // SUBS (immediate), 64 bits, of 1.
        let counts = turn[..33].iter().filter(|word| **word & 0xffff_fc00 == 0xf100_0400).count();
        // Each address depends on the previous load, the first of a turn on the last of the turn before; one base.
        let last = loads.iter().cycle().skip(loads.len().saturating_sub(1));
        let chained = loads.iter().zip(last).all(|(now, last)| now.1 == last.0 && now.2 == last.2);
        (loads.len(), counts) == (32, 1) && chained
    });
    assert_eq!(loops.count(), 1, "one turn of 32 loads, each from the last one's answer, in the whole image");
    let memory = memory_bytes(&image).unwrap();
    println!("the image: {} KiB to load, {} KiB of memory", image.len() / 1024, memory / 1024);
    assert!(image.len() < 256 << 10, "{} bytes: what has grown?", image.len());
}

/// Erratum 835769 of Cortex-A53 (ARM-EPM-048406): a 64-bit multiply-accumulate directly after a load or store may give
/// a wrong result. The image must have none: a compiler option avoids them, also in the core library.
#[test]
fn image_avoids_erratum_835769() {
    let Some(image) = image("aarch64") else { return };
    let code = &image[..code_bytes(&image).unwrap()];
    let words: Vec<u32> =
        code.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    // DDI 0487, "A64 instruction set encoding": loads and stores have bits 27 and 25 at 1 and 0; MADD, MSUB and their
    // long forms, of 64 bits, with an accumulator that is not the zero register.
    let accesses = |word: u32| word & 0x0a00_0000 == 0x0800_0000;
    let accumulates = |word: u32| word & 0xff00_0000 == 0x9b00_0000 && word >> 10 & 31 != 31;
    assert!(words.iter().any(|word| accumulates(*word)), "the image multiplies somewhere");
    let bad: Vec<usize> = (1..words.len())
        .filter(|at| accesses(words[at - 1]) && accumulates(words[*at]))
        .map(|at| 4 * at)
        .collect();
    assert_eq!(bad, [0usize; 0], "at these offsets of the image");
}

/// What an instruction of A32 (DDI 0406C, A5) does, as far as loops of loads and stores need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum A32 {
    /// LDR, LDRD (literals and others with the same bits included).
    Load,
    /// STR, STRD.
    Store,
    /// Data processing between registers and immediates.
    Compute,
    /// A conditional branch back over this many instructions, itself included.
    Back(usize),
    Other,
}

/// Decodes an instruction; conditional ones, but branches, count as others.
fn a32(word: u32) -> A32 {
    let bit = |n: u32| word >> n & 1 == 1;
    match (word >> 28, word >> 25 & 7) {
        // A5.5: B; the offset counts from two instructions on.
        (0..=0xd, 0b101) if !bit(24) => {
            let offset = ((word << 8) as i32 >> 8) + 2;
            usize::try_from(1 - offset).map_or(A32::Other, A32::Back)
        }
        // A5.3: LDR and STR of words, by immediates and registers.
        (0xe, 0b010) if !bit(22) => {
            if bit(20) {
                A32::Load
            } else {
                A32::Store
            }
        }
        (0xe, 0b011) if !bit(22) && !bit(4) => {
            if bit(20) {
                A32::Load
            } else {
                A32::Store
            }
        }
        // A5.2.8: LDRD and STRD have bits 7 to 4 at 1101 and 1111.
        (0xe, 0b000) if word >> 4 & 0xf == 0xd && !bit(20) => A32::Load,
        (0xe, 0b000) if word >> 4 & 0xf == 0xf && !bit(20) => A32::Store,
        // A5.2: bits 7 and 4 are both 1 for multiplications and other loads.
        (0xe, 0b000) if !(bit(7) && bit(4)) => A32::Compute,
        (0xe, 0b001) => A32::Compute,
        _ => A32::Other,
    }
}

/// The compiled loops for 32-bit ARM: a chase of 32 loads, and sweeps of 32 reads, writes and modifications, each cell by one
/// load and one store, with at most as many other instructions as the pattern declares.
#[test]
fn loops_of_32_bit_images_have_only_their_accesses() {
    for name in ["armv7", "armv6"] {
        let Some(image) = image(name) else { continue };
        let code = &image[..code_bytes(&image).unwrap()];
        let words: Vec<A32> =
            code.chunks_exact(4).map(|w| a32(u32::from_le_bytes([w[0], w[1], w[2], w[3]]))).collect();
        let loops: Vec<[usize; 4]> = (0..words.len())
            .filter_map(|at| match words[at] {
                A32::Back(length) => words.get((at + 1).checked_sub(length)?..at),
                _ => None,
            })
            .map(|body| {
                let count = |what| body.iter().filter(|&&found| found == what).count();
                [count(A32::Load), count(A32::Store), count(A32::Compute), count(A32::Other)]
            })
            .collect();
        // Loads, stores, others: the loop's decrement, and for each cell its address and what is done with it. A sum of 8 bytes
        // takes two additions, and may be made without the address as a third.
        for (what, loads, stores, computes) in [
            ("chase", 32, 0, 1..=1),
            ("read", 32, 0, 1 + 2 * 32..=1 + 3 * 32),
            ("write", 0, 32, 1..=1 + 32),
            ("modification", 32, 32, 1 + 32..=1 + 2 * 32),
        ] {
            let found =
                loops.iter().any(|&[l, s, c, o]| (l, s, o) == (loads, stores, 0) && computes.contains(&c));
            let near: Vec<_> = loops.iter().filter(|[l, s, ..]| l + s >= 32).collect();
            assert!(found, "{name}: no loop of the {what}; loops with many accesses: {near:?}");
        }
    }
}
