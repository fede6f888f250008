//! Study S0 for a human at a serial terminal: its sizes, and the words. (`fathom cacheability` is the same
//! question with its uncertainty; this is for whoever has a board and a terminal.)

use alloc::format;
use alloc::string::String;

/// Rounds of read-modify-writes, as the study has them.
pub const ROUNDS: u64 = 20_000;
/// Buffers: what the study's code walks, and the five lines that its text speaks of.
pub const BUFFERS: [u64; 2] = [2560, 320];

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Bytes of the buffer.
    pub bytes: u64,
    /// Where it is looked at.
    pub va: u64,
    /// Where it lies and how it is treated, as `AT S1E1R` says; `None` where that faults.
    pub translated: Option<(u64, u8)>,
    /// Ticks of the system counter.
    pub ticks: u64,
    /// Its rate.
    pub hz: u64,
}

impl Run {
    /// Read-modify-writes.
    #[must_use]
    pub fn operations(&self) -> u64 {
        ROUNDS * self.bytes / 8
    }

    /// Time in all, us.
    #[must_use]
    pub fn micros(&self) -> u64 {
        scaled(self.ticks, 1_000_000, self.hz)
    }

    /// Time an operation, ps.
    fn picos(&self) -> u64 {
        scaled(self.ticks, 1_000_000_000_000, self.hz.saturating_mul(self.operations()))
    }

    /// One line. Lines for humans begin with `#`, which no line of the wire does.
    #[must_use]
    pub fn line(&self) -> String {
        let Run { bytes, va, .. } = self;
        let treated = match self.translated {
            Some((pa, mair)) => {
                format!("pa {pa:#x}, attribute {mair:#04x} ({})", crate::registers::words_of(mair))
            }
            None => "translated to nothing".into(),
        };
        let (us, ps) = (self.micros(), self.picos());
        format!(
            "#   {bytes:>4} bytes at va {va:#x}, {treated}: {}.{:03} ms, {}.{:03} ns an operation",
            us / 1000,
            us % 1000,
            ps / 1000,
            ps % 1000
        )
    }
}

/// `ticks` at `hz` in units of which `units` are a second; 0 for a clock that stands.
fn scaled(ticks: u64, units: u64, hz: u64) -> u64 {
    (u128::from(ticks) * u128::from(units)).checked_div(u128::from(hz)).unwrap_or(0).min(u64::MAX.into())
        as u64
}

/// The line that sets two runs beside each other, with the study's own integer percentage.
#[must_use]
pub fn ratio(uncached: &Run, cached: &Run) -> String {
    let hundredths = (uncached.ticks * 100).checked_div(cached.ticks).unwrap_or(0);
    let faster = uncached.ticks.saturating_sub(cached.ticks).checked_div(cached.ticks).unwrap_or(0) * 100;
    let verdict = match hundredths {
        0..MAX_HIT_TICKS => {
            "the two do not differ as memory and a cache do: the attributes are not in force".into()
        }
        _ => format!("cacheable is {faster} % faster, as the study counts"),
    };
    format!("#   ratio {}.{:02}: {verdict}", hundredths / 100, hundredths % 100)
}

/// A ratio below this many hundredths is no ratio of memory to a cache: no memory serves within twice the time of a
/// loop that a first-level cache serves.
const MAX_HIT_TICKS: u64 = 200;

/// What stands above the runs. `believable`: it is silicon; `coherent`: `SMPEN` is set, as far as is known.
#[must_use]
pub fn head(board: &str, core: &str, believable: bool, coherent: bool) -> String {
    let doubt = match (believable, coherent) {
        (false, _) => "\r\n#   under an emulator: these times say nothing of any hardware",
        (true, false) => {
            "\r\n#   CPUECTLR_EL1.SMPEN is clear: a Cortex-A53 may treat cacheable memory as if it were not"
        }
        (true, true) => "",
    };
    format!(
        "# nobody speaks: study S0 on {board}, {core}; {ROUNDS} rounds of read-modify-write over 8-byte words{doubt}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ticks: u64, mair: u8) -> Run {
        Run { bytes: 2560, va: 0x10_0000_0000, translated: Some((0x0800_0000, mair)), ticks, hz: 19_200_000 }
    }

    #[test]
    fn the_studys_times_give_the_studys_numbers() {
        let (uncached, cached) = (run(19_968_000, 0x44), run(1_017_600, 0xff));
        assert_eq!((uncached.micros(), cached.micros()), (1_040_000, 53_000));
        assert_eq!(uncached.operations(), 6_400_000);
        let line = uncached.line();
        assert!(line.contains("1040.000 ms, 162.500 ns an operation"), "{line}");
        assert!(line.contains("attribute 0x44 (Normal non-cacheable)"), "{line}");
        assert!(cached.line().contains("53.000 ms, 8.281 ns"));
        let ratio = ratio(&uncached, &cached);
        assert!(ratio.contains("ratio 19.62") && ratio.contains("1800 %"), "{ratio}");
        let same = super::ratio(&cached, &cached);
        assert!(same.contains("ratio 1.00") && same.contains("not in force"), "{same}");
    }

    #[test]
    fn nothing_divides_by_nothing() {
        let dead = Run { bytes: 0, ticks: 0, hz: 0, translated: None, ..run(0, 0) };
        assert!(dead.line().contains("0.000 ms"));
        assert!(ratio(&dead, &dead).contains("0.00"));
    }

    #[test]
    fn no_line_looks_like_the_wires() {
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
