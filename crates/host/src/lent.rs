//! Memory that a driver lends with another attribute than write-back: u-dma-buf, and dma-heaps that are not cached.
//!
//! What is used is what is there, as it is set: nothing is loaded, and no setting is changed. Of a u-dma-buf the file
//! `sync_mode` says what opening it with `O_SYNC` gives (its Readme.md, "sync_mode"): 1 memory that is not cached, by
//! pgprot_noncached (on arm64 Device-nGnRnE), 2 write-combining, by pgprot_writecombine (on arm64 Normal
//! non-cacheable). Of a dma-heap its name: the mainline ones, `system` and those of CMA, are cached; vendors' kernels
//! have ones whose names end in `uncached`, which are mapped by pgprot_writecombine.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::rc::Rc;

use fathom_probe::machine::{Attribute, Refusal};

use crate::read::Root;

/// Bytes of the arena that one attribute's memory may take: sixteen times the largest working set that is compared by
/// default.
pub(crate) const MOST: u64 = 16 << 20;

/// The classes that u-dma-buf has had, the present one first.
const CLASSES: [&str; 2] = ["u-dma-buf", "udmabuf"];

/// A buffer that a driver lends.
#[derive(Debug)]
pub(crate) struct Lender {
    /// Who it is, for the record: `u-dma-buf udmabuf0 (sync_mode 2)`.
    pub(crate) name: String,
    kind: Kind,
    /// Bytes that it has; of a heap, as many as are asked for.
    pub(crate) bytes: u64,
    /// Physical address of the first, where it is told.
    pub(crate) pa: Option<u64>,
}

#[derive(Debug)]
enum Kind {
    /// The device file.
    Buffer(String),
    /// The same of a heap, which makes buffers.
    Heap(String),
}

/// Memory lent: its place in the arena, and where that is in physical memory.
#[derive(Clone, Debug)]
pub(crate) struct Lent {
    pub(crate) range: Range<u64>,
    pub(crate) pa: Option<u64>,
    /// Open for as long as it is borrowed, because the lock goes with it.
    pub(crate) _file: Rc<OwnedFd>,
}

/// The attributes that can be lent, each with its part of the arena's end.
pub(crate) const ATTRIBUTES: [Attribute; 2] = [Attribute::NormalNc, Attribute::Device];

/// The first lender of memory with this attribute.
pub(crate) fn find(root: &Root, attribute: Attribute) -> Option<Lender> {
    buffers(root).find(|(mode, _)| of_mode(*mode) == Some(attribute)).map(|(_, lender)| lender).or_else(
        || {
            let heaps = root.names("/dev/dma_heap");
            let uncached = |name: &String| attribute == Attribute::NormalNc && name.ends_with("uncached");
            let name = heaps.into_iter().find(uncached)?;
            let kind = Kind::Heap(format!("/dev/dma_heap/{name}"));
            Some(Lender { name: format!("dma-heap {name}"), kind, bytes: MOST, pa: None })
        },
    )
}

/// Every u-dma-buf with its mode.
fn buffers(root: &Root) -> impl Iterator<Item = (u64, Lender)> + '_ {
    CLASSES.iter().flat_map(move |class| {
        root.names(&format!("/sys/class/{class}")).into_iter().filter_map(move |name| {
            let file = |what: &str| format!("/sys/class/{class}/{name}/{what}");
            let mode = root.number(&file("sync_mode"))?;
            let bytes = root.number(&file("size"))?;
            let pa = root.text(&file("phys_addr"));
            let pa = pa.and_then(|pa| u64::from_str_radix(pa.trim().trim_start_matches("0x"), 16).ok());
            let kind = Kind::Buffer(format!("/dev/{name}"));
            Some((mode, Lender { name: format!("u-dma-buf {name} (sync_mode {mode})"), kind, bytes, pa }))
        })
    })
}

fn of_mode(mode: u64) -> Option<Attribute> {
    match mode {
        1 => Some(Attribute::Device),
        2 => Some(Attribute::NormalNc),
        _ => None,
    }
}

/// Why nobody lends memory with this attribute, and what would.
pub(crate) fn refusal(root: &Root, attribute: Attribute) -> Refusal {
    let bare = "or measure on bare metal (`fathom image --help`); `fathom cacheability --stand-in flush` flushes \
                write-back lines instead";
    let mode = match attribute {
        Attribute::NormalNc => 2,
        Attribute::Device => 1,
        _ => {
            let reason = "no driver is known that lends user space memory with this attribute";
            return Refusal::new(reason, format!("ask for normal-nc or device, {bare}"));
        }
    };
    let reason = "user space gets write-back memory only, and no driver here lends another";
    match buffers(root).next() {
        Some((other, Lender { name, kind: Kind::Buffer(device), .. })) => {
            let node = device.trim_start_matches("/dev/").to_owned();
            let class = CLASSES.iter().find(|c| root.names(&format!("/sys/class/{c}")).contains(&node));
            let class = class.copied().unwrap_or(CLASSES[0]);
            let reason = format!("{reason}: {name} is set to mode {other}");
            Refusal::new(
                reason,
                format!("as root: echo {mode} > /sys/class/{class}/{node}/sync_mode; {bare}"),
            )
        }
        _ => Refusal::new(reason, format!("load u-dma-buf: modprobe u-dma-buf udmabuf0=4194304; {bare}")),
    }
}

impl Lender {
    /// Opens it, for `bytes` bytes at least; what is mapped from its beginning is the memory.
    pub(crate) fn open(&self, root: &Root, bytes: u64) -> io::Result<OwnedFd> {
        match &self.kind {
            Kind::Buffer(path) => {
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .custom_flags(libc::O_SYNC | libc::O_CLOEXEC)
                    .open(root.path(path))?;
                // Somebody else's measurement, or a driver's user that locks, must not share it with this one.
                rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
                Ok(file.into())
            }
            Kind::Heap(path) => allocate(&File::open(root.path(path))?, bytes),
        }
    }

    /// What cannot be done with it, and what would help.
    pub(crate) fn failed(&self, what: &str, error: &io::Error) -> Refusal {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => "run as root, or let your group read and write the device",
            io::ErrorKind::WouldBlock => "another process has locked it: end that one",
            _ => "see the kernel's log: dmesg",
        };
        Refusal::new(format!("{} {what} ({error})", self.name), remedy)
    }
}

/// `struct dma_heap_allocation_data` of include/uapi/linux/dma-heap.h.
#[repr(C)]
struct Allocation {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

/// Asks a heap for a buffer.
fn allocate(heap: &File, bytes: u64) -> io::Result<OwnedFd> {
    /// `DMA_HEAP_IOCTL_ALLOC`: `_IOWR('H', 0x0, struct dma_heap_allocation_data)`, of 24 bytes.
    const ALLOC: libc::c_ulong = 3 << 30 | 24 << 16 | (b'H' as libc::c_ulong) << 8;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC).cast_unsigned();
    let mut allocation = Allocation { len: bytes, fd: 0, fd_flags: flags, heap_flags: 0 };
    // SAFETY: the request reads and writes the structure of its own header, which lives until it returns. A file
    // that is no heap answers an error.
    let answer = unsafe { libc::ioctl(heap.as_raw_fd(), ALLOC as _, &raw mut allocation) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(allocation.fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: a request that succeeded has made a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests;
