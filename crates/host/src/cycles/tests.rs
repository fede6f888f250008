//! Without the right to read the cycle counter, which no test machine has: the reported facts, and that no process is
//! killed.

use fathom_probe::machine::FactValue;

use super::*;
use crate::fixture;

const DIRECTORY: &str = "/sys/devices/system/cpu/cpu2/cpufreq";

#[test]
fn core_with_variable_frequency_is_not_a_clock() {
    let governed = |governor: &str, least: &str, most: &str| {
        let (_keep, root) = fixture::root(&[
            (&format!("{DIRECTORY}/scaling_governor"), governor),
            (&format!("{DIRECTORY}/scaling_min_freq"), least),
            (&format!("{DIRECTORY}/scaling_max_freq"), most),
        ]);
        check_fixed_frequency(&root, 2)
    };
    let moved = governed("ondemand\n", "600000\n", "1500000\n").expect_err("it moves");
    assert!(moved.contains("governor ondemand") && moved.contains("echo performance > /sys/"), "{moved}");
    assert_eq!(governed("ondemand\n", "600000\n", "600000\n"), Ok(()));
    assert_eq!(governed("performance\n", "600000\n", "1500000\n"), Ok(()));
    assert!(governed("schedutil\n", "", "").is_err(), "two that are unknown are not the same");
    let (_keep, none) = fixture::root(&[]);
    assert_eq!(check_fixed_frequency(&none, 2), Ok(()), "no cpufreq moves nothing");
}

#[test]
fn missing_grant_is_a_fact_only_where_the_counter_exists() {
    let (_keep, root) = fixture::root(&[]);
    let (cycles, fact) = Cycles::obtain(&root, &Presence::Absent, 0);
    assert!(cycles.is_none());
    assert_eq!(fact.as_ref().map(|fact| fact.name.as_str()), Counter::READABLE.then_some("clock.cycles"));
    if let Some(Fact { value: FactValue::Text(reported), .. }) = fact {
        assert!(reported.starts_with("not the clock: ") && reported.contains(Counter::REMEDY), "{reported}");
    }
}

#[test]
fn missing_driver_is_named_with_remedy() {
    let reported = |presence| driver_grant(&presence, 0, "the kernel grants none").expect_err("no driver");
    let absent = reported(Presence::Absent);
    assert!(absent.starts_with("the kernel grants none, and ") && absent.contains("insmod driver/fathom.ko"));
    let denied = reported(Presence::Denied("Permission denied".into()));
    assert!(denied.contains("usermod -aG fathom"), "{denied}");
}

/// If every process may read the counter here, there is nothing to test.
#[test]
fn denied_readings_are_counted_and_do_not_end_the_process() {
    let reader = match Counter::prepare() {
        Ok(reader) => reader,
        Err(error) => return assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}"),
    };
    let readings = [(); 3].map(|()| Counter::read(reader));
    match Counter::take_denied() {
        0 => fathom_skip::skipped!(
            Unchecked,
            "readings without the right: this machine lets every process read, {readings:?}"
        ),
        times => {
            assert_eq!(times, 3);
            assert!(readings.is_sorted(), "another clock's: {readings:?}");
            assert!(check_counter(reader).expect_err("not readable").contains("is not"));
        }
    }
}
