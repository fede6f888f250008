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

/// The page sizes, with `inject` in the place of the base page. An injected size must be a power of two
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
    let text = root.text("/proc/self/smaps")?;
    let mut inside = false;
    let mut sum = 0;
    for line in text.lines() {
        if let Some((start, end)) = header(line) {
            inside = start >= range.start && end <= range.end;
        } else if inside && let Some(bytes) = kilobytes_line(line, "AnonHugePages") {
            sum += bytes;
        }
    }
    Some(sum)
}

/// The addresses of a mapping's first line, `55d0c000-55d0e000 r--p ...`.
fn header(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests;
