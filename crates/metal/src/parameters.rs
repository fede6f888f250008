//! Parameters of the image: a block of fixed layout after the image's header, which can be changed in a built image,
//! such as when it is written to an SD card.
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 64 | 8 | [`MAGIC`] |
//! | 72 | 4 | [`VERSION`] |
//! | 76 | 4 | baud rate of the UART |
//! | 80 | 4 | silence after power-on before the image runs study S0, ms; 0 for never |
//! | 84 | 4 | maximum duration of a trial, ms; 0 for unlimited |
//! | 88 | 4 | bytes of code from the image's start; data follows. Must not be changed |
//! | 92 | 4 | core clock of the described machine that provides the time, kHz (set by fathom-emulate); else 0 |
//!
//! All little-endian. Before it is a header of 64 bytes, with the size of the image in memory at 16 and a word at 56 that
//! identifies the image. For AArch64 it is the header that boot loaders know from Linux
//! (Documentation/arch/arm64/booting.rst), with `ARM\\x64`. Boot loaders of 32-bit ARM need none; the images have
//! `ARM\\x06` and `ARM\\x07` there.

/// Offset of the block in the image, bytes.
pub const BLOCK_OFFSET: usize = 64;
/// First bytes of the block.
pub const MAGIC: [u8; 8] = *b"FATHOMPB";
/// Version of this layout.
pub const VERSION: u32 = 2;
/// Size of the block, bytes.
pub const BLOCK_BYTES: usize = 32;
/// Offsets in the header of the image's memory size and of the word that identifies it.
const MEMORY_SIZE_OFFSET: usize = 16;
const HEADER_MAGIC_OFFSET: usize = 56;
/// That word of each image.
pub const AARCH64_MAGIC: [u8; 4] = *b"ARM\x64";
/// See [`AARCH64_MAGIC`].
pub const ARMV7_MAGIC: [u8; 4] = *b"ARM\x07";
/// See [`AARCH64_MAGIC`].
pub const ARMV6_MAGIC: [u8; 4] = *b"ARM\x06";

/// Parameters that can be changed in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Baud rate of the UART.
    pub baud: u32,
    /// Silence after power-on before the image runs study S0, ms; 0 for never.
    pub silence_ms: u32,
    /// Maximum duration of a trial, ms; 0 for unlimited.
    pub watch_ms: u32,
    /// Core clock of the described machine that provides the time, kHz; 0 if none does. No register reveals that.
    pub described_khz: u32,
}

/// The parameters of an unchanged image: 115,200 baud, as in every boot loader here; 4 s, within which a harness has sent a
/// line; 30 s, several times the duration that any plan gives a trial.
pub const DEFAULTS: Parameters =
    Parameters { baud: 115_200, silence_ms: 4_000, watch_ms: 30_000, described_khz: 0 };

impl Default for Parameters {
    /// Returns [`DEFAULTS`].
    fn default() -> Parameters {
        DEFAULTS
    }
}

impl Parameters {
    /// Returns whether a described machine provides the time.
    #[must_use]
    pub const fn modelled(&self) -> bool {
        self.described_khz > 0
    }

    /// Reads the block of an image.
    ///
    /// # Errors
    /// Returns a message if there is no block of this version.
    pub fn of(image: &[u8]) -> Result<Parameters, &'static str> {
        let block = image
            .get(BLOCK_OFFSET..BLOCK_OFFSET + BLOCK_BYTES)
            .ok_or("the image is shorter than its header")?;
        let word =
            |at: usize| block[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        if block[..8] != MAGIC {
            return Err("not a Fathom image: its parameters do not begin with FATHOMPB");
        }
        if word(8) != VERSION {
            return Err("the image's parameters have another version");
        }
        Ok(Parameters { baud: word(12), silence_ms: word(16), watch_ms: word(20), described_khz: word(28) })
    }

    /// Writes the block of an image.
    ///
    /// # Errors
    /// As for [`Parameters::of`]; the image is then unchanged.
    pub fn patch(&self, image: &mut [u8]) -> Result<(), &'static str> {
        Parameters::of(image)?;
        let words = [(12, self.baud), (16, self.silence_ms), (20, self.watch_ms), (28, self.described_khz)];
        for (at, word) in words {
            image[BLOCK_OFFSET + at..BLOCK_OFFSET + at + 4].copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }
}

/// Returns the word that identifies an image; `None` if it has no header.
#[must_use]
pub fn header_magic(image: &[u8]) -> Option<[u8; 4]> {
    let word = image.get(HEADER_MAGIC_OFFSET..HEADER_MAGIC_OFFSET + 4)?;
    [AARCH64_MAGIC, ARMV7_MAGIC, ARMV6_MAGIC].into_iter().find(|magic| word == magic)
}

/// Returns the memory that an image takes from its load address on, bytes, including memory that is not in the file;
/// `None` if it has no header.
#[must_use]
pub fn memory_bytes(image: &[u8]) -> Option<u64> {
    header_magic(image)?;
    let size = image.get(MEMORY_SIZE_OFFSET..MEMORY_SIZE_OFFSET + 8)?;
    Some(size.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte)))
}

/// Returns the bytes of code from the image's start; `None` if it has no parameters.
#[must_use]
pub fn code_bytes(image: &[u8]) -> Option<usize> {
    Parameters::of(image).ok()?;
    let bytes = image.get(BLOCK_OFFSET + 24..BLOCK_OFFSET + 28)?;
    Some(bytes.iter().rev().fold(0, |word, byte| word << 8 | usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> [u8; 128] {
        let mut image = [0u8; 128];
        image[MEMORY_SIZE_OFFSET..MEMORY_SIZE_OFFSET + 8].copy_from_slice(&0x12_3456u64.to_le_bytes());
        image[56..60].copy_from_slice(b"ARM\x64");
        image[64..72].copy_from_slice(&MAGIC);
        image[72..76].copy_from_slice(&VERSION.to_le_bytes());
        image
    }

    #[test]
    fn patched_parameters_are_read() {
        let mut image = image();
        let requested =
            Parameters { baud: 921_600, silence_ms: 0, watch_ms: 0x0102_0304, described_khz: 1_500_000 };
        requested.patch(&mut image).unwrap();
        assert_eq!(Parameters::of(&image), Ok(requested));
        assert_eq!(image[84..88], [4, 3, 2, 1]);
        assert_eq!(image[92..96], 1_500_000u32.to_le_bytes());
        let others = image[88..92].iter().chain(&image[96..]);
        assert!(others.copied().all(|byte| byte == 0), "nothing else changes");
        image[89] = 0x30;
        assert_eq!(code_bytes(&image), Some(0x3000));
        assert_eq!(memory_bytes(&image), Some(0x12_3456));
    }

    #[test]
    fn non_image_is_not_patched() {
        assert!(Parameters::of(&[0; 40]).is_err());
        let mut other = image();
        other[64] = b'f';
        let before = other;
        assert!(Parameters::default().patch(&mut other).is_err());
        assert_eq!(other, before);
        let mut newer = image();
        newer[72] = 3;
        assert!(Parameters::of(&newer).unwrap_err().contains("version"));
        newer[56] = 0;
        assert_eq!(memory_bytes(&newer), None);
        assert_eq!(header_magic(&newer), None);
        newer[56..60].copy_from_slice(&ARMV6_MAGIC);
        assert_eq!(header_magic(&newer), Some(ARMV6_MAGIC));
    }
}
