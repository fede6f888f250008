//! Client of `/dev/fathom`, Fathom's own driver, if it is loaded (driver/README.md).
//!
//! The device is opened once per host, and everything that it granted ends with that opening. A request that it
//! refuses is a [`Refusal`] with a remedy. A missing driver is not an error, and everything else works without it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::rc::Rc;

use fathom_probe::machine::{Attribute, Fact, Refusal};
use fathom_probe::mair;
use fathom_units::facts;

use crate::arch::{Architecture as _, Cpu};
use crate::facts::{int, text};
use crate::procfs::Root;

mod dma;
mod recorder;
mod uapi;

pub(crate) use recorder::{Activation, Policy, Recorder};
use uapi::RawStruct;

/// Path of the device.
pub(crate) const DEVICE: &str = "/dev/fathom";

/// Name of the driver in the record.
pub(crate) const NAME: &str = "fathom driver";

/// Command that builds and loads the driver: from a checkout of Fathom, with the headers of the running kernel.
pub(crate) const LOAD: &str = "make -C driver && sudo insmod driver/fathom.ko";

/// The driver, or the reason why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) enum Presence {
    /// The device is open.
    Available(Rc<Driver>),
    /// The driver is not loaded.
    Absent,
    /// The driver is loaded, and this process may not open it; with the kernel's error.
    Denied(String),
    /// The device with its name has another interface.
    Incompatible(String),
}

/// The driver's open device.
#[derive(Debug)]
pub(crate) struct Driver {
    file: OwnedFd,
    /// Properties reported when it was opened.
    pub(crate) info: uapi::Info,
}

/// Memory of the driver that can be mapped. Dropping it frees the handle; memory that is mapped lasts until it is
/// unmapped.
#[derive(Debug)]
pub(crate) struct Region {
    driver: Rc<Driver>,
    handle: u32,
    /// Size: whole pages, bytes.
    pub(crate) bytes: u64,
    /// Offset for mmap.
    pub(crate) offset: u64,
}

/// Page table entry of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// Physical address.
    pub(crate) pa: u64,
    /// The attribute in force, if it has a name.
    pub(crate) attribute: Option<Attribute>,
    /// The attribute as a byte of MAIR_EL1: that of the translation, else the byte by which the attribute is
    /// requested.
    pub(crate) mair: Option<u8>,
    /// PAR_EL1, or the page table's entry.
    pub(crate) raw: u64,
}

/// The right to read the cycle counter, as the driver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterRight {
    /// CPU whose counter it is.
    pub(crate) cpu: u32,
    /// Whether every task on that CPU has the right, and not only the caller.
    pub(crate) whole_cpu: bool,
    /// Whether the core permits the caller to read now.
    pub(crate) in_force: bool,
}

impl Presence {
    /// Opens the device below `root`.
    pub(crate) fn open(root: &Root) -> Presence {
        let opened =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(root.path(DEVICE));
        let file = match opened {
            Ok(file) => OwnedFd::from(file),
            Err(error) => return not_opened(&error),
        };
        let mut driver = Driver { file, info: uapi::Info::default() };
        match driver.query_info() {
            // Later versions change no meaning of an earlier one, so no version is too new.
            Ok(info) if info.version > 0 => {
                driver.info = info;
                Presence::Available(Rc::new(driver))
            }
            Ok(_) => Presence::Incompatible("it has no version".into()),
            Err(error) => Presence::Incompatible(format!("it rejects this version's requests ({error})")),
        }
    }

    /// Returns the driver, or a refusal of `what`, which needs it, with a remedy.
    pub(crate) fn driver(&self, what: &str) -> Result<&Rc<Driver>, Refusal> {
        match self {
            Presence::Available(driver) => Ok(driver),
            _ => Err(Refusal::new(format!("{what}: Fathom's driver {}", self.state()), self.remedy())),
        }
    }

    /// Returns the state of the driver as text that follows its name.
    pub(crate) fn state(&self) -> String {
        match self {
            Presence::Available(_) => "is there".into(),
            Presence::Absent => format!("is not loaded (no {DEVICE})"),
            Presence::Denied(why) => format!("is loaded, and {DEVICE} cannot be opened ({why})"),
            Presence::Incompatible(why) => format!("is not what {DEVICE} is: {why}"),
        }
    }

    /// Returns how to make the driver available; empty if it is.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Presence::Available(_) => String::new(),
            Presence::Absent => format!("load it: {LOAD}"),
            // The shell inserts the user's name, because records contain this text and are published.
            Presence::Denied(_) => "sudo groupadd --system --force fathom && sudo usermod -aG fathom $USER, with \
                                    driver/70-fathom.rules in /etc/udev/rules.d, load the driver again, and log in \
                                    again; or run as root"
                .into(),
            Presence::Incompatible(_) => format!("load the driver of this version: sudo rmmod fathom; {LOAD}"),
        }
    }

    /// Returns the cache registers of the core that runs this, under the names that bare metal uses. Returns nothing
    /// if the driver is not loaded or reads no such registers.
    pub(crate) fn cache_facts(&self) -> Vec<Fact> {
        let Presence::Available(driver) = self else { return Vec::new() };
        driver.cache_id().map(|id| cache_facts(&id)).unwrap_or_default()
    }

    /// Returns the facts under `driver.`.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let Presence::Available(driver) = self else {
            return vec![text(facts::DRIVER_STATE, self.state()), text(facts::DRIVER_REMEDY, self.remedy())];
        };
        let info = &driver.info;
        let words = |bits: u32, all: &[&str]| {
            let set = all.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
            set.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
        };
        let attributes = ATTRIBUTES.map(Attribute::token);
        vec![
            text(facts::DRIVER_STATE, self.state()),
            int(facts::DRIVER_VERSION, info.version.into()),
            text(facts::DRIVER_FEATURES, words(info.features, &FEATURES)),
            text(facts::DRIVER_ATTRIBUTES, words(info.attributes, &attributes)),
            text(facts::DRIVER_ENGINES, words(info.engines, &dma::ENGINES)),
            text("driver.coherent", words(info.coherent, &dma::ENGINES)),
            int("driver.engine.bytes", info.engine_bytes),
            int("driver.limit.bytes", info.limit_bytes),
            int("driver.used.bytes", info.used_bytes),
            int("driver.openings", info.openings.into()),
        ]
    }
}

/// Maximum that is used of the driver's limit, bytes: more than conflicts in a level of any machine need without huge
/// pages. Reserved addresses count against a process's limits.
const MAX_LIMIT_BYTES: u64 = 256 << 20;

/// Names by the bits of `fathom_info.features`.
const FEATURES: [&str; 8] =
    ["regions", "dma", "counters", "wakes", "cache-id", "translate", "reserved", "events"];

/// Attributes by the header's numbers.
const ATTRIBUTES: [Attribute; uapi::ATTRIBUTES as usize] =
    [Attribute::WriteBack, Attribute::WriteThrough, Attribute::NormalNc, Attribute::Device];

fn attribute_of(number: u32) -> Option<Attribute> {
    ATTRIBUTES.get(number as usize).copied()
}

fn number_of(attribute: Attribute) -> u32 {
    (match attribute {
        Attribute::WriteBack => uapi::WRITE_BACK,
        Attribute::WriteThrough => uapi::WRITE_THROUGH,
        Attribute::NormalNc => uapi::NORMAL_NC,
        Attribute::Device => uapi::DEVICE,
    }) as u32
}

/// Returns why the device was not opened. A device node without a driver counts as absent.
fn not_opened(error: &io::Error) -> Presence {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::ENOTDIR) => Presence::Absent,
        Some(libc::EACCES | libc::EPERM) => Presence::Denied(error.to_string()),
        _ => Presence::Incompatible(format!("it cannot be opened ({error})")),
    }
}

/// Returns the refusal for an error of the driver, by the meanings in its header.
fn refused(what: &str, error: &io::Error) -> Refusal {
    let remedy = match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "not possible on this machine: see the table in driver/README.md",
        Some(libc::ENODEV) => "bind the device that it needs to the driver fathom: see driver/README.md",
        Some(libc::ENOMEM) => {
            "request less, free memory, or load it with a larger limit: insmod driver/fathom.ko limit_mb=128"
        }
        Some(libc::EIO) => "the engine failed or was not done in time: see the kernel's log, dmesg",
        Some(libc::EBUSY) => "another program uses it: end that program",
        Some(libc::ENOTTY) => {
            "load the driver of this version: make -C driver, rmmod fathom, insmod driver/fathom.ko"
        }
        Some(libc::ENOSYS) => {
            "run it without the emulator of programs (qemu-user), which does not forward ioctls"
        }
        _ => "see the kernel's log: dmesg",
    };
    Refusal::new(format!("the driver refuses {what} ({error})"), remedy)
}

impl Driver {
    /// Makes a request with a structure as argument.
    fn call<T: RawStruct>(&self, request: u64, argument: &mut T) -> io::Result<()> {
        // The size is part of a request's number, and the driver copies that many bytes.
        if request >> 16 & 0x3fff != size_of::<T>() as u64 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: `argument` is live and exclusive until the call returns, has the size in the request's number, and
        // any bytes are a value of its type (`RawStruct`). A structure that contains another address is justified
        // where it is filled. Another device returns an error.
        let answer =
            unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes a request without an argument.
    fn call_without_argument(&self, request: u64) -> io::Result<()> {
        // SAFETY: the request's number says that it has no argument, so no memory is touched.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, 0) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the driver's current properties.
    pub(crate) fn query_info(&self) -> io::Result<uapi::Info> {
        let mut info = uapi::Info::default();
        self.call(uapi::IOC_INFO, &mut info)?;
        Ok(info)
    }

    /// Returns whether regions of this attribute are available.
    pub(crate) fn provides(&self, attribute: Attribute) -> bool {
        self.has(uapi::HAS_REGIONS) && self.info.attributes >> number_of(attribute) & 1 == 1
    }

    /// Returns whether the driver has a feature (`HAS_...`).
    fn has(&self, feature: u64) -> bool {
        u64::from(self.info.features) & feature != 0
    }

    /// Returns the maximum that all openings together may hold, bytes, limited to the arena's part for it.
    pub(crate) fn limit(&self) -> u64 {
        self.info.limit_bytes.min(MAX_LIMIT_BYTES)
    }

    /// Returns whether the driver reports how its memory is translated.
    pub(crate) fn translates(&self) -> bool {
        self.has(uapi::HAS_TRANSLATE)
    }

    /// Returns whether the driver records wake-ups.
    pub(crate) fn wakes(&self) -> bool {
        self.has(uapi::HAS_WAKES)
    }

    /// Allocates physically contiguous memory with an attribute; with `colour` (colour, number of colours), pages of
    /// that colour instead.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if there is no such memory, or no more of it.
    pub(crate) fn region(
        self: &Rc<Driver>,
        bytes: u64,
        attribute: Attribute,
        colour: Option<(u32, u32)>,
    ) -> Result<Region, Refusal> {
        self.allocate(bytes, attribute, colour)
            .map_err(|error| refused(&format!("{bytes} bytes of {} memory", attribute.token()), &error))
    }

    /// Allocates up to `bytes` bytes. If there are not that many, half is tried, and so on down to a page: the size
    /// of the largest contiguous piece is not known in advance.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if there is not even a page.
    pub(crate) fn region_up_to(
        self: &Rc<Driver>,
        bytes: u64,
        attribute: Attribute,
    ) -> Result<Region, Refusal> {
        let mut bytes = bytes;
        loop {
            match self.allocate(bytes, attribute, None) {
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && bytes / 2 >= self.page() => {
                    bytes /= 2
                }
                Err(error) => return Err(refused(&format!("{} memory", attribute.token()), &error)),
                Ok(region) => return Ok(region),
            }
        }
    }

    fn page(&self) -> u64 {
        u64::from(self.info.page_bytes).max(1)
    }

    fn allocate(
        self: &Rc<Driver>,
        bytes: u64,
        attribute: Attribute,
        colour: Option<(u32, u32)>,
    ) -> io::Result<Region> {
        let (colour, colours) = colour.unwrap_or((0, 0));
        let mut request = uapi::Region {
            bytes,
            attribute: number_of(attribute),
            colour,
            colours,
            ..uapi::Region::default()
        };
        self.call(uapi::IOC_REGION, &mut request)?;
        let uapi::Region { handle, bytes: got, offset, .. } = request;
        // Dropping it frees the handle.
        let region = Region { driver: Rc::clone(self), handle, bytes: got, offset };
        let mapped = offset.checked_add(got).is_some_and(|end| i64::try_from(end).is_ok());
        if got < bytes || !mapped { Err(io::Error::from(io::ErrorKind::InvalidData)) } else { Ok(region) }
    }

    /// Returns the page table entry of the address `va` in a mapped region.
    ///
    /// # Errors
    /// Returns the driver's error if none of its memory is mapped there.
    pub(crate) fn translate(&self, va: u64) -> io::Result<Translation> {
        let mut requested = uapi::Translate { va, ..uapi::Translate::default() };
        self.call(uapi::IOC_TRANSLATE, &mut requested)?;
        Ok(page_table_entry(&requested))
    }

    fn cache_id(&self) -> io::Result<uapi::CacheId> {
        let mut id = uapi::CacheId::default();
        self.call(uapi::IOC_CACHE_ID, &mut id)?;
        Ok(id)
    }
}

/// Returns facts of `CLIDR_EL1`, of `CCSIDR_EL1` of each cache that it names, and the layout of these.
fn cache_facts(id: &uapi::CacheId) -> Vec<Fact> {
    let count = (id.count as usize).min(id.ccsidr.len());
    if id.clidr == 0 || count == 0 {
        return Vec::new();
    }
    let all = &id.ccsidr[..count];
    // ID_AA64MMFR2_EL1.CCIDX reports the layout, but Linux hides it from user space. In the 32-bit layout bits 63:32
    // are zero. In the 64-bit one they are zero only for a cache with one set, whose ways are at the same place in
    // both layouts (DDI 0487, CCSIDR_EL1).
    let ccidx = u64::from(all.iter().any(|value| value >> 32 != 0));
    let mut facts = vec![int("arm.clidr_el1", id.clidr), int("arm.ccidx", ccidx)];
    for (value, at) in all.iter().zip(0..).filter(|(value, _)| **value != 0) {
        let side = if at & 1 == 1 { "instructions" } else { "data" };
        facts.push(int(format!("arm.ccsidr_el1.{}.{side}", at / 2 + 1), *value));
    }
    facts
}

fn page_table_entry(reported: &uapi::Translate) -> Translation {
    let attribute = attribute_of(reported.attribute);
    let mair = Cpu::mair(reported.raw).or_else(|| attribute.map(mair::byte_of));
    Translation { pa: reported.pa, attribute, mair, raw: reported.raw }
}

/// Requests for the right to read the core's cycle counter, which the driver grants on ARM.
impl Driver {
    /// Requests the right to read the cycle counter for the calling thread, pinned to one CPU, until
    /// [`Driver::counters_off`].
    ///
    /// # Errors
    /// Returns a [`Refusal`] if this core has no such counter, or another process has it.
    pub(crate) fn counters_on(&self) -> Result<CounterRight, Refusal> {
        let mut counters = uapi::Counters::default();
        self.call(uapi::IOC_COUNTERS_ON, &mut counters)
            .map_err(|error| refused("the right to read the cycle counter", &error))?;
        Ok(counter_right(&counters))
    }

    /// Returns the current state of that right.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if nothing was granted.
    pub(crate) fn counters_state(&self) -> Result<CounterRight, Refusal> {
        let mut counters = uapi::Counters::default();
        self.call(uapi::IOC_COUNTERS_STATE, &mut counters)
            .map_err(|error| refused("the state of the cycle counter", &error))?;
        Ok(counter_right(&counters))
    }

    /// Gives the right back.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if nothing was granted.
    pub(crate) fn counters_off(&self) -> Result<(), Refusal> {
        self.call_without_argument(uapi::IOC_COUNTERS_OFF)
            .map_err(|error| refused("to take the cycle counter back", &error))
    }
}

fn counter_right(reported: &uapi::Counters) -> CounterRight {
    let whole_cpu = u64::from(reported.scope) == uapi::SCOPE_CPU;
    CounterRight { cpu: reported.cpu, whole_cpu, in_force: reported.in_force == 1 }
}

impl AsRawFd for Region {
    fn as_raw_fd(&self) -> RawFd {
        self.driver.file.as_raw_fd()
    }
}

impl Region {
    /// Returns the driver that owns the region.
    pub(crate) fn driver(&self) -> &Rc<Driver> {
        &self.driver
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut handle = uapi::Handle { handle: self.handle, reserved: 0 };
        // An error means that it is already freed.
        let _ = self.driver.call(uapi::IOC_REGION_FREE, &mut handle);
    }
}

#[cfg(test)]
mod tests;
