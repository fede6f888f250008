//! Charts as data: what is drawn of which findings, and on which axes. A page's script draws them from the findings that the
//! page carries; it knows no experiment. A terminal shows the characters that a view draws, or the tables alone.

use fathom_analysis::findings::{Axis, Field, Metric};
use serde::Serialize;

/// How a chart shows its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points joined by lines, with intervals.
    Lines,
    /// The same, each curve narrower than the one before, so that those that lie on each other are seen.
    Nested,
    /// A colour for each finding, by size and stride.
    HeatMap,
    /// A bar for each finding, with its interval.
    Bars,
    /// A row for each coordinate along [`Chart::rows`], the series behind each other in it.
    Stacked,
    /// A row for each finding, with its interval, beside a zero.
    Intervals,
    /// A curve for each histogram, both axes logarithmic.
    Distributions,
    /// The bars of one histogram.
    Histogram,
}

/// How numbers on an axis are written.
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
    /// What it shows, with the unit.
    name: &'static str,
    /// The coordinate that it shows; none of values.
    of: Option<&'static str>,
    log: bool,
    written: Written,
    /// Does it include zero?
    zero: bool,
    /// Its end, where that is known before.
    most: Option<f64>,
    /// Has it whole numbers only?
    whole: bool,
}

impl Scale {
    /// Coordinates along an axis; what it shows stands beside it.
    #[must_use]
    pub const fn of(axis: Axis, name: &'static str) -> Scale {
        Scale { of: Some(axis.name()), ..Scale::values(name) }
    }

    /// Values; what they are stands beside them, with the unit.
    #[must_use]
    pub const fn values(name: &'static str) -> Scale {
        Scale { name, of: None, log: false, written: Written::Number, zero: false, most: None, whole: false }
    }

    /// The same, logarithmic.
    #[must_use]
    pub const fn log(self) -> Scale {
        Scale { log: true, ..self }
    }

    /// The same, written as sizes in bytes.
    #[must_use]
    pub const fn sizes(self) -> Scale {
        Scale { written: Written::Size, ..self }
    }

    /// The same, with zero on it.
    #[must_use]
    pub const fn zero(self) -> Scale {
        Scale { zero: true, ..self }
    }

    /// The same, from zero to this.
    #[must_use]
    pub const fn up_to(self, most: f64) -> Scale {
        Scale { zero: true, most: Some(most), ..self }
    }

    /// The same, of whole numbers.
    #[must_use]
    pub const fn whole(self) -> Scale {
        Scale { whole: true, ..self }
    }
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// By a line, with intervals at the points.
    Solid,
    /// By dots.
    Dotted,
    /// By dashes.
    Dashed,
}

/// The findings, or histograms, of one metric at some coordinates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    metric: &'static str,
    /// Coordinates that all of them have.
    at: Vec<(&'static str, String)>,
    /// The axis along which they are several curves.
    by: Option<&'static str>,
    /// What it is called. A coordinate in braces stands for itself, a field of detail as `{detail.NAME}`.
    name: String,
    /// What tells it from another series of the same name.
    what: &'static str,
    line: Line,
    /// The coordinate that x is, where it is not the axis's own, and by how much it is multiplied.
    along: Option<&'static str>,
    times: f64,
    /// Shown only where the other series are.
    within: bool,
    /// A field of detail and the word in it whose number is the value.
    part: Option<(&'static str, String)>,
}

impl Series {
    /// All findings of a metric, under one name.
    #[must_use]
    pub fn of(metric: &'static Metric, name: impl Into<String>) -> Series {
        Series {
            metric: metric.pattern,
            at: Vec::new(),
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

    /// Those at this coordinate.
    #[must_use]
    pub fn at(mut self, axis: Axis, coordinate: impl ToString) -> Series {
        self.at.push((axis.name(), coordinate.to_string()));
        self
    }

    /// A curve for each coordinate along an axis.
    #[must_use]
    pub fn by(self, axis: Axis) -> Series {
        Series { by: Some(axis.name()), ..self }
    }

    /// Called so, to tell it from another series of the same name.
    #[must_use]
    pub fn what(self, what: &'static str) -> Series {
        Series { what, ..self }
    }

    /// Joined otherwise.
    #[must_use]
    pub fn line(self, line: Line) -> Series {
        Series { line, ..self }
    }

    /// At another coordinate than the axis's own, times this, and only where the other series are.
    #[must_use]
    pub fn scaled_within(self, along: Axis, times: f64) -> Series {
        Series { along: Some(along.name()), times, within: true, ..self }
    }

    /// The number beside a word in a field of detail, and not the value.
    #[must_use]
    pub fn part(self, field: Field, word: &str) -> Series {
        Series { part: Some((field.name, word.to_owned())), ..self }
    }
}

/// A place on the x axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// What stands at it.
    pub label: String,
}

/// A range on the x axis; without an end it reaches to the edge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Where it begins.
    pub from: Option<f64>,
    /// Where it ends.
    pub to: Option<f64>,
    /// What stands in it.
    pub label: String,
    /// Is it to be seen beside the curves, and not behind them?
    pub strong: bool,
}

/// A height at a place on the x axis, with what it is of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Where.
    pub x: f64,
    /// How high.
    pub y: f64,
    /// What is so high.
    pub names: Vec<String>,
    /// The same as a sentence, for who reads by keys.
    pub text: String,
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// What it is called among the figures of its page: words with dots between them.
    name: String,
    kind: Kind,
    /// What stands below it.
    caption: String,
    small: bool,
    x: Scale,
    y: Scale,
    series: Vec<Series>,
    /// The axis along which a stacked chart has rows.
    rows: Option<&'static str>,
    /// What a row, or a cell of a heat map, is called; as a series is.
    label: String,
    marks_name: String,
    marks: Vec<Mark>,
    bands_name: String,
    bands: Vec<Band>,
    levels_name: String,
    levels: Vec<Level>,
    /// Names of series that are shown at first; all of them, where none is named.
    shown: Vec<String>,
    /// May the first series be laid over those of other reports?
    overlay: bool,
}

impl Chart {
    /// A chart without series.
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

    /// With one more series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Chart {
        self.series.push(series);
        self
    }

    /// Half as high.
    #[must_use]
    pub fn small(self) -> Chart {
        Chart { small: true, ..self }
    }

    /// With rows along an axis, each called so.
    #[must_use]
    pub fn rows(self, axis: Axis, label: &str) -> Chart {
        Chart { rows: Some(axis.name()), label: label.to_owned(), ..self }
    }

    /// With cells, or rows, that are called so.
    #[must_use]
    pub fn label(self, label: &str) -> Chart {
        Chart { label: label.to_owned(), ..self }
    }

    /// With places on the x axis.
    #[must_use]
    pub fn marks(self, name: &str, marks: Vec<Mark>) -> Chart {
        Chart { marks_name: name.to_owned(), marks, ..self }
    }

    /// With ranges on the x axis; without a name they belong to the first series.
    #[must_use]
    pub fn bands(self, name: &str, bands: Vec<Band>) -> Chart {
        Chart { bands_name: name.to_owned(), bands, ..self }
    }

    /// With heights.
    #[must_use]
    pub fn levels(self, name: &str, levels: Vec<Level>) -> Chart {
        Chart { levels_name: name.to_owned(), levels, ..self }
    }

    /// With only these series shown at first.
    #[must_use]
    pub fn shown(self, names: impl IntoIterator<Item = String>) -> Chart {
        Chart { shown: names.into_iter().collect(), ..self }
    }

    /// With a first series that may be laid over those of other reports.
    #[must_use]
    pub fn overlay(self) -> Chart {
        Chart { overlay: true, ..self }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// May it be laid over those of other reports?
    pub(crate) fn is_overlay(&self) -> bool {
        self.overlay
    }
}
