//! The vector table.

use core::arch::global_asm;

use super::{cp15, mcr};
use crate::arm::exception::ExceptionFrame;
use crate::hardware::exception::{self, Taken};
use crate::hardware::{CoreCell, Image};

global_asm!(
    r#"
    .section .vectors, "ax"
    .arm
    .balign 32
    .global vectors
vectors:
    // DDI 0406C, B1.8.1. Nothing is saved, because no handler returns, except for an undefined instruction that was
    // expected.
    b       .
    b       undefined
    b       call
    b       fetch
    b       data
    b       .
    b       interrupt
    b       fast

    // The stack pointer of this mode is the only register that may be used before it is known that nothing returns.
undefined:
    ldr     sp, 3f
1:  add     sp, pc, sp
    ldr     sp, [sp]
    cmp     sp, #1                  // expected?
    bne     2f
    ldr     sp, 4f
9:  add     sp, pc, sp
    str     sp, [sp]                // any value but 0 and 1
    movs    pc, lr
2:  mov     r0, #1
    sub     r3, lr, #4
    b       taken_here
call:
    mov     r0, #2
    sub     r3, lr, #4
    b       taken_here
fetch:
    mov     r0, #3
    sub     r3, lr, #4
    b       taken_here
data:
    mov     r0, #4
    sub     r3, lr, #8
    b       taken_here
interrupt:
    mov     r0, #6
    sub     r3, lr, #4
    b       taken_here
fast:
    mov     r0, #7
    sub     r3, lr, #4
taken_here:
    // To supervisor mode, with everything masked. Its stack may be the cause, so there is a separate one.
    cpsid   aif, #0x13
    ldr     r5, 5f
8:  add     sp, pc, r5
    cmp     r0, #3
    mrceq   p15, 0, r1, c5, c0, 1   // IFSR
    mrceq   p15, 0, r2, c6, c0, 2   // IFAR
    mrcne   p15, 0, r1, c5, c0, 0   // DFSR
    mrcne   p15, 0, r2, c6, c0, 0   // DFAR
    mov     r11, #0
    mov     lr, #0
    b       {taken}
3:  .word   {expected} - (1b + 8)
4:  .word   {expected} - (9b + 8)
5:  .word   __fault_stack - (8b + 8)

    .text
    .arm
    .global again
again:
    ldr     r5, 7f
6:  add     sp, pc, r5
    mov     r11, #0
    mov     lr, #0
    bx      r0
7:  .word   __stack - (6b + 8)
"#,
    taken = sym taken,
    expected = sym EXPECTED,
);

unsafe extern "C" {
    static vectors: u8;
    /// Continues with `serve`, with an empty stack.
    pub(in crate::hardware) fn again(serve: extern "C" fn() -> !) -> !;
}

/// 1 while an undefined instruction is expected; another value than 0 and 1 once it was executed.
static EXPECTED: CoreCell<u32> = CoreCell::new(0);

/// Returns whether an instruction is undefined; it is then skipped.
pub(super) fn is_undefined(instruction: impl FnOnce()) -> bool {
    // SAFETY: there is one core, and no reference exists. Volatile: the handler reads it, and writes it.
    unsafe { EXPECTED.get().write_volatile(1) };
    instruction();
    // SAFETY: as above.
    unsafe {
        let was = EXPECTED.get().read_volatile() != 1;
        EXPECTED.get().write_volatile(0);
        was
    }
}

/// Sets the vector table.
pub(in crate::hardware) fn install() {
    // SAFETY: a table of 8 entries, aligned to 32 bytes (VBAR); SCTLR.V is 0.
    unsafe { mcr!(VBAR, (&raw const vectors).addr() as u32) };
    fathom_loops::arm::flush_pipeline();
}

/// Handles an exception.
extern "C" fn taken(vector: u32, status: u32, address: u32, pc: u32) -> ! {
    let frame = ExceptionFrame { vector, status, address, pc, image: Image::here().start };
    if frame.is_interrupt() {
        exception::taken(Taken::Interrupt { pc: pc.into() })
    } else {
        exception::taken(Taken::Fault(&|| frame.text()))
    }
}
