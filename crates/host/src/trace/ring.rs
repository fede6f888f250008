//! The records of one page of the kernel's ring buffer, as `trace_pipe_raw` hands it out.
//!
//! A page is a head (`events/header_page`) and records behind one another. Each begins with a word: five bits
//! of kind, 27 of time since the record before (`events/header_event`; Linux, include/linux/ring_buffer.h).
//! Any bytes are read to some end: each step goes forward by a word at least, and one that would leave the page
//! is the last.

use super::format::PageLayout;

/// Kinds of records that are not data (`enum ring_buffer_type`).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of time in a record's first word (`TS_SHIFT`).
const TIME_BITS: u32 = 27;

/// An absolute time has 59 bits; the others are those of the time before (`rb_fix_abs_ts`).
const STAMP_BITS: u32 = 59;

/// The part of `commit` that is a length (`COMMIT_MASK` of libtraceevent's kbuffer).
const LENGTH: u64 = (1 << 27) - 1;

/// In `commit`: records were lost before this page (`RB_MISSED_EVENTS`), and their number stands behind its
/// last record (`RB_MISSED_STORED`).
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// When, in ns of the trace's clock.
    pub ns: u64,
    /// The event: `common_type` and so on.
    pub data: &'a [u8],
}

/// The records of a page, in order.
#[derive(Clone, Debug)]
pub(crate) struct Records<'a> {
    data: &'a [u8],
    at: usize,
    ns: u64,
}

/// A page's records and how many were lost before it, where the page says so. The number is 1 where it
/// says only that there were some.
pub(crate) fn records<'a>(page: &'a [u8], layout: &PageLayout) -> Option<(Records<'a>, u64)> {
    let ns = layout.timestamp.number(page)?;
    let commit = layout.commit.number(page)?;
    let whole = layout.data.bytes(page)?;
    let used = usize::try_from(commit & LENGTH).ok()?.min(whole.len());
    let (data, behind) = whole.split_at(used);
    let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
        (false, _) => 0,
        (true, true) => behind.first_chunk().map_or(1, |word| u64::from_le_bytes(*word)),
        (true, false) => 1,
    };
    Some((Records { data, at: 0, ns }, missed))
}

impl<'a> Records<'a> {
    fn word(&self, at: usize) -> Option<u32> {
        self.data.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }

    /// The bytes from `from` on, and on to the record behind them, which begins at a whole word.
    fn take(&mut self, from: usize, length: usize) -> Option<&'a [u8]> {
        let data = self.data.get(from..from.checked_add(length)?)?;
        self.at = from.checked_add(length.checked_next_multiple_of(4)?)?;
        Some(data)
    }

    /// One step; nothing inside where it was no data.
    fn step(&mut self) -> Option<Option<Record<'a>>> {
        let head = self.word(self.at)?;
        let (kind, time) = (head & 31, u64::from(head >> 5));
        let body = self.at + 4;
        let wide = |high: u32| u64::from(high) << TIME_BITS | time;
        match kind {
            // Without a time it fills the page up; with one it is a record that was taken back, whose time
            // counts all the same, because the next one's is told from it.
            PADDING if time == 0 => return None,
            PADDING => {
                let length = self.word(body)?;
                self.ns = self.ns.wrapping_add(time);
                self.take(body, length.max(4) as usize)?;
            }
            TIME_EXTEND => {
                self.ns = self.ns.wrapping_add(wide(self.word(body)?));
                self.at = body + 4;
            }
            TIME_STAMP => {
                let stamp = wide(self.word(body)?) | self.ns >> STAMP_BITS << STAMP_BITS;
                let wrapped = stamp < self.ns;
                self.ns = if wrapped { stamp.wrapping_add(1 << STAMP_BITS) } else { stamp };
                self.at = body + 4;
            }
            _ => {
                // A long record has its length in a word of its own, which counts itself.
                let (from, length) = match kind {
                    0 => (body + 4, self.word(body)?.checked_sub(4)?),
                    words => (body, words * 4),
                };
                self.ns = self.ns.wrapping_add(time);
                let data = self.take(from, length as usize)?;
                return Some(Some(Record { ns: self.ns, data }));
            }
        }
        Some(None)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            match self.step() {
                Some(Some(record)) => return Some(record),
                Some(None) => {}
                None => {
                    // What comes behind a record that cannot be read has no meaning.
                    self.at = self.data.len();
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
