//! Without the right, which no machine of the tests has: what is told, and that nobody dies of it.

use super::*;
use crate::fixture;

const DIRECTORY: &str = "/sys/devices/system/cpu/cpu2/cpufreq";

#[test]
fn a_core_whose_rate_moves_gives_no_clock() {
    let governed = |governor: &str, least: &str, most: &str| {
        let (_keep, root) = fixture::root(&[
            (&format!("{DIRECTORY}/scaling_governor"), governor),
            (&format!("{DIRECTORY}/scaling_min_freq"), least),
            (&format!("{DIRECTORY}/scaling_max_freq"), most),
        ]);
        standing(&root, 2)
    };
    let moved = governed("ondemand\n", "600000\n", "1500000\n").expect_err("it moves");
    assert!(moved.contains("governor ondemand") && moved.contains("echo performance > /sys/"), "{moved}");
    assert_eq!(governed("ondemand\n", "600000\n", "600000\n"), Ok(()));
    assert_eq!(governed("performance\n", "600000\n", "1500000\n"), Ok(()));
    assert!(governed("schedutil\n", "", "").is_err(), "two that are unknown are not the same");
    let (_keep, none) = fixture::root(&[]);
    assert_eq!(standing(&none, 2), Ok(()), "no cpufreq moves nothing");
}

#[cfg(not(target_arch = "aarch64"))]
#[test]
fn where_there_is_no_such_counter_nothing_is_said_of_it() {
    let (_keep, root) = fixture::root(&[]);
    let (cycles, fact) = Cycles::obtain(&root, &Presence::Absent, 0);
    assert!(cycles.is_none() && fact.is_none());
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::*;
    use fathom_probe::machine::FactValue;

    #[test]
    fn one_instruction_is_answered_and_no_other() {
        assert_eq!(trap::reads_into(0xd53b_9d00), Some(0));
        assert_eq!(trap::reads_into(0xd53b_9d1f), Some(31));
        // Of CNTVCT_EL0; a write of the same register; PMXEVCNTR_EL0; an undefined one.
        for other in [0xd53b_e040, 0xd51b_9d00, 0xd53b_9d40, 0] {
            assert_eq!(trap::reads_into(other), None, "{other:#x}");
        }
    }

    /// The right is nobody's here, or it is this process's by perf: then there is nothing to see.
    #[test]
    fn a_reading_without_the_right_is_no_time_and_no_death() {
        trap::install().expect("a handler");
        let readings = [read(), read(), read()];
        match trap::taken() {
            0 => eprintln!(
                "SKIPPED readings without the right: this machine lets everybody read, {readings:?}"
            ),
            times => {
                assert_eq!(times, 3);
                assert!(readings.is_sorted(), "another clock's: {readings:?}");
                assert!(super::super::arm::tried().expect_err("not readable").contains("is not"));
            }
        }
    }

    #[test]
    fn another_illegal_instruction_still_ends_the_process() {
        let child = "cycles::tests::arm::dies_of_an_illegal_instruction";
        let this = std::env::current_exe().expect("this program");
        let run = |program: &std::path::Path, first: &[&std::ffi::OsStr]| {
            let mut command = std::process::Command::new(program);
            command.args(first).args(["--exact", child, "--ignored", "--nocapture"]).output()
        };
        // ENOEXEC: under a user-mode emulator that the kernel does not call by itself.
        let output = match run(&this, &[]) {
            Err(error) if error.raw_os_error() == Some(8) => {
                let thread = rustix::thread::gettid().as_raw_nonzero();
                let emulator =
                    std::fs::read_link(format!("/proc/self/task/{thread}/exe")).expect("an emulator");
                run(&emulator, &[this.as_os_str()])
            }
            output => output,
        };
        let output = output.expect("the child starts");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            !output.status.success() && told.contains("about to") && !told.contains("survived"),
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
    fn without_perf_and_driver_both_are_named_with_what_would_help() {
        let told = |files: &[(&str, &str)], presence: &Presence| {
            let (_keep, root) = fixture::root(files);
            let (cycles, fact) = Cycles::obtain(&root, presence, 0);
            assert!(cycles.is_none());
            match fact.expect("it is said").value {
                FactValue::Text(text) => text,
                other => panic!("{other:?}"),
            }
        };
        let access = |value| ("/proc/sys/kernel/perf_user_access", value);
        let absent = told(&[], &Presence::Absent);
        assert!(absent.starts_with("not the clock: this kernel has no kernel.perf_user_access"), "{absent}");
        assert!(absent.contains("insmod driver/fathom.ko"), "{absent}");
        let off = told(&[access("0\n")], &Presence::Denied("Permission denied".into()));
        assert!(off.contains("perf_user_access is 0") && off.contains("usermod -aG fathom"), "{off}");
        // On, and no PMU that has it.
        let on = told(&[access("1\n")], &Presence::Absent);
        assert!(on.contains("no PMU of this CPU's lets user space read"), "{on}");
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
        assert_eq!([3, 4, 6].map(|cpu| super::super::arm::pmu(&root, cpu)), [Some(8), Some(9), None]);
    }
}
