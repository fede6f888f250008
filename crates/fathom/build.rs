//! Builds the bare-metal image and embeds it in the command if Rust's target for it is installed; otherwise embeds the
//! reason why there is no image.
//!
//! Runs a nested cargo. It has a separate target directory, because the outer cargo has locked its own. It runs
//! offline, because the image needs only dependencies of the command. Variables that the outer cargo sets for its own
//! programs (flags, wrappers such as clippy's) are removed.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Target of the image: AArch64 without an operating system and without floating point, so that the image need not save
/// floating-point registers.
const TARGET: &str = "aarch64-unknown-none-softfloat";

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the manifest's folder"));
    let root = here.join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output folder"));
    let sources = [
        "crates/metal",
        "crates/loops",
        "crates/probe/src",
        "crates/probe/Cargo.toml",
        "crates/units",
        "Cargo.toml",
        "Cargo.lock",
        ".cargo",
    ];
    for source in sources {
        println!("cargo:rerun-if-changed={}", root.join(source).display());
    }
    let path = out.join("fathom.img");
    let text = match missing(&root) {
        None => {
            let image = flat(&build(&root, &out));
            fs::write(&path, image).expect("the output folder can be written");
            format!("Ok(include_bytes!({:?}))", path.display().to_string())
        }
        Some(why) => {
            let _ = fs::remove_file(&path);
            format!("Err({why:?})")
        }
    };
    fs::write(out.join("image.rs"), text).expect("the output folder can be written");
    // For tests, which cannot query the program.
    println!("cargo:rustc-env=FATHOM_IMAGE={}", path.display());
}

/// Returns the reason why no image can be built here, if there is one.
fn missing(root: &Path) -> Option<String> {
    if !root.join("crates/metal/Cargo.toml").is_file() {
        return Some("its sources (crates/metal) were not there when this fathom was built".into());
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    let installed = Path::new(&sysroot).join("lib/rustlib").join(TARGET).join("lib").is_dir();
    let why = format!("Rust's target {TARGET} was not installed when this fathom was built");
    (!installed).then_some(why)
}

/// Builds the image's program and returns its path.
fn build(root: &Path, out: &Path) -> PathBuf {
    let folder = out.join("metal");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--quiet", "--locked", "--offline", "--profile", "image"]);
    command
        .args(["--target", TARGET, "-p", "fathom-metal", "--bin", "fathom-metal", "--target-dir"])
        .arg(&folder);
    for (name, _) in env::vars_os() {
        if !ours(&name) {
            command.env_remove(name);
        }
    }
    let built = command.output().expect("cargo can be run");
    if !built.status.success() {
        let mut reported = String::new();
        let _ = write!(
            reported,
            "the bare-metal image cannot be built:\n{}",
            String::from_utf8_lossy(&built.stderr)
        );
        panic!("{reported}");
    }
    folder.join(TARGET).join("image/fathom-metal")
}

/// Returns whether the nested cargo keeps an environment variable: crate sources and the number of jobs are kept;
/// targets, profiles and flags are not.
fn ours(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    let kept =
        ["CARGO_HOME", "CARGO_MAKEFLAGS", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    let set = name.starts_with("CARGO_")
        || matches!(&*name, "RUSTFLAGS" | "RUSTC_WRAPPER" | "RUSTC_WORKSPACE_WRAPPER");
    !set || kept.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the bytes that the boot loader loads: the program's segments at their load addresses (ELF-64: "Program
/// Header").
fn flat(program: &Path) -> Vec<u8> {
    let elf = fs::read(program).expect("cargo has built it");
    let number = |at: usize, bytes: usize| {
        elf[at..at + bytes].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)) as usize
    };
    let (headers, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let mut image = Vec::new();
    for header in (0..count).map(|n| headers + n * size) {
        // PT_LOAD
        if number(header, 4) == 1 {
            let (offset, address, bytes) =
                (number(header + 8, 8), number(header + 16, 8), number(header + 32, 8));
            image.resize(image.len().max(address + bytes), 0);
            image[address..address + bytes].copy_from_slice(&elf[offset..offset + bytes]);
        }
    }
    image
}
