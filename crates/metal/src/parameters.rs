//! The parameters in the image: a block of fixed layout behind the image's header, which whoever writes an
//! image to a card may change without building it.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 64 | 8 | [`MAGIC`] |
//! | 72 | 4 | [`VERSION`] |
//! | 76 | 4 | baud rate of the UART |
//! | 80 | 4 | silence after power-on before the image runs study S0 by itself, ms; 0 never |
//! | 84 | 4 | longest that a trial may take, ms; 0 forever |
//! | 88 | 4 | bytes of code from the image's beginning; what follows is data. Not to be changed |
//! | 92 | 4 | 1 where a described machine answers for time (fathom-emulate says so), else 0 |
//!
//! All little-endian. In front of it is the header that boot loaders know from Linux
//! (Documentation/arch/arm64/booting.rst): 64 bytes, with the size of the image in memory at 16 and `ARM\x64` at
//! 56.

/// Where the block begins in the image.
pub const OFFSET: usize = 64;
/// What the block begins with.
pub const MAGIC: [u8; 8] = *b"FATHOMPB";
/// The version of this layout.
pub const VERSION: u32 = 1;
/// Bytes in the block.
pub const BYTES: usize = 32;
/// Where the header says how much memory the image takes, and how it begins to end.
const SIZE_AT: usize = 16;
const HEADER_MAGIC: (usize, [u8; 4]) = (56, *b"ARM\x64");

/// What may be changed in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Baud rate of the UART.
    pub baud: u32,
    /// Silence after power-on before the image runs study S0 by itself, ms; 0: it never does.
    pub silence_ms: u32,
    /// Longest that a trial may take, ms; 0: forever.
    pub watch_ms: u32,
    /// Does a described machine answer for time? No register could say so.
    pub modelled: bool,
}

impl Default for Parameters {
    /// 115,200 baud, as every boot loader here; 4 s, in which a harness has said something; 30 s, several times
    /// what any plan gives a trial.
    fn default() -> Parameters {
        Parameters { baud: 115_200, silence_ms: 4_000, watch_ms: 30_000, modelled: false }
    }
}

impl Parameters {
    /// Reads the block of an image.
    ///
    /// # Errors
    /// A sentence, when there is no block of this version.
    pub fn of(image: &[u8]) -> Result<Parameters, &'static str> {
        let block = image.get(OFFSET..OFFSET + BYTES).ok_or("the image is shorter than its header")?;
        let word =
            |at: usize| block[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        if block[..8] != MAGIC {
            return Err("this is no image of Fathom's: its parameters do not begin with FATHOMPB");
        }
        if word(8) != VERSION {
            return Err("the image's parameters are of another version");
        }
        Ok(Parameters { baud: word(12), silence_ms: word(16), watch_ms: word(20), modelled: word(28) == 1 })
    }

    /// Writes the block of an image.
    ///
    /// # Errors
    /// As of [`Parameters::of`]; the image is left alone.
    pub fn patch(&self, image: &mut [u8]) -> Result<(), &'static str> {
        Parameters::of(image)?;
        let modelled = u32::from(self.modelled);
        for (at, word) in [(12, self.baud), (16, self.silence_ms), (20, self.watch_ms), (28, modelled)] {
            image[OFFSET + at..OFFSET + at + 4].copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }
}

/// Bytes of memory that an image takes from where it is loaded on, with all that it does not carry; `None` where
/// it has no header.
#[must_use]
pub fn memory_bytes(image: &[u8]) -> Option<u64> {
    let (at, magic) = HEADER_MAGIC;
    (image.get(at..at + 4)? == magic).then_some(())?;
    let size = image.get(SIZE_AT..SIZE_AT + 8)?;
    Some(size.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte)))
}

/// Bytes of code from the image's beginning on; `None` where it has no parameters.
#[must_use]
pub fn code_bytes(image: &[u8]) -> Option<usize> {
    Parameters::of(image).ok()?;
    let bytes = image.get(OFFSET + 24..OFFSET + 28)?;
    Some(bytes.iter().rev().fold(0, |word, byte| word << 8 | usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> [u8; 128] {
        let mut image = [0u8; 128];
        image[SIZE_AT..SIZE_AT + 8].copy_from_slice(&0x12_3456u64.to_le_bytes());
        image[56..60].copy_from_slice(b"ARM\x64");
        image[64..72].copy_from_slice(&MAGIC);
        image[72..76].copy_from_slice(&VERSION.to_le_bytes());
        image
    }

    #[test]
    fn patched_parameters_are_read() {
        let mut image = image();
        let wanted = Parameters { baud: 921_600, silence_ms: 0, watch_ms: 0x0102_0304, modelled: true };
        wanted.patch(&mut image).unwrap();
        assert_eq!(Parameters::of(&image), Ok(wanted));
        assert_eq!(image[84..88], [4, 3, 2, 1]);
        assert_eq!(image[92..96], [1, 0, 0, 0]);
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
        newer[72] = 2;
        assert!(Parameters::of(&newer).unwrap_err().contains("version"));
        newer[56] = 0;
        assert_eq!(memory_bytes(&newer), None);
    }
}
