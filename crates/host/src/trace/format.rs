//! What the kernel says of its own trace records: `events/*/*/format` and `events/header_page`.
//!
//! Both are lists of lines `field:TYPE NAME; offset:N; size:N; signed:N;`. They differ between kernels, so
//! nothing is taken from a header file. All of it is little-endian here: x86-64 and AArch64 Linux are.

/// Fields that are taken from one text. The longest of the kernel's has some thirty.
const MAX_FIELDS: usize = 256;

/// Largest page that is believed, bytes: 64 KiB is the largest base page of the two architectures, and
/// `buffer_subbuf_size_kb` multiplies it by up to 128 (Linux, Documentation/trace/ftrace.rst); one that was
/// set so is refused.
const LARGEST_PAGE: usize = 1 << 20;

/// A field of a record or of a page's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Bytes from the beginning of the record or page.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

impl Field {
    /// The field's bytes; nothing where the record ends before it does.
    pub(crate) fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// The number in the field, its sign not extended: no number that is wanted here is negative.
    pub(crate) fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(wide))
    }

    /// The text that a `__data_loc` field refers to: its length in the upper 16 bits, its offset in the record
    /// in the lower ones (Linux, include/trace/stages/stage1_struct_define.h).
    pub(crate) fn located(self, record: &[u8]) -> Option<&[u8]> {
        let place = self.number(record)?;
        let (offset, size) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
        Field { offset, size }.bytes(record)
    }
}

/// The layout of one kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// What `common_type` holds in its records.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Reads a `format` file; nothing where it has no number.
    pub(crate) fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Format { id, fields: fields(text) })
    }

    /// A field by its name.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(n, _)| n == name).map(|&(_, field)| field)
    }
}

/// The layout of a page of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// The clock when the page was begun.
    pub timestamp: Field,
    /// How much of the page is used, and flags.
    pub commit: Field,
    /// Where its records lie.
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
        (end.is_power_of_two() && end <= LARGEST_PAGE && layout.data.size != 0).then_some(layout)
    }

    /// Bytes of a page, which is also what one read takes.
    pub(crate) fn bytes(&self) -> usize {
        self.data.offset + self.data.size
    }
}

/// Every field of a text.
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
