//! Marks of a program for RISC-V: no fathom is needed in that guest.

use super::*;

/// QEMU 7.2 counts instructions as ns of its clock: four each (`fathom.instruction_ns`). Later ones count them as they are.
const FACTORS: [u64; 2] = [4, 1];

/// Instructions of a region are those of its loop and some of its marks, read by read(2), and by `csrr` where the kernel lets programs.
#[test]
#[ignore = "Debian's kernel for RISC-V is fetched: scripts/test --full"]
fn instructions_of_a_region_are_exact_on_risc_v() {
    let _turn = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let (program, script) = (folder.path().join("marks"), folder.path().join("script"));
    let source = format!("{}/tests/lab/marks.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("riscv64-linux-gnu-gcc")
        .args(["-O2", "-static", "-Wall", "-Wextra", "-Werror", &format!("-I{ROOT}/include"), &source, "-o"])
        .arg(&program)
        .output();
    let Ok(built) = built else {
        return fathom_skip::skipped!(
            Unchecked,
            "no riscv64-linux-gnu-gcc: scripts/cross riscv64gc-unknown-linux-gnu --setup"
        );
    };
    assert!(built.status.success(), "{built:?}");
    // The guest calls the program fathom. What is short has no interrupt of the timer in most runs.
    let text = "for access in 0 1; do echo $access >/proc/sys/kernel/perf_user_access; fathom 1000 1000 1000 5000 5000 5000; done\n";
    std::fs::write(&script, text).expect("a folder that can be written");
    let run = laboratory(MEMORY)
        .args(["--guest", "riscv64", "--script"])
        .arg(&script)
        .env("FATHOM_BOARD", &program)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let [out, err] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if run.status.code() == Some(UNAVAILABLE) {
        return fathom_skip::skipped!(Unchecked, "{err}");
    }
    assert!(run.status.success(), "{out}{err}");
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{out}{err}"));
    let lines: Vec<Vec<u64>> = out.lines().map(|line| line.split(' ').map(number).collect()).collect();
    assert_eq!(lines.len(), 12, "{out}{err}");
    for (method, half) in [1, 2].into_iter().zip(lines.chunks(6)) {
        assert!(half.iter().all(|line| (line[0], line[3]) == (method, 0)), "{out}");
        let least = |steps: u64| half.iter().filter(|line| line[1] == steps).map(|line| line[2]).min();
        let [short, long] = [least(1000), least(5000)].map(|count| count.expect("it was counted"));
        println!("method {method}: 1000 steps {short}, 5000 steps {long}");
        let factor = FACTORS.into_iter().find(|factor| long - short == factor * 2 * 4000);
        assert!(factor.is_some_and(|factor| short < factor * (2 * 1000 + 5000)), "{out}");
    }
}
