//! Fathom's own driver, where it is loaded: what `/dev/fathom` lends and tells (driver/README.md).
//!
//! The device is opened once, by whoever opens the host, and all that it gave ends with that opening. What it refuses
//! is a [`Refusal`] with what would help; that it is not there is none, and everything else works without it.

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
use crate::read::Root;

mod dma;
mod recorder;
mod uapi;

pub(crate) use recorder::{Activation, Policy, Recorder};
use uapi::RawStruct;

/// The device.
pub(crate) const DEVICE: &str = "/dev/fathom";

/// Its name in the record.
pub(crate) const NAME: &str = "fathom driver";

/// How the driver is had where it is not: from a checkout of Fathom, with the headers of the kernel that runs.
pub(crate) const LOAD: &str = "make -C driver && sudo insmod driver/fathom.ko";

/// The driver, or why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) enum Presence {
    /// It is open.
    There(Rc<Driver>),
    /// It is not loaded.
    Absent,
    /// It is loaded, and this process may not open it, in the kernel's words.
    Denied(String),
    /// What has its name does not answer as it does.
    Strange(String),
}

/// The driver's device, open.
#[derive(Debug)]
pub(crate) struct Driver {
    file: OwnedFd,
    /// What it said when it was opened.
    pub(crate) info: uapi::Info,
}

/// Memory of the driver's that can be mapped. Giving up its handle leaves mapped memory alone, which ends when it is
/// unmapped.
#[derive(Debug)]
pub(crate) struct Region {
    driver: Rc<Driver>,
    handle: u32,
    /// Bytes that it has: whole pages.
    pub(crate) bytes: u64,
    /// What to give to mmap.
    pub(crate) offset: u64,
}

/// What the tables say of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// Physical address.
    pub(crate) pa: u64,
    /// The attribute in force, where it has a word.
    pub(crate) attribute: Option<Attribute>,
    /// The same as a byte of MAIR_EL1: as the translation has it, else the byte by which the attribute is asked for.
    pub(crate) mair: Option<u8>,
    /// PAR_EL1, or the page table's entry.
    pub(crate) raw: u64,
}

/// The right to read the cycle counter, as the driver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The CPU whose counter it is.
    pub(crate) cpu: u32,
    /// Has everybody it who runs there, and not the asking task alone?
    pub(crate) whole_cpu: bool,
    /// Would the core let the caller read now?
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
        match driver.ask() {
            // Nothing that a version has changes its meaning in a later one, so there is no version too new.
            Ok(info) if info.version > 0 => {
                driver.info = info;
                Presence::There(Rc::new(driver))
            }
            Ok(_) => Presence::Strange("it has no version".into()),
            Err(error) => Presence::Strange(format!("it answers no question of this version's ({error})")),
        }
    }

    /// The driver, or the refusal of `what`, which is wanted of it, with what would help.
    pub(crate) fn driver(&self, what: &str) -> Result<&Rc<Driver>, Refusal> {
        match self {
            Presence::There(driver) => Ok(driver),
            _ => Err(Refusal::new(format!("{what}: Fathom's driver {}", self.state()), self.remedy())),
        }
    }

    /// How it stands with the driver, in words that follow its name.
    pub(crate) fn state(&self) -> String {
        match self {
            Presence::There(_) => "is there".into(),
            Presence::Absent => format!("is not loaded (no {DEVICE})"),
            Presence::Denied(why) => format!("is loaded, and {DEVICE} cannot be opened ({why})"),
            Presence::Strange(why) => format!("is not what {DEVICE} is: {why}"),
        }
    }

    /// What would give it; empty where it is there.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Presence::There(_) => String::new(),
            Presence::Absent => format!("load it: {LOAD}"),
            // The shell puts the user's name there: what is written here stands in records, which others see.
            Presence::Denied(_) => "sudo groupadd --system --force fathom && sudo usermod -aG fathom $USER, with \
                                    driver/70-fathom.rules in /etc/udev/rules.d and the driver loaded anew, and log in \
                                    again; or run as root"
                .into(),
            Presence::Strange(_) => format!("load the driver of this version: sudo rmmod fathom; {LOAD}"),
        }
    }

    /// What the core that runs this says of its caches, under the names that bare metal has for it; nothing where the
    /// driver is not there, or reads no such registers.
    pub(crate) fn cache_facts(&self) -> Vec<Fact> {
        let Presence::There(driver) = self else { return Vec::new() };
        driver.cache_id().map(|id| cache_facts(&id)).unwrap_or_default()
    }

    /// Facts under `driver.`.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let Presence::There(driver) = self else {
            return vec![text(facts::DRIVER_STATE, self.state()), text(facts::DRIVER_REMEDY, self.remedy())];
        };
        let info = &driver.info;
        let words = |bits: u32, all: &[&str]| {
            let there = all.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
            there.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
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

/// Most of the driver's limit that is made use of, bytes: more than a level's conflicts take of any machine without
/// huge pages, and addresses count against a process's limits.
const LIMIT_MOST: u64 = 256 << 20;

/// By the bits of `fathom_info.features`.
const FEATURES: [&str; 7] = ["regions", "dma", "counters", "wakes", "cache-id", "translate", "reserved"];

/// By the header's numbers.
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

/// Why the device was not opened. A node without a driver behind it is as good as none.
fn not_opened(error: &io::Error) -> Presence {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::ENOTDIR) => Presence::Absent,
        Some(libc::EACCES | libc::EPERM) => Presence::Denied(error.to_string()),
        _ => Presence::Strange(format!("it cannot be opened ({error})")),
    }
}

/// What an error of the driver's means, as its header says.
fn refused(what: &str, error: &io::Error) -> Refusal {
    let remedy = match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "nothing on this machine: see the table in driver/README.md",
        Some(libc::ENODEV) => "bind the device that it needs to the driver fathom: see driver/README.md",
        Some(libc::ENOMEM) => {
            "ask for less, free memory, or load it with a larger limit: insmod driver/fathom.ko limit_mb=128"
        }
        Some(libc::EIO) => "the engine failed or was not done in time: see the kernel's log, dmesg",
        Some(libc::EBUSY) => "somebody else has it: end that program",
        Some(libc::ENOTTY) => {
            "load the driver of this version: make -C driver, rmmod fathom, insmod driver/fathom.ko"
        }
        Some(libc::ENOSYS) => {
            "run it without the emulator of programs (qemu-user), which passes no such request on"
        }
        _ => "see the kernel's log: dmesg",
    };
    Refusal::new(format!("the driver refuses {what} ({error})"), remedy)
}

impl Driver {
    /// Makes a request that takes a structure.
    fn call<T: RawStruct>(&self, request: u64, argument: &mut T) -> io::Result<()> {
        // The size is part of a request's number, and the driver copies so much.
        if request >> 16 & 0x3fff != size_of::<T>() as u64 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: `argument` is live and exclusive until the call returns, of the size that the request's number says,
        // and any bytes are a value of its type (`RawStruct`). Where a structure holds another address, whoever fills it
        // argues for that. What is no such device answers an error.
        let answer =
            unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes a request that takes none.
    fn plain(&self, request: u64) -> io::Result<()> {
        // SAFETY: the request's number says that it has no argument, so no memory is touched.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, 0) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// What it says of itself now.
    pub(crate) fn ask(&self) -> io::Result<uapi::Info> {
        let mut info = uapi::Info::default();
        self.call(uapi::IOC_INFO, &mut info)?;
        Ok(info)
    }

    /// Can regions of this attribute be had?
    pub(crate) fn provides(&self, attribute: Attribute) -> bool {
        self.has(uapi::HAS_REGIONS) && self.info.attributes >> number_of(attribute) & 1 == 1
    }

    /// Is a feature there (`HAS_...`)?
    fn has(&self, feature: u64) -> bool {
        u64::from(self.info.features) & feature != 0
    }

    /// What all openings may hold together, bytes; no more than what the arena has room for of it.
    pub(crate) fn limit(&self) -> u64 {
        self.info.limit_bytes.min(LIMIT_MOST)
    }

    /// Does it tell how its memory is translated?
    pub(crate) fn translates(&self) -> bool {
        self.has(uapi::HAS_TRANSLATE)
    }

    /// Does it record wake-ups?
    pub(crate) fn wakes(&self) -> bool {
        self.has(uapi::HAS_WAKES)
    }

    /// Memory of an attribute, physically contiguous; with `colour` (which, of how many) pages of that colour instead.
    ///
    /// # Errors
    /// A [`Refusal`] where there is no such memory, or no more of it.
    pub(crate) fn region(
        self: &Rc<Driver>,
        bytes: u64,
        attribute: Attribute,
        colour: Option<(u32, u32)>,
    ) -> Result<Region, Refusal> {
        self.take(bytes, attribute, colour)
            .map_err(|error| refused(&format!("{bytes} bytes of {} memory", attribute.token()), &error))
    }

    /// The same, of half as many bytes where there are not so many, and so on down to a page: how much the kernel has in
    /// one piece, nobody can say before.
    ///
    /// # Errors
    /// A [`Refusal`] where there is not even a page of it.
    pub(crate) fn region_up_to(
        self: &Rc<Driver>,
        bytes: u64,
        attribute: Attribute,
    ) -> Result<Region, Refusal> {
        let mut bytes = bytes;
        loop {
            match self.take(bytes, attribute, None) {
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

    fn take(
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
        // Dropped, it gives the handle up.
        let region = Region { driver: Rc::clone(self), handle, bytes: got, offset };
        let mapped = offset.checked_add(got).is_some_and(|end| i64::try_from(end).is_ok());
        if got < bytes || !mapped { Err(io::Error::from(io::ErrorKind::InvalidData)) } else { Ok(region) }
    }

    /// What the tables say of the address `va` of a region that is mapped.
    ///
    /// # Errors
    /// The driver's: there is nothing mapped of its own.
    pub(crate) fn translate(&self, va: u64) -> io::Result<Translation> {
        let mut requested = uapi::Translate { va, ..uapi::Translate::default() };
        self.call(uapi::IOC_TRANSLATE, &mut requested)?;
        Ok(translated(&requested))
    }

    fn cache_id(&self) -> io::Result<uapi::CacheId> {
        let mut id = uapi::CacheId::default();
        self.call(uapi::IOC_CACHE_ID, &mut id)?;
        Ok(id)
    }
}

/// `CLIDR_EL1`, `CCSIDR_EL1` of each cache that it names, and the layout of these.
fn cache_facts(id: &uapi::CacheId) -> Vec<Fact> {
    let count = (id.count as usize).min(id.ccsidr.len());
    if id.clidr == 0 || count == 0 {
        return Vec::new();
    }
    let all = &id.ccsidr[..count];
    // ID_AA64MMFR2_EL1.CCIDX says it, which Linux hides from user space. In the 32-bit layout bits 63:32 are zero; in
    // the 64-bit one only of a cache of one set, whose ways both layouts have in the same place (DDI 0487,
    // CCSIDR_EL1).
    let ccidx = u64::from(all.iter().any(|value| value >> 32 != 0));
    let mut facts = vec![int("arm.clidr_el1", id.clidr), int("arm.ccidx", ccidx)];
    for (value, at) in all.iter().zip(0..).filter(|(value, _)| **value != 0) {
        let side = if at & 1 == 1 { "instructions" } else { "data" };
        facts.push(int(format!("arm.ccsidr_el1.{}.{side}", at / 2 + 1), *value));
    }
    facts
}

fn translated(reported: &uapi::Translate) -> Translation {
    let attribute = attribute_of(reported.attribute);
    let mair = Cpu::mair(reported.raw).or_else(|| attribute.map(mair::byte_of));
    Translation { pa: reported.pa, attribute, mair, raw: reported.raw }
}

/// The right to read the core's cycle counter, which the driver grants on ARM.
impl Driver {
    /// Asks for the right to read the cycle counter, for the calling thread, pinned to one CPU, until
    /// [`Driver::counters_off`].
    ///
    /// # Errors
    /// A [`Refusal`] where this core has no such counter, or somebody has it.
    pub(crate) fn counters_on(&self) -> Result<Granted, Refusal> {
        let mut counters = uapi::Counters::default();
        self.call(uapi::IOC_COUNTERS_ON, &mut counters)
            .map_err(|error| refused("the right to read the cycle counter", &error))?;
        Ok(granted(&counters))
    }

    /// How it stands with that right now.
    ///
    /// # Errors
    /// A [`Refusal`] where nothing was granted.
    pub(crate) fn counters_state(&self) -> Result<Granted, Refusal> {
        let mut counters = uapi::Counters::default();
        self.call(uapi::IOC_COUNTERS_STATE, &mut counters)
            .map_err(|error| refused("the state of the cycle counter", &error))?;
        Ok(granted(&counters))
    }

    /// Gives it back.
    ///
    /// # Errors
    /// A [`Refusal`] where nothing was granted.
    pub(crate) fn counters_off(&self) -> Result<(), Refusal> {
        self.plain(uapi::IOC_COUNTERS_OFF).map_err(|error| refused("to take the cycle counter back", &error))
    }
}

fn granted(reported: &uapi::Counters) -> Granted {
    let whole_cpu = u64::from(reported.scope) == uapi::SCOPE_CPU;
    Granted { cpu: reported.cpu, whole_cpu, in_force: reported.in_force == 1 }
}

impl AsRawFd for Region {
    fn as_raw_fd(&self) -> RawFd {
        self.driver.file.as_raw_fd()
    }
}

impl Region {
    /// Whose it is.
    pub(crate) fn driver(&self) -> &Rc<Driver> {
        &self.driver
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut handle = uapi::Handle { handle: self.handle, reserved: 0 };
        // An error would say that it is gone already.
        let _ = self.driver.call(uapi::IOC_REGION_FREE, &mut handle);
    }
}

#[cfg(test)]
mod tests;
