//! The PMUs of CPUs: the one whose events count programs here, those that sample them, and how they must be opened. CPUs of several types
//! have a PMU for each type, and a counter has only one of them.

use std::io;

use fathom_probe::machine::Refusal;

use crate::perf::{Counter, Event};
use crate::process::allowed_cpus;
use crate::procfs::{Root, cpu_list};

/// PMUs and other sources of events.
const DEVICES: &str = "/sys/bus/event_source/devices";

/// How events are opened on the CPUs where this process may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Here {
    /// `type` of the PMU, if there are several.
    pmu: Option<u32>,
    /// Whether the kernel is counted too.
    pub(crate) everywhere: bool,
}

impl Here {
    pub(crate) fn event(self, event: Event) -> Event {
        let event = self.pmu.map_or(event, |pmu| event.of_pmu(pmu));
        if self.everywhere { event.everywhere() } else { event }
    }
}

/// Returns how events are opened here.
pub(crate) fn here(root: &Root) -> Result<Here, Refusal> {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pmu {
    /// Its name in sysfs.
    pub(crate) name: String,
    kind: u32,
    /// Its CPUs, as the kernel lists them.
    pub(crate) list: String,
}

/// An event on each CPU, of its own PMU.
#[derive(Debug)]
pub(crate) struct OnEach<T> {
    /// What was opened, with the number of its PMU among `pmus`, where there are several.
    pub(crate) opened: Vec<(Option<usize>, T)>,
    /// The PMUs, where there are several, each with the error of an event that it does not have.
    pub(crate) pmus: Vec<(Pmu, Option<io::Error>)>,
}

/// Opens a generalised event on each of these CPUs: where there are several PMUs, that of the CPU's own one.
///
/// # Errors
/// Those of [`on_each_pmu`].
pub(crate) fn on_each<T>(
    pmus: Vec<Pmu>,
    cpus: &[u32],
    event: Event,
    mut open: impl FnMut(Event, u32) -> io::Result<T>,
) -> io::Result<OnEach<T>> {
    on_each_pmu(pmus, cpus, |pmu, cpu| {
        let Some(pmu) = pmu else { return open(event, cpu) };
        // Before Linux 6.6, ARM's drivers do not know the PMU in a generalised event, and take the one of the CPU.
        open(event.of_pmu(pmu.kind), cpu).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP) => open(event, cpu).map_err(|_| error),
            _ => Err(error),
        })
    })
}

/// Opens an event on each of these CPUs, which `open` gets with the CPU's PMU where there are several. A PMU may not have the event; then
/// its CPUs are left out.
///
/// # Errors
/// Those of `open`; if no PMU has the event, that of the first one.
pub(crate) fn on_each_pmu<T>(
    pmus: Vec<Pmu>,
    cpus: &[u32],
    mut open: impl FnMut(Option<&Pmu>, u32) -> io::Result<T>,
) -> io::Result<OnEach<T>> {
    let pmus = if pmus.len() > 1 { pmus } else { Vec::new() };
    let lists: Vec<Vec<u32>> = pmus.iter().map(|pmu| cpu_list(&pmu.list)).collect();
    let mut all = OnEach { opened: Vec::new(), pmus: pmus.into_iter().map(|pmu| (pmu, None)).collect() };
    for cpu in cpus {
        let nth = lists.iter().position(|list| list.contains(cpu));
        let Some((pmu, refused)) = nth.and_then(|nth| all.pmus.get_mut(nth)) else {
            all.opened.push((None, open(None, *cpu)?));
            continue;
        };
        let opened = open(Some(pmu), *cpu);
        match opened {
            Ok(opened) => all.opened.push((nth, opened)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)) => {
                refused.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match all.pmus.iter_mut().find_map(|(_, refused)| refused.take_if(|_| all.opened.is_empty())) {
        Some(error) => Err(error),
        None => Ok(all),
    }
}

/// Returns the PMUs of CPUs. Those of x86 without types of CPUs have no list of them.
pub(crate) fn pmus(root: &Root) -> Vec<Pmu> {
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

    /// Adds a device to a tree of sysfs.
    fn device(root: &Root, name: &str, files: &[(&str, &str)]) {
        let at = root.path(&format!("{DEVICES}/{name}"));
        std::fs::create_dir_all(&at).expect("a folder");
        for (file, text) in files {
            std::fs::write(at.join(file), text).expect("a file");
        }
    }

    fn error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    /// A big.LITTLE processor's tree, with CPU 6, which no PMU lists.
    fn two_types() -> (tempfile::TempDir, Vec<Pmu>) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        device(&root, "armv8_cortex_a72", &[("type", "9\n"), ("cpus", "4-5\n")]);
        device(&root, "armv8_cortex_a53", &[("type", "8\n"), ("cpus", "0-3\n")]);
        device(&root, "arm_spe_0", &[("type", "10\n"), ("cpumask", "4-5\n")]);
        let found = pmus(&root);
        (folder, found)
    }

    #[test]
    fn each_cpu_is_sampled_by_its_own_pmu() {
        let (_folder, pmus) = two_types();
        let of = |pmu: u64| Event::new(0, pmu << 32);
        let cpus = [0, 3, 4, 6];
        let all =
            on_each(pmus.clone(), &cpus, Event::CPU_CYCLES, |event, cpu| Ok((event, cpu))).expect("opened");
        let expected =
            [(Some(0), (of(8), 0)), (Some(0), (of(8), 3)), (Some(1), (of(9), 4)), (None, (of(0), 6))];
        assert_eq!(all.opened, expected);
        let names: Vec<&str> = all.pmus.iter().map(|(pmu, _)| pmu.name.as_str()).collect();
        assert_eq!(names, ["armv8_cortex_a53", "armv8_cortex_a72"]);
        // Where one PMU has all CPUs, nothing names it.
        let one =
            on_each(pmus[..1].to_vec(), &cpus, Event::CPU_CYCLES, |event, _| Ok(event)).expect("opened");
        assert!(one.pmus.is_empty() && one.opened == [(None, of(0)); 4], "{one:?}");
    }

    #[test]
    fn kernels_that_do_not_know_the_pmu_of_an_event_take_that_of_the_cpu() {
        let (_folder, pmus) = two_types();
        let old = |event: Event, cpu: u32| {
            if event == Event::CPU_CYCLES { Ok(cpu) } else { Err(error(libc::EINVAL)) }
        };
        let all = on_each(pmus, &[1, 5], Event::CPU_CYCLES, old).expect("opened");
        assert_eq!(all.opened, [(Some(0), 1), (Some(1), 5)]);
    }

    #[test]
    fn an_event_that_one_pmu_lacks_is_sampled_on_the_others() {
        let (_folder, pmus) = two_types();
        let only = |number: i32| move |_: Event, cpu: u32| if cpu < 4 { Ok(cpu) } else { Err(error(number)) };
        let all =
            on_each(pmus.clone(), &[0, 4, 5], Event::DTLB_READ_MISSES, only(libc::ENOENT)).expect("opened");
        assert_eq!(all.opened, [(Some(0), 0)]);
        let refused: Vec<bool> = all.pmus.iter().map(|(_, refused)| refused.is_some()).collect();
        assert_eq!(refused, [false, true]);
        // What is not permitted is not permitted anywhere, and without any PMU nothing is sampled.
        let denied =
            on_each(pmus.clone(), &[0, 4], Event::CPU_CYCLES, only(libc::EACCES)).expect_err("denied");
        assert_eq!(denied.raw_os_error(), Some(libc::EACCES));
        let none = on_each(pmus, &[4, 5], Event::CPU_CYCLES, only(libc::ENOENT)).expect_err("none");
        assert_eq!(none.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn each_type_of_cpus_has_its_pmu() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        let device = |name: &str, files: &[(&str, &str)]| device(&root, name, files);
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
