//! Selection of facts for report heads, comparisons and machine-readable output.

use fathom_units::facts;

/// Prefixes of the names of facts about the environment and about the probe itself, and of those that a report's head
/// puts into words.
const BACKGROUND: [&str; 9] = [
    "run.",
    "env.",
    "privilege.",
    "memory.",
    "counter.",
    "throttle",
    "watch.",
    "clock.",
    facts::DESCRIBED_VALUES,
];

/// Background facts that a report's head shows anyway.
const HEAD: [&str; 3] = [facts::CPU_MODEL, facts::BOARD_MODEL, facts::CLOCK_NAME];

/// Facts about the environment that hold for a whole session and affect its measurements.
const SETTINGS: [&str; 17] = [
    facts::AFFINITY,
    facts::BUILD,
    facts::CLOCKSOURCE,
    facts::KERNEL_COMMAND_LINE,
    facts::CONTAINER,
    facts::CPU_MICROCODE,
    facts::CPUS_ISOLATED,
    facts::FREQ_BOOST,
    facts::FREQ_DRIVER,
    facts::FREQ_GOVERNOR,
    facts::FREQ_NO_TURBO,
    facts::KERNEL_RELEASE,
    facts::MITIGATIONS,
    facts::SMT,
    facts::THP_ENABLED,
    facts::MEMORY_LOCKED,
    facts::PRIVILEGE_FIFO,
];

/// Fact that names the description that a report was checked against.
pub const AGAINST: &str = "against";

/// Returns whether the fact describes the measured machine, so that a report's head shows it.
#[must_use]
pub fn is_head(name: &str) -> bool {
    HEAD.contains(&name) || !BACKGROUND.iter().any(|b| name.starts_with(b))
}

/// Returns whether the fact is about the environment, so that only machine-readable output has it.
#[must_use]
pub fn is_background(name: &str) -> bool {
    !is_head(name)
}

/// Returns whether a difference in this fact may explain a difference between two measurements. Load, temperature and
/// the like always differ and explain nothing.
#[must_use]
pub fn is_setting(name: &str) -> bool {
    is_head(name) || SETTINGS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_classified_as_head_settings_or_background() {
        for name in ["machine.name", "env.cpu.model", "clock.name", "page.base", "cpu.pinned"] {
            assert!(is_head(name) && is_setting(name), "{name}");
        }
        for name in ["env.freq.governor", "env.kernel.release", "privilege.fifo"] {
            assert!(!is_head(name) && is_setting(name), "{name}");
        }
        for name in
            ["env.loadavg", "env.after.freq.governor", "env.pressure.cpu", "memory.after.locked", "clock.hz"]
        {
            assert!(is_background(name) && !is_setting(name), "{name}");
        }
        assert!(SETTINGS.iter().all(|s| is_background(s)), "what is in the head needs no second mention");
    }
}
