//! What touches hardware. For bare-metal targets alone.
//!
//! # The order of things
//!
//! [`boot`] is entered by whoever loaded the image, at EL3, EL2 or EL1, with translation and caches off. It parks
//! all cores but one, gives the image its addresses and goes to EL1. [`main`] finds the board, wakes the UART, asks
//! the firmware for its memory ([`firmware`]), switches translation and caches on ([`mmu`]) and serves forever ([`server`]). An exception ([`vectors`]), a
//! panic and a trial that never ends ([`watchdog`]) each become one line; then the server begins again on a fresh
//! stack and heap. There is one core, and interrupts are off but for the watchdog's, which never returns to what
//! it interrupted: so nothing here is ever used by two at once.

mod arena;
mod boot;
mod cache;
mod clock;
mod control;
mod firmware;
mod heap;
mod identify;
mod metal;
mod mmu;
mod pmu;
mod server;
mod study;
mod uart;
mod vectors;
mod watchdog;

use core::cell::UnsafeCell;

use crate::board::Board;
use crate::firmware::judge;
use crate::parameters::{self, Parameters};

/// Reads a system register.
macro_rules! mrs {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading a register that exists at this exception level on this core changes nothing (DDI 0487,
        // MRS); one that does not exist is an Undefined exception, which is reported and not unsound. Not
        // `nomem`: reads of counters stay where they are between accesses to memory.
        #[allow(unused_unsafe, reason = "some read a register to write it in the same breath")]
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags));
        }
        value
    }};
}

/// Writes a system register. Unsafe: the caller argues why the value may be in force.
macro_rules! msr {
    ($name:literal, $value:expr) => {
        core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) $value, options(nostack, preserves_flags))
    };
}

pub(crate) use {mrs, msr};

unsafe extern "C" {
    static __start: u8;
    static __rodata: u8;
    static __data: u8;
    static __loaded_end: u8;
    static __stack_guard: u8;
    static __fault_guard: u8;
    static __end: u8;
}

/// Where the parts of the image lie; all begin and end with pages (image.ld).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) start: u64,
    pub(crate) rodata: u64,
    pub(crate) data: u64,
    pub(crate) loaded_end: u64,
    pub(crate) guards: [u64; 2],
    pub(crate) end: u64,
}

impl Image {
    pub(crate) fn here() -> Image {
        let at = |symbol: *const u8| symbol.addr() as u64;
        Image {
            start: at(&raw const __start),
            rodata: at(&raw const __rodata),
            data: at(&raw const __data),
            loaded_end: at(&raw const __loaded_end),
            guards: [at(&raw const __stack_guard), at(&raw const __fault_guard)],
            end: at(&raw const __end),
        }
    }

    /// The parameters as they are in memory: somebody may have changed them since this was compiled, so they are
    /// read where they lie.
    fn parameters(&self) -> Parameters {
        let mut head = [0u8; parameters::OFFSET + parameters::BYTES];
        for (at, byte) in head.iter_mut().enumerate() {
            // SAFETY: the image's first page, which nobody writes to after it was loaded.
            *byte = unsafe { (&raw const __start).add(at).read_volatile() };
        }
        Parameters::of(&head).unwrap_or_default()
    }
}

/// Something of which there is one, on the one core.
pub(crate) struct CoreCell<T>(UnsafeCell<T>);

// SAFETY: there is one core, and no interrupt returns: see this module's head.
unsafe impl<T> Sync for CoreCell<T> {}

impl<T> CoreCell<T> {
    pub(crate) const fn new(value: T) -> CoreCell<T> {
        CoreCell(UnsafeCell::new(value))
    }

    /// Where it is. Whoever makes a reference of it argues that there is no other.
    pub(crate) fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// What was found at the start, for as long as the power is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) board: Board,
    /// The exception level at which the image was entered.
    pub(crate) boot_el: u64,
    pub(crate) parameters: Parameters,
    /// `CPUACTLR_EL1` and `CPUECTLR_EL1` as they were, on a core that has them; not read on `virt`, which is no core.
    pub(crate) own: Option<(u64, u64)>,
    /// The core's memory by the firmware's word: its first address and bytes.
    pub(crate) memory: Option<(u64, u64)>,
}

static FOUND: CoreCell<Found> = CoreCell::new(Found {
    board: Board::Virt,
    boot_el: 0,
    parameters: Parameters { baud: 0, silence_ms: 0, watch_ms: 0, modelled: false },
    own: None,
    memory: None,
});

/// What was found at the start.
pub(crate) fn found() -> Found {
    // SAFETY: written once, by `main`, before anybody asks but for a fault before that, which finds what it was made
    // with.
    unsafe { *FOUND.get() }
}

/// Called by [`boot`] at EL1, on the image's stack, with translation and caches off.
extern "C" fn main(boot_el: u64) -> ! {
    // First of all: whatever is touched from here on may be what this machine has not.
    vectors::install();
    let image = Image::here();
    let board = Board::find(image.start, mrs!("midr_el1"));
    let parameters = image.parameters();
    uart::open(board, parameters.baud);
    let own = (board != Board::Virt && boot::known_core()).then(control::own_registers);
    // A described machine has no firmware.
    let mailbox = board.mailbox().filter(|_| !parameters.modelled);
    let memory = mailbox.and_then(firmware::arm_memory);
    // SAFETY: nobody reads it before this.
    unsafe { *FOUND.get() = Found { board, boot_el, parameters, own, memory } };
    // Where a described machine answers for time there is nobody who interrupts.
    if !parameters.modelled {
        watchdog::quiesce(board);
    }
    // SAFETY: nobody has allocated anything yet.
    unsafe { heap::begin() };
    if let Err(why) = judge(board.arena(), memory) {
        refuse(&why);
    }
    if let Err(why) = mmu::enable(&image, board) {
        refuse(why);
    }
    server::begin()
}

/// Says why this image does not start here, and sleeps.
fn refuse(why: &str) -> ! {
    uart::line(why);
    boot::park()
}
