use super::*;

#[test]
fn command_lines_keep_settings_and_lose_identities() {
    let line = "BOOT_IMAGE=/vmlinuz-6.1.0-21-amd64 root=UUID=8a9f3f6e-3c1b-4a5e-9f0e-2f1b6c7d8e9f ro quiet \
                smsc95xx.macaddr=B8:27:EB:12:34:56 bcm2708.serial=0x12345678 ip=192.168.1.4::192.168.1.1 \
                isolcpus=2-3 nohz_full=2-3 mitigations=off hugepages=16 console=ttyS0,115200 \
                systemd.machine_id=0123456789abcdef0123456789abcdef netconsole=@10.0.0.2/eth0 boxname-opt \
                log=boxname transparent_hugepage=madvise -- --token abc";
    let clean = command_line(line, "boxname");
    for gone in
        ["8a9f3f6e", "B8:27", "0x1234", "192.168", "0123456789abcdef", "10.0.0.2", "boxname", "abc", "token"]
    {
        assert!(!clean.contains(gone), "{gone} is still in {clean}");
    }
    for kept in [
        "BOOT_IMAGE=/vmlinuz-6.1.0-21-amd64",
        "isolcpus=2-3",
        "nohz_full=2-3",
        "mitigations=off",
        "hugepages=16",
        "console=ttyS0,115200",
        "transparent_hugepage=madvise",
        "root=[left out]",
        "-- [left out]",
    ] {
        assert!(clean.contains(kept), "{kept} is missing in {clean}");
    }
}

#[test]
fn short_host_names_are_not_removed() {
    assert_eq!(command_line("nvme.poll=1 vm.x=2", "vm"), "nvme.poll=1 vm.x=2");
    assert_eq!(command_line("", "host"), "");
}

/// Returns a flattened devicetree of one node with the given properties.
fn tree(properties: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut body, mut names) = (Vec::new(), Vec::new());
    let put = |body: &mut Vec<u8>, word: u32| body.extend(word.to_be_bytes());
    put(&mut body, 1);
    put(&mut body, 0);
    for (name, value) in properties {
        put(&mut body, 3);
        put(&mut body, value.len() as u32);
        put(&mut body, names.len() as u32);
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
        names.extend(name.as_bytes());
        names.push(0);
    }
    put(&mut body, 4);
    put(&mut body, 2);
    put(&mut body, 9);
    let mut blob = Vec::new();
    let total = 40 + body.len() + names.len();
    for word in [0xd00d_feed, total as u32, 40, (40 + body.len()) as u32, 0, 17, 16, 0, names.len() as u32, 0]
    {
        put(&mut blob, word);
    }
    blob.extend(body);
    blob.extend(names);
    blob
}

#[test]
fn private_properties_of_a_devicetree_become_zeros() {
    let mut blob = tree(&[
        ("model", b"ACME Anvil\0"),
        ("serial-number", b"10000000deadbeef\0"),
        ("d-cache-size", &[0, 0, 0x80, 0]),
        ("local-mac-address", &[0xb8, 0x27, 0xeb, 1, 2, 3]),
        ("bootargs", b"root=PARTUUID=abc\0"),
    ]);
    let before = blob.clone();
    assert_eq!(devicetree(&mut blob), Some(()));
    assert_eq!(blob.len(), before.len());
    let holds = |needle: &[u8]| blob.windows(needle.len()).any(|w| w == needle);
    assert!(holds(b"ACME Anvil") && holds(&[0, 0, 0x80, 0]) && holds(b"serial-number"));
    assert!(!holds(b"deadbeef") && !holds(&[0xb8, 0x27, 0xeb]) && !holds(b"PARTUUID"));
}

#[test]
fn damaged_trees_are_refused_without_panic() {
    let whole = tree(&[("model", b"x\0"), ("serial-number", b"123\0")]);
    for cut in 0..whole.len() {
        assert_eq!(devicetree(&mut whole[..cut].to_vec()), None, "cut at {cut}");
    }
    // Every byte of the header and of the structure is damaged in turn: no panic.
    for at in 0..whole.len() {
        for value in [0, 0x7f, 0xff] {
            let mut bad = whole.clone();
            bad[at] = value;
            let _ = devicetree(&mut bad);
        }
    }
}
