//! Text of exceptions for the fault lines.
//!
//! DDI 0406C, B1.8 ("Exception handling") and B3.13 ("Exception reporting"): the registers `DFSR` and `IFSR` in the format
//! of short descriptors. ARMv6 has the same fault status codes (DDI 0100I, B4.6).

use alloc::format;
use alloc::string::String;

/// An exception as it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionFrame {
    /// Index of the entry in the vector table, 0 to 7.
    pub vector: u32,
    /// `IFSR` for a prefetch abort, otherwise `DFSR`.
    pub status: u32,
    /// `IFAR` for a prefetch abort, otherwise `DFAR`.
    pub address: u32,
    /// The instruction.
    pub pc: u32,
    /// Load address of the image: addresses are reported relative to it, as in the image's symbols.
    pub image: u64,
}

impl ExceptionFrame {
    /// Returns whether it is an interrupt.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        self.vector == 6
    }

    /// Returns one line: the exception, then the registers.
    #[must_use]
    pub fn text(&self) -> String {
        let ExceptionFrame { vector, status, address, pc, image } = *self;
        let at = u64::from(pc).wrapping_sub(image) & 0xffff_ffff;
        let (what, registers) = match vector {
            1 => ("undefined instruction".into(), String::new()),
            2 => ("SVC".into(), String::new()),
            3 => {
                let what = format!("instruction abort: {} of {address:#x}", fault(status));
                (what, format!("IFSR={status:#x} IFAR={address:#x} "))
            }
            4 => (data_abort(status, address), format!("DFSR={status:#x} DFAR={address:#x} ")),
            6 => ("interrupt".into(), String::new()),
            7 => ("fast interrupt".into(), String::new()),
            other => (format!("exception {other}"), String::new()),
        };
        format!("{what} at image+{at:#x} ({registers}PC={pc:#x})")
    }
}

/// Fault status of an asynchronous external abort, whose address is not known.
const ASYNCHRONOUS: u32 = 0b1_0110;

/// Bits 10 and 3:0 of a fault status register.
fn code(status: u32) -> u32 {
    status >> 6 & 0x10 | status & 0xf
}

fn data_abort(status: u32, address: u32) -> String {
    // WnR.
    let did = if status >> 11 & 1 == 1 { "writing" } else { "reading" };
    let at = match code(status) {
        ASYNCHRONOUS => String::from("an unknown address"),
        _ => format!("{address:#x}"),
    };
    format!("data abort: {}, {did} {at}", fault(status))
}

/// Returns the text of a fault status. A section is level 1 of the tables, a page level 2.
fn fault(status: u32) -> String {
    let text = match code(status) {
        0b0_0001 => "alignment fault",
        0b0_0010 => "debug event",
        0b0_0011 => "access flag fault, level 1",
        0b0_0100 => "fault of cache maintenance",
        0b0_0101 => "translation fault, level 1",
        0b0_0110 => "access flag fault, level 2",
        0b0_0111 => "translation fault, level 2",
        0b0_1000 => "external abort: no response",
        0b0_1001 => "domain fault, level 1",
        0b0_1011 => "domain fault, level 2",
        0b0_1100 => "external abort of a table walk, level 1",
        0b0_1101 => "permission fault, level 1",
        0b0_1110 => "external abort of a table walk, level 2",
        0b0_1111 => "permission fault, level 2",
        ASYNCHRONOUS => "asynchronous external abort",
        0b1_1000 => "asynchronous parity error",
        0b1_1001 => "parity error",
        code => return format!("fault status {code:#x}"),
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(vector: u32, status: u32) -> String {
        let (address, pc) = (0xfff0_0000, 0x8001_1234);
        ExceptionFrame { vector, status, address, pc, image: 0x8001_0000 }.text()
    }

    #[test]
    fn faults_are_described_with_registers() {
        assert_eq!(
            taken(4, 0x005),
            "data abort: translation fault, level 1, reading 0xfff00000 at image+0x1234 (DFSR=0x5 DFAR=0xfff00000 \
             PC=0x80011234)"
        );
        for (vector, status, begins) in [
            (1, 0, "undefined instruction at image+0x1234 (PC=0x80011234)"),
            (4, 0x80f, "data abort: permission fault, level 2, writing 0xfff00000"),
            (4, 0x801, "data abort: alignment fault, writing"),
            (4, 0x406, "data abort: asynchronous external abort, reading an unknown address"),
            (3, 0x007, "instruction abort: translation fault, level 2 of 0xfff00000"),
            (2, 0, "SVC at"),
            (6, 0, "interrupt at"),
            (5, 0, "exception 5 at"),
        ] {
            let text = taken(vector, status);
            assert!(text.starts_with(begins), "{vector} {status:#x}: {text}");
        }
    }

    #[test]
    fn every_vector_and_status_has_a_text() {
        for vector in 0..8 {
            for status in 0..0x1000 {
                let text = taken(vector, status);
                assert!(text.contains("PC=0x80011234") && text.len() < 300, "{text}");
            }
        }
    }
}
