//! An exception, and the function that handles it: what the vector table needs to know of the rest.

use alloc::string::String;

use super::CoreCell;

/// An exception that was taken.
pub(super) enum Taken<'a> {
    /// An interrupt, before this instruction.
    Interrupt {
        /// Its address.
        pc: u64,
    },
    /// Anything else, with its text.
    Fault(&'a dyn Fn() -> String),
}

/// Handles an exception.
pub(super) type Handler = fn(Taken<'_>) -> !;

/// The handler; `None` before [`handle_by`].
static HANDLER: CoreCell<Option<Handler>> = CoreCell::new(None);

/// Sets the handler. The vector table must not be in force yet.
pub(super) fn handle_by(handler: Handler) {
    // SAFETY: there is one core, and no exception reads it before the vector table is in force.
    unsafe { *HANDLER.get() = Some(handler) };
}

/// Handles an exception by the handler.
pub(super) fn taken(taken: Taken<'_>) -> ! {
    // SAFETY: it is not written any more.
    match unsafe { *HANDLER.get() } {
        Some(handle) => handle(taken),
        None => loop {
            core::hint::spin_loop();
        },
    }
}
