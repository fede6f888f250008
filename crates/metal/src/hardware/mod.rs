//! Hardware access, for bare-metal targets only.
//!
//! # Start and faults
//!
//! The boot loader enters [`arch::boot`], with translation and caches off. It parks all cores but one, relocates the
//! image and goes to EL1 (on 32-bit ARM PL1). [`main`] determines the board, opens the UART, requests the core's memory
//! from the firmware ([`firmware`]), enables translation and caches ([`arch::mmu`]) and serves forever ([`server`]). An
//! exception ([`arch::vectors`]), a panic and a trial that exceeds its time ([`watchdog`]) each become one line. Then the
//! server starts again with an empty stack and heap. There is one core, and all interrupts except the watchdog's are
//! off; the watchdog's never returns to the interrupted code. So nothing here is ever used twice at the same time.
//!
//! # Architectures
//!
//! What depends on the architecture is in [`arch`], one folder for each with the same modules and the same functions:
//! `boot`, `cache`, `clock`, `control`, `cpu`, `identify`, `mmu`, `pmu`, `vectors`.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod arena;
#[cfg(target_arch = "arm")]
mod arm;
mod clock;
mod control;
mod exception;
mod fact;
mod firmware;
mod heap;
mod identify;
mod mappings;
mod metal;
mod pmu;
mod server;
mod study;
mod uart;
mod vectors;
mod watchdog;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "arm")]
use arm as arch;

use core::cell::UnsafeCell;

use crate::board::Board;
use crate::firmware::check_arena;
use crate::parameters::{self, Parameters};

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
    /// Exception level (on 32-bit ARM privilege level) at which the image was entered.
    pub(crate) boot_el: u64,
    pub(crate) parameters: Parameters,
    /// Initial values of the core's own registers, on a core that is known to have them; not read on `virt`, which has
    /// no real core.
    pub(crate) core_registers: Option<arch::cpu::CoreRegisters>,
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

/// Called by [`arch::boot`] at EL1, on the image's stack, with translation and caches off.
extern "C" fn main(boot_el: usize) -> ! {
    // First of all: later code may access something that this machine does not have.
    vectors::install();
    let image = Image::here();
    let board = Board::find(image.start, arch::cpu::midr());
    let parameters = image.parameters();
    uart::open(board, parameters.baud);
    if let Err(why) = arch::cpu::check() {
        stop_with(why);
    }
    let core_registers = if board.is_virtual() { None } else { arch::cpu::registers() };
    // A described machine has no firmware.
    let mailbox = board.mailbox().filter(|_| !parameters.modelled());
    let memory = mailbox.and_then(|at| firmware::arm_memory(at, board.video_alias()));
    // SAFETY: it is not read before this.
    unsafe {
        *BOOT_STATE.get() = BootState { board, boot_el: boot_el as u64, parameters, core_registers, memory }
    };
    // A described machine provides no interrupts.
    if !parameters.modelled() {
        watchdog::quiesce(board);
    }
    // SAFETY: nothing has been allocated yet.
    unsafe { heap::begin() };
    if let Err(why) = check_arena(board.arena(), memory) {
        stop_with(&why);
    }
    if let Err(why) = arch::mmu::enable(&image, board) {
        stop_with(why);
    }
    server::begin()
}

/// Reports why this image does not start here, and sleeps forever.
fn stop_with(why: &str) -> ! {
    uart::line(why);
    arch::cpu::park()
}
