//! Pressure stall information: total waiting time of tasks since boot (Linux, Documentation/accounting/psi).

use fathom_probe::load::Stalls;

use crate::procfs::Root;

/// Returns the current totals; `None` if the kernel has none (before 4.20, without `CONFIG_PSI`, or with `psi=0`).
pub(crate) fn totals(root: &Root) -> Option<Stalls> {
    let total = |resource: &str, key: &str| {
        let text = root.text(&format!("/proc/pressure/{resource}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
    };
    Some(Stalls {
        cpu_us: total("cpu", "some ")?,
        memory_us: total("memory", "some ")?,
        memory_full_us: total("memory", "full ")?,
        io_us: total("io", "some ")?,
        io_full_us: total("io", "full ")?,
    })
}

/// Returns the increase between two readings.
pub(crate) fn between(before: Stalls, after: Stalls) -> Stalls {
    Stalls {
        cpu_us: after.cpu_us.saturating_sub(before.cpu_us),
        memory_us: after.memory_us.saturating_sub(before.memory_us),
        memory_full_us: after.memory_full_us.saturating_sub(before.memory_full_us),
        io_us: after.io_us.saturating_sub(before.io_us),
        io_full_us: after.io_full_us.saturating_sub(before.io_full_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn stall_totals_are_read_and_absent_without_kernel_support() {
        let file_text = |some: u64, full: u64| {
            format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 \
                 avg300=0.00 total={full}\n"
            )
        };
        let (cpu, memory, io) = (file_text(70, 0), file_text(20, 10), file_text(9, 3));
        let files =
            [("/proc/pressure/cpu", &*cpu), ("/proc/pressure/memory", &memory), ("/proc/pressure/io", &io)];
        let (_keep, root) = fixture::root(&files);
        let now = totals(&root).expect("totals");
        let same = Stalls { cpu_us: 70, memory_us: 20, memory_full_us: 10, io_us: 9, io_full_us: 3 };
        assert_eq!(now, same);
        let before = Stalls { cpu_us: 60, memory_us: 20, memory_full_us: 4, io_us: 10, io_full_us: 0 };
        let added = Stalls { cpu_us: 10, memory_us: 0, memory_full_us: 6, io_us: 0, io_full_us: 3 };
        assert_eq!(between(before, now), added);
        let (_keep, root) = fixture::root(&files[..2]);
        assert_eq!(totals(&root), None);
    }
}
