//! Exceptions, in words: what a fault line says.
//!
//! DDI 0487: "Exception vectors"; the register `ESR_EL1` with its classes and fault status codes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// An exception as it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which of the 16 entries of the vector table, from 0.
    pub vector: u64,
    /// `ESR_EL1`.
    pub esr: u64,
    /// `FAR_EL1`.
    pub far: u64,
    /// `ELR_EL1`, the instruction.
    pub elr: u64,
    /// Where the image lies: addresses inside are told from there, as the image's symbols are.
    pub image: u64,
}

/// The non-secure physical timer of EL1 at a GIC: private interrupt 30 (Server Base System Architecture, 5.2;
/// BCM2711 ARM Peripherals 6.3; QEMU's virt).
pub const TIMER: u32 = 30;

/// Who asks for an interrupt, as the board's controller says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptSource {
    /// The bits of core 0's register of QA7, "Core interrupt sources".
    Local(u32),
    /// The number of `GICC_IAR` (IHI 0048B 4.4.4), bits 9:0.
    Gic(u32),
}

impl InterruptSource {
    /// Is it the watch on trials? `reached`: its timer says that it has reached its time.
    #[must_use]
    pub fn is_the_watch(self, reached: bool) -> bool {
        reached && !matches!(self, InterruptSource::Gic(id) if id != TIMER)
    }

    /// The number by which a GIC's distributor masks it. Numbers from 1020 on are none of an interrupt.
    #[must_use]
    pub fn of_the_distributor(self) -> Option<u32> {
        match self {
            InterruptSource::Gic(id) if id < 1020 => Some(id),
            _ => None,
        }
    }

    /// In words, of one that nobody waits for.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            InterruptSource::Gic(id @ 1020..) => {
                format!("an unexpected interrupt: INTID {id}, nobody's any more")
            }
            InterruptSource::Gic(id) => format!("an unexpected interrupt: INTID {id}"),
            InterruptSource::Local(bits) => {
                let set = SOURCES.iter().enumerate().filter(|(nth, _)| bits >> nth & 1 == 1);
                let names: Vec<&str> = set.map(|(_, name)| *name).collect();
                let names =
                    if names.is_empty() { String::from("nobody's any more") } else { names.join(", ") };
                format!("an unexpected interrupt: source {bits:#x}, {names}")
            }
        }
    }
}

/// The bits of [`InterruptSource::Local`], from 0.
const SOURCES: [&str; 12] = [
    "the secure physical timer",
    "the physical timer",
    "the hypervisor's timer",
    "the virtual timer",
    "mailbox 0",
    "mailbox 1",
    "mailbox 2",
    "mailbox 3",
    "a peripheral",
    "the PMU",
    "outstanding AXI transfers",
    "the local timer",
];

/// What the four entries of each group of the table are for.
const KINDS: [&str; 4] = ["synchronous exception", "interrupt", "fast interrupt", "system error"];
/// The groups.
const FROM: [&str; 4] = ["on the stack of EL0", "", "from below in AArch64", "from below in AArch32"];

impl Taken {
    /// Is it an interrupt?
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        self.vector % 4 == 1
    }

    /// One sentence: what it was, then the registers.
    #[must_use]
    pub fn words(&self) -> String {
        let Taken { vector, esr, far, elr, image } = *self;
        let kind = KINDS[(vector % 4) as usize];
        let from = FROM[(vector / 4 % 4) as usize];
        let mut what = match vector % 4 {
            0 => class(esr, far),
            3 => format!("{kind}: {}", system_error(esr)),
            _ => String::from(kind),
        };
        if !from.is_empty() {
            what = format!("{what} ({kind} {from})");
        }
        let at = elr.wrapping_sub(image);
        format!("{what} at image+{at:#x} (ESR_EL1={esr:#x} FAR_EL1={far:#x} ELR_EL1={elr:#x})")
    }
}

/// The exception class of a synchronous exception, `ESR_EL1.EC` in bits 31:26.
fn class(esr: u64, far: u64) -> String {
    let named = match esr >> 26 & 0x3f {
        0x00 => "undefined instruction",
        0x01 => "trapped WFI or WFE",
        0x07 => "trapped floating point or SIMD",
        0x0e => "illegal execution state",
        0x15 => "SVC",
        0x18 => "trapped access to a system register",
        0x20 | 0x21 => return format!("instruction abort: {} of {far:#x}", status(esr)),
        0x22 => return format!("misaligned program counter {far:#x}"),
        0x24 | 0x25 => {
            let did = if esr >> 6 & 1 == 1 { "writing" } else { "reading" };
            // FnV: the address is not known.
            let at =
                if esr >> 10 & 1 == 1 { String::from("an unknown address") } else { format!("{far:#x}") };
            return format!("data abort: {}, {did} {at}", status(esr));
        }
        0x26 => "misaligned stack pointer",
        0x2c => "trapped floating point exception",
        0x30 | 0x31 => "breakpoint",
        0x32 | 0x33 => "software step",
        0x34 | 0x35 => return format!("watchpoint at {far:#x}"),
        0x3c => "BRK instruction",
        class => return format!("exception of class {class:#x}"),
    };
    String::from(named)
}

/// The fault status code of an abort, bits 5:0.
fn status(esr: u64) -> String {
    let (code, level) = (esr & 0x3f, esr & 3);
    match code {
        0x00..=0x03 => format!("address size fault, level {level}"),
        0x04..=0x07 => format!("translation fault, level {level}"),
        0x08..=0x0b => format!("access flag fault, level {level}"),
        0x0c..=0x0f => format!("permission fault, level {level}"),
        0x10 => "external abort: nothing answers there".into(),
        0x14..=0x17 => format!("external abort of a table walk, level {level}"),
        0x18 => "parity or ECC error".into(),
        0x1c..=0x1f => format!("parity or ECC error of a table walk, level {level}"),
        0x21 => "alignment fault".into(),
        0x30 => "TLB conflict".into(),
        0x35 => "unsupported exclusive or atomic access".into(),
        code => format!("fault status {code:#x}"),
    }
}

/// The syndrome of a system error. Without the RAS extension its format is the implementer's (bit 24).
fn system_error(esr: u64) -> String {
    match esr >> 24 & 1 {
        1 => format!("an asynchronous external abort, syndrome {:#x} of the implementer's", esr & 0xff_ffff),
        _ => format!("asynchronous, syndrome {:#x}", esr & 0x1ff_ffff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(vector: u64, esr: u64) -> String {
        Taken { vector, esr, far: 0x7f_ffff_f000, elr: 0x4008_1234, image: 0x4008_0000 }.words()
    }

    #[test]
    fn faults_are_described_with_registers() {
        assert_eq!(
            taken(4, 0x9600_0005),
            "data abort: translation fault, level 1, reading 0x7ffffff000 at image+0x1234 (ESR_EL1=0x96000005 \
             FAR_EL1=0x7ffffff000 ELR_EL1=0x40081234)"
        );
        for (vector, esr, begins) in [
            (4, 0x0200_0000, "undefined instruction at image+0x1234"),
            (4, 0x9600_004f, "data abort: permission fault, level 3, writing 0x7ffffff000"),
            (4, 0x9600_0061, "data abort: alignment fault, writing"),
            (4, 0x9600_0410, "data abort: external abort: nothing answers there, reading an unknown address"),
            (4, 0x8600_0006, "instruction abort: translation fault, level 2 of 0x7ffffff000"),
            (4, 0x5600_0000, "SVC at"),
            (4, 0xf200_0001, "BRK instruction at"),
            (4, 0xdc00_0000, "exception of class 0x37"),
            (7, 0xbf00_0002, "system error: an asynchronous external abort, syndrome 0x2"),
            (5, 0, "interrupt at"),
            (0, 0x0200_0000, "undefined instruction (synchronous exception on the stack of EL0)"),
            (12, 0x0200_0000, "undefined instruction (synchronous exception from below in AArch32)"),
        ] {
            let words = taken(vector, esr);
            assert!(words.starts_with(begins), "{vector} {esr:#x}: {words}");
        }
    }

    #[test]
    fn only_the_timer_that_has_reached_its_time_is_the_watch() {
        for (source, reached, is) in [
            (InterruptSource::Gic(TIMER), true, true),
            (InterruptSource::Gic(TIMER), false, false),
            (InterruptSource::Gic(1023), true, false),
            (InterruptSource::Gic(105), true, false),
            (InterruptSource::Local(1 << 1), true, true),
            // Another one beside it may have come a moment earlier: time is up all the same.
            (InterruptSource::Local(1 << 8 | 1 << 1), true, true),
            (InterruptSource::Local(1 << 8), false, false),
        ] {
            assert_eq!(source.is_the_watch(reached), is, "{source:?} {reached}");
        }
    }

    #[test]
    fn unexpected_interrupts_are_named() {
        assert_eq!(InterruptSource::Gic(105).words(), "an unexpected interrupt: INTID 105");
        assert_eq!(
            InterruptSource::Local(0x110).words(),
            "an unexpected interrupt: source 0x110, mailbox 0, a peripheral"
        );
        assert!(
            InterruptSource::Local(0).words().contains("nobody's")
                && InterruptSource::Gic(1023).words().contains("nobody's")
        );
        let masked = [
            InterruptSource::Gic(105),
            InterruptSource::Gic(1019),
            InterruptSource::Gic(1020),
            InterruptSource::Gic(1023),
            InterruptSource::Local(1),
        ];
        let masked = masked.map(InterruptSource::of_the_distributor);
        assert_eq!(masked, [Some(105), Some(1019), None, None, None]);
    }

    #[test]
    fn every_entry_and_class_has_words() {
        for vector in 0..16 {
            for class in 0..64u64 {
                for low in 0..64 {
                    let words = taken(vector, class << 26 | low);
                    assert!(words.contains("ESR_EL1=") && words.len() < 300, "{words}");
                }
            }
        }
    }
}
