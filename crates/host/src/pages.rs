//! Page sizes: those available, and those of existing mappings.

use std::ops::Range;

use crate::procfs::{Root, kilobytes_line};

/// The page sizes of a machine, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSizes {
    /// Base page size, possibly injected.
    pub(crate) base: u64,
    /// Size of a transparent huge page: one entry of the page table's middle level. `None` if the kernel has none.
    pub(crate) huge: Option<u64>,
    /// Whether `base` was injected by the caller and differs from the kernel's page size.
    pub(crate) injected: bool,
}

/// File of the transparent huge page setting.
pub(crate) const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Returns the page sizes, with `inject` instead of the base page. An injected size must be a power of two and a
/// multiple of the real one, because a mapping cannot be finer than the kernel's pages.
pub(crate) fn sizes(root: &Root, real: u64, inject: Option<u64>) -> Result<PageSizes, String> {
    let base = inject.unwrap_or(real);
    if !base.is_power_of_two() || !base.is_multiple_of(real) || base > 1 << 20 {
        return Err(format!(
            "a base page of {base} bytes is not a power of two between this kernel's {real} bytes and 1 MiB"
        ));
    }
    let huge = root
        .number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .filter(|h| h.is_power_of_two() && *h > base);
    Ok(PageSizes { base, huge, injected: base != real })
}

/// Returns the selected value of a setting: `always [madvise] never` gives `madvise`.
pub(crate) fn selected(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// Returns how many bytes of the addresses `range` are backed by huge pages: the sum over the mappings inside it in
/// `/proc/self/smaps`. `None` if the file cannot be read.
pub(crate) fn huge_backed(root: &Root, range: Range<u64>) -> Option<u64> {
    mapped(root, range, "AnonHugePages")
}

/// Returns the resident bytes of the mappings inside `range`, likewise. Zero pages do not count as resident.
pub(crate) fn resident(root: &Root, range: Range<u64>) -> Option<u64> {
    mapped(root, range, "Rss")
}

fn mapped(root: &Root, range: Range<u64>, key: &str) -> Option<u64> {
    let text = root.text("/proc/self/smaps")?;
    let mut inside = false;
    let mut sum = 0;
    for line in text.lines() {
        if let Some((start, end)) = header(line) {
            inside = start >= range.start && end <= range.end;
        } else if inside && let Some(bytes) = kilobytes_line(line, key) {
            sum += bytes;
        }
    }
    Some(sum)
}

/// Returns the entries of `/proc/self/pagemap` for the kernel's pages, of `page` bytes each, at the addresses
/// `range`.
pub(crate) fn page_map(root: &Root, range: &Range<u64>, page: u64) -> Option<Vec<u64>> {
    let length = usize::try_from((range.end - range.start) / page * 8).ok()?;
    let raw = root.bytes_at("/proc/self/pagemap", range.start / page * 8, length)?;
    let (words, _) = raw.as_chunks();
    Some(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// Returns the frames of these pages, by the page map; `None` for a page that is not present. `None` if the frames are hidden from this
/// process.
pub(crate) fn frames(root: &Root, range: &Range<u64>, page: u64) -> Option<Vec<Option<u64>>> {
    let words = page_map(root, range, page)?;
    let frame = |word: &u64| (word >> 63 == 1).then_some(frame_of(*word));
    let frames: Vec<Option<u64>> = words.iter().map(frame).collect();
    frames.iter().flatten().any(|frame| *frame != 0).then_some(frames)
}

/// Returns the frame in an entry of the page map of a page that is present: bits 0 to 54, 0 if it is hidden.
fn frame_of(word: u64) -> u64 {
    word & ((1 << 55) - 1)
}

/// Checks by the page map's entries that all pages are present and share one frame that no process maps exclusively.
/// Returns the finding as text for the record, or the reason why not.
///
/// Bits as in Documentation/admin-guide/mm/pagemap.rst: 63 present, 56 exclusively mapped (not set for a zero page,
/// which belongs to no mapping), 0 to 54 the frame, hidden as 0 from processes without `CAP_SYS_ADMIN`.
pub(crate) fn shared(words: &[u64]) -> Result<&'static str, String> {
    let count = |test: &dyn Fn(u64) -> bool| words.iter().filter(|&&word| test(word)).count();
    let of = words.len();
    match (count(&|word| word >> 63 == 0), count(&|word| word >> 56 & 1 == 1)) {
        (0, 0) if words.iter().all(|&word| frame_of(word) == 0) => {
            Ok("present and not mapped exclusively (pagemap); the frames are hidden")
        }
        (0, 0) if words.iter().all(|&word| frame_of(word) == frame_of(words[0])) => Ok("one frame (pagemap)"),
        (0, 0) => Err(format!("{of} pages that are only read have more than one frame (pagemap)")),
        (0, own) => Err(format!("{own} of {of} pages that are only read have separate frames (pagemap)")),
        (absent, _) => Err(format!("{absent} of {of} pages that were read are not present (pagemap)")),
    }
}

/// Parses the address range of a mapping's first line, `55d0c000-55d0e000 r--p ...`.
fn header(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests;
