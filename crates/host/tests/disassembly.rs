//! The optimised chase loop is what it is said to be: k dependent loads, one decrement, one branch, and
//! no other memory access. Checked in the machine code, on x86-64 and on AArch64.

mod disassembly {
    pub mod a64;
    pub mod check;
    pub mod image;
    pub mod x86;
}

use disassembly::check::{Instruction, Kind, hot_loop};
use disassembly::image::{Built, build};
use fathom_probe::patterns::chase::UNROLL;

const LOOP: &str = "fathom_chase_loop";
const SPOILED: &str = "fathom_spoiled_loop";

/// Checks the example built for `target` (`None`: for this machine).
fn holds_for(target: Option<&str>) {
    let image = match build(target) {
        Built::Image(image) => image,
        Built::Skipped(why) => {
            eprintln!("SKIPPED, the loop is not checked: {why}");
            return;
        }
    };
    for code in image.functions(LOOP) {
        if let Err(why) = hot_loop(&code, UNROLL as usize) {
            panic!("{LOOP}: {why}\n{}", listing(&code));
        }
    }
    for code in image.functions(SPOILED) {
        let verdict = hot_loop(&code, UNROLL as usize);
        let why = verdict.expect_err("a loop with a store too many must be rejected");
        assert!(why.contains("memory"), "rejected for another reason: {why}\n{}", listing(&code));
    }
}

fn listing(code: &[Instruction]) -> String {
    code.iter().map(|i| format!("{:#x}: {:?}\n", i.at, i.kind)).collect()
}

#[test]
fn the_loop_of_this_machine_is_bare() {
    holds_for(None);
}

#[test]
fn the_loop_of_the_board_binary_is_bare() {
    holds_for(Some("aarch64-unknown-linux-musl"));
}

/// A good loop of `n` loads, to be spoiled.
fn bare(n: u64) -> Vec<Instruction> {
    let mut code: Vec<Instruction> =
        (0..n).map(|i| Instruction { at: 4 * i, kind: Kind::Load { to: 1, address: [9, 1] } }).collect();
    code.push(Instruction { at: 4 * n, kind: Kind::Decrement { register: 2 } });
    code.push(Instruction { at: 4 * n + 4, kind: Kind::Branch { to: 0, conditional: true } });
    code.push(Instruction { at: 4 * n + 8, kind: Kind::Other { writes: vec![] } });
    code
}

/// Puts an instruction before the `n`th one.
fn with(mut code: Vec<Instruction>, n: usize, kind: Kind) -> Vec<Instruction> {
    let at = code[n].at - 2;
    code.insert(n, Instruction { at, kind });
    code
}

#[test]
fn the_check_accepts_only_the_bare_loop() {
    assert_eq!(hot_loop(&bare(8), 8), Ok(()));
    let wrong: [(&str, Vec<Instruction>); 8] = [
        ("too few loads", bare(7)),
        ("too many loads", bare(9)),
        ("a store", with(bare(8), 3, Kind::Memory)),
        ("a second branch", with(bare(8), 3, Kind::Branch { to: 100, conditional: true })),
        ("a second decrement", with(bare(8), 3, Kind::Decrement { register: 3 })),
        ("an instruction more", with(bare(8), 3, Kind::Other { writes: vec![5] })),
        ("an independent load", {
            let mut code = bare(8);
            code[4].kind = Kind::Load { to: 1, address: [9, 3] };
            code
        }),
        ("a chain that does not close", {
            let mut code = bare(8);
            code[0].kind = Kind::Load { to: 1, address: [9, 3] };
            code
        }),
    ];
    for (what, code) in wrong {
        assert!(hot_loop(&code, 8).is_err(), "{what} was accepted");
    }
}
