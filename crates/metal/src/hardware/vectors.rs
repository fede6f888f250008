//! Exceptions: each is reported in one line, and the server starts again.

use alloc::string::String;

use super::arch::vectors::again;
use super::exception::{Taken, handle_by};
use super::{Image, arch, boot_state, server, watchdog};

/// Sets the vector table.
pub(super) fn install() {
    handle_by(take);
    arch::vectors::install();
}

/// Handles an exception.
fn take(taken: Taken<'_>) -> ! {
    let pc = match taken {
        Taken::Fault(text) => report(text),
        Taken::Interrupt { pc } => pc.wrapping_sub(Image::here().start),
    };
    let unexpected = watchdog::unexpected();
    let ms = boot_state().parameters.watch_ms;
    report(|| match unexpected {
        None => alloc::format!("watch: the trial took longer than {ms} ms; it was at image+{pc:#x}"),
        Some(source) => alloc::format!("{}; the trial was at image+{pc:#x}", source.text()),
    })
}

/// Reports a fault on the wire and serves again, with an empty stack.
fn report(what: impl FnOnce() -> String) -> ! {
    server::fault(what);
    // SAFETY: neither the old stack nor the new one contains anything that is used again: the code that faulted never
    // continues.
    unsafe { again(server::serve) }
}

/// A panic is reported like a fault.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    report(|| alloc::format!("{info}"))
}
