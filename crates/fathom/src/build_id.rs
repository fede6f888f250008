//! Which program this is.

use std::io::Read as _;

/// The version, and a CRC-32 of this very file: two builds of one version are told apart without a version
/// control system at build time, and the same build is the same wherever it lies. The version alone where
/// the file cannot be read.
pub fn id() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match hash() {
        Ok(hash) => format!("{version} crc32:{hash:08x}"),
        Err(_) => version.to_owned(),
    }
}

fn hash() -> std::io::Result<u32> {
    // The link and not its target: it leads to the file that runs, even where another has taken its name since.
    let mut file =
        std::fs::File::open("/proc/self/exe").or_else(|_| std::fs::File::open(std::env::current_exe()?))?;
    let mut hash = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize()),
            n => hash.update(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_program_has_a_hash_and_always_the_same() {
        let id = super::id();
        assert!(id.starts_with(concat!(env!("CARGO_PKG_VERSION"), " crc32:")), "{id}");
        assert_eq!(id, super::id());
    }
}
