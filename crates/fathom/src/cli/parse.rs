//! Parsers of values that belong to no experiment: times and shares, with error messages that show the format.

/// Parses the time of a session: `3s`, `500ms`, `2m` or plain seconds; returns ms.
pub(super) fn budget(text: &str) -> Result<u64, String> {
    let ms = milliseconds(text)?;
    if (100.0..=3_600_000.0).contains(&ms) {
        Ok(ms as u64)
    } else {
        Err("must be from 100ms to 60m".to_owned())
    }
}

/// Parses a time to wait, which may be 0; returns ms.
pub fn wait(text: &str) -> Result<u64, String> {
    let ms = milliseconds(text)?;
    if (0.0..=3_600_000.0).contains(&ms) { Ok(ms as u64) } else { Err("must be from 0s to 60m".to_owned()) }
}

/// Parses a time; returns ms.
pub fn milliseconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1.0,
        "s" | "" => 1000.0,
        "m" | "min" => 60_000.0,
        unit => return Err(format!("unknown unit '{unit}': use ms, s or m, as in 500ms, 3s, 2m")),
    };
    let value: f64 = digits.parse().map_err(|_| "expected a time such as 500ms, 3s, 2m".to_owned())?;
    Ok(value * factor)
}

/// Parses `5%` or `5`; returns a share.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(v) if (0.0..=1e6).contains(&v) => Ok(v / 100.0),
        _ => Err(format!("'{text}' is not a percentage; an example: 5%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_have_units_and_bounds() {
        assert_eq!(budget("3s"), Ok(3000));
        assert_eq!(budget("0.5s"), Ok(500));
        assert_eq!(budget("2m"), Ok(120_000));
        assert_eq!(budget("10"), Ok(10_000));
        assert_eq!(wait("0"), Ok(0));
        for bad in ["61m", "-1s", "nan"] {
            assert!(wait(bad).is_err(), "{bad}");
        }
        for bad in ["", "s", "3h", "1ms", "2000m", "-3s", "nan"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }
}
