//! Server of the probe's protocol on the UART; runs forever.

use alloc::string::String;
use alloc::vec::Vec;
use core::convert::Infallible;

use fathom_probe::serve::{Lines, ServerState, serve_from};
use fathom_probe::wire::MAX_LINE;

use super::metal::Metal;
use super::uart::RxByte;
use super::{CoreCell, arch, boot_state, clock, heap, study, uart, watchdog};

/// State that survives a fault.
#[derive(Clone, Copy)]
struct SurvivingState {
    /// State of the server, derived from the lines that it has sent: its own variables are not reliable after a
    /// fault.
    state: ServerState,
    /// When the image runs study S0, in ticks of the system counter; `None` once a line has been received.
    silence_until: Option<u64>,
    /// Whether a fault is being reported.
    in_fault: bool,
}

static SURVIVING_STATE: CoreCell<SurvivingState> = CoreCell::new(SurvivingState {
    state: ServerState { seq: 0, reported: false },
    silence_until: None,
    in_fault: false,
});

fn surviving_state() -> SurvivingState {
    // SAFETY: initialised, aligned, and no reference exists. Volatile: a fault may occur between any two
    // instructions, and values stored before it must be in memory.
    unsafe { SURVIVING_STATE.get().read_volatile() }
}

fn update(change: impl FnOnce(&mut SurvivingState)) {
    let mut saved = surviving_state();
    change(&mut saved);
    // SAFETY: as in `surviving_state`.
    unsafe { SURVIVING_STATE.get().write_volatile(saved) };
}

/// Starts serving, at power-on.
pub(super) fn begin() -> ! {
    let ms = boot_state().parameters.silence_ms;
    update(|saved| saved.silence_until = (ms > 0).then(|| clock::deadline(ms)));
    serve()
}

/// Serves forever; entered with an empty stack.
pub(super) extern "C" fn serve() -> ! {
    // SAFETY: at power-on and after a fault no allocation is in use: the stack is empty, and no static holds one.
    unsafe { heap::begin() };
    arch::cpu::unmask_aborts();
    let mut metal = Metal::open();
    update(|saved| saved.in_fault = false);
    loop {
        let mut state = surviving_state().state;
        let Ok(()) = serve_from(&mut metal, &mut Serial, &mut state);
        // Either a `bye`, after which the next client sends `hello`; or nothing has been received.
        if surviving_state().silence_until.is_some_and(|until| clock::system() >= until) {
            update(|saved| saved.silence_until = None);
            study::run(&mut metal);
        }
    }
}

/// Reports a fault on the wire. The caller must then serve again with an empty stack, because the heap is reset here.
pub(super) fn fault(what: impl FnOnce() -> String) {
    watchdog::disarm();
    // A fault while reporting, or while opening the machine again, would repeat forever.
    if surviving_state().in_fault {
        uart::line("# a second fault while the first was reported: stopped; reset the board");
        arch::cpu::park();
    }
    update(|saved| saved.in_fault = true);
    // SAFETY: the code that faulted never continues.
    unsafe { heap::begin() };
    let what = what();
    let mut state = surviving_state().state;
    let line = state.fault(&what);
    update(|saved| saved.state = state);
    uart::line(&line);
    // Before translation is on there is no arena to serve.
    if !arch::mmu::is_on() {
        arch::cpu::park();
    }
}

/// The UART as a stream of lines.
struct Serial;

impl Lines for Serial {
    type Error = Infallible;

    /// Until something has been received, the stream ends after too long a silence.
    fn read(&mut self, line: &mut String) -> Result<bool, Infallible> {
        let mut bytes = Vec::with_capacity(512);
        loop {
            let Some(RxByte { byte, damaged }) = uart::wait(surviving_state().silence_until) else {
                return Ok(false);
            };
            // Noise does not count as input: plugging in a cable causes some, and so does the start of an adapter.
            if damaged && surviving_state().silence_until.is_some() {
                continue;
            }
            update(|saved| saved.silence_until = None);
            match byte {
                b'\n' | b'\r' if bytes.is_empty() => {}
                b'\n' | b'\r' => break,
                // A line that is too long is reported as such by its length; the rest of it is skipped.
                _ if bytes.len() > MAX_LINE => {}
                _ => bytes.push(byte),
            }
        }
        line.push_str(&String::from_utf8_lossy(&bytes));
        Ok(true)
    }

    fn write(&mut self, line: &str) -> Result<(), Infallible> {
        update(|saved| {
            let number = line.rsplit_once(" seq=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
            saved.state.seq = number.unwrap_or(saved.state.seq);
            saved.state.reported &= !line.starts_with("probe ");
            saved.state.reported |= line.starts_with("facts_end ");
        });
        uart::line(line);
        Ok(())
    }
}
