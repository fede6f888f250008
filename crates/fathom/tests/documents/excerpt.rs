//! Excerpts: the part of a command's output that a document shows, and the same part of another output.
//!
//! A line `...` matches any lines. The lines between two of them are a segment. The first and the last line of a
//! segment are searched in the new output, so that excerpts are updated automatically when figures, rows or columns
//! change.

/// A line of the document that matches any lines of the output.
pub const ANY: &str = "...";

/// Returns the lines of `printed` to show, cut as `shown` was cut from an older output.
///
/// # Errors
///
/// Returns the first line of a segment if no similar line was printed.
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
            from + most_similar(first, &printed[from..]).ok_or_else(|| {
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

/// Returns a segment without leading and trailing blank lines.
fn trimmed(segment: &[String]) -> &[String] {
    let begin = segment.iter().position(|line| !line.is_empty()).unwrap_or(segment.len());
    let end = segment.iter().rposition(|line| !line.is_empty()).map_or(begin, |n| n + 1);
    &segment[begin..end]
}

/// Returns the document's line if it has a wildcard and matches the printed line, else the printed line.
fn kept(line: &str, segment: &[String]) -> String {
    let open = segment.iter().find(|shown| shown.contains("[..]") && super::block::one(shown, line));
    open.map_or_else(|| line.to_owned(), Clone::clone)
}

/// Returns the line most similar to `expected`: an equal one, else the line of the same shape with most words in
/// common, else the line with most words in common if these are at least half.
fn most_similar(expected: &str, lines: &[&str]) -> Option<usize> {
    let exact = lines.iter().position(|line| *line == expected || super::block::one(expected, line));
    let best_match = |minimum: f64, same: &dyn Fn(&str) -> bool| {
        let mut best: Option<(usize, f64)> = None;
        for (n, line) in lines.iter().enumerate().filter(|(_, line)| same(line)) {
            let words = shared(expected, line);
            if words >= best.map_or(minimum, |(_, best_share)| best_share + f64::EPSILON) {
                best = Some((n, words));
            }
        }
        best.map(|(n, _)| n)
    };
    exact
        .or_else(|| best_match(0.0, &|line| shape(line) == shape(expected)))
        .or_else(|| best_match(0.5, &|_| true))
}

/// Returns the end of a segment that begins at `start` and has `breaks` blank lines inside: after its last line if this
/// is in the paragraph, else after the paragraph.
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

/// Returns a line without its numbers and the width of its gaps.
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

/// Returns the number of common words as a share of the words of the longer line.
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
    fn recut_follows_changed_figures_and_rows() {
        let shown = lines("...\nTiers\ntier  ns\n───────\n   1  1.4\n   2  6.6\n...");
        let expected = lines("...\nTiers\ntier  ns\n────────\n   1  1.5\n   2  6.5\n   3   80\n...");
        assert_eq!(recut(&shown, PRINTED), Ok(expected));
    }

    #[test]
    fn excerpt_ends_at_paragraph_without_last_line() {
        let expected = lines("...\nTiers\ntier  ns\n────────\n   1  1.5\n...");
        assert_eq!(recut(&lines("...\nTiers\n   1  1.5\n..."), PRINTED), Ok(expected));
        let all = lines("...\nTiers\ntier  ns\n────────\n   1  1.5\n   2  6.5\n   3   80\n...");
        assert_eq!(recut(&lines("...\nTiers\nx\n..."), PRINTED), Ok(all));
    }

    #[test]
    fn excerpt_segment_may_span_paragraphs_and_touch_either_end() {
        assert_eq!(recut(&lines("survey: another\n..."), PRINTED), Ok(lines("survey: a machine\n...")));
        assert_eq!(recut(&lines("...\nClaims\nsome"), PRINTED), Ok(lines("...\nClaims\nnone")));
        let expected = lines("...\n   3   80\n\nClaims\nnone\n...");
        assert_eq!(recut(&lines("...\n   3   80\n\nnone\n..."), PRINTED), Ok(expected));
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
