//! Without the driver, which no test machine has: its absence, and files that are not such a device. The driver
//! itself is tested in guests (driver/test).

use std::io::Error;

use fathom_probe::machine::FactValue;
use fathom_probe::machine::dma::{Batch, Engine, Transfers};

use super::*;
use crate::fixture;

/// A client that uses `/dev/null` as the driver.
fn null_device_driver() -> Rc<Driver> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/null").expect("the null device");
    let everything =
        uapi::Info { version: 1, features: u32::MAX, attributes: u32::MAX, ..uapi::Info::default() };
    Rc::new(Driver { file: file.into(), info: everything })
}

fn fact(facts: &[Fact], name: &str) -> String {
    let fact =
        facts.iter().find(|fact| fact.name == name).unwrap_or_else(|| panic!("no {name} in {facts:?}"));
    format!("{:?}", fact.value)
}

#[test]
fn missing_driver_is_absent_with_remedy() {
    let (_keep, root) = fixture::root(&[("/proc/meminfo", "")]);
    let presence = Presence::open(&root);
    assert!(matches!(presence, Presence::Absent), "{presence:?}");
    let refusal = presence.driver("coloured pages").expect_err("absent");
    assert!(refusal.reason.starts_with("coloured pages: Fathom's driver is not loaded"), "{refusal:?}");
    assert!(refusal.remedy.contains("make -C driver && sudo insmod driver/fathom.ko"), "{refusal:?}");
    let facts = presence.facts();
    assert!(fact(&facts, "driver.state").contains("not loaded"));
    assert!(fact(&facts, "driver.remedy").contains("insmod"));
    // A device node without a driver.
    for errno in [libc::ENXIO, libc::ENODEV] {
        let presence = not_opened(&Error::from_raw_os_error(errno));
        assert!(matches!(presence, Presence::Absent), "{presence:?}");
    }
}

#[test]
fn unreadable_driver_names_the_command_to_type() {
    for errno in [libc::EACCES, libc::EPERM] {
        let presence = not_opened(&Error::from_raw_os_error(errno));
        let refusal = presence.driver("normal-nc memory").expect_err("denied");
        assert!(refusal.reason.contains("is loaded, and /dev/fathom cannot be opened"), "{refusal:?}");
        assert!(refusal.remedy.contains("usermod -aG fathom $USER,"), "{refusal:?}");
        assert!(refusal.remedy.contains("70-fathom.rules") && refusal.remedy.contains("or run as root"));
    }
}

#[test]
fn unreadable_device_file_is_denied() {
    use std::os::unix::fs::PermissionsExt as _;
    let (keep, root) = fixture::root(&[("/dev/fathom", "")]);
    let closed = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(keep.path().join("dev/fathom"), closed).expect("permissions");
    match Presence::open(&root) {
        Presence::Denied(why) => assert!(why.contains("denied"), "{why}"),
        // Root may open every file; this one is not a device.
        other => assert!(
            rustix::process::geteuid().is_root() && matches!(other, Presence::Incompatible(_)),
            "{other:?}"
        ),
    }
}

#[test]
fn wrong_device_file_is_not_the_driver() {
    let (keep, root) = fixture::root(&[("/dev/other", "")]);
    let link = keep.path().join("dev/fathom");
    std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
    for kind in ["a device", "a file"] {
        let presence = Presence::open(&root);
        let refusal = presence.driver("the cycle counter").expect_err("no driver");
        assert!(matches!(presence, Presence::Incompatible(_)), "{kind}: {presence:?}");
        assert!(refusal.reason.contains("rejects this version"), "{refusal:?}");
        assert!(refusal.remedy.contains("rmmod fathom"), "{refusal:?}");
        std::fs::remove_file(&link).expect("the link or file");
        std::fs::write(&link, "").expect("a file");
    }
    std::fs::remove_file(&link).expect("the file");
    std::fs::create_dir(&link).expect("a directory");
    assert!(matches!(Presence::open(&root), Presence::Incompatible(_)));
}

#[test]
fn request_to_wrong_device_is_refused_with_remedy() {
    let driver = null_device_driver();
    let transfers = Transfers { engine: Some(Engine::Nothing), ..Transfers::default() };
    let batch = Batch { bytes: 64, seed: 1, first: 0, count: 3 };
    let refusals = [
        driver.region(4096, Attribute::NormalNc, None).expect_err("a region"),
        driver.region(4096, Attribute::WriteBack, Some((3, 16))).expect_err("a colour"),
        driver.transfers(&transfers, &batch).expect_err("transfers"),
        driver.transfers(&Transfers::default(), &batch).expect_err("any engine's transfers"),
        driver.counters_on().expect_err("a counter"),
        driver.counters_state().expect_err("a counter's state"),
        driver.counters_off().expect_err("a counter's end"),
        Recorder::start(&driver, 100_000, 0, Policy::Fifo, 10).expect_err("a recorder"),
    ];
    // The kernel has no such request for this device, and user-mode emulators know none of the driver's.
    let (errno, remedy) = match driver.query_info().expect_err("no driver").raw_os_error() {
        Some(libc::ENOSYS) => (libc::ENOSYS, "without the emulator"),
        _ => (libc::ENOTTY, "load the driver of this version"),
    };
    for refusal in refusals {
        assert!(refusal.reason.contains(&format!("os error {errno})")), "{refusal:?}");
        assert!(refusal.remedy.contains(remedy), "{refusal:?}");
    }
    for error in [driver.translate(4096).map(drop), driver.cache_id().map(drop)] {
        assert_eq!(error.expect_err("refused").raw_os_error(), Some(errno));
    }
}

#[test]
fn invalid_requests_are_not_sent_to_the_driver() {
    let driver = null_device_driver();
    let base = Batch { bytes: 64, seed: 0, first: 0, count: 1 };
    let described = Transfers { engine: Some(Engine::Described), ..Transfers::default() };
    let refusal = driver.transfers(&described, &base).expect_err("not an engine of the driver");
    assert!(refusal.remedy.contains("--engine none"), "{refusal:?}");
    for batch in [
        Batch { bytes: 0, ..base },
        Batch { count: 0, ..base },
        Batch { bytes: (1 << 20) + 1, ..base },
        Batch { count: 4097, ..base },
        Batch { bytes: 1 << 20, count: 65, ..base },
    ] {
        let refusal = driver.transfers(&Transfers::default(), &batch).expect_err("too many");
        assert!(
            refusal.reason.contains("cannot make") && refusal.remedy.starts_with("request"),
            "{refusal:?}"
        );
    }
    for period in [0, 49_999, 1_000_000_001] {
        let refusal = Recorder::start(&driver, period, 0, Policy::Normal, 10).expect_err("a period");
        assert!(refusal.remedy.contains("50 us to 1 s"), "{refusal:?}");
    }
    // A request's number contains the size of its structure; other sizes are rejected.
    let mut other = uapi::Handle::default();
    let error = driver.call(uapi::IOC_REGION, &mut other).expect_err("another structure");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn page_table_entries_are_decoded() {
    let reported = |attribute: u64, raw| {
        page_table_entry(&uapi::Translate {
            pa: 0x4000,
            raw,
            attribute: attribute as u32,
            ..uapi::Translate::default()
        })
    };
    let nc = reported(uapi::NORMAL_NC, 0x4400_0000_4000_0b80);
    assert_eq!((nc.pa, nc.attribute, nc.mair), (0x4000, Some(Attribute::NormalNc), Some(0x44)));
    // Device-nGnRE has no name: it is reported if a translation contains the byte, otherwise not.
    let other = reported(uapi::OTHER_ATTRIBUTE, 0x0400_0000_4000_0b80);
    assert_eq!((other.attribute, other.mair), (None, Cpu::mair(other.raw)));
    for (number, attribute) in (0..).zip(ATTRIBUTES) {
        assert_eq!((attribute_of(number), number_of(attribute)), (Some(attribute), number));
    }
    assert_eq!(attribute_of(ATTRIBUTES.len() as u32), None);
}

#[test]
fn driver_state_is_reported_as_facts() {
    let info = uapi::Info {
        version: 1,
        features: (uapi::HAS_REGIONS | uapi::HAS_WAKES) as u32,
        attributes: 0b1101,
        engines: 0b11,
        coherent: 0b10,
        limit_bytes: 5,
        ..uapi::Info::default()
    };
    let file = OpenOptions::new().read(true).open("/dev/null").expect("the null device");
    let presence = Presence::Available(Rc::new(Driver { file: file.into(), info }));
    let facts = presence.facts();
    for (name, value) in [
        ("driver.state", "is there"),
        ("driver.version", "1"),
        ("driver.features", "regions,wakes"),
        ("driver.attributes", "write-back,normal-nc,device"),
        ("driver.engines", "none,edu"),
        ("driver.coherent", "edu"),
        ("driver.limit.bytes", "5"),
    ] {
        assert!(fact(&facts, name).contains(value), "{name}: {facts:?}");
    }
    let driver = presence.driver("nothing").expect("there");
    assert!(
        driver.wakes() && driver.provides(Attribute::Device) && !driver.provides(Attribute::WriteThrough)
    );
}

/// Registers of the Cortex-A72, from the decoder's own test, and of a core with the 64-bit layout; nothing on x86 and
/// on a core without CLIDR.
#[test]
fn cache_registers_have_the_fact_names_of_bare_metal() {
    let named = |clidr, ccsidr: &[u64]| {
        let mut id = uapi::CacheId { count: 14, clidr, ..uapi::CacheId::default() };
        id.ccsidr[..ccsidr.len()].copy_from_slice(ccsidr);
        let value = |fact: &Fact| match fact.value {
            FactValue::Int(value) => value,
            _ => panic!("{fact:?}"),
        };
        cache_facts(&id).iter().map(|fact| (fact.name.clone(), value(fact))).collect::<Vec<_>>()
    };
    let own = |list: &[(&str, u64)]| {
        list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>()
    };
    assert_eq!(
        named(0x0a20_0023, &[0x701f_e00a, 0x201f_e012, 0x70ff_e07a]),
        own(&[
            ("arm.clidr_el1", 0x0a20_0023),
            ("arm.ccidx", 0),
            ("arm.ccsidr_el1.1.data", 0x701f_e00a),
            ("arm.ccsidr_el1.1.instructions", 0x201f_e012),
            ("arm.ccsidr_el1.2.data", 0x70ff_e07a),
        ])
    );
    let wide = 255 << 32 | 3 << 3 | 2;
    assert_eq!(named(2, &[wide])[1..], own(&[("arm.ccidx", 1), ("arm.ccsidr_el1.1.data", wide)]));
    assert_eq!(named(0, &[]), []);
    assert_eq!(Presence::Available(null_device_driver()).cache_facts(), []);
    assert_eq!(Presence::Absent.cache_facts(), []);
}
