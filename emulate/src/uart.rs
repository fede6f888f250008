//! The PL011 (PL011 Technical Reference Manual, DDI 0183G) with stdin and stdout at its other end.

use std::collections::VecDeque;
use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, channel};

/// Registers that the image uses: data and flags.
const DR: u64 = 0x00;
const FR: u64 = 0x18;
/// `UARTFR`: the receiver is empty.
const EMPTY: u64 = 1 << 4;

/// Looks at the flags in a row, with nothing sent or taken between, by which a guest is known to wait for a byte:
/// before it sends one it looks once.
const WAITING: u32 = 3;

/// The UART.
pub struct Uart {
    lines: Receiver<Vec<u8>>,
    come: VecDeque<u8>,
    sent: Vec<u8>,
    looks: u32,
    /// Has the input ended?
    pub ended: bool,
}

impl Uart {
    /// A UART on stdin and stdout. The thread that reads stdin ends this process with it, in the middle of a trial if
    /// need be; after a `bye` the last lines are still sent.
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
        Uart { lines, come: VecDeque::new(), sent: Vec::new(), looks: 0, ended: false }
    }

    /// A read of a register.
    pub fn read(&mut self, register: u64) -> u64 {
        match register {
            DR => {
                self.looks = 0;
                self.come.pop_front().unwrap_or(0).into()
            }
            FR => {
                self.looks += 1;
                if self.come.is_empty() && self.looks >= WAITING {
                    self.wait();
                }
                if self.come.is_empty() { EMPTY } else { 0 }
            }
            _ => 0,
        }
    }

    /// A write.
    pub fn write(&mut self, register: u64, value: u64) {
        if register == DR {
            self.looks = 0;
            self.sent.push(value as u8);
            if value as u8 == b'\n' {
                self.flush();
            }
        }
    }

    fn wait(&mut self) {
        self.flush();
        match self.lines.recv() {
            Ok(line) => self.come.extend(line),
            Err(_) => self.ended = true,
        }
    }

    fn flush(&mut self) {
        let mut stdout = std::io::stdout().lock();
        let sent = std::mem::take(&mut self.sent);
        if stdout.write_all(&sent).and_then(|()| stdout.flush()).is_err() {
            // Nobody listens any more.
            self.ended = true;
        }
    }
}
