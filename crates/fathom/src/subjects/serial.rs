//! `serial:/dev/ttyX[@BAUD]`: a board behind a serial port. The port is held by a process of its own, which puts
//! it back as it was when its input ends: however the harness ended.

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

/// What the name begins with.
pub const PREFIX: &str = "serial:";
/// The form of the name.
pub const FORM: &str = "serial:/dev/ttyX[@BAUD]";
/// What every boot loader here talks, and the image.
pub const BAUD: u32 = 115_200;
/// Speeds that a UART may be asked for: the slowest of POSIX (termios.h) and 4 Mbaud, which is more than the PL011
/// of a Pi 3 reaches from its 48 MHz (3 Mbaud).
pub const BAUDS: std::ops::RangeInclusive<u32> = 50..=4_000_000;
/// How often a wish to end is looked at.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long what was sent last may take to leave.
const DRAIN: Duration = Duration::from_millis(300);

/// The subject of this name, behind its prefix.
pub fn subject(name: &str, rest: &str) -> Result<Subject, Failure> {
    let (device, baud) = parse(name, rest)?;
    there(&device)?;
    let command = ["fathom", "serve", "serial", &device.display().to_string(), "--baud", &baud.to_string()];
    Ok(Subject {
        command: command.map(String::from).to_vec(),
        lossy: true,
        stays: true,
        silent: "is the board on, with TX to RX and RX to TX, a common ground, and the image on its card at this \
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
            (device, baud.parse().map_err(|_| wrong(&format!("'{baud}' is no baud rate")))?)
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

/// Is there such a port, and may it be used? Better said before anything is started.
fn there(device: &Path) -> Result<(), Failure> {
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

/// An open port: raw, and nobody else's. Dropping it puts its settings back.
#[derive(Debug)]
struct Port {
    fd: OwnedFd,
    was: Termios,
}

impl Port {
    fn open(device: &Path, baud: u32) -> Result<Port, Failure> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open(device, flags, Mode::empty()).map_err(|e| cannot_open(device, e))?;
        if !isatty(&fd) {
            let what = format!("{}: it is no serial port", device.display());
            return Err(Failure::usage(what, "ports are called /dev/ttyUSB0, /dev/ttyACM0 or /dev/ttyAMA0"));
        }
        // Two locks: the first keeps out whoever asks for it too, the second whoever opens the port from now on.
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(cannot_open(device, Errno::BUSY)),
            Err(e) => return Err(cannot_open(device, e)),
        }
        ioctl_tiocexcl(&fd).map_err(|e| cannot_open(device, e))?;
        let was = tcgetattr(&fd).map_err(|e| cannot_open(device, e))?;
        let port = Port { fd, was };
        port.set(device, baud)?;
        Ok(port)
    }

    /// Eight bits, no parity, one stop bit, no flow control, every byte as it is.
    fn set(&self, device: &Path, baud: u32) -> Result<(), Failure> {
        let mut raw = self.was.clone();
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
        // What came before is somebody else's.
        let _ = tcflush(&self.fd, QueueSelector::IOFlush);
        Ok(())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.fd, OptionalActions::Now, &self.was);
        let _ = rustix::termios::ioctl_tiocnxcl(&self.fd);
    }
}

/// Joins the port to stdin and stdout until stdin ends, a signal comes or the port is gone.
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

/// An error is one of the port.
fn join(port: &OwnedFd, stop: &AtomicBool) -> Result<(), Errno> {
    let stdin = std::io::stdin();
    let (mut to_port, mut bytes) = (Vec::new(), [0; 4096]);
    // Whether all has been read that there was to say, and since when nobody is there who says more.
    let (mut ended, mut alone) = (false, None::<Instant>);
    while !stop.load(Ordering::Relaxed) {
        if ended && to_port.is_empty() || alone.is_some_and(|since| since.elapsed() > DRAIN) {
            return Ok(());
        }
        let writing = if to_port.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut ready = vec![PollFd::new(port, PollFlags::IN | writing)];
        // What is not read yet is left where it is until the port has taken what was; that nobody is there any more is
        // told all the same.
        let reading = if to_port.is_empty() { PollFlags::IN } else { PollFlags::empty() };
        if !ended && (alone.is_none() || to_port.is_empty()) {
            ready.push(PollFd::from_borrowed_fd(stdin.as_fd(), reading));
        }
        match poll(&mut ready, Some(&GLANCE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        let at_port = ready[0].revents();
        let said = ready.get(1).map_or(PollFlags::empty(), |stdin| stdin.revents());
        if said.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            alone.get_or_insert_with(Instant::now);
        }
        if !said.is_empty() && to_port.is_empty() {
            match read(stdin.as_fd(), &mut bytes) {
                Ok(0) | Err(_) => {
                    ended = true;
                    alone.get_or_insert_with(Instant::now);
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
                // A port that has nothing to say is not readable: this one has gone.
                Ok(0) => return Err(Errno::NXIO),
                Ok(n) => {
                    let mut stdout = std::io::stdout().lock();
                    if stdout.write_all(&bytes[..n]).and_then(|()| stdout.flush()).is_err() {
                        // Nobody listens any more.
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
    fn a_port_and_its_speed() {
        let read = |rest: &str| parse("serial:x", rest);
        assert_eq!(read("/dev/ttyUSB0").unwrap(), (PathBuf::from("/dev/ttyUSB0"), 115_200));
        assert_eq!(
            read("/dev/serial/by-id/a@b@9600").unwrap(),
            (PathBuf::from("/dev/serial/by-id/a@b"), 9600)
        );
        for (rest, says) in [
            ("", "by its path"),
            ("ttyUSB0", "by its path"),
            ("/dev/ttyUSB0@fast", "'fast' is no baud rate"),
            ("/dev/ttyUSB0@1", "1 baud is not from 50 to 4000000"),
        ] {
            let wrong = read(rest).unwrap_err();
            assert!(wrong.what.contains(says) && wrong.remedy.contains(FORM), "{wrong}");
        }
    }
}
