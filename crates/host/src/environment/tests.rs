use fathom_probe::machine::FactValue;

use super::*;
use crate::fixture;

fn board_root() -> (tempfile::TempDir, Root) {
    let cpu = "/sys/devices/system/cpu/cpu2";
    fixture::root(&[
        (
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Little\nCPU part\t: 0xd03\nmicrocode\t: 0xd03\nuarch\t: 0xd03\n\nprocessor\t: 2\nmodel name\t: Big\ncpu MHz\t\t: 1500.000\n\
             CPU part\t: 0xd08\nmicrocode\t: 0xd08\nuarch\t: 0xd08\n\nHardware\t: BCM2711\nRevision\t: c03112\nSerial\t\t: 10000000deadbeef\n",
        ),
        ("/proc/cmdline", "quiet root=PARTUUID=deadbeef-02 isolcpus=2\n"),
        ("/proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 512 kB\nSwapTotal: 0 kB\n"),
        ("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.2\0"),
        ("/proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0"),
        ("/proc/device-tree/serial-number", "10000000deadbeef\0"),
        ("/sys/class/dmi/id/sys_vendor", "ACME\n"),
        ("/sys/class/dmi/id/product_serial", "deadbeef\n"),
        ("/sys/class/dmi/id/product_uuid", "deadbeef-0000\n"),
        ("/sys/class/net/eth0/address", "de:ad:be:ef:00:01\n"),
        (&format!("{cpu}/cpufreq/scaling_governor"), "ondemand\n"),
        (&format!("{cpu}/cpufreq/scaling_cur_freq"), "600000\n"),
        (&format!("{cpu}/cpufreq/scaling_max_freq"), "1500000\n"),
        (&format!("{cpu}/thermal_throttle/core_throttle_count"), "3\n"),
        ("/sys/class/thermal/thermal_zone0/temp", "-1250\n"),
        ("/sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
        ("/sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n"),
        ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
        ("/sys/devices/system/cpu/vulnerabilities/spectre_v1", "Mitigation: __user pointer sanitization\n"),
        ("/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Vulnerable\n"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1\n"),
        (&format!("{cpu}/topology/thread_siblings_list"), "2-3\n"),
        ("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/bob.service\n"),
        ("/sys/fs/cgroup/bob.service/cpu.max", "50000 100000\n"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "4\n"),
        ("/proc/pressure/memory", "some avg10=0.00 total=1\nfull avg10=0.00 total=0\n"),
        ("/proc/loadavg", "0.50 0.40 0.30 2/120 98765\n"),
        ("/proc/1/environ", "HOME=/\0container=lxc\0"),
    ])
}

fn value(facts: &[Fact], name: &str) -> FactValue {
    facts.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name} in {facts:?}")).value.clone()
}

fn reported(facts: &[Fact], name: &str) -> String {
    match value(facts, name) {
        FactValue::Text(text) => text,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn board_facts_are_reported() {
    let (_keep, root) = board_root();
    let all = facts(&root, 2, &[0, 2]);
    assert_eq!(reported(&all, "env.cpu.model"), "Big", "of the CPU that measures");
    let keys: Vec<&str> = Cpu::CPUINFO.iter().map(|(_, name)| *name).collect();
    let known = keys.iter().filter(|name| all.iter().any(|fact| fact.name == **name));
    let known: Vec<String> = known.map(|name| reported(&all, name)).collect();
    assert_eq!(known, ["0xd08"], "one of the architecture's own keys: {keys:?}");
    assert_eq!(reported(&all, "env.cpu.hardware"), "BCM2711");
    assert_eq!(reported(&all, "env.board.model"), "Raspberry Pi 4 Model B Rev 1.2");
    assert_eq!(reported(&all, "env.board.compatible"), "raspberrypi,4-model-b brcm,bcm2711");
    assert_eq!(reported(&all, "virt.dmi"), "ACME");
    assert_eq!(reported(&all, "env.freq.governor"), "ondemand");
    assert_eq!(value(&all, "env.freq.cur.khz"), FactValue::Int(600_000));
    assert_eq!(reported(&all, "env.thermal_zone0.millidegrees"), "-1250 cpu-thermal");
    assert_eq!(value(&all, "env.core_throttle_count"), FactValue::Int(3));
    assert_eq!(reported(&all, "env.get_throttled"), "50005");
    assert_eq!(reported(&all, "env.vulnerability.meltdown"), "Not affected");
    assert_eq!(value(&all, "env.hugepages-2048kb.nr_hugepages"), FactValue::Int(4));
    assert_eq!(reported(&all, "env.container"), "lxc");
    assert_eq!(reported(&all, "env.affinity"), "0,2");
    assert_eq!(reported(&all, "env.loadavg"), "0.50 0.40 0.30 2/120");
    assert_eq!(reported(&all, "env.cmdline"), "quiet root=[left out] isolcpus=2");
    assert_eq!(reported(&all, "env.mitigations"), "mitigated spectre_v1; open spectre_v2");
    assert_eq!(reported(&all, "env.freq.boost"), "1");
    assert_eq!(reported(&all, "env.cpu.siblings"), "2-3");
    assert_eq!(reported(&all, "env.cgroup.0.cpu.max"), "50000 100000");
    assert_eq!(reported(&all, "env.cpuinfo.mhz"), "1500.000");
    assert!(!format!("{all:?}").contains("bob"), "a group's path names its owner");
    let after = facts_after(&root, 2);
    assert_eq!(value(&after, "env.after.freq.cur.khz"), FactValue::Int(600_000));
    assert_eq!(reported(&after, "env.after.cpuinfo.mhz"), "1500.000");
    assert!(reported(&after, "env.after.pressure.memory").contains("full"));
}

#[test]
fn no_fact_identifies_the_machine() {
    let (_keep, root) = board_root();
    for fact in facts(&root, 2, &[2]).iter().chain(&crate::identify::facts(&root, 2)) {
        let words = format!("{fact:?}").to_lowercase();
        assert!(!words.contains("deadbeef") && !words.contains("de:ad"), "{words}");
        assert!(!words.contains("serial"), "{words}");
    }
}

#[test]
fn no_fact_contains_the_host_name() {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let root = Root::system();
    for fact in facts(&root, 0, &[0]) {
        // "localhost" and short names also occur in other words.
        if host.len() > 3 && host != "localhost" {
            assert!(!format!("{:?}", fact.value).contains(&host), "{fact:?}");
        }
    }
}

#[test]
fn empty_system_gives_facts() {
    let (_keep, root) = fixture::root(&[]);
    let all = facts(&root, 0, &[]);
    assert_eq!(reported(&all, "env.container"), "none seen");
    assert!(!reported(&all, "env.kernel.release").is_empty());
}

#[test]
fn long_texts_are_truncated_at_a_character_boundary() {
    let long = "ä".repeat(MAX_FACT_BYTES);
    let FactValue::Text(cut) = short("x", &long).value else { panic!("text") };
    assert!(cut.len() <= MAX_FACT_BYTES && cut.chars().all(|c| c == 'ä'));
}
