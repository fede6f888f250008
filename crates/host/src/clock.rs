//! Clocks, their calibration, and the yardstick of dependent additions.

use std::arch::asm;
use std::time::Duration;

use fathom_probe::machine::Ticks;
use rustix::thread::ClockId;

use crate::read::Root;

/// Which counter `now` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The x86-64 time-stamp counter.
    #[cfg(target_arch = "x86_64")]
    Tsc,
    /// The AArch64 generic timer's virtual count.
    #[cfg(target_arch = "aarch64")]
    CntVct,
    /// The AArch64 PMU's cycle counter. Only who holds a [`crate::cycles::Cycles`] makes it.
    #[cfg(target_arch = "aarch64")]
    Cycles,
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds, through the vDSO: the fallback.
    MonotonicRaw,
}

impl Source {
    /// The name in the fact `clock.name`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc => "tsc",
            #[cfg(target_arch = "aarch64")]
            Source::CntVct => "cntvct",
            #[cfg(target_arch = "aarch64")]
            Source::Cycles => "pmccntr",
            Source::MonotonicRaw => "monotonic-raw",
        }
    }

    /// The best clock of this machine, and why it is the one.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn choose(root: &Root) -> (Source, String) {
        let flags = root.text("/proc/cpuinfo").unwrap_or_default();
        let kernel = ["constant_tsc", "nonstop_tsc"].iter().all(|f| has_flag(&flags, f));
        match (invariant_tsc(), kernel) {
            (true, _) => (Source::Tsc, "CPUID.80000007:EDX[8], the invariant TSC, is set".into()),
            (false, true) => (Source::Tsc, "the kernel lists constant_tsc and nonstop_tsc".into()),
            (false, false) => (
                Source::MonotonicRaw,
                "CPUID.80000007:EDX[8] is clear and the kernel does not list constant_tsc and nonstop_tsc: \
                 the TSC may change its rate"
                    .into(),
            ),
        }
    }

    /// The best clock of this machine, and why it is the one.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn choose(_root: &Root) -> (Source, String) {
        // Arm ARM, "The Generic Timer": the system counter runs at a fixed rate in every power state. Linux
        // gives user space the virtual count (CNTKCTL_EL1.EL0VCTEN), and emulates it where an erratum forbids. Boot
        // loaders have been known to leave it stopped: 2 ms are 65 ticks of the slowest (32 kHz).
        let (count, begin) = (cntvct(), raw_ns());
        while raw_ns().wrapping_sub(begin) < 2_000_000 {
            if cntvct() != count {
                return (Source::CntVct, "the generic timer's count has a fixed rate by architecture".into());
            }
        }
        (Source::MonotonicRaw, "the generic timer's count stands still".into())
    }

    /// Reads the clock after every earlier load and before every later one.
    #[inline(always)]
    pub(crate) fn now(self) -> Ticks {
        match self {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc => Ticks(tsc()),
            #[cfg(target_arch = "aarch64")]
            Source::CntVct => Ticks(cntvct()),
            #[cfg(target_arch = "aarch64")]
            Source::Cycles => Ticks(crate::cycles::read()),
            Source::MonotonicRaw => {
                order();
                let ns = raw_ns();
                order();
                Ticks(ns)
            }
        }
    }
}

/// Bit 8 of EDX in leaf 80000007 (Intel SDM 3B, "Invariant TSC"; AMD APM 3, function 8000_0007): the counter
/// has one rate in all power states.
#[cfg(target_arch = "x86_64")]
fn invariant_tsc() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// Does the first `flags` line of `/proc/cpuinfo` have this word?
#[cfg(target_arch = "x86_64")]
fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("flags")?.split_once(':'))
        .is_some_and(|(_, words)| words.split_whitespace().any(|w| w == flag))
}

/// `CLOCK_MONOTONIC_RAW` in nanoseconds: not slewed by NTP.
#[inline]
pub(crate) fn raw_ns() -> u64 {
    ns(rustix::time::clock_gettime(ClockId::MonotonicRaw))
}

/// CPU time of the calling thread in nanoseconds.
#[inline]
pub(crate) fn thread_ns() -> u64 {
    ns(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

fn ns(time: rustix::time::Timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The time-stamp counter between two fences. `LFENCE` waits until every earlier instruction has
/// completed locally, loads included, and lets no later one start (Intel SDM 2, LFENCE; on AMD where
/// `LFENCE` is dispatch-serialising, which Linux switches on: MSR C001_1029, bit 1). `RDTSCP` would save the
/// first fence and costs a register; the fenced form is the same on every x86-64.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tsc() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reads a counter; the instructions exist on every x86-64, and Linux leaves them to user
    // space (a process that forbids itself RDTSC by prctl gets SIGSEGV, which is no unsoundness). Not
    // `nomem`: the compiler must keep volatile loads on their side of the clock.
    unsafe {
        asm!("lfence", "rdtsc", "lfence", out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    high << 32 | low
}

/// The virtual count, ordered. `DSB` waits for earlier loads to complete, which `ISB` alone does not;
/// the first `ISB` keeps the counter from being read early (Arm ARM, CNTVCT_EL0), the second keeps later
/// loads from being issued before it was read.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn cntvct() -> u64 {
    let count: u64;
    // SAFETY: barriers and the read of a counter that Linux leaves to (or emulates for) user space. Not
    // `nomem`: the compiler must keep volatile loads on their side of the clock.
    unsafe {
        asm!("dsb ishld", "isb", "mrs {}, cntvct_el0", "isb", out(reg) count, options(nostack, preserves_flags));
    }
    count
}

/// Completes earlier loads and holds later ones back, around a clock that is a call.
#[inline(always)]
fn order() {
    // SAFETY: a barrier.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("lfence", options(nostack, preserves_flags));
    }
    // SAFETY: barriers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("dsb ishld", "isb", options(nostack, preserves_flags));
    }
}

/// A clock's rate and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Ticks a second.
    pub(crate) hz: u64,
    /// Half-width of the calibration's interval, parts a million, rounded up; 0 where the rate is exact
    /// by definition.
    pub(crate) ppm: u64,
}

/// The rate of `source`. A calibration takes [`SPAN`] and is bounded by it, whatever the load.
pub(crate) fn rate(source: Source) -> Rate {
    match source {
        Source::MonotonicRaw => Rate { hz: 1_000_000_000, ppm: 0 },
        #[cfg(target_arch = "aarch64")]
        Source::CntVct => {
            let stated = cntfrq();
            // Firmware forgets to program CNTFRQ on some boards: it is then 0, and the rate is measured.
            if stated != 0 { Rate { hz: stated, ppm: 0 } } else { calibrate(source, std::thread::sleep) }
        }
        // The core stops this one while it waits for an interrupt.
        #[cfg(target_arch = "aarch64")]
        Source::Cycles => calibrate_busy(source),
        #[cfg(target_arch = "x86_64")]
        Source::Tsc => calibrate(source, std::thread::sleep),
    }
}

/// Without sleeping, some times. Of a counter that counts for its thread alone, whatever takes the CPU takes time away,
/// and so the fastest is the best; what it has before the next is doubt, which is also that of a core that changes its
/// rate.
#[cfg(target_arch = "aarch64")]
fn calibrate_busy(source: Source) -> Rate {
    let busy = |span: Duration| {
        let begin = raw_ns();
        while u128::from(raw_ns().saturating_sub(begin)) < span.as_nanos() {
            std::hint::spin_loop();
        }
    };
    let mut rates = [0; 3].map(|_| calibrate(source, busy));
    rates.sort_by_key(|rate| rate.hz);
    let [_, second, best] = rates;
    let apart = u128::from(best.hz - second.hz) * 1_000_000 / u128::from(best.hz.max(1));
    Rate { ppm: best.ppm.saturating_add(u64::try_from(apart).unwrap_or(u64::MAX)), ..best }
}

/// The virtual count, for what stands in for another clock.
#[cfg(target_arch = "aarch64")]
pub(crate) fn count() -> u64 {
    cntvct()
}

/// What firmware says the count's rate is, Hz.
#[cfg(target_arch = "aarch64")]
pub(crate) fn cntfrq() -> u64 {
    let hz: u64;
    // SAFETY: reads an identification register that Linux leaves to user space with the counter.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

/// How long a calibration sleeps. Readings are bracketed to some 50 ns at either end, so 25 ms give a
/// few parts a million, below what a chain of dependent loads can show.
const SPAN: Duration = Duration::from_millis(25);

/// How many readings are tried at either end to find a short bracket.
const TRIES: u32 = 48;

/// Counts the ticks of `source` against `CLOCK_MONOTONIC_RAW` over [`SPAN`], in which the thread waits: longer, on a
/// loaded machine, makes the answer better and not worse.
fn calibrate(source: Source, wait: impl Fn(Duration)) -> Rate {
    let begin = Bracket::take(source);
    wait(SPAN);
    Bracket::rate(&begin, &Bracket::take(source))
}

/// The clock read between two readings of `CLOCK_MONOTONIC_RAW`.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    before_ns: u64,
    ticks: u64,
    after_ns: u64,
}

impl Bracket {
    /// The tightest of [`TRIES`] brackets: one that was interrupted is wide and loses.
    fn take(source: Source) -> Bracket {
        let once = || {
            let before_ns = raw_ns();
            let ticks = source.now().0;
            Bracket { before_ns, ticks, after_ns: raw_ns() }
        };
        let mut best = once();
        for _ in 1..TRIES {
            let next = once();
            if next.width() < best.width() {
                best = next;
            }
        }
        best
    }

    fn width(&self) -> u64 {
        self.after_ns.saturating_sub(self.before_ns)
    }

    /// The rate between two brackets. The true times lie anywhere inside them.
    fn rate(begin: &Bracket, end: &Bracket) -> Rate {
        let middle = |b: &Bracket| u128::from(b.before_ns) * 2 + u128::from(b.width());
        let span2 = middle(end).saturating_sub(middle(begin)).max(1);
        let ticks = u128::from(end.ticks.wrapping_sub(begin.ticks));
        let hz = (ticks * 2_000_000_000 + span2 / 2) / span2;
        let doubt = u128::from(begin.width() + end.width()) * 1_000_000;
        // One tick of either reading's own resolution belongs to the doubt as well.
        let coarse = 2_000_000_u128.div_ceil(ticks.max(1));
        let ppm = doubt.div_ceil(span2) + coarse;
        Rate { hz: u64::try_from(hz).unwrap_or(u64::MAX), ppm: u64::try_from(ppm).unwrap_or(u64::MAX) }
    }
}

/// The least that an interval between two readings can be, and the finest step between two readings that
/// differ, in ticks. A quick look for the record; the survey measures its own bias in trials.
pub(crate) fn fineness(source: Source) -> (u64, u64) {
    let (mut least, mut step) = (u64::MAX, u64::MAX);
    let mut last = source.now();
    for _ in 0..2000 {
        let next = source.now();
        let passed = next.since(last);
        least = least.min(passed);
        if passed != 0 {
            step = gcd(passed, if step == u64::MAX { passed } else { step });
        }
        last = next;
    }
    (least, if step == u64::MAX { 0 } else { step })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Additions in one turn of the unrolled yardstick.
pub(crate) const ALU_UNROLL: u64 = 32;

/// `n` dependent register-to-register additions.
///
/// Additions of a register, not of an immediate: Golden Cove and later cores carry out additions of small
/// immediates at register renaming, at no latency, and a chain of them says nothing of the clock. The
/// addend is a value the core cannot know. The loop's decrement and branch depend on the counter alone and
/// run beside the chain; a core that issues one instruction a cycle still pays them once in
/// [`ALU_UNROLL`] additions, and the n/2n method does not cancel that share, which METHOD states.
#[inline(always)]
pub(crate) fn alu(n: u64) {
    let mut sum = n;
    for _ in 0..n % ALU_UNROLL {
        sum = add(sum, n);
    }
    let turns = n / ALU_UNROLL;
    if turns != 0 {
        sum = add_turns(sum, n, turns);
    }
    // The chain's end must be wanted, or there is no chain. A black box is enough: nothing is read back.
    std::hint::black_box(sum);
}

/// One addition that the compiler neither folds nor merges nor moves past the clock (it is volatile).
#[inline(always)]
fn add(sum: u64, addend: u64) -> u64 {
    let mut sum = sum;
    // SAFETY: arithmetic on registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("add {0}, {1}", inout(reg) sum, in(reg) addend, options(nomem, nostack));
    }
    // SAFETY: arithmetic on registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("add {0}, {0}, {1}", inout(reg) sum, in(reg) addend, options(nomem, nostack));
    }
    sum
}

/// `turns` times [`ALU_UNROLL`] additions; `turns` is at least 1.
#[inline(always)]
fn add_turns(sum: u64, addend: u64, turns: u64) -> u64 {
    let (mut sum, mut turns) = (sum, turns);
    // SAFETY: arithmetic on registers and a loop that ends after `turns` turns. Volatile (not `pure`), so
    // that it stays between the two readings of the clock.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            ".p2align 5",
            "2:",
            ".rept {unroll}",
            "add {sum}, {addend}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            unroll = const ALU_UNROLL,
            sum = inout(reg) sum,
            addend = in(reg) addend,
            turns = inout(reg) turns,
            options(nomem, nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            ".p2align 5",
            "2:",
            ".rept {unroll}",
            "add {sum}, {sum}, {addend}",
            ".endr",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            unroll = const ALU_UNROLL,
            sum = inout(reg) sum,
            addend = in(reg) addend,
            turns = inout(reg) turns,
            options(nomem, nostack),
        );
    }
    let _ = turns;
    sum
}

#[cfg(test)]
mod tests;
