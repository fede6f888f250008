//! How the image is linked; programs for other targets are left alone.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=image.ld");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo names the manifest's folder");
    // One image for boards that load it at different places: linked at 0 as a position-independent program,
    // whose few absolute addresses it corrects itself at the start. They may stand in read-only sections
    // (-z notext), because nothing is write-protected before it has done so: the code of this target is compiled
    // for a fixed place, and reaches everything relative to the program counter all the same.
    // For AArch64: erratum 843419 of Cortex-A53 up to r0p4, which is the Pi 3's (ARM-EPM-048406): an address formed at
    // the end of a page may be wrong.
    for argument in [
        format!("-T{here}/image.ld").as_str(),
        "-pie",
        "--no-dynamic-linker",
        "-znotext",
        "-znorelro",
        "-n",
        "--pack-dyn-relocs=relr",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("aarch64") {
        println!("cargo:rustc-link-arg-bins=--fix-cortex-a53-843419");
    }
}
