//! The bare-metal image embedded in this program.
//!
//! The same image runs on every board (crates/metal). QEMU 7.2 loads it at the address that a board's firmware would
//! use; the options count instructions instead of time:
//! ```text
//! qemu-system-aarch64 -M raspi3b -icount shift=0 -nic none -display none -monitor none -serial stdio -kernel IMAGE
//! qemu-system-aarch64 -M virt -cpu cortex-a53 -m 512M -icount shift=0 -nic none -display none -monitor none \
//!     -serial stdio -kernel IMAGE
//! ```
//!
//! With `-M virt,virtualization=on` the second command enters the image at EL2. At EL3 `-kernel` does not load a
//! kernel; use `-M virt,secure=on -device loader,file=IMAGE,addr=0x40200000,force-raw=on -device
//! loader,addr=0x40200000,cpu-num=0`. `virt` needs 512 MiB, because the arena is in its second half. The image greets
//! immediately. A line that begins with `#` is for humans, and is sent only after four seconds without input
//! (`fathom_metal::parameters`, which [`fathom_metal::parameters::Parameters::patch`] changes in an image).

use crate::failure::Failure;

/// Returns the image, or the reason why there is none.
///
/// # Errors
/// If the image could not be built together with this program.
pub fn embedded() -> Result<&'static [u8], Failure> {
    let built: Result<&'static [u8], &str> = include!(concat!(env!("OUT_DIR"), "/image.rs"));
    built.map_err(|why| {
        let what = format!("this fathom has no bare-metal image: {why}");
        Failure::new(what, "rustup target add aarch64-unknown-none-softfloat, then build fathom again")
    })
}

#[cfg(test)]
mod tests {
    use fathom_metal::parameters::{Parameters, memory_bytes};

    #[test]
    fn image_has_default_parameters_or_its_absence_a_remedy() {
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
