//! Version and build id of this program.

use std::io::Read as _;

/// Returns the version and a CRC-32 of the program file. Two builds of one version differ without version control at
/// build time, and the same build has the same id everywhere. Returns only the version if the file cannot be read.
pub fn id() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match hash() {
        Ok(hash) => format!("{version} crc32:{hash:08x}"),
        Err(_) => version.to_owned(),
    }
}

fn hash() -> std::io::Result<u32> {
    // The link is opened, not its target: it leads to the running file, even if another file has its name now.
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
    fn id_has_version_and_hash_and_is_constant() {
        let id = super::id();
        assert!(id.starts_with(concat!(env!("CARGO_PKG_VERSION"), " crc32:")), "{id}");
        assert_eq!(id, super::id());
    }
}
