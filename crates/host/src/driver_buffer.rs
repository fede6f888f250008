//! Memory that a driver lends with another attribute than write-back: Fathom's own, u-dma-buf, and dma-heaps that are
//! not cached.
//!
//! What is used is what is there, as it is set: nothing is loaded, and no setting is changed. Fathom's own driver says
//! itself what the page tables make of its memory, so it comes first. Of a u-dma-buf the file
//! `sync_mode` says what opening it with `O_SYNC` gives (its Readme.md, "sync_mode"): 1 memory that is not cached, by
//! pgprot_noncached (on arm64 Device-nGnRnE), 2 write-combining, by pgprot_writecombine (on arm64 Normal
//! non-cacheable). Of a dma-heap its name: the mainline ones, `system` and those of CMA, are cached; vendors' kernels
//! have ones whose names end in `uncached`, which are mapped by pgprot_writecombine.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::rc::Rc;

use fathom_probe::machine::{Attribute, Refusal};

use crate::driver::{self, Driver, Presence, Region};
use crate::read::Root;

/// Bytes of the arena that one attribute's memory may take: sixteen times the largest working set that is compared by
/// default.
pub(crate) const MAX_BUFFER_BYTES: u64 = 16 << 20;

/// What is asked of our own driver at least: the largest working set that is compared by default.
const MIN_BUFFER_BYTES: u64 = 1 << 20;

/// The classes that u-dma-buf has had, the present one first.
const CLASSES: [&str; 2] = ["u-dma-buf", "udmabuf"];

/// A buffer that a driver lends.
#[derive(Debug)]
pub(crate) struct BufferDevice {
    /// Who it is, for the record: `u-dma-buf udmabuf0 (sync_mode 2)`.
    pub(crate) name: String,
    kind: Kind,
    /// Bytes that it has; of a heap, as many as are asked for; of our own driver, the most that are asked for.
    pub(crate) bytes: u64,
    /// Physical address of the first, where it is reported.
    pub(crate) pa: Option<u64>,
}

#[derive(Debug)]
enum Kind {
    /// Our own driver, and what is wanted of it.
    Own(Rc<Driver>, Attribute),
    /// The device file.
    Buffer(String),
    /// The same of a heap, which makes buffers.
    Heap(String),
}

/// Memory lent: its place in the arena, and where that is in physical memory.
#[derive(Clone, Debug)]
pub(crate) struct DriverBuffer {
    pub(crate) range: Range<u64>,
    pub(crate) pa: Option<u64>,
    /// Held for as long as it is borrowed, because the lock goes with it.
    pub(crate) source: Rc<BufferSource>,
}

/// What is held while memory is borrowed.
#[derive(Debug)]
pub(crate) enum BufferSource {
    /// A region of our own driver.
    Region(Region),
    /// A file whose beginning is the memory.
    File(OwnedFd),
}

impl BufferSource {
    /// Where the memory begins, for mmap.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            BufferSource::Region(region) => region.offset,
            BufferSource::File(_) => 0,
        }
    }

    /// Bytes of it, where that is known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            BufferSource::Region(region) => Some(region.bytes),
            BufferSource::File(_) => None,
        }
    }

    /// Our own driver, which can tell what the tables say of it.
    pub(crate) fn driver(&self) -> Option<&Driver> {
        match self {
            BufferSource::Region(region) => Some(region.driver()),
            BufferSource::File(_) => None,
        }
    }
}

impl AsRawFd for BufferSource {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            BufferSource::Region(region) => region.as_raw_fd(),
            BufferSource::File(file) => file.as_raw_fd(),
        }
    }
}

/// The attributes that can be lent, each with its part of the arena's end.
pub(crate) const ATTRIBUTES: [Attribute; 2] = [Attribute::NormalNc, Attribute::Device];

/// The first lender of memory with this attribute.
pub(crate) fn find(root: &Root, own: &Presence, attribute: Attribute) -> Option<BufferDevice> {
    if let Presence::There(driver) = own
        && driver.provides(attribute)
    {
        let kind = Kind::Own(Rc::clone(driver), attribute);
        // What others of its users may hold too, an eighth each: see `memory::borrowed`.
        let bytes = (driver.limit() / 8).clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
        return Some(BufferDevice { name: driver::NAME.into(), kind, bytes, pa: None });
    }
    buffers(root)
        .find(|(mode, _)| of_mode(*mode) == Some(attribute))
        .map(|(_, buffer_device)| buffer_device)
        .or_else(|| {
            let heaps = root.names("/dev/dma_heap");
            let uncached = |name: &String| attribute == Attribute::NormalNc && name.ends_with("uncached");
            let name = heaps.into_iter().find(uncached)?;
            let kind = Kind::Heap(format!("/dev/dma_heap/{name}"));
            Some(BufferDevice { name: format!("dma-heap {name}"), kind, bytes: MAX_BUFFER_BYTES, pa: None })
        })
}

/// Every u-dma-buf with its mode.
fn buffers(root: &Root) -> impl Iterator<Item = (u64, BufferDevice)> + '_ {
    CLASSES.iter().flat_map(move |class| {
        root.names(&format!("/sys/class/{class}")).into_iter().filter_map(move |name| {
            let file = |what: &str| format!("/sys/class/{class}/{name}/{what}");
            let mode = root.number(&file("sync_mode"))?;
            let bytes = root.number(&file("size"))?;
            let pa = root.text(&file("phys_addr"));
            let pa = pa.and_then(|pa| u64::from_str_radix(pa.trim().trim_start_matches("0x"), 16).ok());
            let kind = Kind::Buffer(format!("/dev/{name}"));
            Some((
                mode,
                BufferDevice { name: format!("u-dma-buf {name} (sync_mode {mode})"), kind, bytes, pa },
            ))
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
pub(crate) fn refusal(root: &Root, own: &Presence, attribute: Attribute) -> Refusal {
    let bare = "or measure on bare metal (`fathom image --help`); `fathom cacheability --substitute flush` flushes \
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
    let (reason, first) = match own {
        Presence::There(_) => {
            // On ARM its own device would have to be one that is not coherent (driver/arch-arm64.c).
            (format!("{reason}: Fathom's has none with this attribute on this machine"), String::new())
        }
        _ => (format!("{reason}: Fathom's {}", own.state()), format!("{}; or, without it, ", own.remedy())),
    };
    match buffers(root).next() {
        Some((other, BufferDevice { name, kind: Kind::Buffer(device), .. })) => {
            let node = device.trim_start_matches("/dev/").to_owned();
            let class = CLASSES.iter().find(|c| root.names(&format!("/sys/class/{c}")).contains(&node));
            let class = class.copied().unwrap_or(CLASSES[0]);
            let reason = format!("{reason}; {name} is set to mode {other}");
            Refusal::new(
                reason,
                format!("{first}as root: echo {mode} > /sys/class/{class}/{node}/sync_mode; {bare}"),
            )
        }
        _ => Refusal::new(reason, format!("{first}u-dma-buf: modprobe u-dma-buf udmabuf0=4194304; {bare}")),
    }
}

/// What the tables make of memory that was asked for with another attribute.
pub(crate) fn not_in_force(name: &str, wanted: Attribute, found: &driver::Translation) -> Refusal {
    let found = match (found.attribute, found.mair) {
        (Some(attribute), _) => attribute.token().to_owned(),
        (None, Some(mair)) => format!("MAIR byte {mair:#04x}"),
        (None, None) => format!("none that has a word (entry {:#x})", found.raw),
    };
    Refusal::new(
        format!("memory of the {name} is wanted {} and translated as {found}", wanted.token()),
        "measure on bare metal (`fathom image --help`)",
    )
}

impl BufferDevice {
    /// Borrows `bytes` bytes of it: so many are there, but for our own driver, which may lend fewer.
    pub(crate) fn open(&self, root: &Root, bytes: u64) -> Result<BufferSource, Refusal> {
        let file = match &self.kind {
            Kind::Own(driver, attribute) => {
                return Ok(BufferSource::Region(driver.region_up_to(bytes, *attribute)?));
            }
            Kind::Buffer(path) => exclusive(root, path),
            Kind::Heap(path) => File::open(root.path(path)).and_then(|heap| allocate(&heap, bytes)),
        };
        file.map(BufferSource::File).map_err(|error| self.failed("cannot be opened", &error))
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

/// Opens a u-dma-buf for this process alone.
fn exclusive(root: &Root, path: &str) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_SYNC | libc::O_CLOEXEC)
        .open(root.path(path))?;
    // Somebody else's measurement, or a driver's user that locks, must not share it with this one.
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(file.into())
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
