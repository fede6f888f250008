//! Page sizes: which there are, and which were got.

use std::ops::Range;

use crate::read::{Root, kilobytes_line};

/// The page sizes of a machine, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSizes {
    /// The base page, perhaps injected.
    pub(crate) base: u64,
    /// What a transparent huge page has: one entry of the page table's middle level. Absent where the
    /// kernel has none.
    pub(crate) huge: Option<u64>,
    /// Is `base` a wish of the caller and not the kernel's own page?
    pub(crate) injected: bool,
}

/// Where transparent huge pages are switched.
pub(crate) const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The page sizes, with `inject` instead of the base page. An injected size must be a power of two
/// and a multiple of the real one, because a mapping cannot be finer than the kernel's pages.
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

/// The switch's chosen word: `always [madvise] never` gives `madvise`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// Bytes of the addresses `range` that are backed by huge pages, from `/proc/self/smaps`: the sum over
/// the mappings that lie in it. Nothing where the file cannot be read.
pub(crate) fn huge_backed(root: &Root, range: Range<u64>) -> Option<u64> {
    mapped(root, range, "AnonHugePages")
}

/// Resident bytes of the mappings that lie in `range`, likewise. Pages of zeros are not among them.
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

/// The words of `/proc/self/pagemap` for the kernel's own pages, of `page` bytes, under the addresses `range`.
pub(crate) fn page_map(root: &Root, range: &Range<u64>, page: u64) -> Option<Vec<u64>> {
    let length = usize::try_from((range.end - range.start) / page * 8).ok()?;
    let raw = root.bytes_at("/proc/self/pagemap", range.start / page * 8, length)?;
    let (words, _) = raw.as_chunks();
    Some(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// Do these words of the page map say that all pages are present and lie in one frame that nobody has to
/// himself? In words for the record, or why not.
///
/// Bits as in Documentation/admin-guide/mm/pagemap.rst: 63 present, 56 exclusively mapped (not set for a page of
/// zeros, which belongs to no mapping), 0 to 54 the frame, hidden as 0 from whoever lacks `CAP_SYS_ADMIN`.
pub(crate) fn shared(words: &[u64]) -> Result<&'static str, String> {
    let frame = |word: u64| word & ((1 << 55) - 1);
    let count = |test: &dyn Fn(u64) -> bool| words.iter().filter(|&&word| test(word)).count();
    let of = words.len();
    match (count(&|word| word >> 63 == 0), count(&|word| word >> 56 & 1 == 1)) {
        (0, 0) if words.iter().all(|&word| frame(word) == 0) => {
            Ok("present and mapped exclusively by nobody (pagemap); the frames are hidden")
        }
        (0, 0) if words.iter().all(|&word| frame(word) == frame(words[0])) => Ok("one frame (pagemap)"),
        (0, 0) => Err(format!("{of} pages that are only read lie in more than one frame (pagemap)")),
        (0, own) => Err(format!("{own} of {of} pages that are only read have frames of their own (pagemap)")),
        (absent, _) => Err(format!("{absent} of {of} pages that were read are not present (pagemap)")),
    }
}

/// The addresses of a mapping's first line, `55d0c000-55d0e000 r--p ...`.
fn header(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests;
