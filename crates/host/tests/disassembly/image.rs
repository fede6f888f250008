//! Builds the example and finds the code of its functions.

use std::path::PathBuf;
use std::process::Command;

use object::{Architecture, Object, ObjectSection, ObjectSymbol};

use super::check::Instruction;
use super::{a64, rv64, x86};

/// A built example, or the reason why it cannot be built here.
pub enum Built {
    Image(Image),
    Skipped(String),
}

/// The bytes of an ELF file.
pub struct Image(Vec<u8>);

/// Builds `examples/inner.rs` in the target directory of this test, with a profile of released binaries: `release`, or
/// `packages`.
pub fn build(target: Option<&str>, profile: &str) -> Built {
    if let Some(target) = target
        && !installed(target)
    {
        return Built::Skipped(format!("rustup target add {target}"));
    }
    // CARGO_TARGET_TMPDIR is the directory `tmp` of the target directory in use.
    let mut directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    directory.pop();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--profile", profile, "--package", "fathom-host", "--example", "inner"]);
    // Functions are found by symbols, whatever the profile sets.
    cargo.args(["--config", &format!("profile.{profile}.strip=false")]);
    cargo.arg("--target-dir").arg(&directory).current_dir(env!("CARGO_MANIFEST_DIR"));
    // The cargo that runs this test sets these; they would change the build.
    cargo.env_remove("CARGO_BUILD_TARGET").env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    if let Some(target) = target {
        cargo.args(["--target", target]);
        directory.push(target);
    }
    let output = cargo.output().expect("cargo starts: it started this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = directory.join(profile).join("examples/inner");
    Built::Image(Image(std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))))
}

/// Returns whether the standard library of a target is installed.
fn installed(target: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let answer = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
    answer.is_ok_and(|a| PathBuf::from(String::from_utf8_lossy(&a.stdout).trim()).is_dir())
}

impl Image {
    /// Returns the decoded code of every function whose name contains `name`: several if the compiler made copies.
    pub fn functions(&self, name: &str) -> Vec<Vec<Instruction>> {
        let file = object::File::parse(&*self.0).expect("an ELF file");
        let decode = match file.architecture() {
            Architecture::X86_64 => x86::decode,
            Architecture::Aarch64 => a64::decode,
            Architecture::Riscv64 => rv64::decode,
            other => panic!("no decoder for {other:?}"),
        };
        // Both of Rust's manglings contain a name after its length.
        let mangled = format!("{}{name}", name.len());
        let found: Vec<Vec<Instruction>> = file
            .symbols()
            .filter(|s| s.size() != 0 && s.name().is_ok_and(|n| n.contains(&mangled)))
            .filter_map(|symbol| {
                let section = file.section_by_index(symbol.section_index()?).ok()?;
                let code = section.data_range(symbol.address(), symbol.size()).ok()??;
                Some(decode(code, symbol.address()))
            })
            .collect();
        assert!(!found.is_empty(), "the example has no function {name}");
        found
    }
}
