//! Study S0 for a person at a serial terminal: its sizes and its output. (`fathom cacheability` measures the same
//! with uncertainties.)

use alloc::format;
use alloc::string::String;

use fathom_probe::mair::Meaning;

/// Rounds of read-modify-writes, as in the study.
pub const ROUNDS: u64 = 20_000;
/// Buffer sizes, bytes: that of the study's code, and the five lines of its text.
pub const BUFFER_BYTES: [u64; 2] = [2560, 320];

/// One timed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Size of the buffer, bytes.
    pub bytes: u64,
    /// Virtual address of the buffer.
    pub va: u64,
    /// Physical address and attribute byte of the buffer, as the core translates it; `None` if that faults, or if the core
    /// reports no attribute.
    pub translated: Option<(u64, Option<u8>)>,
    /// Ticks of the system counter.
    pub ticks: u64,
    /// Rate of the system counter, Hz.
    pub hz: u64,
}

impl Run {
    /// Returns the number of read-modify-writes.
    #[must_use]
    pub fn operations(&self) -> u64 {
        ROUNDS * self.bytes / 8
    }

    /// Returns the total time, us.
    #[must_use]
    pub fn micros(&self) -> u64 {
        scaled(self.ticks, 1_000_000, self.hz)
    }

    /// Returns the time per operation, ps.
    fn picos(&self) -> u64 {
        scaled(self.ticks, 1_000_000_000_000, self.hz.saturating_mul(self.operations()))
    }

    /// Returns the line of output. Lines for people begin with `#`, unlike any line of the wire format.
    #[must_use]
    pub fn line(&self) -> String {
        let Run { bytes, va, .. } = self;
        let treated = match self.translated {
            Some((pa, Some(mair))) => format!("pa {pa:#x}, attribute {mair:#04x} ({})", Meaning::of(mair)),
            Some((pa, None)) => format!("pa {pa:#x}, attribute not reported"),
            None => "not translated".into(),
        };
        let (us, ps) = (self.micros(), self.picos());
        format!(
            "#   {bytes:>4} bytes at va {va:#x}, {treated}: {}.{:03} ms, {}.{:03} ns per operation",
            us / 1000,
            us % 1000,
            ps / 1000,
            ps % 1000
        )
    }
}

/// Converts `ticks` at `hz` to a unit of 1/`units` s; 0 if the clock does not count.
fn scaled(ticks: u64, units: u64, hz: u64) -> u64 {
    (u128::from(ticks) * u128::from(units)).checked_div(u128::from(hz)).unwrap_or(0).min(u64::MAX.into())
        as u64
}

/// Returns the line that compares two runs, with the integer percentage of the study.
#[must_use]
pub fn ratio(uncached: &Run, cached: &Run) -> String {
    let hundredths = (uncached.ticks * 100).checked_div(cached.ticks).unwrap_or(0);
    let faster = uncached.ticks.saturating_sub(cached.ticks).checked_div(cached.ticks).unwrap_or(0) * 100;
    let verdict = match hundredths {
        0..MIN_MEMORY_RATIO_HUNDREDTHS => {
            "the difference is too small for memory and a cache: the attributes are not in force".into()
        }
        _ => format!("cacheable is {faster} % faster, by the study's formula"),
    };
    format!("#   ratio {}.{:02}: {verdict}", hundredths / 100, hundredths % 100)
}

/// Smallest ratio of memory to a cache, in hundredths: no memory serves a loop within twice the time of a first-level
/// cache.
const MIN_MEMORY_RATIO_HUNDREDTHS: u64 = 200;

/// Returns the lines before the runs. `is_hardware`: the clock is real; `coherent`: `SMPEN` (on 32-bit ARM `SMP`) is set, as
/// far as is known.
#[must_use]
pub fn head(board: &str, core: &str, is_hardware: bool, coherent: bool) -> String {
    let doubt = match (is_hardware, coherent) {
        (false, _) => "\r\n#   under an emulator: these times are not those of hardware",
        (true, false) => {
            "\r\n#   CPUECTLR_EL1.SMPEN or ACTLR.SMP is clear: the core may treat cacheable memory as non-cacheable"
        }
        (true, true) => "",
    };
    format!(
        "# no input: study S0 on {board}, {core}; {ROUNDS} rounds of read-modify-write over 8-byte words{doubt}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ticks: u64, mair: u8) -> Run {
        Run {
            bytes: 2560,
            va: 0x10_0000_0000,
            translated: Some((0x0800_0000, Some(mair))),
            ticks,
            hz: 19_200_000,
        }
    }

    #[test]
    fn times_of_study_s0_give_its_numbers() {
        let (uncached, cached) = (run(19_968_000, 0x44), run(1_017_600, 0xff));
        assert_eq!((uncached.micros(), cached.micros()), (1_040_000, 53_000));
        assert_eq!(uncached.operations(), 6_400_000);
        let line = uncached.line();
        assert!(line.contains("1040.000 ms, 162.500 ns per operation"), "{line}");
        assert!(line.contains("attribute 0x44 (Normal non-cacheable)"), "{line}");
        assert!(cached.line().contains("53.000 ms, 8.281 ns"));
        let ratio = ratio(&uncached, &cached);
        assert!(ratio.contains("ratio 19.62") && ratio.contains("1800 %"), "{ratio}");
        let same = super::ratio(&cached, &cached);
        assert!(same.contains("ratio 1.00") && same.contains("not in force"), "{same}");
    }

    #[test]
    fn zero_ticks_and_frequency_do_not_panic() {
        let dead = Run { bytes: 0, ticks: 0, hz: 0, translated: None, ..run(0, 0) };
        assert!(dead.line().contains("0.000 ms"));
        assert!(ratio(&dead, &dead).contains("0.00"));
    }

    #[test]
    fn lines_are_comments_on_the_wire() {
        assert!(head("b", "c", true, false).contains("SMPEN"));
        let lines = [
            head("b", "c", false, true),
            head("b", "c", true, false),
            run(5, 0).line(),
            ratio(&run(5, 0), &run(1, 0)),
        ];
        for line in lines.iter().flat_map(|text| text.split("\r\n")) {
            assert!(line.starts_with('#'));
            assert!(fathom_probe::wire::Line::parse(line).is_err());
        }
    }
}
