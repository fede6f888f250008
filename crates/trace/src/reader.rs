//! A trace of any format.

use std::io::Read;

use fathom_simulation::Entered;

use crate::batch::{Batch, Source, Told};
use crate::error::{At, Error};
use crate::format::Format;
use crate::input::Input;
use crate::text::Text;
use crate::{champsim, din, drmemtrace, lackey, memtrace, own};

/// Bytes by which a format is recognised.
const START: usize = 4096;

/// A trace that is read.
pub struct Reader {
    format: Format,
    input: Input,
    source: Box<dyn Source>,
}

impl Reader {
    /// Begins to read a trace. Its format is recognised if it is not given. Instruction fetches are returned when execution
    /// enters another line of 2^`fetch_shift` bytes; with `None` there are none.
    ///
    /// # Errors
    /// The format is unknown, or the trace is wrong at its beginning.
    pub fn open(
        source: impl Read + Send + 'static,
        format: Option<Format>,
        fetch_shift: Option<u32>,
    ) -> Result<Reader, Error> {
        let mut input = Input::new(source)?;
        input.want(START)?;
        let Some(format) = format.or_else(|| Format::of(input.bytes())) else {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            let what = match input.bytes().is_empty() {
                true => "the trace is empty".to_owned(),
                false => format!("the format of this trace is none of {}", names.join(", ")),
            };
            return Err(Error::new(At::Byte(0), what, "name it with --trace-format, or convert the trace"));
        };
        let entered = fetch_shift.map(Entered::new);
        let source: Box<dyn Source> = match format {
            Format::Fathom => Box::new(own::Source::open(&mut input, fetch_shift)?),
            Format::Din => Box::new(Text::new(din::Din, entered)),
            Format::Lackey => Box::new(Text::new(lackey::Lackey, entered)),
            Format::ChampSim => Box::new(champsim::Source::new(entered)),
            // It has only the instructions that access memory.
            Format::Memtrace => Box::new(Text::new(memtrace::Memtrace, None)),
            Format::DrMemtrace => Box::new(Text::new(drmemtrace::DrMemtrace::default(), entered)),
        };
        Ok(Reader { format, input, source })
    }

    /// Returns the format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns whether the accesses are those of a guest: [`Access::space`](fathom_model::Access::space) is the number of the physical
    /// page, and a batch has at most [`GUEST_BATCH`](fathom_model::GUEST_BATCH) accesses.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.source.is_guest()
    }

    /// Replaces the batch by the next one. Returns `false` at the end.
    ///
    /// # Errors
    /// What is wrong with the trace, where, and what was expected.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        batch.accesses.clear();
        (batch.mark, batch.heap) = (None, None);
        self.source.read(&mut self.input, batch)
    }

    /// Returns what the trace tells besides its accesses, as far as it has been read.
    #[must_use]
    pub fn told(mut self) -> Told {
        self.source.told()
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("format", &self.format).finish_non_exhaustive()
    }
}
