//! Checks the machine code of optimised loops on x86-64, AArch64 and RISC-V; those of 32-bit ARM are checked in the bare-metal
//! images, which have the same (`tests/metal/code.rs` of the command). The chase loop has k dependent loads, one
//! decrement, one branch and no other memory access. The three stride loops have one access and one address per step.

mod disassembly {
    pub mod a64;
    pub mod check;
    pub mod image;
    pub mod rv64;
    pub mod x86;
}

use disassembly::check::{Instruction, Kind, Turn, hot_loop, sweep_loops};
use disassembly::image::{Built, build};
use fathom_probe::machine::Operation;
use fathom_probe::machine::batch::chase::UNROLL;
use fathom_probe::machine::batch::stride::{self, Sweep};

const LOOP: &str = "fathom_chase_loop";
const SPOILED: &str = "fathom_spoiled_loop";
/// The host's own loops, in the crate itself.
const SWEEP: &str = "sweep_loops";

/// Returns the expected turn of each operation's loop, with at most the instructions that the pattern declares.
fn turns() -> Vec<Turn> {
    let of = |&operation: &Operation| {
        let sweep = Sweep { base: 0, stride: 8, cells: 1, operation };
        let ops = stride::loop_ops(&sweep, stride::UNROLL);
        let n = stride::UNROLL as usize;
        let (reads, writes) = match operation {
            Operation::Read => (n, 0),
            Operation::Write => (0, n),
            Operation::Rmw => (n, n),
            // One store for two cells; it is written in assembly.
            other => panic!("{other:?} is no stride"),
        };
        (reads, writes, (ops.alu + ops.branch) as usize)
    };
    Operation::STRIDES.iter().map(of).collect()
}

/// Checks the example built for `target` (None: for this machine) with a profile.
fn assert_loops(target: Option<&str>, profile: &str) {
    let image = match build(target, profile) {
        Built::Image(image) => image,
        Built::Skipped(why) => {
            fathom_skip::skipped!(Unchecked, "the loop is not checked: {why}");
            return;
        }
    };
    for code in image.functions(LOOP) {
        if let Err(why) = hot_loop(&code, UNROLL as usize) {
            panic!("{LOOP}: {why}\n{}", listing(&code));
        }
    }
    for code in image.functions(SWEEP) {
        if let Err(why) = sweep_loops(&code, &turns()) {
            panic!("{SWEEP}: {why}\n{}", listing(&code));
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
fn loops_of_this_machine_have_only_their_accesses() {
    assert_loops(None, "release");
}

#[test]
fn loops_of_the_board_binary_have_only_their_accesses() {
    assert_loops(Some("aarch64-unknown-linux-musl"), "release");
}

#[test]
#[ignore = "compiles the crates once more, which takes a minute: scripts/test --full"]
fn loops_for_riscv_have_only_their_accesses() {
    assert_loops(Some("riscv64gc-unknown-linux-gnu"), "release");
}

/// Everything but what measures is optimised for size there, and linked with it as one.
#[test]
#[ignore = "compiles the crates once more, which takes a minute: scripts/test --full"]
fn loops_of_the_packages_have_only_their_accesses() {
    assert_loops(None, "packages");
}

/// Returns a correct loop of `n` loads.
fn correct_loop(n: u64) -> Vec<Instruction> {
    let mut code: Vec<Instruction> =
        (0..n).map(|i| Instruction { at: 4 * i, kind: Kind::Load { to: 1, address: [9, 1] } }).collect();
    code.push(Instruction { at: 4 * n, kind: Kind::Decrement { register: 2 } });
    code.push(Instruction { at: 4 * n + 4, kind: Kind::Branch { to: 0, conditional: true } });
    code.push(Instruction { at: 4 * n + 8, kind: Kind::Other { writes: vec![] } });
    code
}

/// Inserts an instruction before the `n`th one.
fn with(mut code: Vec<Instruction>, n: usize, kind: Kind) -> Vec<Instruction> {
    let at = code[n].at - 2;
    code.insert(n, Instruction { at, kind });
    code
}

#[test]
fn check_of_the_chase_rejects_other_loops() {
    assert_eq!(hot_loop(&correct_loop(8), 8), Ok(()));
    let wrong: [(&str, Vec<Instruction>); 8] = [
        ("too few loads", correct_loop(7)),
        ("too many loads", correct_loop(9)),
        ("a store", with(correct_loop(8), 3, Kind::Memory { reads: 0, writes: 8 })),
        ("a second branch", with(correct_loop(8), 3, Kind::Branch { to: 100, conditional: true })),
        ("a second decrement", with(correct_loop(8), 3, Kind::Decrement { register: 3 })),
        ("an instruction more", with(correct_loop(8), 3, Kind::Other { writes: vec![5] })),
        ("an independent load", {
            let mut code = correct_loop(8);
            code[4].kind = Kind::Load { to: 1, address: [9, 3] };
            code
        }),
        ("a chain that does not close", {
            let mut code = correct_loop(8);
            code[0].kind = Kind::Load { to: 1, address: [9, 3] };
            code
        }),
    ];
    for (what, code) in wrong {
        assert!(hot_loop(&code, 8).is_err(), "{what} was accepted");
    }
}

/// Returns a loop of `n` accesses with an address after each, from address `at` on.
fn sweep_of(at: u64, n: u64, access: &Kind) -> Vec<Instruction> {
    let mut kinds: Vec<Kind> =
        (0..n).flat_map(|_| [access.clone(), Kind::Other { writes: vec![1] }]).collect();
    kinds.extend([Kind::Decrement { register: 2 }, Kind::Branch { to: at, conditional: true }]);
    kinds.into_iter().zip(0..).map(|(kind, i)| Instruction { at: at + 4 * i, kind }).collect()
}

#[test]
fn check_of_sweeps_rejects_other_loops() {
    let memory = |reads, writes| Kind::Memory { reads, writes };
    let plain = Kind::Load { to: 1, address: [2, 3] };
    let turns = [(8, 0, 10), (0, 8, 10)];
    let good = [sweep_of(0, 8, &plain), sweep_of(1000, 8, &memory(0, 8)), sweep_of(2000, 2, &memory(0, 8))];
    assert_eq!(sweep_loops(&good.concat(), &turns), Ok(()));
    let wrong: [(&str, Vec<Instruction>); 7] = [
        ("joined into wider ones", sweep_of(1000, 8, &memory(0, 16))),
        ("half of them left out", sweep_of(1000, 5, &memory(0, 8))),
        ("one left out", sweep_of(1000, 7, &memory(0, 8))),
        ("one too many", with(sweep_of(1000, 8, &memory(0, 8)), 3, memory(8, 0))),
        ("an instruction more", with(sweep_of(1000, 8, &memory(0, 8)), 3, Kind::Other { writes: vec![] })),
        ("read back", sweep_of(1000, 8, &memory(8, 8))),
        ("no loop at all", Vec::new()),
    ];
    for (what, code) in wrong {
        let code = [sweep_of(0, 8, &plain), code].concat();
        assert!(sweep_loops(&code, &turns).is_err(), "{what} was accepted");
    }
}
