//! The bare-metal images embedded in this program.
//!
//! An image runs on every board of its architecture (crates/metal). QEMU 7.2 loads it at the address that a board's
//! firmware would use; the options count instructions instead of time:
//! ```text
//! qemu-system-aarch64 -M raspi3b -icount shift=0 -nic none -display none -monitor none -serial stdio -kernel IMAGE
//! qemu-system-aarch64 -M virt -cpu cortex-a53 -m 512M -icount shift=0 -nic none -display none -monitor none \
//!     -serial stdio -kernel IMAGE
//! qemu-system-arm -M raspi0 -icount shift=0 -nic none -display none -monitor none -serial stdio -kernel IMAGE
//! qemu-system-arm -M vexpress-a15 -m 512M -icount shift=0 -nic none -display none -monitor none -serial stdio \
//!     -kernel IMAGE
//! ```
//!
//! With `-M virt,virtualization=on` the second command enters the image at EL2. At EL3 `-kernel` does not load a
//! kernel; use `-M virt,secure=on -device loader,file=IMAGE,addr=0x40200000,force-raw=on -device
//! loader,addr=0x40200000,cpu-num=0`. `virt` and `vexpress-a15` need 512 MiB, because the arena is in their second half.
//! The image greets immediately. A line that begins with `#` is for humans, and is sent only after four seconds without
//! input (`fathom_metal::parameters`, which [`fathom_metal::parameters::Parameters::patch`] changes in an image).

use std::sync::OnceLock;

use miniz_oxide::inflate::decompress_to_vec_zlib;

use crate::failure::Failure;

/// An image, by the architecture that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// AArch64: Raspberry Pi 3 and 4.
    Aarch64,
    /// ARMv7-A: Raspberry Pi 2, and 3 in its 32-bit state.
    Armv7,
    /// ARMv6: Raspberry Pi 1 and Zero.
    Armv6,
}

// Written by build.rs: AARCH64, ARMV7 and ARMV6, compressed (zlib).
include!(concat!(env!("OUT_DIR"), "/images.rs"));

impl Image {
    /// All images.
    pub const ALL: [Image; 3] = [Image::Aarch64, Image::Armv7, Image::Armv6];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Image::Aarch64 => "AArch64",
            Image::Armv7 => "ARMv7",
            Image::Armv6 => "ARMv6",
        }
    }

    /// Returns its bytes, decompressed at the first call.
    ///
    /// # Errors
    /// The reason why there is none, if it could not be built together with this program.
    pub fn embedded(self) -> Result<&'static [u8], Failure> {
        static PLAIN: [OnceLock<Vec<u8>>; 3] = [const { OnceLock::new() }; 3];
        let compressed = self.compressed()?;
        let plain = || decompress_to_vec_zlib(compressed).expect("build.rs has compressed it");
        Ok(PLAIN[self as usize].get_or_init(plain))
    }

    fn compressed(self) -> Result<&'static [u8], Failure> {
        let (built, install) = match self {
            Image::Aarch64 => (AARCH64, "rustup target add aarch64-unknown-none-softfloat"),
            Image::Armv7 => (ARMV7, "rustup target add armv7a-none-eabi"),
            Image::Armv6 => {
                (ARMV6, "rustup component add rust-src; scripts/setup --test fetches the packages")
            }
        };
        built.map_err(|why| {
            let what = format!("this fathom has no bare-metal image for {}: {why}", self.name());
            Failure::new(what, format!("{install}, then build fathom again"))
        })
    }
}

#[cfg(test)]
mod tests {
    use fathom_metal::parameters::{
        AARCH64_MAGIC, ARMV6_MAGIC, ARMV7_MAGIC, Parameters, header_magic, memory_bytes,
    };

    use super::Image;

    #[test]
    fn images_have_default_parameters_or_their_absence_a_remedy() {
        for (image, magic) in
            [(Image::Aarch64, AARCH64_MAGIC), (Image::Armv7, ARMV7_MAGIC), (Image::Armv6, ARMV6_MAGIC)]
        {
            match image.embedded() {
                Ok(bytes) => {
                    assert_eq!(Parameters::of(bytes), Ok(Parameters::default()));
                    assert_eq!(header_magic(bytes), Some(magic));
                    assert!(memory_bytes(bytes).is_some_and(|memory| memory > bytes.len() as u64));
                    println!("the image for {}: {} KiB", image.name(), bytes.len() / 1024);
                }
                Err(failure) => assert!(failure.remedy.contains("rustup "), "{failure}"),
            }
        }
    }
}
