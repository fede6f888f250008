//! The exception vectors: everything becomes one line, and the server begins again.

use core::arch::global_asm;

use super::{Image, found, msr, server, watchdog};
use crate::exception::ExceptionFrame;

global_asm!(
    r#"
    .section .vectors, "ax"
    .balign 2048
    .global vectors
vectors:
    // 16 entries, 128 bytes each (DDI 0487, "Exception vectors"). Nothing is saved: nobody goes back. The stack may
    // be what is wrong, so there is another.
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
    b       {serve}
"#,
    taken = sym taken,
    serve = sym server::serve,
);

unsafe extern "C" {
    static vectors: u8;
    fn again() -> !;
}

/// Puts the vectors in force.
pub(super) fn install() {
    // SAFETY: a table of 16 entries, aligned to 2 KiB (VBAR_EL1).
    unsafe {
        msr!("vbar_el1", (&raw const vectors).addr() as u64);
        core::arch::asm!("isb", options(nostack));
    }
}

/// An exception was taken.
extern "C" fn taken(vector: u64, esr: u64, far: u64, elr: u64) -> ! {
    let taken = ExceptionFrame { vector, esr, far, elr, image: Image::here().start };
    if taken.is_interrupt() {
        let unexpected = watchdog::unexpected();
        let ms = found().parameters.watch_ms;
        let elr = elr.wrapping_sub(taken.image);
        report(|| match unexpected {
            None => alloc::format!("watch: the trial took longer than {ms} ms; it was at image+{elr:#x}"),
            Some(source) => alloc::format!("{}; the trial was at image+{elr:#x}", source.words()),
        })
    }
    report(|| taken.words())
}

/// Reports a fault on the wire and begins to serve again, on an empty stack.
fn report(what: impl FnOnce() -> alloc::string::String) -> ! {
    server::fault(what);
    // SAFETY: the stack that is left behind and the one that is begun hold nothing that is used again: this is the end
    // of whoever faulted.
    unsafe { again() }
}

/// A panic is one more fault.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    report(|| alloc::format!("{info}"))
}
