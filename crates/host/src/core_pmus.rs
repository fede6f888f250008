//! The PMU whose events count programs here, and how they must be opened. CPUs of several types have a PMU for each type, and a
//! counter has only one of them.

use std::io;

use fathom_probe::machine::Refusal;

use crate::perf::{Counter, Event};
use crate::process::allowed_cpus;
use crate::procfs::{Root, cpu_list};

/// PMUs and other sources of events.
const DEVICES: &str = "/sys/bus/event_source/devices";

/// How events are opened on the CPUs where this process may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Here {
    /// `type` of the PMU, if there are several.
    pmu: Option<u32>,
    /// Whether the kernel is counted too.
    pub(super) everywhere: bool,
}

impl Here {
    pub(super) fn event(self, event: Event) -> Event {
        let event = self.pmu.map_or(event, |pmu| event.of_pmu(pmu));
        if self.everywhere { event.everywhere() } else { event }
    }
}

/// Returns how events are opened here.
pub(super) fn here(root: &Root) -> Result<Here, Refusal> {
    let pmu = the_only(&pmus(root), &allowed_cpus(root))?;
    // Before Linux 6.6, ARM's drivers do not know the PMU in a generalised event; they choose one.
    let pmu = pmu.filter(|pmu| Counter::open(Event::CPU_CYCLES.of_pmu(*pmu)).is_ok());
    let here = Here { pmu, everywhere: false };
    let everywhere = Here { everywhere: true, ..here };
    let open = |here: Here| Counter::open(here.event(Event::CPU_CYCLES)).map(drop);
    match open(here) {
        Err(error) if is_of_modes(&error) => match open(everywhere) {
            Ok(()) => Ok(everywhere),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Refusal::new(
                format!("this PMU cannot leave out the kernel, and counting it is not permitted ({error})"),
                "sysctl kernel.perf_event_paranoid=1 as root, or CAP_PERFMON",
            )),
            Err(_) => Ok(here),
        },
        _ => Ok(here),
    }
}

/// Returns whether this may be the error of a PMU that cannot leave out the kernel, as those of ARM11, Cortex-A5, A8 and A9: that of
/// drivers/perf/arm_pmu.c, or of a PMU with `PERF_PMU_CAP_NO_EXCLUDE`.
fn is_of_modes(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL))
}

/// A PMU of CPUs.
#[derive(Debug)]
struct Pmu {
    name: String,
    kind: u32,
    /// Its CPUs, as the kernel lists them.
    list: String,
}

/// Returns the PMUs of CPUs. Those of x86 without types of CPUs have no list of them.
fn pmus(root: &Root) -> Vec<Pmu> {
    let pmu = |name: String| {
        let file = |what: &str| format!("{DEVICES}/{name}/{what}");
        let (list, kind) = (root.text(&file("cpus"))?, root.number(&file("type"))?);
        Some(Pmu { name, kind: u32::try_from(kind).ok()?, list })
    };
    let mut all: Vec<Pmu> = root.names(DEVICES).into_iter().filter_map(pmu).collect();
    all.sort_by_key(|pmu| pmu.kind);
    all
}

/// Returns the PMU of all these CPUs, if there are several PMUs; an error if no PMU has all of them.
fn the_only(pmus: &[Pmu], cpus: &[u32]) -> Result<Option<u32>, Refusal> {
    let [first, _, ..] = pmus else { return Ok(None) };
    let has_all = |pmu: &&Pmu| {
        let own = cpu_list(&pmu.list);
        cpus.iter().all(|cpu| own.contains(cpu))
    };
    if let Some(pmu) = pmus.iter().find(has_all) {
        return Ok(Some(pmu.kind));
    }
    let lists: Vec<String> = pmus.iter().map(|pmu| format!("{}: CPUs {}", pmu.name, pmu.list)).collect();
    Err(Refusal::new(
        format!(
            "the program may run on CPUs with different PMUs ({}), and a counter has one of them",
            lists.join("; ")
        ),
        format!("keep it on CPUs of one type: taskset -c {} fathom count ...", first.list),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_of_cpus_has_its_pmu() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        let device = |name: &str, files: &[(&str, &str)]| {
            let at = root.path(&format!("{DEVICES}/{name}"));
            std::fs::create_dir_all(&at).expect("a folder");
            for (file, text) in files {
                std::fs::write(at.join(file), text).expect("a file");
            }
        };
        device("cpu_core", &[("type", "4\n"), ("cpus", "0-3\n")]);
        device("uncore_imc", &[("type", "12\n"), ("cpumask", "0\n")]);
        device("software", &[("type", "1\n")]);
        assert_eq!(the_only(&pmus(&root), &[0, 9]), Ok(None), "one PMU has all CPUs");
        device("cpu_atom", &[("type", "10\n"), ("cpus", "4-7\n")]);
        let both = pmus(&root);
        assert_eq!(the_only(&both, &[0, 3]), Ok(Some(4)));
        assert_eq!(the_only(&both, &[7]), Ok(Some(10)));
        let why = the_only(&both, &[3, 4]).expect_err("two PMUs");
        assert!(why.reason.contains("cpu_core: CPUs 0-3; cpu_atom: CPUs 4-7"), "{why:?}");
        assert!(why.remedy.contains("taskset -c 0-3 "), "{why:?}");
    }

    #[test]
    fn events_name_their_pmu_in_the_upper_half() {
        let here = Here { pmu: Some(10), everywhere: false };
        assert_eq!(here.event(Event::L1D_READ_MISSES), Event::new(3, 0xa_0001_0000));
        assert_eq!(Here::default().event(Event::CPU_CYCLES), Event::CPU_CYCLES);
    }
}
