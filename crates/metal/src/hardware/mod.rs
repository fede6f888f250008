//! Hardware access, for bare-metal targets only.
//!
//! # Start and faults
//!
//! The boot loader enters [`boot`] at EL3, EL2 or EL1, with translation and caches off. It parks all cores but one,
//! relocates the image and goes to EL1. [`main`] determines the board, opens the UART, requests the core's memory
//! from the firmware ([`firmware`]), enables translation and caches ([`mmu`]) and serves forever ([`server`]). An
//! exception ([`vectors`]), a panic and a trial that exceeds its time ([`watchdog`]) each become one line. Then the
//! server starts again with an empty stack and heap. There is one core, and all interrupts except the watchdog's are
//! off; the watchdog's never returns to the interrupted code. So nothing here is ever used twice at the same time.

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
use crate::firmware::check_arena;
use crate::parameters::{self, Parameters};

/// Reads a system register.
macro_rules! mrs {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading a register that exists at this exception level on this core changes nothing (DDI 0487,
        // MRS). A register that does not exist causes an Undefined exception, which is reported and not unsound. Not
        // `nomem`: reads of counters keep their place between accesses to memory.
        #[allow(unused_unsafe, reason = "some callers read a register inside an unsafe block that writes it")]
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags));
        }
        value
    }};
}

/// Writes a system register. Unsafe: the caller justifies that the value may be in force.
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

/// Addresses of the image's parts; all begin and end with pages (image.ld).
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

    /// Reads the parameters from memory: they may have been changed since this was compiled.
    fn parameters(&self) -> Parameters {
        let mut head = [0u8; parameters::BLOCK_OFFSET + parameters::BLOCK_BYTES];
        for (at, byte) in head.iter_mut().enumerate() {
            // SAFETY: the image's first page, which is not written after it was loaded.
            *byte = unsafe { (&raw const __start).add(at).read_volatile() };
        }
        Parameters::of(&head).unwrap_or_default()
    }
}

/// A value with one instance, on the one core.
pub(crate) struct CoreCell<T>(UnsafeCell<T>);

// SAFETY: there is one core, and no interrupt returns: see this module's head.
unsafe impl<T> Sync for CoreCell<T> {}

impl<T> CoreCell<T> {
    pub(crate) const fn new(value: T) -> CoreCell<T> {
        CoreCell(UnsafeCell::new(value))
    }

    /// Returns a pointer to the value. The caller ensures that no two references overlap.
    pub(crate) fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// Properties found at the start, valid until power-off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootState {
    pub(crate) board: Board,
    /// Exception level at which the image was entered.
    pub(crate) boot_el: u64,
    pub(crate) parameters: Parameters,
    /// Initial values of `CPUACTLR_EL1` and `CPUECTLR_EL1`, on a core that has them; not read on `virt`, which has no
    /// real core.
    pub(crate) core_registers: Option<(u64, u64)>,
    /// The core's memory as reported by the firmware: its first address and size.
    pub(crate) memory: Option<(u64, u64)>,
}

static BOOT_STATE: CoreCell<BootState> = CoreCell::new(BootState {
    board: Board::Virt,
    boot_el: 0,
    parameters: Parameters { baud: 0, silence_ms: 0, watch_ms: 0, described_khz: 0 },
    core_registers: None,
    memory: None,
});

/// Returns the properties found at the start.
pub(crate) fn boot_state() -> BootState {
    // SAFETY: written once, by `main`, before any other use except by an earlier fault, which reads the initial
    // value.
    unsafe { *BOOT_STATE.get() }
}

/// Called by [`boot`] at EL1, on the image's stack, with translation and caches off.
extern "C" fn main(boot_el: u64) -> ! {
    // First of all: later code may access something that this machine does not have.
    vectors::install();
    let image = Image::here();
    let board = Board::find(image.start, mrs!("midr_el1"));
    let parameters = image.parameters();
    uart::open(board, parameters.baud);
    let core_registers = (board != Board::Virt && boot::known_core()).then(control::read_core_registers);
    // A described machine has no firmware.
    let mailbox = board.mailbox().filter(|_| !parameters.modelled());
    let memory = mailbox.and_then(firmware::arm_memory);
    // SAFETY: it is not read before this.
    unsafe { *BOOT_STATE.get() = BootState { board, boot_el, parameters, core_registers, memory } };
    // A described machine provides no interrupts.
    if !parameters.modelled() {
        watchdog::quiesce(board);
    }
    // SAFETY: nothing has been allocated yet.
    unsafe { heap::begin() };
    if let Err(why) = check_arena(board.arena(), memory) {
        stop_with(&why);
    }
    if let Err(why) = mmu::enable(&image, board) {
        stop_with(why);
    }
    server::begin()
}

/// Reports why this image does not start here, and sleeps forever.
fn stop_with(why: &str) -> ! {
    uart::line(why);
    boot::park()
}
