//! Charts as data: the findings that are drawn, and the axes. A page's script draws them from the findings in the page
//! and knows no experiment. A terminal shows the characters that a view draws, or only the tables.

use fathom_analysis::findings::{Axis, Field, Metric};
use serde::Serialize;

/// How a chart shows its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points joined by lines, with intervals.
    Lines,
    /// As [`Kind::Lines`], but each curve is narrower than the previous one, so that overlapping curves remain visible.
    Nested,
    /// A colour per finding, by size and stride.
    HeatMap,
    /// A bar per finding, with its interval.
    Bars,
    /// A row per coordinate along [`Chart::rows`], with the series stacked in it; of a chart of several reports, a row per report.
    Stacked,
    /// A row per finding, with its interval, relative to zero.
    Intervals,
    /// A curve per histogram, both axes logarithmic.
    Distributions,
    /// Bars of one histogram.
    Histogram,
    /// A bar for each node of [`Chart::tree`], above that which it hangs from.
    Flame,
}

/// Format of the numbers on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Written {
    /// As numbers.
    Number,
    /// As sizes in bytes: `16 KiB`.
    Size,
}

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// Title, with the unit.
    name: &'static str,
    /// Axis of the coordinates; none for values.
    of: Option<&'static str>,
    log: bool,
    written: Written,
    /// Whether it includes zero.
    zero: bool,
    /// End of the scale, if fixed.
    most: Option<f64>,
    /// Whether it has only whole numbers.
    whole: bool,
}

impl Scale {
    /// Creates a scale of coordinates along an axis; `name` is its title.
    #[must_use]
    pub const fn of(axis: Axis, name: &'static str) -> Scale {
        Scale { of: Some(axis.name()), ..Scale::values(name) }
    }

    /// Creates a scale of values; `name` is its title, with the unit.
    #[must_use]
    pub const fn values(name: &'static str) -> Scale {
        Scale { name, of: None, log: false, written: Written::Number, zero: false, most: None, whole: false }
    }

    /// Makes the scale logarithmic.
    #[must_use]
    pub const fn log(self) -> Scale {
        Scale { log: true, ..self }
    }

    /// Formats the numbers as sizes in bytes.
    #[must_use]
    pub const fn sizes(self) -> Scale {
        Scale { written: Written::Size, ..self }
    }

    /// Includes zero.
    #[must_use]
    pub const fn zero(self) -> Scale {
        Scale { zero: true, ..self }
    }

    /// Sets the range from zero to `most`.
    #[must_use]
    pub const fn up_to(self, most: f64) -> Scale {
        Scale { zero: true, most: Some(most), ..self }
    }

    /// Restricts the scale to whole numbers.
    #[must_use]
    pub const fn whole(self) -> Scale {
        Scale { whole: true, ..self }
    }
}

/// Line between the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A solid line, with intervals at the points.
    Solid,
    /// A dotted line.
    Dotted,
    /// A dashed line.
    Dashed,
}

/// Findings, or histograms, of one metric at given coordinates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    metric: &'static str,
    /// Fixed coordinates.
    at: Vec<(&'static str, String)>,
    /// Field of detail, and the word in it that the findings have.
    whose: Option<(&'static str, String)>,
    /// Axis along which there are several curves.
    by: Option<&'static str>,
    /// Name of the series. A coordinate is written in braces, a field of detail as `{detail.NAME}`.
    name: String,
    /// Text that distinguishes it from another series of the same name.
    what: &'static str,
    line: Line,
    /// Axis of x, if it is not that of the scale, and the factor by which it is multiplied.
    along: Option<&'static str>,
    times: f64,
    /// Whether it is shown only in the range of the other series.
    within: bool,
    /// Field of detail, and the word in it whose number is the value.
    part: Option<(&'static str, String)>,
}

impl Series {
    /// Creates a series of all findings of a metric.
    #[must_use]
    pub fn of(metric: &'static Metric, name: impl Into<String>) -> Series {
        Series {
            metric: metric.pattern,
            at: Vec::new(),
            whose: None,
            by: None,
            name: name.into(),
            what: "",
            line: Line::Solid,
            along: None,
            times: 1.0,
            within: false,
            part: None,
        }
    }

    /// Restricts the series to a coordinate.
    #[must_use]
    pub fn at(mut self, axis: Axis, coordinate: impl ToString) -> Series {
        self.at.push((axis.name(), coordinate.to_string()));
        self
    }

    /// Restricts the series to the findings with a word in a field of detail.
    #[must_use]
    pub fn whose(self, field: Field, word: &str) -> Series {
        Series { whose: Some((field.name, word.to_owned())), ..self }
    }

    /// Splits the series into a curve per coordinate along an axis.
    #[must_use]
    pub fn by(self, axis: Axis) -> Series {
        Series { by: Some(axis.name()), ..self }
    }

    /// Sets the text that distinguishes it from another series of the same name.
    #[must_use]
    pub fn what(self, what: &'static str) -> Series {
        Series { what, ..self }
    }

    /// Sets the line.
    #[must_use]
    pub fn line(self, line: Line) -> Series {
        Series { line, ..self }
    }

    /// Uses another axis for x, times a factor, and shows the series only in the range of the others.
    #[must_use]
    pub fn scaled_within(self, along: Axis, times: f64) -> Series {
        Series { along: Some(along.name()), times, within: true, ..self }
    }

    /// Uses the number of a word in a field of detail as the value.
    #[must_use]
    pub fn part(self, field: Field, word: &str) -> Series {
        Series { part: Some((field.name, word.to_owned())), ..self }
    }
}

/// A marked place on the x axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Place.
    pub x: f64,
    /// Label.
    pub label: String,
}

/// A range on the x axis; without an end it extends to the edge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Begin.
    pub from: Option<f64>,
    /// End.
    pub to: Option<f64>,
    /// Label.
    pub label: String,
    /// Whether it is drawn prominently instead of in the background.
    pub strong: bool,
}

/// A labelled height at a place on the x axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Place.
    pub x: f64,
    /// Height.
    pub y: f64,
    /// Names of what has this height.
    pub names: Vec<String>,
    /// The same as a sentence, for keyboard users.
    pub text: String,
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// Name among the figures of its page: words separated by dots.
    name: String,
    kind: Kind,
    /// Caption below the chart.
    caption: String,
    small: bool,
    x: Scale,
    y: Scale,
    series: Vec<Series>,
    /// Axis along which a stacked chart has rows.
    rows: Option<&'static str>,
    /// Names of the rows of a chart of several reports.
    row_names: Vec<String>,
    /// Axis of the nodes of a tree, and the field of detail with the number of that from which one hangs; 0 of none.
    tree: Option<(&'static str, &'static str)>,
    /// Name of a row, or of a cell of a heat map; with the placeholders of a series' name.
    label: String,
    marks_name: String,
    marks: Vec<Mark>,
    bands_name: String,
    bands: Vec<Band>,
    levels_name: String,
    levels: Vec<Level>,
    /// Names of series that are shown initially; all if empty.
    shown: Vec<String>,
    /// Whether the first series may be overlaid with those of other reports.
    overlay: bool,
}

impl Chart {
    /// Creates a chart without series.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind, x: Scale, y: Scale, caption: impl Into<String>) -> Chart {
        Chart {
            name: name.into(),
            kind,
            caption: caption.into(),
            small: false,
            x,
            y,
            series: Vec::new(),
            rows: None,
            row_names: Vec::new(),
            tree: None,
            label: String::new(),
            marks_name: String::new(),
            marks: Vec::new(),
            bands_name: String::new(),
            bands: Vec::new(),
            levels_name: String::new(),
            levels: Vec::new(),
            shown: Vec::new(),
            overlay: false,
        }
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Chart {
        self.series.push(series);
        self
    }

    /// Halves the height.
    #[must_use]
    pub fn small(self) -> Chart {
        Chart { small: true, ..self }
    }

    /// Sets the axis of the rows and their name.
    #[must_use]
    pub fn rows(self, axis: Axis, label: &str) -> Chart {
        Chart { rows: Some(axis.name()), label: label.to_owned(), ..self }
    }

    /// Names the rows of a chart of several reports.
    #[must_use]
    pub fn row_names<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Chart {
        Chart { row_names: names.into_iter().map(str::to_owned).collect(), ..self }
    }

    /// Makes the findings nodes of a tree, with numbers along an axis; a field of detail has that of the node from which one
    /// hangs.
    #[must_use]
    pub fn tree(self, axis: Axis, above: Field) -> Chart {
        Chart { tree: Some((axis.name(), above.name)), ..self }
    }

    /// Sets the name of cells or rows.
    #[must_use]
    pub fn label(self, label: &str) -> Chart {
        Chart { label: label.to_owned(), ..self }
    }

    /// Adds marked places on the x axis.
    #[must_use]
    pub fn marks(self, name: &str, marks: Vec<Mark>) -> Chart {
        Chart { marks_name: name.to_owned(), marks, ..self }
    }

    /// Adds ranges on the x axis; without a name they belong to the first series.
    #[must_use]
    pub fn bands(self, name: &str, bands: Vec<Band>) -> Chart {
        Chart { bands_name: name.to_owned(), bands, ..self }
    }

    /// Adds heights.
    #[must_use]
    pub fn levels(self, name: &str, levels: Vec<Level>) -> Chart {
        Chart { levels_name: name.to_owned(), levels, ..self }
    }

    /// Sets the series that are shown initially.
    #[must_use]
    pub fn shown(self, names: impl IntoIterator<Item = String>) -> Chart {
        Chart { shown: names.into_iter().collect(), ..self }
    }

    /// Allows the first series to be overlaid with those of other reports.
    #[must_use]
    pub fn overlay(self) -> Chart {
        Chart { overlay: true, ..self }
    }

    /// Returns the chart's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it may be overlaid with those of other reports.
    pub(crate) fn is_overlay(&self) -> bool {
        self.overlay
    }
}
