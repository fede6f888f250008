//! The measuring process: pinned, locked, with raised priority, and killed when its parent ends.
//!
//! Everything here is bound to the process or to its thread. The kernel undoes it when the process ends, however it
//! ends. What is not permitted becomes a fact `privilege.NAME` with its remedy, never an error.

use fathom_probe::machine::{Fact, Refusal};
use fathom_units::facts::{self, Grant, UNLIMITED};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::CpuSet;

use crate::facts::text;
use crate::procfs::{Root, cpu_list};

/// Returns the facts of a privilege that was granted in full, with its value.
pub(crate) fn granted(name: &str, value: impl AsRef<str>) -> Vec<Fact> {
    vec![text(name, Grant::Granted.token()), text(facts::value(name), value)]
}

/// Returns the facts of a privilege that was not granted in full: its state, the reason and the remedy.
pub(crate) fn not_granted(name: &str, grant: Grant, refusal: &Refusal) -> Vec<Fact> {
    vec![
        text(name, grant.token()),
        text(facts::reason(name), &refusal.reason),
        text(facts::remedy(name), &refusal.remedy),
    ]
}

/// Returns the CPUs that this thread may run on, ascending. If the call is forbidden, or its mask is too short for a
/// kernel with more than 1024 CPUs, the list of `/proc/self/status` is used.
pub(crate) fn allowed_cpus(root: &Root) -> Vec<u32> {
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect();
    }
    let status = root.text("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpu_list(list.unwrap_or_default())
}

/// Returns the CPU to measure on: the requested one; else the last isolated one; else the last of all, since the
/// first CPUs serve most interrupts.
pub(crate) fn choose_cpu(root: &Root, allowed_cpus: &[u32], wanted: Option<u32>) -> Result<u32, Refusal> {
    if let Some(cpu) = wanted {
        return if allowed_cpus.contains(&cpu) {
            Ok(cpu)
        } else {
            Err(Refusal::new(
                format!("CPU {cpu} is not among the CPUs this process may run on ({})", list(allowed_cpus)),
                "choose one of those, or start the probe with another affinity (taskset -c, cpuset)",
            ))
        };
    }
    let isolated = cpu_list(&root.text("/sys/devices/system/cpu/isolated").unwrap_or_default());
    let best =
        allowed_cpus.iter().filter(|c| isolated.contains(c)).max().or_else(|| allowed_cpus.iter().max());
    best.copied().ok_or_else(|| Refusal::new("no CPU is allowed to this process", "widen its affinity"))
}

/// Returns CPU numbers separated by commas.
pub(crate) fn list(cpus: &[u32]) -> String {
    let words: Vec<String> = cpus.iter().map(u32::to_string).collect();
    words.join(",")
}

/// Pins the calling thread to `cpu`.
pub(crate) fn pin(cpu: u32) -> Vec<Fact> {
    let mut set = CpuSet::new();
    let index = cpu as usize;
    // The call's mask has no bit for a CPU beyond its width.
    let pinned = if index < CpuSet::MAX_CPU {
        set.set(index);
        rustix::thread::sched_setaffinity(None, &set)
    } else {
        Err(rustix::io::Errno::INVAL)
    };
    match pinned {
        Ok(()) => granted(facts::PRIVILEGE_AFFINITY, format!("CPU {cpu}")),
        Err(error) => {
            let reason = format!("not pinned, so that the thread may migrate ({error})");
            let refusal = Refusal::new(reason, "allow sched_setaffinity in the sandbox");
            not_granted(facts::PRIVILEGE_AFFINITY, Grant::Refused, &refusal)
        }
    }
}

/// Restricts the calling thread to `cpus`. CPUs beyond the mask's width are left out; if none remains, the affinity
/// is unchanged.
pub(crate) fn set_affinity(cpus: &[u32]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    let known = cpus.iter().map(|&cpu| cpu as usize).filter(|&cpu| cpu < CpuSet::MAX_CPU);
    known.for_each(|cpu| set.set(cpu));
    if set.count() == 0 {
        return Ok(());
    }
    rustix::thread::sched_setaffinity(None, &set)
}

/// Makes the kernel kill this process when the thread that started it ends, and checks that it has not ended already.
///
/// The signal follows the parent's *thread* (`PR_SET_PDEATHSIG(2const)`): the harness must start the probe from a
/// thread that lives as long as the session.
pub(crate) fn die_with_parent(expected: Option<u32>) -> Result<Vec<Fact>, Refusal> {
    Ok(match signal_on_parent_end(expected)? {
        Ok(()) => granted(facts::PRIVILEGE_PARENT, "killed when the parent ends"),
        Err(error) => {
            let reason =
                format!("no signal when the parent ends ({error}): the probe ends when its input does");
            let refusal = Refusal::new(reason, "allow prctl in the sandbox");
            not_granted(facts::PRIVILEGE_PARENT, Grant::Refused, &refusal)
        }
    })
}

/// Requests the signal. Returns the kernel's result, or a refusal if the parent is already gone.
pub(crate) fn signal_on_parent_end(expected: Option<u32>) -> Result<rustix::io::Result<()>, Refusal> {
    let before = parent();
    let outcome = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let after = parent();
    // The parent may have ended between its fork and the call above: the signal would then never come. A changed
    // parent reveals this; the comparison with `expected` reveals a parent that had ended earlier.
    if after != before || expected.is_some_and(|pid| pid != after) {
        return Err(Refusal::new(
            format!("the process that started this probe is gone (parent is now {after})"),
            "start the probe again",
        ));
    }
    Ok(outcome)
}

fn parent() -> u32 {
    // A parent outside this PID namespace reads as 0, see getppid(2).
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().cast_unsigned())
}

/// Makes this process the first to be killed when memory runs out, so that no other process is killed for a
/// measurement. Raising one's own score needs no privilege.
pub(crate) fn raise_oom_score(root: &Root) -> Vec<Fact> {
    match std::fs::write(root.path("/proc/self/oom_score_adj"), "1000") {
        Ok(()) => granted(facts::PRIVILEGE_OOM, "oom_score_adj 1000"),
        Err(error) => {
            let reason =
                format!("oom_score_adj not raised ({error}): only the memory limit protects the machine");
            let refusal = Refusal::new(reason, "allow writing /proc/self/oom_score_adj in the sandbox");
            not_granted(facts::PRIVILEGE_OOM, Grant::Refused, &refusal)
        }
    }
}

/// Raises the soft limit of locked memory to the hard one. Returns facts with the resulting limit: a number of bytes,
/// or unlimited.
pub(crate) fn raise_memlock(root: &Root) -> Vec<Fact> {
    let now = rustix::process::getrlimit(Resource::Memlock);
    // A failure leaves the limit unchanged; locking then reports how much was possible.
    let _ =
        rustix::process::setrlimit(Resource::Memlock, Rlimit { current: now.maximum, maximum: now.maximum });
    let status = root.text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // CAP_IPC_LOCK is capability 14 (capabilities(7), linux/capability.h), and has no limit.
    match (effective >> 14 & 1, rustix::process::getrlimit(Resource::Memlock).current) {
        (1, _) | (_, None) => granted(facts::PRIVILEGE_MEMLOCK, UNLIMITED),
        (_, Some(bytes)) => vec![
            text(facts::PRIVILEGE_MEMLOCK, Grant::Partial.token()),
            text(facts::value(facts::PRIVILEGE_MEMLOCK), bytes.to_string()),
        ],
    }
}

/// Returns the address space left under `RLIMIT_AS` and `RLIMIT_DATA`, bytes, with the name of the tighter limit.
pub(crate) fn address_room(root: &Root) -> Option<(u64, &'static str)> {
    let status = root.text("/proc/self/status").unwrap_or_default();
    let room = |resource, key, name| {
        let limit = rustix::process::getrlimit(resource).current?;
        Some((limit.saturating_sub(crate::procfs::kilobytes(&status, key).unwrap_or(0)), name))
    };
    // Since Linux 4.7 RLIMIT_DATA counts private writable mappings (getrlimit(2)).
    let all = [room(Resource::As, "VmSize", "RLIMIT_AS"), room(Resource::Data, "VmData", "RLIMIT_DATA")];
    all.into_iter().flatten().min()
}

/// Raises the thread's ordinary priority as far as permitted: to nice -20, or to the limit's 20 - n (`RLIMIT_NICE`,
/// getrlimit(2)).
pub(crate) fn raise_nice() -> Vec<Fact> {
    // On Linux, PRIO_PROCESS with 0 means the calling thread.
    let raise = |level| rustix::process::setpriority_process(None, level);
    let Err(error) = raise(-20) else { return granted(facts::PRIVILEGE_NICE, "-20") };
    let refusal = |reason| Refusal::new(reason, NICE_REMEDY);
    let limit = rustix::process::getrlimit(Resource::Nice).current.unwrap_or(40).min(40);
    let level = 20 - i32::try_from(limit).unwrap_or(0);
    if level < 0 && raise(level).is_ok() {
        let reason = format!("raised to {level}, the limit, and not to -20 ({error})");
        let mut facts = not_granted(facts::PRIVILEGE_NICE, Grant::Partial, &refusal(reason));
        facts.push(text(facts::value(facts::PRIVILEGE_NICE), level.to_string()));
        return facts;
    }
    not_granted(facts::PRIVILEGE_NICE, Grant::Refused, &refusal(format!("not raised ({error})")))
}

const NICE_REMEDY: &str = "run as root, with CAP_SYS_NICE, or with a nice limit (ulimit -e 40)";

/// Makes the kernel kill the program that a command starts when the calling thread ends, however it does.
pub fn end_with_this_thread(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    let own = std::process::id();
    let request = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // This process may have ended before that.
        let parent = rustix::process::getppid().map(|parent| parent.as_raw_pid().cast_unsigned());
        if parent == Some(own) { Ok(()) } else { Err(std::io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork(2) and exec(2) the closure only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(request) };
}

/// Returns the threads of a process; none if it has ended.
pub(crate) fn threads(root: &Root, process: u32) -> Vec<libc::pid_t> {
    let names = root.names(&format!("/proc/{process}/task"));
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
