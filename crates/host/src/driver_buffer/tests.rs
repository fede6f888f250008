//! Driver buffers in fixtures, because no test machine has one. The device is a file; its mapping is shared, and it is
//! zeroed like a driver's.

use std::path::Path;

use fathom_probe::machine::{Machine as _, Operation, Translate as _};
use fathom_probe::pattern::{self, Chase, Copy, Memory, Pattern, Stride, Trial};

use super::*;
use crate::host::Host;
use crate::options::Options;

use crate::fixture;

fn root_with_mode(mode: &str) -> (tempfile::TempDir, Root) {
    let (directory, root) = fixture::root(&[
        ("/sys/class/u-dma-buf/udmabuf0/size", "1048576\n"),
        ("/sys/class/u-dma-buf/udmabuf0/phys_addr", "0x1e900000\n"),
        ("/sys/class/u-dma-buf/udmabuf0/sync_mode", mode),
        ("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n"),
    ]);
    // Data of an earlier user.
    fixture::write(directory.path(), "/dev/udmabuf0", &vec![0xa5; 1 << 20]);
    (directory, root)
}

fn host(root: &Root) -> Host {
    let options = Options { die_with_parent: false, priority: false, ..Options::default() };
    Host::open_below(root.clone(), &options).expect("a host")
}

#[test]
fn driver_mode_names_the_mapped_attribute() {
    for (mode, driver_buffer, other) in
        [("1\n", Attribute::Device, Attribute::NormalNc), ("2\n", Attribute::NormalNc, Attribute::Device)]
    {
        let (_keep, root) = root_with_mode(mode);
        let buffer_device = find(&root, &Presence::Absent, driver_buffer).expect("provided");
        assert_eq!((buffer_device.bytes, buffer_device.pa), (1 << 20, Some(0x1e90_0000)));
        assert!(find(&root, &Presence::Absent, other).is_none());
        let refusal = refusal(&root, &Presence::Absent, other);
        assert!(refusal.remedy.contains("> /sys/class/u-dma-buf/udmabuf0/sync_mode"), "{refusal:?}");
    }
    let (_keep, none) = fixture::root(&[("/proc/meminfo", "")]);
    assert!(find(&none, &Presence::Absent, Attribute::NormalNc).is_none());
    assert!(refusal(&none, &Presence::Absent, Attribute::NormalNc).remedy.contains("modprobe u-dma-buf"));
    let loaded = refusal(&none, &Presence::Absent, Attribute::Device).remedy.into_owned();
    assert!(loaded.starts_with("load it: make -C driver && sudo insmod driver/fathom.ko"), "{loaded}");
    let denied = Presence::Denied("Permission denied (os error 13)".into());
    let denied = refusal(&none, &denied, Attribute::NormalNc);
    assert!(denied.reason.contains("/dev/fathom cannot be opened (Permission denied"), "{denied:?}");
    assert!(denied.remedy.contains("usermod -aG fathom $USER"), "{denied:?}");
    assert!(refusal(&none, &Presence::Absent, Attribute::WriteThrough).reason.contains("no known driver"));
    let (_keep, heap) = fixture::root(&[("/dev/dma_heap/system", ""), ("/dev/dma_heap/system-uncached", "")]);
    assert_eq!(
        find(&heap, &Presence::Absent, Attribute::NormalNc).expect("a heap").name,
        "dma-heap system-uncached"
    );
    assert!(find(&heap, &Presence::Absent, Attribute::Device).is_none());
}

/// The page table entry decides, and not the request: the driver's reply can differ for a coherent device or under a
/// hypervisor.
#[test]
fn wrong_attribute_is_refused_by_name() {
    let found = |attribute, mair| driver::Translation { pa: 0, attribute, mair, raw: 0x73 };
    for (found, words) in [
        (
            found(Some(Attribute::WriteBack), Some(0xff)),
            "requested as normal-nc and is translated as write-back",
        ),
        (found(None, Some(0x04)), "translated as MAIR byte 0x04"),
        (found(None, None), "translated as an unknown attribute (entry 0x73)"),
    ] {
        let refusal = wrong_attribute(driver::NAME, Attribute::NormalNc, &found);
        assert!(refusal.reason.contains(words), "{refusal:?}");
    }
}

#[test]
fn driver_buffer_is_measured_and_verified() {
    let (_keep, root) = root_with_mode("2\n");
    let mut host = host(&root);
    let memory = Memory { attribute: Attribute::NormalNc, ..Memory::of(2560, 8) };
    let patterns: [Pattern; 6] = [
        Stride::of(Operation::Read).into(),
        Stride::of(Operation::Rmw).into(),
        Stride::of(Operation::Set).into(),
        Copy { operation: Operation::CopyTo }.into(),
        Copy { operation: Operation::CopyFrom }.into(),
        Chase::default().into(),
    ];
    for pattern in patterns {
        let trial = Trial { memory: Memory { place: 7, ..memory }, loads: 999, ..Trial::of(pattern) };
        let yielded = pattern::run(&mut host, &trial).expect("provided");
        assert_eq!(yielded.unverified(&trial), [], "{trial:?}");
        let pa = host.translated(yielded.base).and_then(|t| t.pa).expect("a translation");
        assert!((0x1e90_0000..0x1ea0_0000).contains(&pa), "{pa:#x}");
    }
    let refused = |host: &mut Host, trial: &Trial| pattern::run(host, trial).expect_err("refused").reason;
    let root_with_mode = |memory| Trial { memory, ..Trial::default() };
    assert!(refused(&mut host, &root_with_mode(Memory { bytes: 2 << 20, ..memory })).contains("udmabuf0"));
    let device = Memory { attribute: Attribute::Device, ..memory };
    assert!(refused(&mut host, &root_with_mode(device)).contains("mode 2"));
    let mut facts = Vec::new();
    host.facts(&mut |fact| facts.push(fact));
    assert!(facts.iter().any(|f| f.name == "attribute.normal-nc"), "the provider is in the record");
}

#[test]
fn locked_or_missing_buffer_is_refused_with_the_reason() {
    let (keep, root) = root_with_mode("2\n");
    let locked = File::open(root.path("/dev/udmabuf0")).expect("the file");
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("a lock");
    let memory = Memory { attribute: Attribute::NormalNc, ..Memory::of(2560, 64) };
    let trial = Trial { memory, ..Trial::default() };
    let refusal = pattern::run(&mut host(&root), &trial).expect_err("another process has locked it");
    assert!(refusal.remedy.contains("another process has locked it"), "{refusal:?}");
    std::fs::remove_file(Path::new(keep.path()).join("dev/udmabuf0")).expect("unplugged");
    assert!(pattern::run(&mut host(&root), &trial).expect_err("gone").reason.contains("udmabuf0"));
}
