//! Removes identifying data from facts, because records are meant to be published.

/// Replacement of removed text.
const REMOVED: &str = "[left out]";

/// Keys of the kernel's command line whose values name disks, networks, machines or secrets, regardless of their form
/// (Linux Documentation/admin-guide/kernel-parameters.txt, systemd's kernel-command-line(7)).
const PRIVATE_KEYS: [&str; 16] = [
    "root",
    "resume",
    "hostname",
    "ip",
    "nfsroot",
    "macaddr",
    "serial",
    "uuid",
    "machine_id",
    "cryptdevice",
    "addr",
    "key",
    "password",
    "token",
    "init",
    "rdinit",
];

/// Returns a kernel command line without identifying data. Removed are values of [`PRIVATE_KEYS`] keys, words that
/// contain the name `host`, values that look like UUIDs, hardware addresses, network addresses or serial numbers, and
/// everything after `--`, which is for the first process and not for the kernel.
pub(crate) fn command_line(line: &str, host: &str) -> String {
    let (kernel, init) = line.split_once(" -- ").map_or((line, false), |(kernel, _)| (kernel, true));
    let redacted = |word: &str| match word.split_once('=') {
        Some((key, value)) if is_private(key) || identifies(value, host) => format!("{key}={REMOVED}"),
        None if identifies(word, host) => REMOVED.to_owned(),
        _ => word.to_owned(),
    };
    let mut words: Vec<String> = kernel.split_whitespace().map(redacted).collect();
    if init {
        words.push(format!("-- {REMOVED}"));
    }
    words.join(" ")
}

fn is_private(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.split(['.', '-', '_', ',']).any(|part| PRIVATE_KEYS.contains(&part)) || key.ends_with("machine_id")
}

/// Returns whether a value looks unique to one machine.
fn identifies(value: &str, host: &str) -> bool {
    // Names shorter than three letters ("vm") would blank half of any line.
    let named = host.len() >= 3 && host != "localhost" && value.contains(host);
    named || value.split(|c: char| !c.is_ascii_hexdigit() && !":-.".contains(c)).any(looks_unique)
}

/// Returns whether a word looks like an identifier: a UUID or another run of 12 or more hexadecimal digits, dashes
/// ignored, with at least one decimal digit; six pairs with dashes; groups with colons, as of a MAC or an IPv6
/// address; four numbers with dots.
fn looks_unique(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_hexdigit).count();
    let is_hex = word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let long = is_hex && digits >= 12 && word.chars().any(|c| c.is_ascii_digit());
    let hex = |p: &str| p.chars().all(|c| c.is_ascii_hexdigit());
    let groups = word.split(':').all(hex) && (word.matches(':').count() >= 3 || word.contains("::"));
    let dashed = word.split('-').filter(|p| p.len() == 2 && hex(p)).count() >= 6;
    // A port may follow an address.
    let quad: Vec<&str> = word.split(':').next().unwrap_or(word).split('.').collect();
    let address = quad.len() == 4 && quad.iter().all(|q| q.parse::<u8>().is_ok());
    long || groups || dashed || address
}

/// Private properties of a devicetree, whose values are overwritten with zeros. Devicetree Specification 0.4, 2.3 and
/// 3.6; Documentation/devicetree/bindings/net; the Raspberry Pi's boot loader writes the first one.
const PRIVATE_PROPERTIES: [&str; 8] = [
    "serial-number",
    "local-mac-address",
    "mac-address",
    "address",
    "bootargs",
    "kaslr-seed",
    "rng-seed",
    "system-id",
];

/// Zeroes the private properties of a flattened devicetree. Returns `None` if it is not one or is truncated: a tree
/// that cannot be parsed cannot be redacted, and must not be reported.
pub(crate) fn devicetree(blob: &mut [u8]) -> Option<()> {
    // Devicetree Specification 0.4, chapter 5: header, then the structure block of big-endian tokens.
    if word(blob, 0)? != 0xd00d_feed || word(blob, 4)? as usize > blob.len() {
        return None;
    }
    let (mut at, strings) = (word(blob, 8)? as usize, word(blob, 12)? as usize);
    loop {
        let token = word(blob, at)?;
        at += 4;
        match token {
            // FDT_BEGIN_NODE: a name with its final zero, padded to words.
            1 => {
                let name = blob.get(at..)?.iter().position(|b| *b == 0)?;
                at = (at + name + 1).next_multiple_of(4);
            }
            // FDT_END_NODE, FDT_NOP
            2 | 4 => {}
            // FDT_PROP: length, offset of the name, value padded to words.
            3 => {
                let (length, name) = (word(blob, at)? as usize, word(blob, at + 4)? as usize);
                let value = at + 8..(at + 8).checked_add(length)?;
                let private = is_private_property(blob.get(strings.checked_add(name)?..)?);
                let bytes = blob.get_mut(value.clone())?;
                if private {
                    bytes.fill(0);
                }
                at = value.end.next_multiple_of(4);
            }
            // FDT_END
            9 => return Some(()),
            _ => return None,
        }
    }
}

fn is_private_property(name: &[u8]) -> bool {
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    PRIVATE_PROPERTIES.iter().any(|p| p.as_bytes() == name)
}

fn word(blob: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*blob.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
