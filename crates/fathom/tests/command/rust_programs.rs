//! Programs in Rust whose regions the crate `fathom-mark` marks, compiled by rustc alone.

use std::path::Path;
use std::process::Command;

/// Features of the crate with which its marks count.
pub const COUNT: &[&str] = &["--cfg", "feature=\"count\""];

/// Compiles `program` as `name` in `folder`, with the crate of these features. Returns whether this machine can, and tells if not.
pub fn built_with_rustc(
    [folder, program]: [&Path; 2],
    name: &str,
    triple: &str,
    linker: &[&str],
    features: &[&str],
) -> bool {
    let rustc = |arguments: &[&str], files: [&Path; 2]| {
        let mut compiler = Command::new("rustc");
        compiler.args(["--edition", "2024", "--target", triple, "-Copt-level=2"]).args(arguments);
        let out = compiler.arg(files[0]).arg("-o").arg(files[1]).output().expect("cargo has rustc");
        assert!(out.status.success(), "{triple}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output();
    let libraries = libraries.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    if !libraries.is_ok_and(|path| Path::new(&path).is_dir()) {
        fathom_skip::skipped!(Unchecked, "no rustc with the library of {triple}: rustup target add {triple}");
        return false;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mark/src/lib.rs");
    let library = folder.join("libfathom_mark.rlib");
    let kind = ["--crate-type=rlib", "--crate-name=fathom_mark"];
    rustc(&[&kind[..], features].concat(), [&source, &library]);
    let external = format!("--extern=fathom_mark={}", library.display());
    rustc(&[&[external.as_str()], linker].concat(), [program, &folder.join(name)]);
    true
}
