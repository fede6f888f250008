//! The formats, and how each is recognised.

use crate::{champsim, din, drmemtrace, lackey, memtrace, own};

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Fathom's own.
    Fathom,
    /// Dinero's: a label and an address on each line.
    Din,
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// ChampSim's records of 64 bytes.
    ChampSim,
    /// The text of DynamoRIO's sample `memtrace_simple`.
    Memtrace,
    /// The text of DynamoRIO's `drmemtrace` viewer.
    DrMemtrace,
}

impl Format {
    /// All of them, in the order in which they are recognised.
    pub const ALL: [Format; 6] =
        [Format::Fathom, Format::Lackey, Format::DrMemtrace, Format::Memtrace, Format::Din, Format::ChampSim];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Fathom => "fathom",
            Format::Din => "din",
            Format::Lackey => "lackey",
            Format::ChampSim => "champsim",
            Format::Memtrace => "memtrace",
            Format::DrMemtrace => "drmemtrace",
        }
    }

    /// Returns the format of this name.
    ///
    /// # Errors
    /// The names, if there is none.
    pub fn named(name: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("one of: {}", names.join(", "))
        })
    }

    /// Returns the format of a trace that begins with these bytes, if it is one that is known.
    pub(crate) fn of(start: &[u8]) -> Option<Format> {
        Format::ALL.into_iter().find(|format| match format {
            Format::Fathom => own::recognises(start),
            Format::Din => din::recognises(start),
            Format::Lackey => lackey::recognises(start),
            Format::ChampSim => champsim::recognises(start),
            Format::Memtrace => memtrace::recognises(start),
            Format::DrMemtrace => drmemtrace::recognises(start),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        for format in Format::ALL {
            assert_eq!(Format::named(format.name()), Ok(format));
        }
        assert!(Format::named("pin").unwrap_err().contains("lackey"));
    }

    #[test]
    fn beginnings_are_recognised() {
        let mut record = [0; 64];
        record[..8].copy_from_slice(&0x40_1000u64.to_le_bytes());
        for (start, format) in [
            (&b"0 1000\n1 2000\n"[..], Some(Format::Din)),
            (b" 2   401000 note\n", Some(Format::Din)),
            (b"==12== Lackey, an example Valgrind tool\n==12== \n", Some(Format::Lackey)),
            (b"I  04001234,3\n S 1ffe,8\n", Some(Format::Lackey)),
            (b" L 1ffe,8\n", Some(Format::Lackey)),
            (b"Format: <data address>: <data size>, <(r)ead/(w)rite/opcode>\n", Some(Format::Memtrace)),
            (b"0x00007f59c2d002d3:  5, call\n", Some(Format::Memtrace)),
            (
                b"Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n",
                Some(Format::DrMemtrace),
            ),
            (b"           1           0:     2765542 <marker: version 5>\n", Some(Format::DrMemtrace)),
            (&record, Some(Format::ChampSim)),
            (b"fathom trace\n", Some(Format::Fathom)),
            (b"hello, world\n", None),
            (b"", None),
        ] {
            assert_eq!(Format::of(start), format, "{:?}", String::from_utf8_lossy(start));
        }
    }
}
