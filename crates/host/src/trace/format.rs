//! Layout of the kernel's trace records: `events/*/*/format` and `events/header_page`.
//!
//! Both are lists of lines `field:TYPE NAME; offset:N; size:N; signed:N;`. They differ between kernels, so nothing is
//! taken from a header file. All numbers are little-endian, as on every architecture of this crate.

/// Maximum fields that are read from one text. The kernel's longest has some thirty.
const MAX_FIELDS: usize = 256;

/// Largest accepted page, bytes. 64 KiB is the largest base page of the two architectures, and
/// `buffer_subbuf_size_kb` multiplies it by up to 128 (Linux, Documentation/trace/ftrace.rst); such a large page is
/// refused.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// A field of a record or of a page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Offset from the start of the record or page, bytes.
    pub offset: usize,
    /// Size, bytes.
    pub size: usize,
}

impl Field {
    /// Returns the field's bytes; `None` if the record is too short.
    pub(crate) fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Returns the number in the field, without sign extension: no number that is used here is negative.
    pub(crate) fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(wide))
    }

    /// Returns the text that a `__data_loc` field refers to: its length is in the upper 16 bits, its offset in the
    /// record in the lower ones (Linux, include/trace/stages/stage1_struct_define.h).
    pub(crate) fn data_loc(self, record: &[u8]) -> Option<&[u8]> {
        let place = self.number(record)?;
        let (offset, size) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
        Field { offset, size }.bytes(record)
    }
}

/// The layout of one kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// `common_type` of its records.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Parses a `format` file; `None` if it has no id.
    pub(crate) fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Format { id, fields: fields(text) })
    }

    /// Returns the field with this name.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(n, _)| n == name).map(|&(_, field)| field)
    }
}

/// The layout of a page of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// Clock at the start of the page.
    pub timestamp: Field,
    /// Used bytes of the page, and flags.
    pub commit: Field,
    /// Area of its records.
    pub data: Field,
}

impl PageLayout {
    /// Reads `events/header_page`.
    pub(crate) fn parse(text: &str) -> Option<PageLayout> {
        let all = fields(text);
        let field = |name: &str| all.iter().find(|(n, _)| n == name).map(|&(_, field)| field);
        let layout =
            PageLayout { timestamp: field("timestamp")?, commit: field("commit")?, data: field("data")? };
        let end = layout.data.offset.checked_add(layout.data.size)?;
        (end.is_power_of_two() && end <= MAX_PAGE_BYTES && layout.data.size != 0).then_some(layout)
    }

    /// Returns the size of a page, which is also the size of one read, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.data.offset + self.data.size
    }
}

/// Returns all fields of a text.
fn fields(text: &str) -> Vec<(String, Field)> {
    text.lines().filter_map(field).take(MAX_FIELDS).collect()
}

fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix(':')?.parse().ok();
    let field = Field { offset: number("offset")?, size: number("size")? };
    // `char prev_comm[16]`, `void * hrtimer`, `__data_loc char[] name`.
    let name = declared.split_whitespace().next_back()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    (!name.is_empty()).then(|| (name.to_owned(), field))
}

#[cfg(test)]
pub(crate) mod tests;
