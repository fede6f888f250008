//! A PL011 UART (PL011 Technical Reference Manual, DDI 0183G) connected to stdin and stdout.

use std::collections::VecDeque;
use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, channel};

/// Registers that the image uses: data and flags.
const DR: u64 = 0x00;
const FR: u64 = 0x18;
/// `UARTFR`: the receiver is empty.
const EMPTY: u64 = 1 << 4;

/// Number of consecutive reads of the flags, without a byte sent or received in between, after which the guest is
/// considered to be waiting for input: before it sends a byte it reads them once.
const WAITING_READS: u32 = 3;

/// The UART.
pub struct Uart {
    lines: Receiver<Vec<u8>>,
    received: VecDeque<u8>,
    sent: Vec<u8>,
    flag_reads: u32,
    /// Whether the input has ended.
    pub ended: bool,
}

impl Uart {
    /// Opens a UART on stdin and stdout. The thread that reads stdin ends this process at the end of input, even during
    /// a trial. After a `bye` the last lines are still sent.
    pub fn open() -> Uart {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut stdin = std::io::stdin().lock();
            let mut leaving = false;
            loop {
                let mut line = Vec::new();
                match stdin.read_until(b'\n', &mut line) {
                    Ok(n) if n > 0 => {}
                    _ if leaving => return,
                    _ => std::process::exit(0),
                }
                leaving = line.starts_with(b"bye");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Uart { lines, received: VecDeque::new(), sent: Vec::new(), flag_reads: 0, ended: false }
    }

    /// Reads a register.
    pub fn read(&mut self, register: u64) -> u64 {
        match register {
            DR => {
                self.flag_reads = 0;
                self.received.pop_front().unwrap_or(0).into()
            }
            FR => {
                self.flag_reads += 1;
                if self.received.is_empty() && self.flag_reads >= WAITING_READS {
                    self.wait();
                }
                if self.received.is_empty() { EMPTY } else { 0 }
            }
            _ => 0,
        }
    }

    /// Writes a register.
    pub fn write(&mut self, register: u64, value: u64) {
        if register == DR {
            self.flag_reads = 0;
            self.sent.push(value as u8);
            if value as u8 == b'\n' {
                self.flush();
            }
        }
    }

    fn wait(&mut self) {
        self.flush();
        match self.lines.recv() {
            Ok(line) => self.received.extend(line),
            Err(_) => self.ended = true,
        }
    }

    fn flush(&mut self) {
        let mut stdout = std::io::stdout().lock();
        let sent = std::mem::take(&mut self.sent);
        if stdout.write_all(&sent).and_then(|()| stdout.flush()).is_err() {
            // The receiver has closed stdout.
            self.ended = true;
        }
    }
}
