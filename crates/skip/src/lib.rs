//! Tests that this machine cannot run.
//!
//! A test that needs what a machine may lack says so with [`skipped!`]: what it needs, and why it has not got it. The
//! line is printed, and appended to the file that `FATHOM_SKIPPED` names, which `scripts/test` counts and lists at its
//! end. Where the capability can be checked in another way, and is there, the test fails: else a defect that refuses
//! everything would pass as a machine that cannot.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable with the file to which a line is added for each skipped test.
const FILE: &str = "FATHOM_SKIPPED";

/// What a test needs and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// The probe of this host: any Linux with `/proc` on a supported architecture.
    HostProbe,
    /// A task with real-time priority or none at all: the probe of wake-ups.
    Wakeups,
    /// QEMU for AArch64 systems.
    Qemu,
    /// QEMU's user mode, for programs.
    QemuUser,
    /// A mount namespace: file systems that are mounted for a test.
    Mounts,
    /// A control group that can be made.
    ControlGroup,
    /// A trace instance that can be made.
    TraceInstance,
    /// `taskset`.
    Taskset,
    /// A browser.
    Browser,
    /// Nothing that can be checked in another way.
    Unchecked,
}

impl Capability {
    /// Returns whether the capability is there, found out without what is tested.
    #[must_use]
    pub fn is_there(self) -> bool {
        match self {
            Capability::HostProbe | Capability::Wakeups => {
                cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))
                    && Path::new("/proc/self/exe").exists()
            }
            Capability::Qemu => runs("qemu-system-aarch64", &["--version"]),
            Capability::QemuUser => runs("qemu-arm", &["--version"]),
            Capability::Mounts => runs("unshare", &["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]),
            Capability::ControlGroup => can_make_directory("/sys/fs/cgroup"),
            Capability::TraceInstance => {
                ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"]
                    .into_iter()
                    .any(can_make_directory)
            }
            Capability::Taskset => runs("taskset", &["--version"]),
            Capability::Browser => runs("chromium", &["--version"]),
            Capability::Unchecked => false,
        }
    }
}

/// Returns whether a program runs and succeeds.
fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns whether a directory can be made there, and removed.
fn can_make_directory(parent: &str) -> bool {
    let directory = Path::new(parent).join(format!("fathom.skip.{}", std::process::id()));
    std::fs::create_dir(&directory).is_ok() && std::fs::remove_dir(&directory).is_ok()
}

/// Returns the user-mode emulator that runs this program, if one does. A program that it started has to be started with
/// it, because the kernel cannot run it.
#[must_use]
pub fn emulator() -> Option<PathBuf> {
    // QEMU redirects the process's link to the emulated program, and not the thread's.
    let named = std::fs::read_link("/proc/self/exe").ok()?;
    let running = std::fs::read_link("/proc/thread-self/exe").ok()?;
    (named != running).then_some(running)
}

/// Tells that a test is not run; [`skipped!`] formats the reason.
///
/// # Panics
/// The capability is there.
#[track_caller]
pub fn skip(capability: Capability, why: &str) {
    let thread = std::thread::current();
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let test = format!("{package} {}", thread.name().unwrap_or("a thread"));
    assert!(!capability.is_there(), "{test}: skipped, but {capability:?} is there: {why}");
    println!("SKIPPED: {why}");
    let Some(file) = std::env::var_os(FILE) else { return };
    let line = format!("{test}: {}\n", why.lines().next().unwrap_or_default());
    let opened = std::fs::OpenOptions::new().append(true).open(&file);
    opened
        .and_then(|mut to| to.write_all(line.as_bytes()))
        .unwrap_or_else(|e| panic!("{FILE}={}: {e}", Path::new(&file).display()));
}

/// Tells that a test is not run: the [`Capability`] that it needs, and the reason with its arguments.
#[macro_export]
macro_rules! skipped {
    ($capability:ident, $($format:tt)+) => {
        $crate::skip($crate::Capability::$capability, &format!($($format)+))
    };
}

#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    #[test]
    #[should_panic(expected = "skipped, but HostProbe is there")]
    fn test_that_could_run_fails() {
        skipped!(HostProbe, "the probe ended with status {}", 1);
    }
}
