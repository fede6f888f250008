//! The region `loop` of exact.c in Rust: 2 instructions for each of so many steps, on AArch64, on two threads if a second argument is given.

fn looped(steps: u64) {
    fathom_mark::region!("loop");
    // SAFETY: it counts down in a register.
    unsafe {
        std::arch::asm!("mov x9, {}", "1:", "subs x9, x9, #1", "b.ne 1b", in(reg) steps, out("x9") _);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let steps = words.first().map_or(1, |steps| steps.parse().expect("a number"));
    let other = words.get(1).map(|_| std::thread::spawn(move || looped(steps)));
    looped(steps);
    other.into_iter().for_each(|other| other.join().expect("it ends"));
}
