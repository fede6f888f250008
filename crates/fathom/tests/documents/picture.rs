//! The picture of the README: the latency curve of the committed record, drawn from the findings that `fathom report
//! --json` prints. A test compares the committed file with it.

use std::fmt::Write as _;

use serde_json::Value;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 460.0;
/// The area of the curve: left, top, right, bottom.
const AREA: [f64; 4] = [64.0, 96.0, 920.0, 388.0];
const CURVE: &str = "#0072b2";
const TRANSLATION: &str = "#d55e00";
const REPORTED: &str = "#8a4f7d";
const TEXT: &str = "#16232e";
const FAINT: &str = "#5b6975";
/// Minimum of the drawn translation times, in ns: smaller ones are noise of the pairs.
const MIN_ADDED_NS: f64 = 0.5;

/// One measured point: bytes, ns, and the ends of its 95 % interval.
struct Point {
    bytes: f64,
    ns: f64,
    low: f64,
    high: f64,
}

/// Data of the picture.
struct Survey {
    machine: String,
    /// The latency curve, by increasing size.
    curve: Vec<Point>,
    /// Latency that translation adds, by bytes of base pages.
    translation: Vec<Point>,
    /// Per tier: latency in ns, and capacity in bytes if known.
    tiers: Vec<(f64, Option<f64>)>,
    /// Per reported cache level for data: number and bytes.
    reported: Vec<(usize, f64)>,
}

/// Returns the picture as SVG.
///
/// # Errors
///
/// Returns the missing finding or fact.
pub fn draw(json: &str) -> Result<String, String> {
    let report: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
    let survey = survey(&report)?;
    let scale = Scale::of(&survey);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" role=\"img\">\n\
         <title>Time of one dependent load by working set</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    label(&mut svg, [AREA[0], 28.0], "start", TEXT, 18, "Time of one dependent load by working set");
    label(&mut svg, [AREA[0], 50.0], "start", FAINT, 13, &survey.machine);
    bands(&mut svg, &survey, &scale);
    grid(&mut svg, &scale);
    reported(&mut svg, &survey, &scale);
    line(&mut svg, &survey.translation, &scale, TRANSLATION, " stroke-dasharray=\"6 4\"");
    line(&mut svg, &survey.curve, &scale, CURVE, "");
    points(&mut svg, &survey, &scale);
    legend(&mut svg);
    svg += "</svg>\n";
    Ok(svg)
}

/// Reads the data of the picture from the findings.
fn survey(report: &Value) -> Result<Survey, String> {
    let findings = report["findings"].as_array().ok_or("no findings")?;
    let number = |name: &str| findings.iter().find(|f| f["name"] == name).and_then(|f| f["value"].as_f64());
    let points = |first: &str, last: &str, unit: f64| {
        let mut points: Vec<Point> = findings.iter().filter_map(|f| point(f, first, last, unit)).collect();
        points.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        points
    };
    let curve = points("latency.", ".time", 1.0);
    if curve.len() < 10 {
        return Err(format!("{} points are no latency curve", curve.len()));
    }
    let facts = &report["subject"]["facts"];
    let page = facts["page.base"].as_str().and_then(|bytes| bytes.parse::<f64>().ok());
    let page = page.ok_or("no size of a base page")?;
    let mut translation = points("translation.", ".added", page);
    translation.retain(|p| p.ns >= MIN_ADDED_NS);
    let tiers = (1..)
        .map_while(|n| Some((number(&format!("tier.{n}.latency"))?, number(&format!("tier.{n}.capacity")))))
        .collect();
    let reported =
        (1..=4).filter_map(|n| Some((n, number(&format!("claim.sysfs.level.{n}.size"))?))).collect();
    let cpu = facts["env.cpu.model"].as_str().unwrap_or("unknown CPU");
    let guest = if report["subject"]["trust"] == "virtual" { ", a guest" } else { "" };
    let seconds = report["elapsed_s"].as_f64().unwrap_or_default();
    Ok(Survey {
        machine: format!("{cpu}{guest}; {} points in {seconds:.1} s", curve.len()),
        curve,
        translation,
        tiers,
        reported,
    })
}

/// Returns a finding as a point, if its name is a size between `first` and `last`.
fn point(finding: &Value, first: &str, last: &str, unit: f64) -> Option<Point> {
    let size = finding["name"].as_str()?.strip_prefix(first)?.strip_suffix(last)?;
    let ns = finding["value"].as_f64()?;
    let end = |key: &str| finding[key].as_f64().unwrap_or(ns);
    Some(Point { bytes: size.parse::<f64>().ok()? * unit, ns, low: end("low"), high: end("high") })
}

/// Both axes, logarithmic.
struct Scale {
    bytes: [f64; 2],
    ns: [f64; 2],
}

impl Scale {
    /// Returns axes that include everything drawn, with room above the curve for the labels.
    fn of(survey: &Survey) -> Scale {
        let all = || survey.curve.iter().chain(&survey.translation);
        let largest = survey.reported.iter().map(|r| r.1).chain(all().map(|p| p.bytes)).fold(0.0, f64::max);
        let smallest = all().map(|p| p.bytes).fold(largest, f64::min);
        let low = all().map(|p| p.low.max(MIN_ADDED_NS)).fold(f64::MAX, f64::min);
        let high = all().map(|p| p.high).fold(0.0, f64::max);
        Scale { bytes: [smallest, largest], ns: [low / 1.3, high * 2.2] }
    }

    fn x(&self, bytes: f64) -> f64 {
        let part = (bytes / self.bytes[0]).ln() / (self.bytes[1] / self.bytes[0]).ln();
        AREA[0] + part.clamp(0.0, 1.0) * (AREA[2] - AREA[0])
    }

    fn y(&self, ns: f64) -> f64 {
        let part = (ns / self.ns[0]).ln() / (self.ns[1] / self.ns[0]).ln();
        AREA[3] - part.clamp(0.0, 1.0) * (AREA[3] - AREA[1])
    }
}

/// Draws one band per tier, with its latency and its capacity.
fn bands(svg: &mut String, survey: &Survey, scale: &Scale) {
    let mut left = AREA[0];
    for (n, (ns, capacity)) in survey.tiers.iter().enumerate() {
        let right = capacity.map_or(AREA[2], |bytes| scale.x(bytes));
        let fill = if n % 2 == 0 { "#eef3f7" } else { "#dbe7f0" };
        let (width, height, top) = (right - left, AREA[3] - AREA[1], AREA[1]);
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{fill}\"/>"
        );
        let middle = f64::midpoint(left, right);
        label(svg, [middle, AREA[1] + 18.0], "middle", TEXT, 13, &format!("{} ns", three(*ns)));
        if let Some(bytes) = capacity {
            label(svg, [middle, AREA[1] + 35.0], "middle", FAINT, 12, &format!("to {}", size(*bytes)));
        }
        left = right;
    }
}

/// Draws the ticks of both axes.
fn grid(svg: &mut String, scale: &Scale) {
    let mut bytes = scale.bytes[0].log2().ceil().exp2();
    while bytes <= scale.bytes[1] {
        let x = scale.x(bytes);
        let (top, bottom) = (AREA[3], AREA[3] + 5.0);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"{FAINT}\"/>");
        label(svg, [x, AREA[3] + 20.0], "middle", FAINT, 12, &size(bytes));
        bytes *= 4.0;
    }
    for ns in [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0] {
        if ns < scale.ns[0] || ns > scale.ns[1] {
            continue;
        }
        let (y, left, right) = (scale.y(ns), AREA[0], AREA[2]);
        let _ = writeln!(svg, "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#c3ced6\" stroke-width=\"0.7\"/>");
        label(svg, [left - 8.0, y + 4.0], "end", FAINT, 12, &format!("{ns}"));
    }
    label(svg, [AREA[0] - 8.0, AREA[1] - 8.0], "end", FAINT, 12, "ns");
}

/// Draws the sizes of levels that the machine reports.
fn reported(svg: &mut String, survey: &Survey, scale: &Scale) {
    for (level, bytes) in &survey.reported {
        let (x, top, bottom) = (scale.x(*bytes), AREA[1], AREA[3]);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"{REPORTED}\" stroke-dasharray=\"2 4\" \
             stroke-width=\"1.5\"/>"
        );
        label(svg, [x, AREA[1] - 8.0], "middle", REPORTED, 12, &format!("L{level} {}", size(*bytes)));
    }
}

fn line(svg: &mut String, points: &[Point], scale: &Scale, colour: &str, more: &str) {
    let at: Vec<String> =
        points.iter().map(|p| format!("{:.1},{:.1}", scale.x(p.bytes), scale.y(p.ns))).collect();
    let at = at.join(" ");
    let _ = writeln!(
        svg,
        "<polyline points=\"{at}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{more}/>"
    );
}

/// Draws every measured point with its interval.
fn points(svg: &mut String, survey: &Survey, scale: &Scale) {
    for point in &survey.curve {
        let (x, y) = (scale.x(point.bytes), scale.y(point.ns));
        let (low, high) = (scale.y(point.low), scale.y(point.high));
        if low - high > 3.0 {
            let _ = writeln!(svg, "<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{CURVE}\"/>");
        }
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"{CURVE}\"/>");
    }
}

fn legend(svg: &mut String) {
    let entries = [
        (CURVE, "", "measured, with 95 % intervals"),
        (TRANSLATION, " stroke-dasharray=\"6 4\"", "what address translation adds in 4 KiB pages"),
        (REPORTED, " stroke-dasharray=\"2 4\"", "sizes that the machine reports"),
    ];
    let mut x = AREA[0];
    for (colour, dashes, words) in entries {
        let y = HEIGHT - 24.0;
        let end = x + 26.0;
        let _ = writeln!(svg, "<path d=\"M{x} {y}H{end}\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>");
        label(svg, [x + 34.0, y + 4.0], "start", TEXT, 13, words);
        x += 62.0 + 6.6 * words.len() as f64;
    }
}

fn label(svg: &mut String, at: [f64; 2], anchor: &str, colour: &str, points: u32, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\" \
         font-size=\"{points}\">{words}</text>",
        at[0], at[1]
    );
}

/// Returns a number with three digits, without trailing zeros.
fn three(value: f64) -> String {
    rounded(value, 2)
}

/// Returns a number with `digits` + 1 digits, without trailing zeros.
fn rounded(value: f64, digits: usize) -> String {
    let digits = digits.saturating_sub(usize::from(value >= 10.0) + usize::from(value >= 100.0));
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn size(bytes: f64) -> String {
    let units = [(1024.0 * 1024.0, "MiB"), (1024.0, "KiB"), (1.0, "B")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1.0, "B"));
    format!("{} {name}", rounded(bytes / unit, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(points: usize) -> String {
        let mut rows = vec![
            r#"{"name":"tier.1.latency","value":2.0}"#.to_owned(),
            r#"{"name":"tier.1.capacity","value":32768}"#.to_owned(),
            r#"{"name":"tier.2.latency","value":90.25}"#.to_owned(),
            r#"{"name":"claim.sysfs.level.1.size","value":32768}"#.to_owned(),
            r#"{"name":"translation.64.added","value":9.5}"#.to_owned(),
        ];
        for n in 0..points {
            let ns = if n < 6 { 2.0 } else { 90.0 };
            let name = format!("latency.{}.time", 1024 << n);
            rows.push(format!(r#"{{"name":"{name}","value":{ns},"low":1.9,"high":95.0}}"#));
        }
        let subject = r#"{"trust":"real","facts":{"page.base":"4096","env.cpu.model":"A < B"}}"#;
        format!(r#"{{"subject":{subject},"elapsed_s":3.04,"findings":[{}]}}"#, rows.join(","))
    }

    #[test]
    fn a_picture_has_every_point_tier_and_reported_size() {
        let svg = draw(&findings(12)).unwrap();
        assert_eq!(svg.matches("<circle").count(), 12);
        for words in ["2 ns", "90.2 ns", "to 32 KiB", "L1 32 KiB", "A &lt; B; 12 points in 3.0 s", "1 MiB"] {
            assert!(svg.contains(words), "{words} is missing:\n{svg}");
        }
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("points=\"\""), "an empty line:\n{svg}");
    }

    #[test]
    fn findings_without_a_curve_are_refused() {
        assert!(draw(&findings(3)).unwrap_err().contains("no latency curve"));
        assert!(draw("{}").is_err());
    }
}
