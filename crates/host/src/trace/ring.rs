//! Records of one page of the kernel's ring buffer, as read from `trace_pipe_raw`.
//!
//! A page is a header (`events/header_page`) and consecutive records. Each record begins with a word: five bits of
//! type, 27 bits of time since the previous record (`events/header_event`; Linux, include/linux/ring_buffer.h).
//! Parsing ends for any bytes: each step advances by at least a word, and a step beyond the page is the last.

use super::format::PageLayout;

/// Types of records that are not data (`enum ring_buffer_type`).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of time in a record's first word (`TS_SHIFT`).
const TIME_BITS: u32 = 27;

/// An absolute time has 59 bits; the higher bits are those of the previous time (`rb_fix_abs_ts`).
const STAMP_BITS: u32 = 59;

/// Bits of `commit` that are a length (`COMMIT_MASK` of libtraceevent's kbuffer).
const LENGTH_MASK: u64 = (1 << 27) - 1;

/// Bits of `commit`: records were lost before this page (`RB_MISSED_EVENTS`), and their number follows its last
/// record (`RB_MISSED_STORED`).
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Time, in ns of the trace clock.
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

/// Returns a page's records and the number of records lost before it. The number is 1 if the page has no exact
/// number.
pub(crate) fn records<'a>(page: &'a [u8], layout: &PageLayout) -> Option<(Records<'a>, u64)> {
    let ns = layout.timestamp.number(page)?;
    let commit = layout.commit.number(page)?;
    let area = layout.data.bytes(page)?;
    let used = usize::try_from(commit & LENGTH_MASK).ok()?.min(area.len());
    let (data, rest) = area.split_at(used);
    let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
        (false, _) => 0,
        (true, true) => rest.first_chunk().map_or(1, |word| u64::from_le_bytes(*word)),
        (true, false) => 1,
    };
    Some((Records { data, at: 0, ns }, missed))
}

impl<'a> Records<'a> {
    fn word(&self, at: usize) -> Option<u32> {
        self.data.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }

    /// Returns the bytes from `from` on, and advances to the next record, which begins at a whole word.
    fn take(&mut self, from: usize, length: usize) -> Option<&'a [u8]> {
        let data = self.data.get(from..from.checked_add(length)?)?;
        self.at = from.checked_add(length.checked_next_multiple_of(4)?)?;
        Some(data)
    }

    /// Advances by one record; the inner value is `None` if it is not data.
    fn step(&mut self) -> Option<Option<Record<'a>>> {
        let first_word = self.word(self.at)?;
        let (kind, time) = (first_word & 31, u64::from(first_word >> 5));
        let body = self.at + 4;
        let wide = |high: u32| u64::from(high) << TIME_BITS | time;
        match kind {
            // Without a time it fills the rest of the page. With one it is a discarded record, whose time still
            // counts, because the next record's time is relative to it.
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
                // A long record has its length in a separate word, which includes that word.
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
                    // Data after an unreadable record have no meaning.
                    self.at = self.data.len();
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
