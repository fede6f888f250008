//! `serial:/dev/ttyX[@BAUD]`: a board at a serial port. A separate process holds the port and restores its settings
//! when its input ends, regardless of how the harness ended.

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock, open};
use rustix::io::{Errno, read, write};
use rustix::termios::{
    ControlModes, OptionalActions, QueueSelector, Termios, ioctl_tiocexcl, isatty, tcflush, tcgetattr,
    tcsetattr,
};

use super::Subject;
use crate::failure::Failure;

/// Prefix of the name.
pub const PREFIX: &str = "serial:";
/// Form of the name.
pub const FORM: &str = "serial:/dev/ttyX[@BAUD]";
/// Baud rate of all boot loaders here, and of the image.
pub const BAUD: u32 = 115_200;
/// Supported baud rates: the slowest of POSIX (termios.h) to 4 Mbaud, which is more than the PL011 of a Pi 3 reaches
/// from its 48 MHz (3 Mbaud).
pub const BAUDS: std::ops::RangeInclusive<u32> = 50..=4_000_000;
/// Interval at which a request to end is checked.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Time for the last bytes to be sent.
const DRAIN: Duration = Duration::from_millis(300);

/// Returns the subject of this name; `rest` is the part after the prefix.
pub fn subject(name: &str, rest: &str) -> Result<Subject, Failure> {
    let (device, baud) = parse(name, rest)?;
    check_access(&device)?;
    let command = ["fathom", "serve", "serial", &device.display().to_string(), "--baud", &baud.to_string()];
    Ok(Subject {
        command: command.map(String::from).to_vec(),
        lossy: true,
        stays_open: true,
        silence_remedy: "is the board on, with TX to RX and RX to TX, a common ground, and the image on its card at this \
                 baud rate?",
        ..Subject::named(name, format!("a board at {}, {baud} baud", device.display()))
    })
}

fn parse(name: &str, rest: &str) -> Result<(PathBuf, u32), Failure> {
    let wrong = |what: &str| {
        Failure::usage(format!("{name}: {what}"), format!("write {FORM}, say serial:/dev/ttyUSB0@115200"))
    };
    let (device, baud) = match rest.rsplit_once('@') {
        None => (rest, BAUD),
        Some((device, baud)) => {
            (device, baud.parse().map_err(|_| wrong(&format!("'{baud}' is not a baud rate")))?)
        }
    };
    if !device.starts_with('/') {
        return Err(wrong("a port is named by its path"));
    }
    if !BAUDS.contains(&baud) {
        return Err(wrong(&format!("{baud} baud is not from {} to {}", BAUDS.start(), BAUDS.end())));
    }
    Ok((PathBuf::from(device), baud))
}

/// Checks that the port exists and may be used, before anything is started.
fn check_access(device: &Path) -> Result<(), Failure> {
    access(device, Access::EXISTS)
        .and_then(|()| access(device, Access::READ_OK | Access::WRITE_OK))
        .map_err(|e| cannot_open(device, e))
}

fn cannot_open(device: &Path, e: Errno) -> Failure {
    let what = format!("{}: {}", device.display(), std::io::Error::from(e));
    let remedy = match e {
        Errno::NOENT | Errno::NXIO | Errno::NODEV => {
            "is it plugged in? Ports are called /dev/ttyUSB0, /dev/ttyACM0 or /dev/ttyAMA0: ls /dev/tty[UA]*"
        }
        Errno::ACCESS | Errno::PERM => {
            "join the group that may use it, then log in again: sudo usermod -aG dialout $USER"
        }
        Errno::BUSY => "another program has it: end that (fuser -v names it)",
        _ => "name a serial port",
    };
    Failure::usage(what, remedy)
}

/// An open port: raw and exclusive. Dropping it restores its settings.
#[derive(Debug)]
struct Port {
    fd: OwnedFd,
    saved: Termios,
}

impl Port {
    fn open(device: &Path, baud: u32) -> Result<Port, Failure> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open(device, flags, Mode::empty()).map_err(|e| cannot_open(device, e))?;
        if !isatty(&fd) {
            let what = format!("{}: not a serial port", device.display());
            return Err(Failure::usage(what, "ports are called /dev/ttyUSB0, /dev/ttyACM0 or /dev/ttyAMA0"));
        }
        // Two locks: the first excludes programs that lock it too, the second any later open.
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(cannot_open(device, Errno::BUSY)),
            Err(e) => return Err(cannot_open(device, e)),
        }
        ioctl_tiocexcl(&fd).map_err(|e| cannot_open(device, e))?;
        let saved = tcgetattr(&fd).map_err(|e| cannot_open(device, e))?;
        let port = Port { fd, saved };
        port.set(device, baud)?;
        Ok(port)
    }

    /// Sets eight bits, no parity, one stop bit, no flow control, and no translation of bytes.
    fn set(&self, device: &Path, baud: u32) -> Result<(), Failure> {
        let mut raw = self.saved.clone();
        raw.make_raw();
        raw.control_modes |= ControlModes::CS8 | ControlModes::CREAD | ControlModes::CLOCAL;
        raw.control_modes &= !(ControlModes::PARENB | ControlModes::CSTOPB | ControlModes::CRTSCTS);
        let set = raw.set_speed(baud).and_then(|()| tcsetattr(&self.fd, OptionalActions::Now, &raw));
        set.map_err(|e| {
            let what = format!("{}: {baud} baud: {}", device.display(), std::io::Error::from(e));
            Failure::usage(
                what,
                "choose a speed that the port has, and write the image with the same (--baud)",
            )
        })?;
        // Earlier input belongs to another session.
        let _ = tcflush(&self.fd, QueueSelector::IOFlush);
        Ok(())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.fd, OptionalActions::Now, &self.saved);
        let _ = rustix::termios::ioctl_tiocnxcl(&self.fd);
    }
}

/// Copies between the port and stdin and stdout until stdin ends, a signal arrives or the port is gone.
pub fn serve(device: &Path, baud: u32) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::new(format!("cannot listen for signals: {e}"), ""))?;
    }
    let port = Port::open(device, baud)?;
    join(&port.fd, &stop).map_err(|e| {
        let what = format!("{}: the port is gone: {}", device.display(), std::io::Error::from(e));
        Failure::new(what, "was the board or its cable unplugged? Plug it in and measure again")
    })
}

/// Copies in both directions. An error is an error of the port.
fn join(port: &OwnedFd, stop: &AtomicBool) -> Result<(), Errno> {
    let stdin = std::io::stdin();
    let (mut to_port, mut bytes) = (Vec::new(), [0; 4096]);
    // Whether stdin has ended, and since when its writer has been gone.
    let (mut ended, mut orphaned) = (false, None::<Instant>);
    while !stop.load(Ordering::Relaxed) {
        if ended && to_port.is_empty() || orphaned.is_some_and(|since| since.elapsed() > DRAIN) {
            return Ok(());
        }
        let writing = if to_port.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut ready = vec![PollFd::new(port, PollFlags::IN | writing)];
        // stdin is not read until the port has taken the pending bytes; its end is still detected.
        let reading = if to_port.is_empty() { PollFlags::IN } else { PollFlags::empty() };
        if !ended && (orphaned.is_none() || to_port.is_empty()) {
            ready.push(PollFd::from_borrowed_fd(stdin.as_fd(), reading));
        }
        match poll(&mut ready, Some(&POLL_INTERVAL)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        let at_port = ready[0].revents();
        let at_stdin = ready.get(1).map_or(PollFlags::empty(), |stdin| stdin.revents());
        if at_stdin.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            orphaned.get_or_insert_with(Instant::now);
        }
        if !at_stdin.is_empty() && to_port.is_empty() {
            match read(stdin.as_fd(), &mut bytes) {
                Ok(0) | Err(_) => {
                    ended = true;
                    orphaned.get_or_insert_with(Instant::now);
                }
                Ok(n) => to_port.extend_from_slice(&bytes[..n]),
            }
        }
        if at_port.contains(PollFlags::OUT) {
            match write(port, &to_port) {
                Ok(n) => drop(to_port.drain(..n)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        if at_port.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            match read(port, &mut bytes) {
                // A port without input is not readable, so an empty read means that the port is gone.
                Ok(0) => return Err(Errno::NXIO),
                Ok(n) => {
                    let mut stdout = std::io::stdout().lock();
                    if stdout.write_all(&bytes[..n]).and_then(|()| stdout.flush()).is_err() {
                        // stdout is closed.
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_and_baud_rate_are_parsed() {
        let read = |rest: &str| parse("serial:x", rest);
        assert_eq!(read("/dev/ttyUSB0").unwrap(), (PathBuf::from("/dev/ttyUSB0"), 115_200));
        assert_eq!(
            read("/dev/serial/by-id/a@b@9600").unwrap(),
            (PathBuf::from("/dev/serial/by-id/a@b"), 9600)
        );
        for (rest, says) in [
            ("", "by its path"),
            ("ttyUSB0", "by its path"),
            ("/dev/ttyUSB0@fast", "'fast' is not a baud rate"),
            ("/dev/ttyUSB0@1", "1 baud is not from 50 to 4000000"),
        ] {
            let wrong = read(rest).unwrap_err();
            assert!(wrong.what.contains(says) && wrong.remedy.contains(FORM), "{wrong}");
        }
    }
}
