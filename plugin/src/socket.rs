//! The socket to the command. The program may close it, and use its descriptor for a file of its own.

use std::io::Write as _;
use std::os::fd::{AsRawFd, FromRawFd as _, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The socket for messages.
#[derive(Debug)]
pub struct Socket {
    /// `None` only within [`Socket::tell`].
    stream: Option<UnixStream>,
    /// Device and number of the socket.
    identity: Option<(u64, u64)>,
    path: PathBuf,
}

impl Socket {
    pub fn new(stream: UnixStream, path: &str) -> Socket {
        Socket {
            identity: identity(stream.as_raw_fd()),
            stream: Some(stream),
            path: Path::new(path).to_owned(),
        }
    }

    /// Returns the socket, if the descriptor is still that.
    fn open(&mut self) -> Option<&mut UnixStream> {
        let identity = self.identity;
        self.stream
            .as_mut()
            .filter(|stream| identity.is_some() && self::identity(stream.as_raw_fd()) == identity)
    }

    /// Sends a message, unless the program has closed the socket.
    pub fn tell_if_open(&mut self, line: &str) {
        if let Some(stream) = self.open() {
            // A command that is gone needs no answer.
            let _ = stream.write_all(line.as_bytes());
        }
    }

    /// Sends a message. Connects again if the program has closed the socket.
    pub fn tell(&mut self, line: &str) {
        if self.open().is_none() {
            // The descriptor may be the program's now, so it is not closed.
            let _ = self.stream.take().map(IntoRawFd::into_raw_fd);
            self.stream = UnixStream::connect(&self.path).and_then(moved).ok();
            self.identity = self.stream.as_ref().and_then(|stream| identity(stream.as_raw_fd()));
        }
        self.tell_if_open(line);
    }
}

/// Returns device and number of an open file.
pub fn identity(descriptor: RawFd) -> Option<(u64, u64)> {
    let mut about = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call only writes to `about`.
    let known = unsafe { libc::fstat(descriptor, about.as_mut_ptr()) } == 0;
    // SAFETY: the call has initialised it.
    let about = known.then(|| unsafe { about.assume_init() })?;
    Some((about.st_dev, about.st_ino))
}

/// Moves a socket or file to a high descriptor: the program counts its own from 3, as without fathom.
pub fn moved<T: AsRawFd + From<OwnedFd>>(file: T) -> std::io::Result<T> {
    /// Below the usual limit of 1024 descriptors.
    const FROM: libc::c_int = 900;
    // SAFETY: the descriptor is open, and the call has no further condition.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, FROM) };
    if copy < 0 {
        // A lower limit: it stays where it is.
        return Ok(file);
    }
    // SAFETY: the copy is open, and nobody else has it.
    Ok(T::from(unsafe { OwnedFd::from_raw_fd(copy) }))
}
