use super::*;
use crate::fixture;

fn worth(evidence: &Evidence) -> Worth {
    let (worth, why) = judge(evidence);
    assert!(!why.is_empty());
    worth
}

fn x86(present: bool, signature: &str) -> Evidence {
    Evidence {
        cpuid: Some((present, signature.into())),
        vendor: Some("GenuineIntel".into()),
        ..Evidence::default()
    }
}

#[test]
fn silicon_is_real_and_hypervisors_are_virtual() {
    assert_eq!(worth(&x86(false, "")), Worth::Real);
    for signature in ["KVMKVMKVM", "Microsoft Hv", "XenVMMXenVMM", "VMwareVMware", ""] {
        assert_eq!(worth(&x86(true, signature)), Worth::Virtual, "{signature:?}");
    }
    let (_, why) = judge(&x86(true, "KVMKVMKVM"));
    assert!(why.contains("ECX[31]") && why.contains("KVMKVMKVM"), "{why}");
}

#[test]
fn translators_are_emulated_whatever_else_is_found() {
    assert_eq!(worth(&x86(true, "TCGTCGTCGTCG")), Worth::Emulated);
    let rosetta = Evidence { vendor: Some("VirtualApple".into()), ..x86(true, "") };
    assert_eq!(worth(&rosetta), Worth::Emulated);
    let user = Evidence { foreign_elf: Some(62), ..Evidence::default() };
    assert_eq!(worth(&user), Worth::Emulated);
    let same = Evidence { interpreted: true, hypervisor: Some("xen".into()), ..Evidence::default() };
    assert_eq!(worth(&same), Worth::Emulated);
}

/// A board or server by what its firmware says.
fn arm(tree: &str, midr: u64, cntfrq: u64, psci: &str) -> Evidence {
    Evidence {
        midr: Some(midr),
        cntfrq: Some(cntfrq),
        tree: Some(tree.into()),
        psci: Some(psci.into()),
        ..Evidence::default()
    }
}

#[test]
fn arm_machines() {
    let a72 = 0x410f_d083;
    assert_eq!(worth(&arm("raspberrypi,4-model-b brcm,bcm2711", a72, 54_000_000, "smc")), Worth::Real);
    assert_eq!(worth(&arm("raspberrypi,3-model-b brcm,bcm2837", 0x410f_d034, 19_200_000, "")), Worth::Real);
    // QEMU's raspi3b boots the same devicetree; its counter betrays it.
    assert_eq!(
        worth(&arm("raspberrypi,3-model-b brcm,bcm2837", 0x410f_d034, 62_500_000, "")),
        Worth::Emulated
    );
    // QEMU's virt: under KVM the counter is the silicon's, under TCG it is QEMU's.
    assert_eq!(worth(&arm("linux,dummy-virt", a72, 25_000_000, "hvc")), Worth::Virtual);
    assert_eq!(worth(&arm("linux,dummy-virt", a72, 62_500_000, "hvc")), Worth::Emulated);
    assert_eq!(worth(&arm("vendor,board", 0x000f_0510, 62_500_000, "smc")), Worth::Emulated, "-cpu max");
    assert_eq!(worth(&arm("vendor,board", a72, 25_000_000, "hvc")), Worth::Virtual);
}

#[test]
fn firmware_strings() {
    let dmi = |text: &str| worth(&Evidence { dmi: Some(text.into()), ..Evidence::default() });
    assert_eq!(dmi("Dell Inc. / PowerEdge R640"), Worth::Real);
    assert_eq!(dmi("Amazon EC2 / m6g.metal"), Worth::Real);
    assert_eq!(dmi("Amazon EC2 / m6g.large"), Worth::Virtual);
    assert_eq!(dmi("QEMU / KVM Virtual Machine"), Worth::Virtual);
    assert_eq!(dmi("Microsoft Corporation / Virtual Machine"), Worth::Virtual);
    let xen = Evidence { hypervisor: Some("xen".into()), ..Evidence::default() };
    assert_eq!(worth(&xen), Worth::Virtual);
    let node = Evidence { tree_hypervisor: Some("linux,kvm".into()), ..Evidence::default() };
    assert_eq!(worth(&node), Worth::Virtual);
}

#[test]
fn evidence_is_read_from_files() {
    let exe = thread_exe();
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    // A machine that is neither of ours: RISC-V, 243.
    elf.extend([243, 0]);
    let (directory, root) = fixture::root(&[
        ("/sys/hypervisor/type", "xen\n"),
        ("/sys/class/dmi/id/sys_vendor", "ACME\n"),
        ("/sys/class/dmi/id/product_name", "Anvil 2\n"),
        ("/sys/class/dmi/id/product_serial", "S3CRET\n"),
        ("/proc/device-tree/compatible", "acme,anvil\0acme,soc\0"),
        ("/proc/device-tree/psci/method", "hvc\0"),
        ("/proc/self/exe", "one program"),
    ]);
    fixture::write(directory.path(), &exe, &elf);
    let found = gather(&root);
    assert_eq!(found.hypervisor.as_deref(), Some("xen"));
    assert_eq!(found.dmi.as_deref(), Some("ACME / Anvil 2"));
    assert_eq!(found.tree.as_deref(), Some("acme,anvil acme,soc"));
    assert_eq!(found.psci.as_deref(), Some("hvc"));
    assert_eq!(found.foreign_elf, Some(243));
    assert!(found.interpreted, "two paths, two files");
    elf[5] = 2;
    elf[18..].copy_from_slice(&[0, 22]);
    fixture::write(directory.path(), &exe, &elf);
    assert_eq!(gather(&root).foreign_elf, Some(22), "a big-endian host: s390");
    fixture::write(directory.path(), &exe, b"#!");
    assert_eq!(gather(&root).foreign_elf, None);
}

#[test]
fn letters_of_registers() {
    assert_eq!(letters([0x4b4d_564b, 0x564b_4d56, 0x4d]), "KVMKVMKVM");
}

/// This very process: under a user-mode emulator it must be known as such. Run natively, the kernel runs
/// the program that it names.
#[test]
fn this_process_is_known() {
    let found = gather(&Root::system());
    let elf = running_elf(&Root::system());
    assert!(elf.is_some(), "the kernel runs an ELF file");
    if elf == Some(ELF_MACHINE) && !found.interpreted {
        assert_ne!(found.cpuid.as_ref().map(|(_, s)| s.as_str()), Some("TCGTCGTCGTCG"));
    } else {
        assert_eq!(worth(&found), Worth::Emulated);
    }
}
