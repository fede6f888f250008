//! What this machine's clock is worth: silicon, a guest, or a binary translator.
//!
//! Evidence is gathered by `gather` and judged by `judge`, apart, so that machines which are not here can
//! be judged from fixtures. Of several findings the one that makes the clock worth least wins.

use fathom_probe::machine::ClockTrust;

use crate::arch::{Architecture as _, Cpu};
use crate::read::Root;

/// What was found, as found. Absent is not the same as no.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// What the CPU says, as its architecture judges it.
    pub(crate) cpu: Option<Verdict>,
    /// The ELF machine of the program that the kernel is really running, where it is not the one that
    /// this code was compiled for.
    pub(crate) foreign_elf: Option<u16>,
    /// The program that the kernel runs is not the program that it says to run.
    pub(crate) interpreted: bool,
    /// `/sys/hypervisor/type`.
    pub(crate) hypervisor: Option<String>,
    /// Vendor, product and board of the DMI tables.
    pub(crate) dmi: Option<String>,
    /// `compatible` of the devicetree's `/hypervisor` node.
    pub(crate) tree_hypervisor: Option<String>,
    /// `compatible` of the devicetree's root, words separated by blanks.
    pub(crate) tree: Option<String>,
    /// The conduit of PSCI calls: `smc` to firmware, `hvc` to a hypervisor.
    pub(crate) psci: Option<String>,
}

/// Looks for everything that reveals a hypervisor or a translator.
pub(crate) fn gather(root: &Root) -> Evidence {
    let elf = running_elf(root);
    let tree = strings(root, &format!("{TREE}/compatible"));
    let dmi = dmi(root);
    let words = |text: &Option<String>| text.clone().unwrap_or_default();
    Evidence {
        cpu: Cpu::trust(root, &words(&tree), &words(&dmi)),
        foreign_elf: elf.filter(|&machine| machine != Cpu::PROGRAM.elf_machine),
        interpreted: interpreted(root),
        hypervisor: root.text("/sys/hypervisor/type"),
        dmi,
        tree_hypervisor: strings(root, &format!("{TREE}/hypervisor/compatible")),
        tree,
        psci: strings(root, &format!("{TREE}/psci/method")),
    }
}

/// Where the kernel shows the devicetree.
const TREE: &str = "/proc/device-tree";

/// A devicetree property of strings, separated by blanks.
pub(crate) fn strings(root: &Root, path: &str) -> Option<String> {
    Some(root.text(path)?.replace('\0', " ").trim().to_owned())
}

/// The path of the running program as the kernel knows it. An emulator of processes answers
/// `/proc/self/exe` and `/proc/PID/exe` with the program that it emulates; QEMU's does not think of the
/// thread's own directory, which leads to the emulator itself.
fn thread_exe() -> String {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    format!("/proc/self/task/{thread}/exe")
}

/// `e_machine` (bytes 18 and 19 of an ELF header) of the program that the kernel runs.
fn running_elf(root: &Root) -> Option<u16> {
    let head = root.bytes(&thread_exe(), 20)?;
    let known = head.get(..4)? == b"\x7fELF";
    // EI_DATA 1 is little endian; the emulator's host may be of another order than this code.
    let machine = [*head.get(18)?, *head.get(19)?];
    let little = head.get(5) == Some(&1);
    known.then(|| if little { u16::from_le_bytes(machine) } else { u16::from_be_bytes(machine) })
}

/// Do the two ways to the running program lead to different files?
fn interpreted(root: &Root) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &str| {
        // Opened, not `stat`ed: an emulator that redirects one may not redirect the other.
        let data = std::fs::File::open(root.path(path)).ok()?.metadata().ok()?;
        Some((data.dev(), data.ino()))
    };
    match (identity("/proc/self/exe"), identity(&thread_exe())) {
        (Some(reported), Some(real)) => reported != real,
        _ => false,
    }
}

/// The strings of the DMI tables that name the machine and no specimen of it.
pub(crate) fn dmi(root: &Root) -> Option<String> {
    let names = ["sys_vendor", "product_name", "board_vendor", "board_name", "bios_vendor"];
    let found: Vec<String> =
        names.iter().filter_map(|n| root.text(&format!("/sys/class/dmi/id/{n}"))).collect();
    (!found.is_empty()).then(|| found.join(" / "))
}

/// Words in the DMI strings of virtual machines, as their makers fill them in.
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

/// A finding and its sentence.
type Verdict = (ClockTrust, String);

/// What the evidence says, with the sentence that says why.
pub(crate) fn judge(evidence: &Evidence) -> Verdict {
    let found = [by_program(evidence), evidence.cpu.clone(), by_firmware(evidence)];
    let nothing = "nothing speaks of anything between this program and the silicon".to_owned();
    // The least wins, and the first of equals, in the order above: programs are the surest.
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

fn by_firmware(evidence: &Evidence) -> Option<Verdict> {
    let tree = evidence.tree.as_deref().unwrap_or_default();
    let dmi = evidence.dmi.as_deref().unwrap_or_default();
    let mut reasons = Vec::new();
    if tree.contains("linux,dummy-virt") {
        reasons.push("the devicetree is of a virtual machine (linux,dummy-virt)".to_owned());
    }
    // Bare-metal instances carry their provider's name too; Amazon's end in ".metal".
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
