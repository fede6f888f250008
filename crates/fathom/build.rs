//! Builds the bare-metal images and embeds them in the command, compressed, each if Rust's target for it is installed; otherwise
//! embeds the reason why there is no such image.
//!
//! Tells the program its revision, target and profile.
//!
//! Runs a nested cargo. It has a separate target directory, because the outer cargo has locked its own; all profiles and
//! targets of the command share it, because the images are the same. It runs offline, because the images need only
//! dependencies of the command. Variables that the outer cargo sets for its own programs (flags, wrappers such as clippy's)
//! are removed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// An image.
struct Image {
    /// Name of its file, and in capitals of the constant with its bytes.
    name: &'static str,
    /// Rust's target, without an operating system and without floating point, so that the image need not save
    /// floating-point registers.
    target: &'static str,
    /// Whether Rust has no ready core library for it, so that it is built from the component rust-src.
    builds_core: bool,
}

const IMAGES: [Image; 3] = [
    Image { name: "aarch64", target: "aarch64-unknown-none-softfloat", builds_core: false },
    Image { name: "armv7", target: "armv7a-none-eabi", builds_core: false },
    Image { name: "armv6", target: "armv6-none-eabi", builds_core: true },
];

/// The smallest: half of the image, in a tenth of a second.
const COMPRESSION: u8 = 10;

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
    // rustup's list of what is installed: a target or component that was missing may be there now.
    let installed = sysroot().map(|root| root.join("lib/rustlib/components")).filter(|list| list.is_file());
    if let Some(installed) = installed {
        println!("cargo:rerun-if-changed={}", installed.display());
    }
    let mut constants = String::new();
    for image in &IMAGES {
        let path = out.join(format!("{}.img", image.name));
        let built = match missing(image, &root) {
            None => build(image, &root, &out),
            Some(why) => Err(why),
        };
        let value = match built {
            Ok(program) => {
                let bytes = flat(&program);
                let embedded = path.with_extension("img.zlib");
                let write = |path: &Path, bytes: &[u8]| {
                    fs::write(path, bytes).expect("the output folder can be written")
                };
                write(&path, &bytes);
                write(&embedded, &miniz_oxide::deflate::compress_to_vec_zlib(&bytes, COMPRESSION));
                format!("Ok(include_bytes!({:?}))", embedded.display().to_string())
            }
            Err(why) => {
                let _ = fs::remove_file(&path);
                format!("Err({why:?})")
            }
        };
        let name = image.name.to_uppercase();
        constants += &format!("static {name}: Result<&[u8], &str> = {value};\n");
    }
    fs::write(out.join("images.rs"), constants).expect("the output folder can be written");
    println!("cargo:rustc-env=FATHOM_REVISION={}", revision(&root));
    for (name, value) in [("FATHOM_TARGET", "TARGET"), ("FATHOM_OPTIMISED", "PROFILE")] {
        println!("cargo:rustc-env={name}={}", env::var(value).expect("cargo sets it for build scripts"));
    }
    // For tests, which cannot query the program.
    println!("cargo:rustc-env=FATHOM_IMAGES={}", out.display());
}

/// File whose content an archive of the repository (`git archive`) has replaced by its commit: .gitattributes.
const ARCHIVED: &str = "crates/fathom/revision";

/// Returns the commit of the sources, by what names it first: the environment variable `FATHOM_REVISION` (of
/// scripts/package), the archive, git. In builds for development it is not asked for, since each commit would compile
/// the program again.
fn revision(root: &Path) -> String {
    println!("cargo:rerun-if-env-changed=FATHOM_REVISION");
    println!("cargo:rerun-if-changed={}", root.join(ARCHIVED).display());
    if let Some(named) = env::var("FATHOM_REVISION").ok().filter(|named| !named.is_empty()) {
        return named;
    }
    let archived = fs::read_to_string(root.join(ARCHIVED)).unwrap_or_default();
    if !archived.is_empty() && !archived.starts_with("$Format") {
        return archived.chars().take(12).collect();
    }
    if env::var("PROFILE").as_deref() != Ok("release") {
        return "not recorded in a build for development".into();
    }
    git_revision(root).unwrap_or_else(|| "unknown: neither git nor an archive named it".into())
}

/// Returns the checked out commit, if the folder is that of a repository and not only below one.
fn git_revision(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        // A hook's variables would name another repository.
        git.arg("-C").arg(root).args(arguments).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        let told = git.output().ok().filter(|told| told.status.success())?;
        Some(String::from_utf8_lossy(&told.stdout).trim().to_owned())
    };
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // The log of HEAD changes with every commit and checkout. Without it HEAD alone has to do: a missing file would
    // be a change at every build.
    let watched = ["logs/HEAD", "HEAD"].map(|name| git(&["rev-parse", "--git-path", name]));
    let watched = watched.into_iter().flatten().map(|path| root.join(path)).find(|path| path.is_file());
    println!("cargo:rerun-if-changed={}", watched?.display());
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Returns the reason why an image cannot be built here, if there is one.
fn missing(image: &Image, root: &Path) -> Option<String> {
    if !root.join("crates/metal/Cargo.toml").is_file() {
        return Some("its sources (crates/metal) were not there when this fathom was built".into());
    }
    let rustlib = sysroot()?.join("lib/rustlib");
    let why = if image.builds_core {
        let installed = rustlib.join("src/rust/library/Cargo.lock").is_file();
        (!installed).then_some("component rust-src".into())
    } else {
        let installed = rustlib.join(image.target).join("lib").is_dir();
        (!installed).then_some(format!("target {}", image.target))
    };
    why.map(|what: String| format!("Rust's {what} was not installed when this fathom was built"))
}

/// Builds the image's program and returns its path, or the reason why that is not possible here.
fn build(image: &Image, root: &Path, out: &Path) -> Result<PathBuf, String> {
    let folder = target_folder(out).join("metal");
    let built = nested_cargo(image, root, &folder);
    if built.status.success() {
        return Ok(folder.join(image.target).join("image/fathom-metal"));
    }
    let errors = String::from_utf8_lossy(&built.stderr);
    // Cargo's words for a package that is not in its cache.
    if image.builds_core && errors.contains("offline mode") {
        let what = "the packages that Rust's core library is built with were not downloaded when this fathom was built";
        return Err(what.into());
    }
    panic!("the bare-metal image for {} cannot be built:\n{errors}", image.target);
}

/// Returns the outer cargo's target folder, which has a tag for backup programs in it; else the output folder.
fn target_folder(out: &Path) -> &Path {
    out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).unwrap_or(out)
}

fn nested_cargo(image: &Image, root: &Path, folder: &Path) -> Output {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--quiet", "--locked", "--offline", "--profile", "image"]);
    command.args(["--target", image.target, "-p", "fathom-metal", "--bin", "fathom-metal", "--target-dir"]);
    command.arg(folder).arg("--config").arg(without_paths(image, root));
    for (name, _) in env::vars_os() {
        if !ours(&name) {
            command.env_remove(name);
        }
    }
    if image.builds_core {
        // The option is for nightly compilers; the variable lets a stable one have it.
        command.arg("-Zbuild-std=core,alloc").env("RUSTC_BOOTSTRAP", "1");
    }
    command.output().expect("cargo can be run")
}

/// Returns the setting of cargo that keeps this machine's paths out of an image: those of the core library's and the
/// dependencies' sources are in the messages of their panics. It is added to the flags of .cargo/config.toml.
fn without_paths(image: &Image, root: &Path) -> String {
    let home =
        env::var_os("CARGO_HOME").or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo").into()));
    let library = sysroot().map(|sysroot| sysroot.join("lib/rustlib/src/rust"));
    let root = root.canonicalize().ok();
    let named = [(home.map(PathBuf::from), "/cargo"), (library, "/rust"), (root, "/fathom")];
    let flags: Vec<String> = (named.iter())
        .filter_map(|(path, name)| {
            Some(format!("'''--remap-path-prefix={}={name}'''", path.as_ref()?.to_str()?))
        })
        .collect();
    format!("target.{}.rustflags=[{}]", image.target, flags.join(", "))
}

/// Returns the folder of the compiler's libraries.
fn sysroot() -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let printed = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    Some(PathBuf::from(String::from_utf8_lossy(&printed.stdout).trim()))
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

/// Returns the bytes that the boot loader loads: the program's segments at their load addresses (ELF-32 and ELF-64:
/// "Program Header").
fn flat(program: &Path) -> Vec<u8> {
    let elf = fs::read(program).expect("cargo has built it");
    let number = |at: usize, bytes: usize| {
        elf[at..at + bytes].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)) as usize
    };
    // EI_CLASS: 2 for 64 bits. Then e_phoff, e_phentsize; p_offset, p_paddr, p_filesz.
    let (word, headers, size, fields) = match elf[4] {
        2 => (8, 0x20, 0x36, [8, 24, 32]),
        _ => (4, 0x1c, 0x2a, [4, 12, 16]),
    };
    let (headers, size, count) = (number(headers, word), number(size, 2), number(size + 2, 2));
    let mut image = Vec::new();
    for header in (0..count).map(|n| headers + n * size) {
        // PT_LOAD
        if number(header, 4) == 1 {
            let [offset, address, bytes] = fields.map(|field| number(header + field, word));
            image.resize(image.len().max(address + bytes), 0);
            image[address..address + bytes].copy_from_slice(&elf[offset..offset + bytes]);
        }
    }
    image
}
