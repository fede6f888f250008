//! ChampSim's input: a record of 64 bytes for each instruction, little endian (ChampSim, inc/trace_instruction.h).
//!
//! 8 bytes address of the instruction, 1 whether it is a branch, 1 whether that is taken, 2 + 4 registers, 2 x 8 addresses that it
//! writes, 4 x 8 that it reads; 0 is none. Sizes are not known: an access is one within a line.

use fathom_model::Kind;
use fathom_simulation::Entered;

use crate::batch::{BATCH, Batch, Told};
use crate::error::{At, Error};
use crate::input::Input;
use crate::places::Places;

/// Bytes of a record.
const RECORD: usize = 64;
/// Offsets of the flags, of the written and of the read addresses.
const FLAGS: usize = 8;
const WRITTEN: usize = 16;
const READ: usize = 32;
/// Accesses of a record, at most: the instruction and its data.
const MOST: usize = 7;
/// Size of an access that the trace does not tell.
const BYTES: u16 = 1;

/// Whether a trace begins so: flags that are 0 or 1, a branch if one is taken, and no address 0 of an instruction.
pub(crate) fn recognises(start: &[u8]) -> bool {
    let mut records = start.chunks_exact(RECORD).peekable();
    records.peek().is_some() && records.all(is_record)
}

fn is_record(bytes: &[u8]) -> bool {
    let [branch, taken] = [bytes[FLAGS], bytes[FLAGS + 1]];
    branch <= 1 && taken <= 1 && bytes[..8] != [0; 8]
}

/// A trace.
pub(crate) struct Source {
    places: Places,
}

impl Source {
    pub fn new(entered: Option<Entered>) -> Source {
        Source { places: Places::new(entered) }
    }

    fn record(&mut self, bytes: &[u8], batch: &mut Batch) {
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        self.places.executed(number(0), BYTES, batch);
        for at in (READ..RECORD).step_by(8) {
            if number(at) != 0 {
                self.places.accessed(Kind::Load, number(at), BYTES, batch);
            }
        }
        for at in (WRITTEN..READ).step_by(8) {
            if number(at) != 0 {
                self.places.accessed(Kind::Store, number(at), BYTES, batch);
            }
        }
    }
}

impl crate::batch::Source for Source {
    fn read(&mut self, input: &mut Input, batch: &mut Batch) -> Result<bool, Error> {
        while batch.accesses.len() + MOST <= BATCH {
            input.want(RECORD)?;
            let bytes = input.bytes();
            if bytes.is_empty() {
                break;
            }
            if bytes.len() < RECORD {
                let what = format!(
                    "the trace ends within a record: {} bytes, expected {RECORD} for each instruction",
                    bytes.len()
                );
                return Err(Error::new(
                    At::Byte(input.offset()),
                    what,
                    "it has been cut off: make or copy it again",
                ));
            }
            let mut used = 0;
            for record in bytes.chunks_exact(RECORD) {
                if batch.accesses.len() + MOST > BATCH {
                    break;
                }
                if !is_record(record) {
                    let what = "a record whose flags of branches are not 0 or 1, or without an instruction's address; expected \
                                ChampSim's input_instr of 64 bytes";
                    let remedy = "is this a trace of ChampSim? CloudSuite's records have another size";
                    return Err(Error::new(At::Byte(input.offset() + used as u64), what, remedy));
                }
                self.record(record, batch);
                used += RECORD;
            }
            input.used(used);
        }
        Ok(!batch.accesses.is_empty())
    }

    fn told(&mut self) -> Told {
        self.places.told(true)
    }
}
