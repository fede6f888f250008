//! Buffers with other attributes than write-back from kernel drivers: Fathom's own, u-dma-buf, and uncached
//! dma-heaps.
//!
//! Only drivers that are already loaded are used, with their current settings. Fathom's driver comes first, because
//! it reports the page table entries of its memory. The file `sync_mode` of a u-dma-buf determines the attribute if
//! it is opened with `O_SYNC` (its Readme.md, "sync_mode"): 1 is uncached memory by pgprot_noncached (on arm64
//! Device-nGnRnE), 2 is write-combining memory by pgprot_writecombine (on arm64 Normal non-cacheable). The name of a
//! dma-heap determines its attribute: the mainline ones, `system` and those of CMA, are cached; vendors' kernels have
//! heaps whose names end in `uncached`, which are mapped by pgprot_writecombine.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::rc::Rc;

use fathom_probe::machine::{Attribute, Refusal};

use crate::driver::{self, Driver, Presence, Region};
use crate::procfs::Root;

/// Maximum buffer size of one attribute, bytes: sixteen times the largest working set that is compared by default.
pub(crate) const MAX_BUFFER_BYTES: u64 = 16 << 20;

/// Minimum size that is requested from Fathom's driver, bytes: the largest working set that is compared by default.
const MIN_BUFFER_BYTES: u64 = 1 << 20;

/// Device classes of u-dma-buf, the current one first.
const CLASSES: [&str; 2] = ["u-dma-buf", "udmabuf"];

/// A driver's device that provides a buffer.
#[derive(Debug)]
pub(crate) struct BufferDevice {
    /// Name for the record: `u-dma-buf udmabuf0 (sync_mode 2)`.
    pub(crate) name: String,
    kind: BufferKind,
    /// Size of the buffer; of a heap or of Fathom's driver, the maximum that is requested.
    pub(crate) bytes: u64,
    /// Physical address of the first byte, if it is reported.
    pub(crate) pa: Option<u64>,
}

#[derive(Debug)]
enum BufferKind {
    /// Fathom's driver, and the attribute to request.
    Fathom(Rc<Driver>, Attribute),
    /// Device file of a u-dma-buf.
    Buffer(String),
    /// Device file of a dma-heap, which allocates buffers.
    Heap(String),
}

/// A mapped driver buffer: its range in the arena, and its physical address.
#[derive(Clone, Debug)]
pub(crate) struct DriverBuffer {
    pub(crate) range: Range<u64>,
    pub(crate) pa: Option<u64>,
    /// Held as long as the buffer is mapped, because it holds the lock.
    pub(crate) source: Rc<BufferSource>,
}

/// Handle of a mapped buffer.
#[derive(Debug)]
pub(crate) enum BufferSource {
    /// A region of Fathom's driver.
    Region(Region),
    /// A file whose start is the buffer.
    File(OwnedFd),
}

impl BufferSource {
    /// Returns the offset of the buffer for mmap.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            BufferSource::Region(region) => region.offset,
            BufferSource::File(_) => 0,
        }
    }

    /// Returns the size of the buffer, if it is known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            BufferSource::Region(region) => Some(region.bytes),
            BufferSource::File(_) => None,
        }
    }

    /// Returns Fathom's driver, which reports page table entries, if the buffer is its.
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

/// Attributes that drivers provide, each with a separate part at the arena's end.
pub(crate) const ATTRIBUTES: [Attribute; 2] = [Attribute::NormalNc, Attribute::Device];

/// Returns the first device that provides memory with this attribute.
pub(crate) fn find(root: &Root, fathom: &Presence, attribute: Attribute) -> Option<BufferDevice> {
    if let Presence::Available(driver) = fathom
        && driver.provides(attribute)
    {
        let kind = BufferKind::Fathom(Rc::clone(driver), attribute);
        // An eighth: other buffers and users share the driver's limit, see `memory::driver_memory`.
        let bytes = (driver.limit() / 8).clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
        return Some(BufferDevice { name: driver::NAME.into(), kind, bytes, pa: None });
    }
    buffers(root)
        .find(|(mode, _)| attribute_of_mode(*mode) == Some(attribute))
        .map(|(_, buffer_device)| buffer_device)
        .or_else(|| {
            let heaps = root.names("/dev/dma_heap");
            let uncached = |name: &String| attribute == Attribute::NormalNc && name.ends_with("uncached");
            let name = heaps.into_iter().find(uncached)?;
            let kind = BufferKind::Heap(format!("/dev/dma_heap/{name}"));
            Some(BufferDevice { name: format!("dma-heap {name}"), kind, bytes: MAX_BUFFER_BYTES, pa: None })
        })
}

/// Returns every u-dma-buf with its mode.
fn buffers(root: &Root) -> impl Iterator<Item = (u64, BufferDevice)> + '_ {
    CLASSES.iter().flat_map(move |class| {
        root.names(&format!("/sys/class/{class}")).into_iter().filter_map(move |name| {
            let file = |what: &str| format!("/sys/class/{class}/{name}/{what}");
            let mode = root.number(&file("sync_mode"))?;
            let bytes = root.number(&file("size"))?;
            let pa = root.text(&file("phys_addr"));
            let pa = pa.and_then(|pa| u64::from_str_radix(pa.trim().trim_start_matches("0x"), 16).ok());
            let kind = BufferKind::Buffer(format!("/dev/{name}"));
            Some((
                mode,
                BufferDevice { name: format!("u-dma-buf {name} (sync_mode {mode})"), kind, bytes, pa },
            ))
        })
    })
}

fn attribute_of_mode(mode: u64) -> Option<Attribute> {
    match mode {
        1 => Some(Attribute::Device),
        2 => Some(Attribute::NormalNc),
        _ => None,
    }
}

/// Returns why no driver provides memory with this attribute, with a remedy.
pub(crate) fn refusal(root: &Root, fathom: &Presence, attribute: Attribute) -> Refusal {
    let bare = "or measure on bare metal (`fathom image --help`); `fathom cacheability --substitute flush` flushes \
                write-back lines instead";
    let mode = match attribute {
        Attribute::NormalNc => 2,
        Attribute::Device => 1,
        _ => {
            let reason = "no known driver provides user space memory with this attribute";
            return Refusal::new(reason, format!("request normal-nc or device, {bare}"));
        }
    };
    let reason = "user space has write-back memory only, and no driver here provides another";
    let (reason, first) = match fathom {
        Presence::Available(_) => {
            // On ARM the driver's device would have to be non-coherent (driver/arch-arm64.c).
            (
                format!("{reason}: Fathom's driver provides no memory with this attribute on this machine"),
                String::new(),
            )
        }
        _ => (
            format!("{reason}: Fathom's driver {}", fathom.state()),
            format!("{}; or, without it, ", fathom.remedy()),
        ),
    };
    match buffers(root).next() {
        Some((other, BufferDevice { name, kind: BufferKind::Buffer(device), .. })) => {
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

/// Returns the refusal of memory that is translated with another attribute than requested.
pub(crate) fn wrong_attribute(name: &str, requested: Attribute, found: &driver::Translation) -> Refusal {
    let found = match (found.attribute, found.mair) {
        (Some(attribute), _) => attribute.token().to_owned(),
        (None, Some(mair)) => format!("MAIR byte {mair:#04x}"),
        (None, None) => format!("an unknown attribute (entry {:#x})", found.raw),
    };
    Refusal::new(
        format!("memory of the {name} was requested as {} and is translated as {found}", requested.token()),
        "measure on bare metal (`fathom image --help`)",
    )
}

impl BufferDevice {
    /// Opens a buffer of `bytes` bytes. Fathom's driver may provide fewer.
    pub(crate) fn open(&self, root: &Root, bytes: u64) -> Result<BufferSource, Refusal> {
        let file = match &self.kind {
            BufferKind::Fathom(driver, attribute) => {
                return Ok(BufferSource::Region(driver.region_up_to(bytes, *attribute)?));
            }
            BufferKind::Buffer(path) => open_locked(root, path),
            BufferKind::Heap(path) => File::open(root.path(path)).and_then(|heap| allocate(&heap, bytes)),
        };
        file.map(BufferSource::File).map_err(|error| self.operation_failed("cannot be opened", &error))
    }

    /// Returns the refusal for an operation that failed, with a remedy.
    pub(crate) fn operation_failed(&self, what: &str, error: &io::Error) -> Refusal {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => "run as root, or let your group read and write the device",
            io::ErrorKind::WouldBlock => "another process has locked it: end that one",
            _ => "see the kernel's log: dmesg",
        };
        Refusal::new(format!("{} {what} ({error})", self.name), remedy)
    }
}

/// Opens a u-dma-buf exclusively.
fn open_locked(root: &Root, path: &str) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_SYNC | libc::O_CLOEXEC)
        .open(root.path(path))?;
    // The lock keeps other measurements, and other users that lock, from sharing the buffer.
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

/// Allocates a buffer from a heap.
fn allocate(heap: &File, bytes: u64) -> io::Result<OwnedFd> {
    /// `DMA_HEAP_IOCTL_ALLOC`: `_IOWR('H', 0x0, struct dma_heap_allocation_data)`, of 24 bytes.
    const ALLOC: libc::c_ulong = 3 << 30 | 24 << 16 | (b'H' as libc::c_ulong) << 8;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC).cast_unsigned();
    let mut allocation = Allocation { len: bytes, fd: 0, fd_flags: flags, heap_flags: 0 };
    // SAFETY: the request reads and writes the structure of its own header, which lives until it returns. A file that
    // is not a heap returns an error.
    let result = unsafe { libc::ioctl(heap.as_raw_fd(), ALLOC as _, &raw mut allocation) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(allocation.fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: a successful request has created a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests;
