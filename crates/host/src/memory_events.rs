//! Events whose samples tell the address of an access, its latency, and where its data were: PEBS of Intel and IBS of AMD, by what
//! sysfs says about their PMUs. (Arm's Statistical Profiling Extension writes a trace of packets, which is not read.)

use std::io;

use crate::perf::Event;
use crate::procfs::Root;

/// PMUs and other sources of events.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// `precise_ip` of loads: the instruction itself, without skid.
const PRECISE: u8 = 2;

/// Samples of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryEvent {
    /// Loads with at least a latency (`mem-loads` of PEBS).
    Loads,
    /// Micro-operations of all kinds, of which loads and stores have an address (`ibs_op`).
    Operations,
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
        }
    }

    /// Returns how it is opened on CPUs of this PMU. `least`: latency of the loads, cycles; else as sysfs has it.
    ///
    /// # Errors
    /// Of kind `NotFound`, with the number ENOENT: this machine does not have it. `InvalidData`: sysfs says something else than
    /// expected.
    pub(crate) fn opening(self, root: &Root, pmu: &str, least: Option<u64>) -> io::Result<Opening> {
        match self {
            MemoryEvent::Operations => {
                let kind = kind(root, self.name())?;
                Ok(Opening { event: Event::new(kind, 0), leader: None })
            }
            MemoryEvent::Loads => {
                let event = named(root, pmu, self.name(), least)?.ok_or_else(none)?;
                let leader = named(root, pmu, "mem-loads-aux", None)?;
                Ok(Opening { event: event.of_driver(event.config1(), PRECISE), leader })
            }
        }
    }
}

/// Returns the names of those that this machine has.
#[must_use]
pub fn memory_events() -> Vec<&'static str> {
    let root = Root::system();
    let pmus: Vec<String> = root.names(DEVICES);
    let has = |of: &MemoryEvent| pmus.iter().any(|pmu| of.opening(&root, pmu, None).is_ok());
    [MemoryEvent::Loads, MemoryEvent::Operations].into_iter().filter(has).map(MemoryEvent::name).collect()
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
    let mut config = [0u64; 2];
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
    Ok(Some(Event::new(kind(root, pmu)?, config[0]).of_driver(config[1], 0)))
}

/// Puts a value where the PMU's format has this field: `config:0-7,21` has its lowest bits from bit 0 on, then bit 21.
fn place(root: &Root, pmu: &str, field: &str, value: u64, config: &mut [u64; 2]) -> io::Result<()> {
    let text = root.text(&format!("{DEVICES}/{pmu}/format/{field}"));
    let text = text.ok_or_else(|| strange(format!("{pmu} has no format of {field}")))?;
    let wrong = || strange(format!("format of {field} of {pmu}: {}", text.trim()));
    let (word, ranges) = text.trim().split_once(':').ok_or_else(wrong)?;
    let word = match word {
        "config" => 0,
        "config1" => 1,
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
        let opening = MemoryEvent::Loads.opening(&root, "cpu_core", None).expect("an event");
        assert_eq!(opening.event, Event::new(4, 0x1cd).of_driver(3, 2));
        assert_eq!(opening.leader, Some(Event::new(4, 0x8203)));
        let slow = MemoryEvent::Loads.opening(&root, "cpu_core", Some(200)).expect("an event");
        assert_eq!(slow.event, Event::new(4, 0x1cd).of_driver(200, 2));
        let most = MemoryEvent::Loads.opening(&root, "cpu_core", Some(1 << 16)).expect_err("16 bits");
        assert!(most.to_string().contains("ldlat of cpu_core has no room for 65536"), "{most}");
    }

    #[test]
    fn fields_may_be_in_pieces() {
        let format = files(
            "cpu",
            &[("format/x", "config:0-7,32-35"), ("format/y", "config1:63"), ("format/z", "config2:0")],
        );
        let (_folder, root) = tree(&[format]);
        let mut config = [0; 2];
        place(&root, "cpu", "x", 0xabc, &mut config).expect("a format");
        place(&root, "cpu", "y", 1, &mut config).expect("a format");
        assert_eq!(config, [0xa_0000_00bc, 1 << 63]);
        for (field, value) in [("x", 0x1000), ("y", 2), ("z", 1), ("no", 1)] {
            assert!(place(&root, "cpu", field, value, &mut config).is_err(), "{field}");
        }
    }

    #[test]
    fn operations_are_those_of_their_own_pmu() {
        let (_folder, root) = tree(&[files("ibs_op", &[("type", "11")])]);
        let opening = MemoryEvent::Operations.opening(&root, "cpu", None).expect("an event");
        assert_eq!(opening, Opening { event: Event::new(11, 0), leader: None });
        let error = MemoryEvent::Loads.opening(&root, "cpu", None).expect_err("no PEBS");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        let (_folder, root) = tree(&[alder_lake()]);
        let error = MemoryEvent::Operations.opening(&root, "cpu", None).expect_err("no IBS");
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
        let error = MemoryEvent::Loads.opening(&root, "cpu_core", None).expect_err("no number");
        assert!(error.to_string().contains("cpu_core/mem-loads has the term umask=many"), "{error}");
    }
}
