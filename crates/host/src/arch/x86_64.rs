//! x86-64.

#[cfg(target_arch = "x86_64")]
mod cpu;
mod cpuid;
mod trust;

#[cfg(target_arch = "x86_64")]
pub(crate) use cpu::Cpu;

/// Returns why the time-stamp counter has a fixed rate, or why it may not: by the bit `invariant` of CPUID and the
/// text of `/proc/cpuinfo`.
fn fixed_rate(invariant: bool, cpuinfo: &str) -> Result<String, String> {
    let kernel = ["constant_tsc", "nonstop_tsc"].iter().all(|flag| has_flag(cpuinfo, flag));
    match (invariant, kernel) {
        (true, _) => Ok("CPUID.80000007:EDX[8], the invariant TSC, is set".into()),
        (false, true) => Ok("the kernel lists constant_tsc and nonstop_tsc".into()),
        (false, false) => {
            Err("CPUID.80000007:EDX[8] is clear and the kernel does not list constant_tsc and \
                               nonstop_tsc: the TSC may change its rate"
                .into())
        }
    }
}

/// Returns whether the first `flags` line of `/proc/cpuinfo` contains this flag.
fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("flags")?.split_once(':'))
        .is_some_and(|(_, words)| words.split_whitespace().any(|w| w == flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_words_of_the_first_flags_line() {
        let info = "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\nbugs\t: x\n";
        assert!(has_flag(info, "constant_tsc") && has_flag(info, "nonstop_tsc"));
        assert!(!has_flag(info, "tsc") && !has_flag("", "fpu"));
    }

    #[test]
    fn tsc_is_a_clock_if_cpuid_or_kernel_reports_it_invariant() {
        let flags = |words: &str| format!("flags\t\t: fpu {words}\n");
        assert!(fixed_rate(true, "").is_ok());
        assert!(fixed_rate(false, &flags("constant_tsc nonstop_tsc")).is_ok());
        for words in ["", "constant_tsc", "nonstop_tsc"] {
            assert!(fixed_rate(false, &flags(words)).is_err_and(|why| why.contains("may change its rate")));
        }
    }
}
