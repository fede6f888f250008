//! Traces of memory accesses: read from the formats of other programs and from an own one, which is also written.
//!
//! A [`Reader`] returns batches of accesses, in constant memory, and at the end what the trace tells about the program.
//!
//! ```
//! use fathom_trace::{Batch, Reader};
//!
//! let din = "2 401000\n0 7fff0010\n1 7fff0018\n";
//! let mut reader = Reader::open(din.as_bytes(), None, Some(6))?;
//! let mut batch = Batch::default();
//! let mut accesses = Vec::new();
//! while reader.read(&mut batch)? {
//!     accesses.append(&mut batch.accesses);
//! }
//! assert_eq!(accesses.len(), 3);
//! let told = reader.told();
//! assert_eq!((told.run.places[1].pc, told.run.places[1].loads), (0x401000, 1));
//! # Ok::<(), fathom_trace::Error>(())
//! ```
//!
//! | format | module |
//! | --- | --- |
//! | Fathom's own | `own` |
//! | Dinero's din | `din` |
//! | valgrind's lackey | `lackey` |
//! | ChampSim's input | `champsim` |
//! | DynamoRIO's memtrace_simple, and the view of drmemtrace | `memtrace`, `drmemtrace` |
#![forbid(unsafe_code)]

mod batch;
mod champsim;
mod din;
mod drmemtrace;
mod error;
mod format;
mod input;
mod lackey;
mod memtrace;
mod own;
mod places;
mod reader;
mod text;

pub use batch::{Batch, Told};
pub use error::{At, Error};
pub use format::Format;
pub use own::{Header, Writer, end};
pub use reader::Reader;
