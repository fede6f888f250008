//! Excerpts: which part of a command's output a document shows, and the same part of another output.
//!
//! A line `...` stands for any lines. What stands between two of them is a segment. A segment of the document
//! is found again in a new output by its first line and its last one, so that no author has to cut by hand (and
//! no reader sees a command that cuts) when figures, rows or columns change.

/// A line of the document that stands for any lines of the output.
pub const ANY: &str = "...";

/// The lines to show of `printed`, cut as `shown` was cut from an older output.
///
/// # Errors
///
/// The line with which a segment began, where nothing like it is printed.
pub fn recut(shown: &[String], printed: &str) -> Result<Vec<String>, String> {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    if !shown.iter().any(|line| line == ANY) {
        return Ok(printed.iter().map(|line| (*line).to_owned()).collect());
    }
    let mut out: Vec<String> = Vec::new();
    let mut from = 0;
    let segments: Vec<&[String]> = shown.split(|line| line == ANY).collect();
    for (n, segment) in segments.iter().enumerate() {
        if n > 0 {
            out.push(ANY.to_owned());
        }
        let segment = trimmed(segment);
        let (Some(first), Some(last)) = (segment.first(), segment.last()) else { continue };
        let start = if n == 0 {
            0
        } else {
            from + like(first, &printed[from..]).ok_or_else(|| {
                format!("the excerpt begins with {first:?}, and no such line is printed: cut it anew")
            })?
        };
        let end = if n + 1 == segments.len() {
            printed.len()
        } else if segment.len() == 1 {
            start + 1
        } else {
            let breaks = segment.iter().filter(|line| line.is_empty()).count();
            end(last, breaks, start, &printed)
        };
        out.extend(printed[start..end].iter().map(|line| kept(line, segment)));
        from = end;
    }
    Ok(out)
}

/// A segment without the blank lines round it.
fn trimmed(segment: &[String]) -> &[String] {
    let begin = segment.iter().position(|line| !line.is_empty()).unwrap_or(segment.len());
    let end = segment.iter().rposition(|line| !line.is_empty()).map_or(begin, |n| n + 1);
    &segment[begin..end]
}

/// A printed line as the document had it, where that leaves a part of it open.
fn kept(line: &str, segment: &[String]) -> String {
    let open = segment.iter().find(|shown| shown.contains("[..]") && super::block::one(shown, line));
    open.map_or_else(|| line.to_owned(), Clone::clone)
}

/// The line most like `wanted`: the same, else the one of the same shape that shares most words with it, else the
/// one that shares most and at least half.
fn like(wanted: &str, lines: &[&str]) -> Option<usize> {
    let exact = lines.iter().position(|line| *line == wanted || super::block::one(wanted, line));
    let alike = |least: f64, same: &dyn Fn(&str) -> bool| {
        let mut best: Option<(usize, f64)> = None;
        for (n, line) in lines.iter().enumerate().filter(|(_, line)| same(line)) {
            let words = shared(wanted, line);
            if words >= best.map_or(least, |(_, most)| most + f64::EPSILON) {
                best = Some((n, words));
            }
        }
        best.map(|(n, _)| n)
    };
    exact.or_else(|| alike(0.0, &|line| shape(line) == shape(wanted))).or_else(|| alike(0.5, &|_| true))
}

/// The end of a segment that begins at `start` and has so many blank lines inside: behind its last line where
/// that is found in the paragraph, else behind the paragraph.
fn end(last: &str, breaks: usize, start: usize, printed: &[&str]) -> usize {
    let paragraph = |from: usize| {
        printed[from..].iter().position(|line| line.is_empty()).map_or(printed.len(), |n| from + n)
    };
    let mut begin = start;
    for _ in 0..breaks {
        begin = (paragraph(begin) + 1).min(printed.len());
    }
    let end = paragraph(begin);
    let begin = begin.max(start + 1).min(end);
    let exact = printed[begin..end].iter().position(|line| *line == last);
    let shape = || printed[begin..end].iter().rposition(|line| shape(line) == shape(last));
    exact.or_else(shape).map_or(end, |n| begin + n + 1)
}

/// A line without its numbers and the width of its gaps.
fn shape(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        let c = match c {
            '0'..='9' | '.' => '0',
            ' ' => ' ',
            '─' | '═' | '-' => '-',
            other => other,
        };
        if !(matches!(c, '0' | ' ' | '-') && out.ends_with(c)) {
            out.push(c);
        }
    }
    out
}

/// The share of words that two lines have in common, of the one that has more.
fn shared(a: &str, b: &str) -> f64 {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (words(a), words(b));
    let longer = a.len().max(b.len());
    if longer == 0 {
        return 0.0;
    }
    a.iter().filter(|word| b.contains(word)).count() as f64 / longer as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    const PRINTED: &str =
        "survey: a machine\n\nTiers\ntier  ns\n────────\n   1  1.5\n   2  6.5\n   3   80\n\nClaims\nnone\n";

    #[test]
    fn a_segment_is_found_again_when_its_figures_and_rows_change() {
        let shown = lines("...\nTiers\ntier  ns\n───────\n   1  1.4\n   2  6.6\n...");
        let want = lines("...\nTiers\ntier  ns\n────────\n   1  1.5\n   2  6.5\n   3   80\n...");
        assert_eq!(recut(&shown, PRINTED), Ok(want));
    }

    #[test]
    fn excerpt_ends_at_paragraph_without_last_line() {
        let want = lines("...\nTiers\ntier  ns\n────────\n   1  1.5\n...");
        assert_eq!(recut(&lines("...\nTiers\n   1  1.5\n..."), PRINTED), Ok(want));
        let all = lines("...\nTiers\ntier  ns\n────────\n   1  1.5\n   2  6.5\n   3   80\n...");
        assert_eq!(recut(&lines("...\nTiers\nx\n..."), PRINTED), Ok(all));
    }

    #[test]
    fn excerpt_segment_may_span_paragraphs_and_touch_either_end() {
        assert_eq!(recut(&lines("survey: another\n..."), PRINTED), Ok(lines("survey: a machine\n...")));
        assert_eq!(recut(&lines("...\nClaims\nsome"), PRINTED), Ok(lines("...\nClaims\nnone")));
        let want = lines("...\n   3   80\n\nClaims\nnone\n...");
        assert_eq!(recut(&lines("...\n   3   80\n\nnone\n..."), PRINTED), Ok(want));
    }

    #[test]
    fn excerpt_keeps_single_lines_and_open_ends() {
        assert_eq!(recut(&lines("...\n   2  6.6\n..."), PRINTED), Ok(lines("...\n   2  6.5\n...")));
        assert_eq!(recut(&lines("...\n   2  [..]\n..."), PRINTED), Ok(lines("...\n   2  [..]\n...")));
    }

    #[test]
    fn excerpt_finds_reworded_line_and_reports_missing_line() {
        let text = "Claims and measurements, reported\nx\n";
        let shown = lines("...\nClaims beside measurements, reported\nx\n...");
        assert_eq!(recut(&shown, text).unwrap()[1], "Claims and measurements, reported");
        assert!(recut(&lines("...\nPrefetch\nx\n..."), PRINTED).unwrap_err().contains("Prefetch"));
    }
}
