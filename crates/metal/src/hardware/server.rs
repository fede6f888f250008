//! Serving the probe on the UART, forever.

use alloc::string::String;
use alloc::vec::Vec;
use core::convert::Infallible;

use fathom_probe::serve::{Lines, ServerState, serve_from};
use fathom_probe::wire::MAX_LINE;

use super::metal::Metal;
use super::uart::RxByte;
use super::{CoreCell, boot, clock, control, found, heap, mrs, study, uart, watchdog};

/// What outlives a fault.
#[derive(Clone, Copy)]
struct Kept {
    /// How far the server has come, by the lines that it has sent: what a fault leaves of its own account is
    /// anybody's guess.
    state: ServerState,
    /// When the image runs study S0 by itself, in ticks of the system counter; `None` once somebody has spoken.
    silence_until: Option<u64>,
    /// Is a fault being reported?
    in_fault: bool,
}

static KEPT: CoreCell<Kept> = CoreCell::new(Kept {
    state: ServerState { seq: 0, reported: false },
    silence_until: None,
    in_fault: false,
});

fn kept() -> Kept {
    // SAFETY: initialised, aligned, and nobody has a reference to it. Volatile: a fault may come between any two
    // instructions, and what was kept before it must be in memory.
    unsafe { KEPT.get().read_volatile() }
}

fn keep(change: impl FnOnce(&mut Kept)) {
    let mut kept = kept();
    change(&mut kept);
    // SAFETY: as in `kept`.
    unsafe { KEPT.get().write_volatile(kept) };
}

/// Begins to serve, at power-on.
pub(super) fn begin() -> ! {
    let ms = found().parameters.silence_ms;
    keep(|kept| kept.silence_until = (ms > 0).then(|| clock::deadline(ms)));
    serve()
}

/// Serves forever; entered on an empty stack.
pub(super) extern "C" fn serve() -> ! {
    // SAFETY: at power-on and after a fault nothing that was allocated is used any more: the stack is empty, and no
    // static holds any of it.
    unsafe { heap::begin() };
    control::unmask_serror();
    let mut metal = Metal::open();
    keep(|kept| kept.in_fault = false);
    loop {
        let mut place = kept().state;
        let Ok(()) = serve_from(&mut metal, &mut Serial, &mut place);
        // Either a `bye`, after which whoever comes next says `hello`; or nobody has said anything.
        if kept().silence_until.is_some_and(|until| clock::system() >= until) {
            keep(|kept| kept.silence_until = None);
            study::run(&mut metal);
        }
    }
}

/// Reports a fault on the wire. The caller of it continues serving on an empty stack and nowhere else: the heap begins
/// again here.
pub(super) fn fault(what: impl FnOnce() -> String) {
    watchdog::disarm();
    // Whoever cannot report, or open the machine again after it, would only do this forever.
    if kept().in_fault {
        uart::line("# a second fault before the first was over: nothing more can be said; reset the board");
        boot::park();
    }
    keep(|kept| kept.in_fault = true);
    // SAFETY: whoever faulted never continues.
    unsafe { heap::begin() };
    let what = what();
    let mut place = kept().state;
    let line = place.fault(&what);
    keep(|kept| kept.state = place);
    uart::line(&line);
    // SCTLR_EL1.M: before translation is on there is no arena to serve.
    if mrs!("sctlr_el1") & 1 == 0 {
        boot::park();
    }
}

/// The UART as a stream of lines.
struct Serial;

impl Lines for Serial {
    type Error = Infallible;

    /// Until somebody has said something there is an end of the stream: silence for too long.
    fn read(&mut self, line: &mut String) -> Result<bool, Infallible> {
        let mut bytes = Vec::with_capacity(512);
        loop {
            let Some(RxByte { byte, damaged }) = uart::wait(kept().silence_until) else { return Ok(false) };
            // Noise is nobody who speaks: a cable that is plugged in makes some, and so does an adapter that starts.
            if damaged && kept().silence_until.is_some() {
                continue;
            }
            keep(|kept| kept.silence_until = None);
            match byte {
                b'\n' | b'\r' if bytes.is_empty() => {}
                b'\n' | b'\r' => break,
                // What is too long is reported so by its length; the rest of it is passed over.
                _ if bytes.len() > MAX_LINE => {}
                _ => bytes.push(byte),
            }
        }
        line.push_str(&String::from_utf8_lossy(&bytes));
        Ok(true)
    }

    fn write(&mut self, line: &str) -> Result<(), Infallible> {
        keep(|kept| {
            let number = line.rsplit_once(" seq=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
            kept.state.seq = number.unwrap_or(kept.state.seq);
            kept.state.reported &= !line.starts_with("probe ");
            kept.state.reported |= line.starts_with("facts_end ");
        });
        uart::line(line);
        Ok(())
    }
}
