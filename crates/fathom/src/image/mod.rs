//! The bare-metal image that this program carries.
//!
//! The same bytes run on every board (crates/metal). Under QEMU 7.2, which loads them where a board's firmware
//! would, always counting instructions instead of time:
//!
//! ```text
//! qemu-system-aarch64 -M raspi3b -icount shift=0 -nic none -display none -monitor none -serial stdio -kernel IMAGE
//! qemu-system-aarch64 -M virt -cpu cortex-a53 -m 512M -icount shift=0 -nic none -display none -monitor none \
//!     -serial stdio -kernel IMAGE
//! ```
//!
//! The second with `-M virt,virtualization=on` enters it at EL2. At EL3 a kernel is not loaded by `-kernel`: `-M
//! virt,secure=on -device loader,file=IMAGE,addr=0x40200000,force-raw=on -device
//! loader,addr=0x40200000,cpu-num=0`. `virt` needs 512 MiB: the arena lies in its second half. The image greets at once;
//! a line that begins with `#` is for humans, and comes only after four seconds in which nobody has spoken
//! (`fathom_metal::parameters`, which [`fathom_metal::parameters::Parameters::patch`] changes in an image).

use crate::failure::Failure;

/// The image, or why there is none.
///
/// # Errors
/// When this program was built where the image could not be.
pub fn embedded() -> Result<&'static [u8], Failure> {
    let built: Result<&'static [u8], &str> = include!(concat!(env!("OUT_DIR"), "/image.rs"));
    built.map_err(|why| {
        let what = format!("this fathom carries no bare-metal image: {why}");
        Failure::new(what, "rustup target add aarch64-unknown-none-softfloat, then build fathom again")
    })
}

#[cfg(test)]
mod tests {
    use fathom_metal::parameters::{Parameters, memory_bytes};

    #[test]
    fn missing_image_is_refused_with_remedy() {
        match super::embedded() {
            Ok(image) => {
                assert_eq!(Parameters::of(image), Ok(Parameters::default()));
                assert!(memory_bytes(image).is_some_and(|bytes| bytes > image.len() as u64));
                println!("the image: {} KiB", image.len() / 1024);
            }
            Err(failure) => assert!(failure.remedy.contains("rustup target add"), "{failure}"),
        }
    }
}
