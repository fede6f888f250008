//! Text of exceptions for the fault lines.
//!
//! DDI 0487: "Exception vectors"; the register `ESR_EL1` with its classes and fault status codes.

use alloc::format;
use alloc::string::String;

/// An exception as it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionFrame {
    /// Index of the entry in the vector table, 0 to 15.
    pub vector: u64,
    /// `ESR_EL1`.
    pub esr: u64,
    /// `FAR_EL1`.
    pub far: u64,
    /// `ELR_EL1`, the instruction.
    pub elr: u64,
    /// Load address of the image: addresses are reported relative to it, as in the image's symbols.
    pub image: u64,
}

/// Types of the four entries in each group of the vector table.
const ENTRY_TYPES: [&str; 4] = ["synchronous exception", "interrupt", "fast interrupt", "system error"];
/// Origin of the exception by group.
const ORIGINS: [&str; 4] = ["on the stack of EL0", "", "from below in AArch64", "from below in AArch32"];

impl ExceptionFrame {
    /// Returns whether it is an interrupt.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        self.vector % 4 == 1
    }

    /// Returns one line: the exception, then the registers.
    #[must_use]
    pub fn text(&self) -> String {
        let ExceptionFrame { vector, esr, far, elr, image } = *self;
        let kind = ENTRY_TYPES[(vector % 4) as usize];
        let from = ORIGINS[(vector / 4 % 4) as usize];
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

/// Returns the text of a synchronous exception's class, `ESR_EL1.EC` in bits 31:26.
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

/// Returns the text of an abort's fault status code, bits 5:0.
fn status(esr: u64) -> String {
    let (code, level) = (esr & 0x3f, esr & 3);
    match code {
        0x00..=0x03 => format!("address size fault, level {level}"),
        0x04..=0x07 => format!("translation fault, level {level}"),
        0x08..=0x0b => format!("access flag fault, level {level}"),
        0x0c..=0x0f => format!("permission fault, level {level}"),
        0x10 => "external abort: no response".into(),
        0x14..=0x17 => format!("external abort of a table walk, level {level}"),
        0x18 => "parity or ECC error".into(),
        0x1c..=0x1f => format!("parity or ECC error of a table walk, level {level}"),
        0x21 => "alignment fault".into(),
        0x30 => "TLB conflict".into(),
        0x35 => "unsupported exclusive or atomic access".into(),
        code => format!("fault status {code:#x}"),
    }
}

/// Returns the text of a system error's syndrome. Without the RAS extension its format is implementation defined (bit
/// 24).
fn system_error(esr: u64) -> String {
    match esr >> 24 & 1 {
        1 => {
            format!("an asynchronous external abort, implementation-defined syndrome {:#x}", esr & 0xff_ffff)
        }
        _ => format!("asynchronous, syndrome {:#x}", esr & 0x1ff_ffff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(vector: u64, esr: u64) -> String {
        ExceptionFrame { vector, esr, far: 0x7f_ffff_f000, elr: 0x4008_1234, image: 0x4008_0000 }.text()
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
            (4, 0x9600_0410, "data abort: external abort: no response, reading an unknown address"),
            (4, 0x8600_0006, "instruction abort: translation fault, level 2 of 0x7ffffff000"),
            (4, 0x5600_0000, "SVC at"),
            (4, 0xf200_0001, "BRK instruction at"),
            (4, 0xdc00_0000, "exception of class 0x37"),
            (
                7,
                0xbf00_0002,
                "system error: an asynchronous external abort, implementation-defined syndrome 0x2",
            ),
            (5, 0, "interrupt at"),
            (0, 0x0200_0000, "undefined instruction (synchronous exception on the stack of EL0)"),
            (12, 0x0200_0000, "undefined instruction (synchronous exception from below in AArch32)"),
        ] {
            let text = taken(vector, esr);
            assert!(text.starts_with(begins), "{vector} {esr:#x}: {text}");
        }
    }

    #[test]
    fn every_vector_and_class_has_a_text() {
        for vector in 0..16 {
            for class in 0..64u64 {
                for low in 0..64 {
                    let text = taken(vector, class << 26 | low);
                    assert!(text.contains("ESR_EL1=") && text.len() < 300, "{text}");
                }
            }
        }
    }
}
