//! Tells the sources which version of 32-bit ARM they are compiled for, because rustc does not.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(fathom_armv7)");
    let target = std::env::var("TARGET").unwrap_or_default();
    if ["armv7", "thumbv7", "armv8"].iter().any(|version| target.starts_with(version)) {
        println!("cargo::rustc-cfg=fathom_armv7");
    }
}
