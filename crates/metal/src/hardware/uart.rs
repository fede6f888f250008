//! The PL011 UART, polled (PL011 Technical Reference Manual, DDI 0183G).

use super::{CoreCell, clock};
use crate::board::{self, Board};

/// Registers, in bytes from its base: data, flags, divisors, line control, control, interrupt clear.
const DR: u64 = 0x00;
const FR: u64 = 0x18;
const IBRD: u64 = 0x24;
const FBRD: u64 = 0x28;
const LCRH: u64 = 0x2c;
const CR: u64 = 0x30;
const ICR: u64 = 0x44;

/// `UARTFR`: the receiver is empty, the transmitter is full, the transmitter is busy.
const EMPTY: u32 = 1 << 4;
const FULL: u32 = 1 << 5;
const BUSY: u32 = 1 << 3;
/// `UARTDR`: the byte is a break; the byte has no stop bit, as with noise or another rate.
const BREAK: u32 = 1 << 10;
const FRAMING: u32 = 1 << 8;

/// A received byte.
#[derive(Clone, Copy)]
pub(super) struct RxByte {
    pub(super) byte: u8,
    /// Whether it had no stop bit.
    pub(super) damaged: bool,
}

struct Uart {
    base: u64,
    /// Whether a line has been started and not ended.
    open: bool,
}

static UART: CoreCell<Uart> = CoreCell::new(Uart { base: 0, open: false });

fn read(base: u64, register: u64) -> u32 {
    // SAFETY: a register of the board's UART (crate::board), 32 bits, aligned; mapped as device memory or with
    // translation off.
    unsafe { ((base + register) as usize as *const u32).read_volatile() }
}

fn write_register(base: u64, register: u64, value: u32) {
    // SAFETY: as in `read`.
    unsafe { ((base + register) as usize as *mut u32).write_volatile(value) };
}

/// Sets the UART to a rate, 8 bits, no parity, with FIFOs. A rate out of range leaves the firmware's divisors.
pub(super) fn open(board: Board, baud: u32) {
    let base = board.uart();
    // SAFETY: there is no other user: see the head of `super`.
    unsafe { (*UART.get()).base = base };
    if let Some(register) = board.pins() {
        // GPIO 14 and 15 get function 0 (0b100), which is UART0's (BCM2835 ARM Peripherals, 6.2): the firmware
        // assigns them to the mini UART if Bluetooth uses this one.
        let others = read(register, 0) & !(0o77 << 12);
        write_register(register, 0, others | 0o44 << 12);
    }
    while read(base, FR) & BUSY != 0 {}
    write_register(base, CR, 0);
    write_register(base, ICR, 0x7ff);
    if let Some((whole, fraction)) = board::divisor(board.uart_hz(), baud) {
        write_register(base, IBRD, whole);
        write_register(base, FBRD, fraction);
    }
    // 8 bits, FIFOs; then receiver, transmitter and the UART itself.
    write_register(base, LCRH, 0b111 << 4);
    write_register(base, CR, 1 << 9 | 1 << 8 | 1);
}

/// Sends text without a line end.
pub(super) fn write(text: &str) {
    // SAFETY: no other reference: see the head of `super`. An exception in here never returns to it.
    let uart = unsafe { &mut *UART.get() };
    for byte in text.bytes() {
        while read(uart.base, FR) & FULL != 0 {}
        write_register(uart.base, DR, u32::from(byte));
        uart.open = byte != b'\n';
    }
}

/// Sends a line; an unfinished line is ended first.
pub(super) fn line(text: &str) {
    // SAFETY: as in `write`.
    if unsafe { (*UART.get()).open } {
        write("\r\n");
    }
    write(text);
    write("\r\n");
}

/// Returns a received byte, if any. Damaged bytes (framing, overrun) count as bytes: the line's checksum detects
/// them. A break does not count: plugging in a cable causes one.
pub(super) fn get() -> Option<RxByte> {
    // SAFETY: as in `write`.
    let base = unsafe { (*UART.get()).base };
    let received = (read(base, FR) & EMPTY == 0).then(|| read(base, DR))?;
    (received & BREAK == 0).then_some(RxByte { byte: received as u8, damaged: received & FRAMING != 0 })
}

/// Returns whether a received byte is waiting.
pub(super) fn pending() -> bool {
    // SAFETY: as in `write`.
    let base = unsafe { (*UART.get()).base };
    read(base, FR) & EMPTY == 0
}

/// Waits for a byte until the system counter reaches `until`; forever without `until`.
pub(super) fn wait(until: Option<u64>) -> Option<RxByte> {
    loop {
        if let Some(received) = get() {
            return Some(received);
        }
        if until.is_some_and(|until| clock::system() >= until) {
            return None;
        }
    }
}
