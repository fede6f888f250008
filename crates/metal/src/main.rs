//! The image's entry; all code is in the library. For other targets this program prints how to build the image.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
use fathom_metal as _;

#[cfg(not(target_os = "none"))]
fn main() {
    println!(
        "This is Fathom's image for bare AArch64 machines, built for a machine with an operating system, where it \
         does nothing.\n`fathom image --help` says how to get the image; for development: cargo build --profile \
         image --target aarch64-unknown-none-softfloat -p fathom-metal"
    );
}
