//! Rows of transfers: one per transfer, and the engine that moved the data.

use alloc::vec::Vec;

use crate::machine::Attribute;
use crate::machine::dma::{Channel, Maintenance, TransferTimes};
use crate::wire::{Fields, Line, WireError};

/// Transfers per line: twelve columns of up to 20 digits fit in a line.
const ROWS_PER_LINE: usize = 12;

type Column = (&'static str, fn(&TransferTimes) -> u64, fn(&mut TransferTimes, u64));

const COLUMNS: [Column; 12] = [
    ("used", |t| t.used, |t, v| t.used = v),
    ("copy", |t| t.copy, |t, v| t.copy = v),
    ("map", |t| t.map, |t, v| t.map = v),
    ("engine", |t| t.engine, |t, v| t.engine = v),
    ("setup", |t| t.setup, |t, v| t.setup = v),
    ("unmap", |t| t.unmap, |t, v| t.unmap = v),
    ("before", |t| t.before, |t, v| t.before = v),
    ("after", |t| t.after, |t, v| t.after = v),
    ("end", |t| t.end, |t, v| t.end = v),
    ("wrong", |t| t.wrong, |t, v| t.wrong = v),
    ("unverified", |t| u64::from(t.unverified), |t, v| t.unverified = v > 0),
    ("migrated", |t| u64::from(t.migrated), |t, v| t.migrated = v > 0),
];

/// Transfers of one trial, in order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TransferRows {
    /// Number of the trial.
    pub trial: u64,
    /// Engine, clock and buffer; on the first line only.
    pub channel: Option<Channel>,
    /// The transfers.
    pub list: Vec<TransferTimes>,
}

impl TransferRows {
    /// Returns the lines: the column `used` always, other columns if not all 0.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.list.chunks(ROWS_PER_LINE).enumerate().map(|(i, chunk)| self.one_line(i == 0, chunk)).collect()
    }

    fn one_line(&self, is_first: bool, chunk: &[TransferTimes]) -> Line {
        let line = Line::new("moved").int("trial", self.trial);
        let channel = self.channel.filter(|_| is_first);
        let line = channel.into_iter().fold(line, |line, channel| channel.write(line));
        COLUMNS.iter().fold(line, |line, (key, get, _)| {
            let column: Vec<u64> = chunk.iter().map(get).collect();
            let present = *key == "used" || column.iter().any(|v| *v > 0);
            if present { line.list(key, &column) } else { line }
        })
    }

    /// Parses one line of transfers.
    ///
    /// # Errors
    /// When columns differ in length, or a key is unknown or of the wrong kind.
    pub fn read(line: &Line) -> Result<TransferRows, WireError> {
        let mut f = line.fields();
        let trial = f.need_int("trial")?;
        let channel = Channel::read(&mut f)?;
        let mut list: Vec<TransferTimes> = Vec::new();
        for (i, (key, _, set)) in COLUMNS.iter().enumerate() {
            let column = f.list(key)?;
            if i == 0 {
                list.resize(column.len(), TransferTimes::default());
            }
            if !column.is_empty() && column.len() != list.len() {
                return Err(WireError::new("moved: columns of different lengths"));
            }
            list.iter_mut().zip(column).for_each(|(row, value)| set(row, value));
        }
        f.finish()?;
        Ok(TransferRows { trial, channel, list })
    }
}

impl Channel {
    fn write(&self, line: Line) -> Line {
        let mut line = line.token("by", self.engine.token()).int("hz", self.hz).int("chunks", self.chunks);
        for (key, flag) in
            [("cycles", self.cycles), ("coherent", self.coherent), ("substitute", self.substitute)]
        {
            line = if flag { line.int(key, 1) } else { line };
        }
        for (key, token) in [
            ("attribute", self.attribute.map(Attribute::token)),
            ("maintenance", self.maintenance.map(Maintenance::token)),
        ] {
            line = token.into_iter().fold(line, |line, token| line.token(key, token));
        }
        line
    }

    /// Takes the channel's keys from a line; `None` if it has no `by=`.
    fn read(f: &mut Fields<'_>) -> Result<Option<Channel>, WireError> {
        let engine = f.one_of("by")?;
        let (hz, chunks) = (f.int("hz")?, f.int("chunks")?);
        let (cycles, coherent, substitute) = (f.int("cycles")?, f.int("coherent")?, f.int("substitute")?);
        let attribute = f.one_of("attribute")?;
        let maintenance = f.one_of("maintenance")?;
        let is = |flag: Option<u64>| flag.is_some_and(|v| v > 0);
        Ok(engine.map(|engine| Channel {
            hz: hz.unwrap_or(0),
            cycles: is(cycles),
            engine,
            coherent: is(coherent),
            chunks: chunks.unwrap_or(1),
            attribute,
            maintenance,
            substitute: is(substitute),
        }))
    }
}
