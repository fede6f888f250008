use super::*;
use crate::fixture;

fn trust(evidence: &Evidence) -> ClockTrust {
    let (trust, why) = judge(evidence);
    assert!(!why.is_empty());
    trust
}

fn evidence() -> Evidence {
    Evidence::default()
}

#[test]
fn clock_trust_follows_cpu_evidence() {
    assert_eq!(trust(&evidence()), ClockTrust::Real);
    let with_cpu = |trust| Evidence { cpu: Some((trust, "its registers".into())), ..evidence() };
    assert_eq!(judge(&with_cpu(ClockTrust::Virtual)), (ClockTrust::Virtual, "its registers".to_owned()));
    assert_eq!(trust(&with_cpu(ClockTrust::Emulated)), ClockTrust::Emulated);
    let xen = Some("xen".to_owned());
    let both = Evidence { hypervisor: xen.clone(), ..with_cpu(ClockTrust::Emulated) };
    assert_eq!(trust(&both), ClockTrust::Emulated, "the least wins");
    let equal = Evidence { hypervisor: xen, ..with_cpu(ClockTrust::Virtual) };
    assert_eq!(judge(&equal).1, "its registers", "the first of equals");
}

#[test]
fn translators_take_precedence_over_other_evidence() {
    let user = Evidence { foreign_elf: Some(62), cpu: Some((ClockTrust::Virtual, "x".into())), ..evidence() };
    assert_eq!(trust(&user), ClockTrust::Emulated);
    let same = Evidence { interpreted: true, hypervisor: Some("xen".into()), ..evidence() };
    assert_eq!(trust(&same), ClockTrust::Emulated);
}

#[test]
fn devicetrees_distinguish_boards_from_guests() {
    let of = |tree: &str, psci: &str| {
        trust(&Evidence { tree: Some(tree.into()), psci: Some(psci.into()), ..evidence() })
    };
    assert_eq!(of("raspberrypi,4-model-b brcm,bcm2711", "smc"), ClockTrust::Real);
    assert_eq!(of("raspberrypi,3-model-b brcm,bcm2837", ""), ClockTrust::Real);
    assert_eq!(of("linux,dummy-virt", "hvc"), ClockTrust::Virtual);
    assert_eq!(of("linux,dummy-virt", ""), ClockTrust::Virtual);
    assert_eq!(of("riscv-virtio,qemu riscv-virtio", ""), ClockTrust::Virtual);
    assert_eq!(of("vendor,board", "hvc"), ClockTrust::Virtual);
}

#[test]
fn raspberry_pi_that_its_firmware_did_not_boot_is_emulated() {
    let tree = ("/proc/device-tree/compatible", "raspberrypi,model-zero\0brcm,bcm2835\0");
    let judged = |files: &[(&str, &str)]| {
        let (_keep, root) = fixture::root(files);
        trust(&Evidence {
            cpu: None,
            first_run: None,
            foreign_elf: None,
            interpreted: false,
            ..gather(&root)
        })
    };
    assert_eq!(judged(&[tree]), ClockTrust::Emulated);
    assert_eq!(judged(&[tree, ("/proc/device-tree/serial-number", "00000000abcdef01\0")]), ClockTrust::Real);
    assert_eq!(judged(&[tree, ("/proc/device-tree/system/linux,revision", "\0\0\0\x09")]), ClockTrust::Real);
    assert_eq!(judged(&[("/proc/device-tree/compatible", "ti,am335x-bone\0ti,am33xx\0")]), ClockTrust::Real);
}

#[test]
fn firmware_strings_distinguish_machines_from_guests() {
    let dmi = |text: &str| trust(&Evidence { dmi: Some(text.into()), ..Evidence::default() });
    assert_eq!(dmi("Dell Inc. / PowerEdge R640"), ClockTrust::Real);
    assert_eq!(dmi("Amazon EC2 / m6g.metal"), ClockTrust::Real);
    assert_eq!(dmi("Amazon EC2 / m6g.large"), ClockTrust::Virtual);
    assert_eq!(dmi("QEMU / KVM Virtual Machine"), ClockTrust::Virtual);
    assert_eq!(dmi("Microsoft Corporation / Virtual Machine"), ClockTrust::Virtual);
    let xen = Evidence { hypervisor: Some("xen".into()), ..Evidence::default() };
    assert_eq!(trust(&xen), ClockTrust::Virtual);
    let node = Evidence { tree_hypervisor: Some("linux,kvm".into()), ..Evidence::default() };
    assert_eq!(trust(&node), ClockTrust::Virtual);
}

#[test]
fn evidence_is_read_from_files() {
    let exe = thread_exe();
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    // LoongArch (258), which is no supported architecture.
    elf.extend(258u16.to_le_bytes());
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
    assert_eq!(found.foreign_elf, Some(258));
    assert!(found.interpreted, "two paths, two files");
    elf[5] = 2;
    elf[18..].copy_from_slice(&[0, 22]);
    fixture::write(directory.path(), &exe, &elf);
    assert_eq!(gather(&root).foreign_elf, Some(22), "a big-endian host: s390");
    fixture::write(directory.path(), &exe, b"#!");
    assert_eq!(gather(&root).foreign_elf, None);
}

/// Under a user-mode emulator this process must be recognised as emulated. Run natively, the kernel runs the program
/// that it names.
#[test]
fn this_process_is_judged_by_its_running_program() {
    let found = gather(&Root::system());
    let elf = running_elf(&Root::system());
    assert!(elf.is_some(), "the kernel runs an ELF file");
    if elf == Some(Cpu::PROGRAM.elf_machine) && !found.interpreted {
        assert_eq!(by_program(&found), None);
    } else {
        assert_eq!(trust(&found), ClockTrust::Emulated);
    }
}
