//! Events whose samples tell the address of an access, its latency, and where its data were: PEBS of Intel, IBS of AMD, and Arm's
//! Statistical Profiling Extension (SPE), by what sysfs says about their PMUs.

use std::io;

use crate::perf::Event;
use crate::procfs::{Root, cpu_list};

/// PMUs and other sources of events.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// Names of the PMUs of SPE: there is one for each type of CPUs that has it, with a number behind.
const SPE: &str = "arm_spe_";
/// What SPE samples: loads and stores, at intervals that vary, with the time of each.
const SPE_SET: [&str; 4] = ["ts_enable", "jitter", "load_filter", "store_filter"];
/// `precise_ip` of loads: the instruction itself, without skid.
const PRECISE: u8 = 2;

/// Samples of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryEvent {
    /// Loads with at least a latency (`mem-loads` of PEBS).
    Loads,
    /// Micro-operations of all kinds, of which loads and stores have an address (`ibs_op`).
    Operations,
    /// Loads and stores with at least a latency, in a trace that the processor writes (SPE).
    Traced,
}

/// How it is opened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) event: Event,
    /// An event that must lead its group (Linux 5.12, Sapphire Rapids and Alder Lake).
    pub(crate) leader: Option<Event>,
}

impl MemoryEvent {
    /// Its name: that of an event, or of a PMU.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryEvent::Loads => "mem-loads",
            MemoryEvent::Operations => "ibs_op",
            MemoryEvent::Traced => "arm_spe",
        }
    }

    /// All of them.
    pub(crate) const ALL: [MemoryEvent; 3] =
        [MemoryEvent::Loads, MemoryEvent::Operations, MemoryEvent::Traced];

    /// Returns how it is opened on CPUs of this PMU, or of SPE on this CPU; `None` on any that has it. `least`: latency of the accesses,
    /// cycles; else as sysfs has it.
    ///
    /// # Errors
    /// Of kind `NotFound`, with the number ENOENT: this machine does not have it. `InvalidData`: sysfs says something else than
    /// expected.
    pub(crate) fn opening(
        self,
        root: &Root,
        pmu: &str,
        cpu: Option<u32>,
        least: Option<u64>,
    ) -> io::Result<Opening> {
        match self {
            MemoryEvent::Traced => {
                let pmu = spe_of(root, cpu).ok_or_else(none)?;
                let mut config = [0; 3];
                let terms = SPE_SET.into_iter().map(|field| (field, 1));
                for (field, value) in terms.chain(least.map(|least| ("min_latency", least))) {
                    place(root, &pmu, field, value, &mut config)?;
                }
                let event = Event::new(kind(root, &pmu)?, config[0]).of_driver([config[1], config[2]]);
                Ok(Opening { event, leader: None })
            }
            MemoryEvent::Operations => {
                let kind = kind(root, self.name())?;
                Ok(Opening { event: Event::new(kind, 0), leader: None })
            }
            MemoryEvent::Loads => {
                let event = named(root, pmu, self.name(), least)?.ok_or_else(none)?;
                let leader = named(root, pmu, "mem-loads-aux", None)?;
                Ok(Opening { event: event.precise(PRECISE), leader })
            }
        }
    }
}

/// Returns the names of those that this machine has.
#[must_use]
pub fn memory_events() -> Vec<&'static str> {
    let root = Root::system();
    let pmus: Vec<String> = root.names(DEVICES);
    let has = |of: &MemoryEvent| pmus.iter().any(|pmu| of.opening(&root, pmu, None, None).is_ok());
    MemoryEvent::ALL.into_iter().filter(has).map(MemoryEvent::name).collect()
}

/// Returns the PMU of SPE of a CPU, or of any.
fn spe_of(root: &Root, cpu: Option<u32>) -> Option<String> {
    let has = |pmu: &String| {
        // The only PMU of a processor may have no list.
        let list = root.text(&format!("{DEVICES}/{pmu}/cpumask"));
        list.zip(cpu).is_none_or(|(list, cpu)| cpu_list(&list).contains(&cpu))
    };
    root.names(DEVICES).into_iter().filter(|name| name.starts_with(SPE)).find(has)
}

/// Returns the shortest interval of samples of SPE on a CPU, operations, if the processor tells it.
pub(crate) fn least_spe_interval(root: &Root, cpu: u32) -> Option<u64> {
    root.number(&format!("{DEVICES}/{}/caps/min_interval", spe_of(root, Some(cpu))?))
}

/// Returns MIDR_EL1 of a CPU, if the kernel tells it.
pub(crate) fn midr(root: &Root, cpu: u32) -> Option<u64> {
    let text = root.text(&format!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"))?;
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

fn none() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

fn strange(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns the type of a PMU.
fn kind(root: &Root, pmu: &str) -> io::Result<u32> {
    let kind = root.number(&format!("{DEVICES}/{pmu}/type")).ok_or_else(none)?;
    u32::try_from(kind).map_err(|_| strange(format!("type of {pmu}: {kind}")))
}

/// Returns an event of a PMU by its name in sysfs; `None` without one.
fn named(root: &Root, pmu: &str, name: &str, least: Option<u64>) -> io::Result<Option<Event>> {
    let Some(text) = root.text(&format!("{DEVICES}/{pmu}/events/{name}")) else { return Ok(None) };
    let mut config = [0u64; 3];
    for term in text.trim().split(',') {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let value = value.map_err(|_| strange(format!("{pmu}/{name} has the term {term}")))?;
        let value = least.filter(|_| field == "ldlat").unwrap_or(value);
        place(root, pmu, field, value, &mut config)?;
    }
    Ok(Some(Event::new(kind(root, pmu)?, config[0]).of_driver([config[1], config[2]])))
}

/// Puts a value where the PMU's format has this field: `config:0-7,21` has its lowest bits from bit 0 on, then bit 21.
fn place(root: &Root, pmu: &str, field: &str, value: u64, config: &mut [u64; 3]) -> io::Result<()> {
    let text = root.text(&format!("{DEVICES}/{pmu}/format/{field}"));
    let text = text.ok_or_else(|| strange(format!("{pmu} has no format of {field}")))?;
    let wrong = || strange(format!("format of {field} of {pmu}: {}", text.trim()));
    let (word, ranges) = text.trim().split_once(':').ok_or_else(wrong)?;
    let word = match word {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return Err(wrong()),
    };
    let mut left = value;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last]: [u32; 2] =
            [first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?];
        let bits = last.checked_sub(first).filter(|_| last < 64).ok_or_else(wrong)? + 1;
        let mask = u64::MAX >> (64 - bits);
        config[word] |= (left & mask) << first;
        left = left.checked_shr(bits).unwrap_or(0);
    }
    if left == 0 { Ok(()) } else { Err(strange(format!("{field} of {pmu} has no room for {value}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn files<'a>(pmu: &'a str, files: &[(&'a str, &'a str)]) -> Vec<(String, String)> {
        files.iter().map(|(file, text)| (format!("{DEVICES}/{pmu}/{file}"), format!("{text}\n"))).collect()
    }

    fn tree(all: &[Vec<(String, String)>]) -> (tempfile::TempDir, Root) {
        let all: Vec<(&str, &str)> =
            all.iter().flatten().map(|(file, text)| (file.as_str(), text.as_str())).collect();
        fixture::root(&all)
    }

    /// The files of Alder Lake's performance cores, as Linux 6.1 has them (arch/x86/events/intel/core.c).
    fn alder_lake() -> Vec<(String, String)> {
        files(
            "cpu_core",
            &[
                ("type", "4"),
                ("cpus", "0-15"),
                ("events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
                ("events/mem-loads-aux", "event=0x03,umask=0x82"),
                ("format/event", "config:0-7"),
                ("format/umask", "config:8-15"),
                ("format/ldlat", "config1:0-15"),
            ],
        )
    }

    #[test]
    fn loads_are_opened_as_sysfs_says() {
        let (_folder, root) = tree(&[alder_lake()]);
        let opening = MemoryEvent::Loads.opening(&root, "cpu_core", None, None).expect("an event");
        assert_eq!(opening.event, Event::new(4, 0x1cd).of_driver([3, 0]).precise(2));
        assert_eq!(opening.leader, Some(Event::new(4, 0x8203)));
        let slow = MemoryEvent::Loads.opening(&root, "cpu_core", None, Some(200)).expect("an event");
        assert_eq!(slow.event, Event::new(4, 0x1cd).of_driver([200, 0]).precise(2));
        let most = MemoryEvent::Loads.opening(&root, "cpu_core", None, Some(1 << 16)).expect_err("16 bits");
        assert!(most.to_string().contains("ldlat of cpu_core has no room for 65536"), "{most}");
    }

    #[test]
    fn fields_may_be_in_pieces() {
        let format = files(
            "cpu",
            &[("format/x", "config:0-7,32-35"), ("format/y", "config1:63"), ("format/z", "config3:0")],
        );
        let (_folder, root) = tree(&[format]);
        let mut config = [0; 3];
        place(&root, "cpu", "x", 0xabc, &mut config).expect("a format");
        place(&root, "cpu", "y", 1, &mut config).expect("a format");
        assert_eq!(config, [0xa_0000_00bc, 1 << 63, 0]);
        for (field, value) in [("x", 0x1000), ("y", 2), ("z", 1), ("no", 1)] {
            assert!(place(&root, "cpu", field, value, &mut config).is_err(), "{field}");
        }
    }

    #[test]
    fn operations_are_those_of_their_own_pmu() {
        let (_folder, root) = tree(&[files("ibs_op", &[("type", "11")])]);
        let opening = MemoryEvent::Operations.opening(&root, "cpu", None, None).expect("an event");
        assert_eq!(opening, Opening { event: Event::new(11, 0), leader: None });
        let error = MemoryEvent::Loads.opening(&root, "cpu", None, None).expect_err("no PEBS");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        let (_folder, root) = tree(&[alder_lake()]);
        let error = MemoryEvent::Operations.opening(&root, "cpu", None, None).expect_err("no IBS");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn what_sysfs_says_otherwise_is_told() {
        let mut other = alder_lake();
        for (file, text) in &mut other {
            if file.ends_with("events/mem-loads") {
                *text = "event=0xcd,umask=many\n".to_owned();
            }
        }
        let (_folder, root) = tree(&[other]);
        let error = MemoryEvent::Loads.opening(&root, "cpu_core", None, None).expect_err("no number");
        assert!(error.to_string().contains("cpu_core/mem-loads has the term umask=many"), "{error}");
    }

    /// The files of SPE on some of a processor's CPUs, as Linux 6.1 has them (drivers/perf/arm_spe_pmu.c).
    fn spe(pmu: &str, cpus: &'static str) -> Vec<(String, String)> {
        files(
            pmu,
            &[
                ("type", "10"),
                ("cpumask", cpus),
                ("caps/min_interval", "1024"),
                ("format/ts_enable", "config:0"),
                ("format/pa_enable", "config:1"),
                ("format/pct_enable", "config:2"),
                ("format/jitter", "config:16"),
                ("format/branch_filter", "config:32"),
                ("format/load_filter", "config:33"),
                ("format/store_filter", "config:34"),
                ("format/event_filter", "config1:0-63"),
                ("format/min_latency", "config2:0-11"),
            ],
        )
    }

    #[test]
    fn traces_are_of_the_cpus_that_have_them() {
        let of_cpu = (
            "/sys/devices/system/cpu/cpu4/regs/identification/midr_el1".to_owned(),
            "0x00000000413fd0c1\n".to_owned(),
        );
        let (_folder, root) = tree(&[spe("arm_spe_0", "4-5"), vec![of_cpu]]);
        let opening = |cpu, least| MemoryEvent::Traced.opening(&root, "armv8_cortex_a72", cpu, least);
        let expected = Event::new(10, 1 | 1 << 16 | 1 << 33 | 1 << 34);
        for cpu in [Some(4), None] {
            let opened = opening(cpu, None).expect("an event");
            assert_eq!(opened, Opening { event: expected, leader: None });
        }
        assert_eq!(opening(Some(5), Some(30)).expect("an event").event, expected.of_driver([0, 30]));
        let error = opening(Some(0), None).expect_err("no SPE");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        let most = opening(Some(4), Some(4096)).expect_err("12 bits");
        assert!(most.to_string().contains("min_latency of arm_spe_0 has no room for 4096"), "{most}");
        assert_eq!((least_spe_interval(&root, 4), least_spe_interval(&root, 0)), (Some(1024), None));
        assert_eq!((midr(&root, 4), midr(&root, 0)), (Some(0x413f_d0c1), None));
        let (_folder, root) = tree(&[files("cpu", &[("type", "4")])]);
        assert!(MemoryEvent::Traced.opening(&root, "cpu", None, None).is_err());
    }
}
