//! The vector table.

use core::arch::global_asm;

use super::msr;
use crate::aarch64::exception::ExceptionFrame;
use crate::hardware::Image;
use crate::hardware::exception::{self, Taken};

global_asm!(
    r#"
    .section .vectors, "ax"
    .balign 2048
    .global vectors
vectors:
    // 16 entries, 128 bytes each (DDI 0487, "Exception vectors"). Nothing is saved, because no handler returns. The
    // stack may be the cause, so there is a separate one.
    .set    entry, 0
    .rept   16
    .balign 128
    msr     daifset, #15
    mov     x0, #entry
    b       taken_here
    .set    entry, entry + 1
    .endr
    .balign 128
taken_here:
    msr     spsel, #1
    adrp    x5, __fault_stack
    mov     sp, x5
    mrs     x1, esr_el1
    mrs     x2, far_el1
    mrs     x3, elr_el1
    mov     x29, xzr
    mov     x30, xzr
    b       {taken}

    .text
    .global again
again:
    adrp    x5, __stack
    mov     sp, x5
    mov     x29, xzr
    mov     x30, xzr
    br      x0
"#,
    taken = sym taken,
);

unsafe extern "C" {
    static vectors: u8;
    /// Continues with `serve`, with an empty stack.
    pub(in crate::hardware) fn again(serve: extern "C" fn() -> !) -> !;
}

/// Sets the vector table.
pub(in crate::hardware) fn install() {
    // SAFETY: a table of 16 entries, aligned to 2 KiB (VBAR_EL1).
    unsafe {
        msr!("vbar_el1", (&raw const vectors).addr() as u64);
        core::arch::asm!("isb", options(nostack));
    }
}

/// Handles an exception.
extern "C" fn taken(vector: u64, esr: u64, far: u64, elr: u64) -> ! {
    let frame = ExceptionFrame { vector, esr, far, elr, image: Image::here().start };
    if frame.is_interrupt() {
        exception::taken(Taken::Interrupt { pc: elr })
    } else {
        exception::taken(Taken::Fault(&|| frame.text()))
    }
}
