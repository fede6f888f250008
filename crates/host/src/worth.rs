//! What this machine's clock is worth: silicon, a guest, or a binary translator.
//!
//! Evidence is gathered by `gather` and judged by `judge`, apart, so that machines which are not here can
//! be judged from fixtures. Of several findings the one that makes the clock worth least wins.

use fathom_probe::machine::Worth;

use crate::identify::{self, Cpuid};
use crate::read::Root;

/// What was found, as found. Absent is not the same as no.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// x86: leaf 1's hypervisor bit and the signature of leaf 4000_0000.
    pub(crate) cpuid: Option<(bool, String)>,
    /// x86: the vendor of leaf 0.
    pub(crate) vendor: Option<String>,
    /// AArch64: the main identification register.
    pub(crate) midr: Option<u64>,
    /// AArch64: what firmware says of the counter's rate, Hz.
    pub(crate) cntfrq: Option<u64>,
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

/// `e_machine` of this code, from the ELF specification's registry (System V ABI, AMD64 and AArch64
/// supplements).
const ELF_MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };

/// Looks for everything that betrays a hypervisor or a translator.
pub(crate) fn gather(root: &Root) -> Evidence {
    let leaf = |n| identify::cpuid(n, 0);
    let registers = |a: &Cpuid| [a.ebx, a.ecx, a.edx];
    let elf = running_elf(root);
    let tree = "/proc/device-tree";
    Evidence {
        cpuid: leaf(1).map(|one| {
            let present = one.ecx >> 31 == 1;
            let signature = leaf(0x4000_0000).filter(|_| present);
            (present, signature.map_or(String::new(), |s| letters(registers(&s))))
        }),
        vendor: leaf(0).map(|v| letters([v.ebx, v.edx, v.ecx])),
        midr: identify::midr(root),
        cntfrq: identify::cntfrq(),
        foreign_elf: elf.filter(|&machine| machine != ELF_MACHINE),
        interpreted: interpreted(root),
        hypervisor: root.text("/sys/hypervisor/type"),
        dmi: dmi(root),
        tree_hypervisor: strings(root, &format!("{tree}/hypervisor/compatible")),
        tree: strings(root, &format!("{tree}/compatible")),
        psci: strings(root, &format!("{tree}/psci/method")),
    }
}

/// Twelve letters in three registers.
fn letters(registers: [u32; 3]) -> String {
    let bytes: Vec<u8> = registers.iter().flat_map(|r| r.to_le_bytes()).filter(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

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
    // EI_DATA 1 is little endian, as both architectures here are; the emulator's host may be neither.
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
        (Some(told), Some(real)) => told != real,
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

/// The rate of QEMU's generic timer: hw/arm and target/arm/cpu.c of QEMU up to 8, 62.5 MHz. A guest of a
/// hypervisor sees the silicon's own rate instead.
const QEMU_CNTFRQ: u64 = 62_500_000;

/// A finding and its sentence.
type Verdict = (Worth, String);

/// What the evidence says, with the sentence that says why.
pub(crate) fn judge(evidence: &Evidence) -> Verdict {
    let found = [by_program(evidence), by_cpuid(evidence), by_registers(evidence), by_firmware(evidence)];
    let nothing = "nothing speaks of anything between this program and the silicon".to_owned();
    // The least wins, and the first of equals, in the order above: programs are the surest.
    found.into_iter().flatten().min_by_key(|(worth, _)| *worth).unwrap_or((Worth::Real, nothing))
}

fn by_program(evidence: &Evidence) -> Option<Verdict> {
    if let Some(machine) = evidence.foreign_elf {
        let why = format!(
            "the kernel runs a program for ELF machine {machine} where this code is for {ELF_MACHINE}: a user-mode emulator"
        );
        return Some((Worth::Emulated, why));
    }
    evidence.interpreted.then(|| {
        (Worth::Emulated, "the kernel runs another program than it names: a user-mode emulator".into())
    })
}

fn by_cpuid(evidence: &Evidence) -> Option<Verdict> {
    if evidence.vendor.as_deref() == Some("VirtualApple") {
        return Some((Worth::Emulated, "CPUID leaf 0 names VirtualApple, a binary translator".into()));
    }
    let (present, signature) = evidence.cpuid.as_ref()?;
    if signature == "TCGTCGTCGTCG" {
        // target/i386/cpu.c of QEMU.
        return Some((Worth::Emulated, "CPUID leaf 40000000 names TCG, QEMU's binary translator".into()));
    }
    present.then(|| {
        let named = if signature.is_empty() { "none".into() } else { format!("{signature:?}") };
        (Worth::Virtual, format!("CPUID.1:ECX[31] says a hypervisor is present; its signature: {named}"))
    })
}

fn by_registers(evidence: &Evidence) -> Option<Verdict> {
    let midr = evidence.midr?;
    // Arm ARM, MIDR_EL1: implementer 0 is reserved for software use; QEMU's `max` is such.
    if midr >> 24 & 0xff == 0 {
        return Some((
            Worth::Emulated,
            format!("MIDR_EL1 {midr:#x} has implementer 0, reserved for software"),
        ));
    }
    None
}

fn by_firmware(evidence: &Evidence) -> Option<Verdict> {
    let tree = evidence.tree.as_deref().unwrap_or_default();
    let dmi = evidence.dmi.as_deref().unwrap_or_default();
    let qemu = tree.contains("linux,dummy-virt") || dmi.contains("QEMU");
    // The Pi's counter runs at 19.2 MHz (54 MHz from the Pi 4 on): another rate is QEMU's model of it.
    let pi = tree.contains("brcm,bcm28");
    if (qemu || pi) && evidence.cntfrq == Some(QEMU_CNTFRQ) {
        return Some((
            Worth::Emulated,
            "the counter has the rate of QEMU's own timer (62.5 MHz) on one of QEMU's machines".into(),
        ));
    }
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
    (!reasons.is_empty()).then(|| (Worth::Virtual, reasons.join("; ")))
}

#[cfg(test)]
mod tests;
