//! Detects whether the clock is that of hardware, a guest, or an emulator.
//!
//! `gather` collects evidence and `judge` judges it, so that tests can judge fixtures of other machines. Of several
//! verdicts the least trusted one wins.

use fathom_probe::machine::ClockTrust;

use crate::arch::{Architecture as _, Cpu};
use crate::first_run::FirstRun;
use crate::procfs::Root;

/// Evidence, undecoded. `None` means unknown, not "no".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Verdict of the CPU's registers, by the architecture's code.
    pub(crate) cpu: Option<Verdict>,
    /// ELF machine of the program that the kernel really runs, if it differs from the one that this code was compiled
    /// for.
    pub(crate) foreign_elf: Option<u16>,
    /// How long new code takes; `None` if it was not measured.
    pub(crate) first_run: Option<FirstRun>,
    /// Whether the kernel runs another program than `/proc/self/exe` names.
    pub(crate) interpreted: bool,
    /// `/sys/hypervisor/type`.
    pub(crate) hypervisor: Option<String>,
    /// Vendor, product and board of the DMI tables.
    pub(crate) dmi: Option<String>,
    /// `compatible` of the devicetree's `/hypervisor` node.
    pub(crate) tree_hypervisor: Option<String>,
    /// `compatible` of the devicetree's root, entries separated by blanks.
    pub(crate) tree: Option<String>,
    /// Whether the devicetree is a Raspberry Pi's, without any property that its firmware adds at each boot.
    pub(crate) without_firmware: bool,
    /// The conduit of PSCI calls: `smc` to firmware, `hvc` to a hypervisor.
    pub(crate) psci: Option<String>,
}

/// Collects everything that reveals a hypervisor or a binary translator.
pub(crate) fn gather(root: &Root) -> Evidence {
    let elf = running_elf(root);
    let tree = strings(root, &format!("{DEVICETREE}/compatible"));
    let dmi = dmi(root);
    let words = |text: &Option<String>| text.clone().unwrap_or_default();
    Evidence {
        cpu: Cpu::trust(root, &words(&tree), &words(&dmi)),
        first_run: FirstRun::measure(),
        foreign_elf: elf.filter(|&machine| machine != Cpu::PROGRAM.elf_machine),
        interpreted: interpreted(root),
        hypervisor: root.text("/sys/hypervisor/type"),
        dmi,
        tree_hypervisor: strings(root, &format!("{DEVICETREE}/hypervisor/compatible")),
        without_firmware: words(&tree).contains("raspberrypi,")
            && !PI_FIRMWARE.iter().any(|name| root.bytes(&format!("{DEVICETREE}/{name}"), 1).is_some()),
        tree,
        psci: strings(root, &format!("{DEVICETREE}/psci/method")),
    }
}

/// Path of the devicetree in `/proc`.
const DEVICETREE: &str = "/proc/device-tree";

/// Properties that a Raspberry Pi's firmware adds to the devicetree (Raspberry Pi documentation, "Device Trees"). QEMU passes
/// the kernel's own tree as it is.
const PI_FIRMWARE: [&str; 4] =
    ["serial-number", "system/linux,revision", "system/linux,serial", "chosen/rpi-boardrev-ext"];

/// Reads a devicetree property of strings, separated by blanks.
pub(crate) fn strings(root: &Root, path: &str) -> Option<String> {
    Some(root.text(path)?.replace('\0', " ").trim().to_owned())
}

/// Returns the path of the running program as the kernel knows it. An emulator of processes redirects
/// `/proc/self/exe` and `/proc/PID/exe` to the program that it emulates. QEMU's does not redirect the thread's
/// directory, which leads to the emulator itself.
fn thread_exe() -> String {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    format!("/proc/self/task/{thread}/exe")
}

/// Returns `e_machine` (bytes 18 and 19 of an ELF header) of the program that the kernel runs.
fn running_elf(root: &Root) -> Option<u16> {
    let head = root.bytes(&thread_exe(), 20)?;
    let known = head.get(..4)? == b"\x7fELF";
    // EI_DATA 1 is little endian; the emulator's host may have another byte order than this code.
    let machine = [*head.get(18)?, *head.get(19)?];
    let little = head.get(5) == Some(&1);
    known.then(|| if little { u16::from_le_bytes(machine) } else { u16::from_be_bytes(machine) })
}

/// Returns whether the two paths of the running program lead to different files.
fn interpreted(root: &Root) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &str| {
        // Opened instead of `stat`ed: an emulator that redirects one may not redirect the other.
        let data = std::fs::File::open(root.path(path)).ok()?.metadata().ok()?;
        Some((data.dev(), data.ino()))
    };
    match (identity("/proc/self/exe"), identity(&thread_exe())) {
        (Some(reported), Some(real)) => reported != real,
        _ => false,
    }
}

/// Returns the strings of the DMI tables that name the model of the machine, without serial numbers.
pub(crate) fn dmi(root: &Root) -> Option<String> {
    let names = ["sys_vendor", "product_name", "board_vendor", "board_name", "bios_vendor"];
    let found: Vec<String> =
        names.iter().filter_map(|n| root.text(&format!("/sys/class/dmi/id/{n}"))).collect();
    (!found.is_empty()).then(|| found.join(" / "))
}

/// Substrings of the DMI strings of virtual machines.
const VIRTUAL_DMI: [&str; 14] = [
    "QEMU",
    "KVM",
    "VMware",
    "VirtualBox",
    "innotek",
    "Xen",
    "Bochs",
    "Parallels",
    "Virtual Machine",
    "BHYVE",
    "Google Compute Engine",
    "OpenStack",
    "Firecracker",
    "Apple Virtualization",
];

/// `compatible` of the devicetree's root on QEMU's `virt` machines, which other hypervisors use too: of Arm, and of RISC-V.
const VIRTUAL_TREES: [&str; 2] = ["linux,dummy-virt", "riscv-virtio"];

/// Clock trust with the sentence that gives the reason.
type Verdict = (ClockTrust, String);

/// Returns the verdict of all evidence.
pub(crate) fn judge(evidence: &Evidence) -> Verdict {
    let found = [
        by_program(evidence),
        evidence.cpu.clone(),
        by_boot(evidence),
        by_code(evidence),
        by_firmware(evidence),
    ];
    let nothing = "no evidence of a hypervisor or an emulator".to_owned();
    // The least trusted wins, and the first of equals, in the order above: evidence by program is the most certain.
    found.into_iter().flatten().min_by_key(|(trust, _)| *trust).unwrap_or((ClockTrust::Real, nothing))
}

fn by_program(evidence: &Evidence) -> Option<Verdict> {
    if let Some(machine) = evidence.foreign_elf {
        let why = format!(
            "the kernel runs a program for ELF machine {machine} where this code is for {}: a user-mode emulator",
            Cpu::PROGRAM.elf_machine
        );
        return Some((ClockTrust::Emulated, why));
    }
    evidence.interpreted.then(|| {
        (ClockTrust::Emulated, "the kernel runs another program than it names: a user-mode emulator".into())
    })
}

/// A Raspberry Pi cannot boot without its firmware. QEMU's models of those without a generic timer have no other evidence.
fn by_boot(evidence: &Evidence) -> Option<Verdict> {
    let why = "the devicetree is a Raspberry Pi's, without what its firmware adds (serial-number, system/linux,revision): QEMU, \
               or a boot loader that replaces the firmware's devicetree";
    evidence.without_firmware.then(|| (ClockTrust::Emulated, why.to_owned()))
}

fn by_code(evidence: &Evidence) -> Option<Verdict> {
    let measured = evidence.first_run.as_ref()?;
    Some((ClockTrust::Emulated, measured.translates().or_else(|| measured.counts_instructions())?))
}

fn by_firmware(evidence: &Evidence) -> Option<Verdict> {
    let tree = evidence.tree.as_deref().unwrap_or_default();
    let dmi = evidence.dmi.as_deref().unwrap_or_default();
    let mut reasons = Vec::new();
    let virtual_tree = VIRTUAL_TREES.iter().find(|name| tree.contains(**name));
    reasons.extend(virtual_tree.map(|name| format!("the devicetree is of a virtual machine ({name})")));
    // Bare-metal instances have their provider's name too; Amazon's end in ".metal".
    let amazon = dmi.contains("Amazon EC2") && !dmi.contains(".metal");
    if amazon || VIRTUAL_DMI.iter().any(|word| dmi.contains(word)) {
        reasons.push(format!("the DMI strings are of a virtual machine ({dmi})"));
    }
    reasons.extend(evidence.hypervisor.iter().map(|h| format!("/sys/hypervisor/type is {h}")));
    reasons
        .extend(evidence.tree_hypervisor.iter().map(|h| format!("the devicetree names a hypervisor ({h})")));
    if evidence.psci.as_deref() == Some("hvc") {
        reasons.push("PSCI calls go to a hypervisor (hvc)".into());
    }
    (!reasons.is_empty()).then(|| (ClockTrust::Virtual, reasons.join("; ")))
}

#[cfg(test)]
mod tests;
