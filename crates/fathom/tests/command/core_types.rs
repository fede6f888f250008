//! CPUs of several types: the kernel's files are replaced by those of a machine with two, in a mount namespace.

use crate::common::{Did, User};

/// Runs fathom where CPU 0 is a big core and CPU 1 a little one.
fn on_two_types(user: &User, arguments: &str) -> Did {
    user.shell(&format!(
        "exec unshare --mount sh -c 'cd /sys/devices/system && mount -t tmpfs none cpu && mkdir cpu/cpu0 cpu/cpu1 && \
         echo 1024 >cpu/cpu0/cpu_capacity && echo 446 >cpu/cpu1/cpu_capacity && cd \"$HOME\" && exec taskset -c 0,1 {arguments}'"
    ))
}

#[test]
fn cores_of_each_type_have_a_report_of_their_own() {
    let user = User::new();
    if on_two_types(&user, "true").status != 0 {
        return fathom_skip::skipped!(Mounts, "no namespaces can be made here, or one CPU");
    }
    let latency = "fathom latency --bytes 4K --budget 1s";
    let told = |arguments: &str| {
        let did = on_two_types(&user, &format!("{latency} {arguments}"));
        assert!([0, 3].contains(&did.status) && did.err.is_empty(), "{did:?}");
        did.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let both = told("");
    let parts: Vec<&str> = both.split("CPUs 0 (big): ").collect();
    let [little, big] = parts[..] else { panic!("{both}") };
    assert!(little.starts_with("CPUs 1 (little): ") && big.contains("cpu.pinned 0;"), "{both}");
    assert!(
        little.contains("cpu.type little; cpu.type.cpus 1;") && little.contains("cpu.pinned 1;"),
        "{both}"
    );
    // One of them can be kept in a file.
    let one = told("--cpu little --record little.fathom");
    assert!(one.contains("cpu.pinned 1;") && !one.contains("CPUs 0"), "{one}");
    assert!(user.read("little.fathom").contains("name=\"cpu.type\" text=\"little\""));
    assert!(told("--cpu 0").contains("cpu.type big"));
    for option in ["--json", "--record both.fathom", "--html both.html", "--cpu big,little --json"] {
        let name =
            option.split(' ').find(|word| word.starts_with("--") && *word != "--cpu").expect("an option");
        on_two_types(&user, &format!("{latency} {option}"))
            .failed(2, &[&format!("{name}: this machine has CPUs of 2 types"), "--cpu big, --cpu little"]);
    }
    assert!(!user.path("both.fathom").exists() && !user.path("both.html").exists());
    on_two_types(&user, &format!("{latency} --cpu mid"))
        .failed(2, &["--cpu mid: there are big: 0; little: 1"]);
    // A wrong option is told once, and nothing is printed.
    let wrong = on_two_types(&user, &format!("{latency} --sensitivity"));
    wrong.failed(2, &["--sensitivity"]);
    assert_eq!(wrong.err.matches("fathom: ").count(), 1, "{wrong:?}");
    // A record goes on with the type that it is of.
    let wakeup = "fathom wakeup --budget 300ms";
    on_two_types(&user, &format!("{wakeup} --conditions unloaded --cpu 0 --record wakeup.fathom"));
    for cpu in ["--cpu 1", "--cpu little"] {
        on_two_types(&user, &format!("{wakeup} {cpu} --resume wakeup.fathom"))
            .failed(2, &["cpu.type was \"big\" and is \"little\"", "--cpu"]);
    }
    on_two_types(&user, &format!("{wakeup} --cpu big,little --resume wakeup.fathom"))
        .failed(2, &["--resume: this machine has CPUs"]);
}

#[test]
fn types_are_refused_where_there_are_none() {
    let user = User::new();
    user.run(&["latency", "--on", "bcm2837", "--cpu", "big"])
        .failed(2, &["--cpu big: 'bcm2837' is not this host"]);
    user.run(&["latency", "--cpu", "1,2"]).failed(2, &["big,little"]);
}
