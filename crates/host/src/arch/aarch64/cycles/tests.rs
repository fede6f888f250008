use super::*;
use crate::fixture;

#[test]
fn only_reads_of_the_cycle_counter_are_recognised() {
    assert_eq!(trap::reads_into(0xd53b_9d00), Some(0));
    assert_eq!(trap::reads_into(0xd53b_9d1f), Some(31));
    // CNTVCT_EL0; a write of the same register; PMXEVCNTR_EL0; an undefined one.
    for other in [0xd53b_e040, 0xd51b_9d00, 0xd53b_9d40, 0] {
        assert_eq!(trap::reads_into(other), None, "{other:#x}");
    }
}

#[test]
fn other_illegal_instructions_still_end_the_process() {
    let child = "arch::aarch64::cycles::tests::dies_of_an_illegal_instruction";
    let this = std::env::current_exe().expect("this program");
    let run = |program: &std::path::Path, first: &[&std::ffi::OsStr]| {
        let mut command = std::process::Command::new(program);
        command.args(first).args(["--exact", child, "--ignored", "--nocapture"]).output()
    };
    // ENOEXEC: under a user-mode emulator that the kernel does not call automatically.
    let output = match run(&this, &[]) {
        Err(error) if error.raw_os_error() == Some(8) => {
            let thread = rustix::thread::gettid().as_raw_nonzero();
            let emulator = std::fs::read_link(format!("/proc/self/task/{thread}/exe")).expect("an emulator");
            run(&emulator, &[this.as_os_str()])
        }
        output => output,
    };
    let output = output.expect("the child starts");
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && reported.contains("about to") && !reported.contains("survived"),
        "{output:?}"
    );
}

#[test]
#[ignore = "ends its process: started by the test before it"]
fn dies_of_an_illegal_instruction() {
    trap::install().expect("a handler");
    println!("about to");
    // SAFETY: permanently undefined (DDI 0487, UDF): no state is changed before the exception.
    unsafe { std::arch::asm!("udf #0", options(nomem, nostack, preserves_flags)) };
    println!("survived");
}

#[test]
fn refused_kernel_permission_is_named() {
    let why = |files: &[(&str, &str)]| {
        let (_keep, root) = fixture::root(files);
        Pmccntr::grant(&root, 0).expect_err("not granted")
    };
    let access = |value| ("/proc/sys/kernel/perf_user_access", value);
    assert_eq!(why(&[]), "this kernel has no kernel.perf_user_access");
    assert_eq!(why(&[access("0\n")]), "kernel.perf_user_access is 0");
    // The sysctl permits it, but no PMU does.
    let on = why(&[access("1\n")]);
    assert!(on.contains("no PMU of this CPU permits user-space reads"), "{on}");
}

#[test]
fn the_pmu_is_the_one_of_this_cpu() {
    let device = "/sys/bus/event_source/devices";
    let little = format!("{device}/armv8_cortex_a53");
    let big = format!("{device}/armv8_cortex_a72");
    let (_keep, root) = fixture::root(&[
        (&format!("{little}/cpus"), "0-3\n"),
        (&format!("{little}/type"), "8\n"),
        (&format!("{little}/format/rdpmc"), "config1:1\n"),
        (&format!("{big}/cpus"), "4-5\n"),
        (&format!("{big}/type"), "9\n"),
        (&format!("{big}/format/rdpmc"), "config1:1\n"),
        (&format!("{device}/uncore/cpus"), "6\n"),
        (&format!("{device}/uncore/type"), "10\n"),
    ]);
    assert_eq!([3, 4, 6].map(|cpu| pmu(&root, cpu)), [Some(8), Some(9), None]);
}
