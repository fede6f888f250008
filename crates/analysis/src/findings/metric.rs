//! Metrics: the declarations of findings.

use super::axis::Axis;
use super::detail::Field;
use super::tokens::Tokens;
pub use super::tokens::UNITS;

/// Kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number,
    /// One token of a list.
    Token(&'static Tokens),
    /// Tokens of a list, separated by commas; `none` if there are none.
    Tokens(&'static Tokens),
    /// Any text.
    Text,
    /// A distribution: a histogram of samples, not a finding.
    Histogram,
}

/// Physical bounds of a value, inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
}

impl Bounds {
    /// A time, a size, a count, a rate.
    pub const NOT_NEGATIVE: Bounds = Bounds { low: 0.0, high: f64::INFINITY };
    /// A share of a whole.
    pub const SHARE: Bounds = Bounds { low: 0.0, high: 1.0 };
    /// A difference.
    pub const ANY: Bounds = Bounds { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// Returns whether a value is within the bounds. NaN is: it means that there is no value.
    #[must_use]
    pub fn hold(self, value: f64) -> bool {
        value.is_nan() || (self.low <= value && value <= self.high)
    }
}

/// Direction of change that is an improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A smaller value.
    Less,
    /// A larger value.
    More,
    /// Neither: a change is not an improvement.
    Neither,
}

impl Better {
    /// Returns the token.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Better::Less => "less",
            Better::More => "more",
            Better::Neither => "neither",
        }
    }
}

/// Comparisons of reports that show a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Every comparison.
    Always,
    /// Comparisons of this experiment's reports; elsewhere only on request.
    In(&'static str),
    /// Comparisons with all details: points of curves, clocks, claims.
    OnRequest,
}

/// A metric: the declaration of a kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name of its findings; a part in braces is the coordinate along that axis: `tier.{tier}.latency`. It
    /// identifies the metric.
    pub pattern: &'static str,
    /// The units that a value may have; the first is the default.
    pub units: &'static [&'static str],
    /// Kind of a value.
    pub kind: Kind,
    /// Physical bounds of a value.
    pub bounds: Bounds,
    /// Direction of change that is an improvement.
    pub better: Better,
    /// Meaning, in one plain sentence.
    pub about: &'static str,
    /// The fields of detail that a finding may have.
    pub detail: &'static [Field],
    /// Whether it is a measured time. A report without a finite value of such a metric measured nothing.
    pub timed: bool,
    /// The comparisons that show it.
    pub compared: Compared,
}

impl PartialEq for Metric {
    fn eq(&self, other: &Metric) -> bool {
        self.pattern == other.pattern
    }
}

impl Eq for Metric {}

impl Metric {
    /// Declares a metric of non-negative numbers.
    #[must_use]
    pub const fn new(pattern: &'static str, units: &'static [&'static str], about: &'static str) -> Metric {
        let (kind, bounds, better) = (Kind::Number, Bounds::NOT_NEGATIVE, Better::Neither);
        let (detail, timed, compared) = (&[], false, Compared::Always);
        Metric { pattern, units, kind, bounds, better, about, detail, timed, compared }
    }

    /// Returns the same metric, of one token of a list.
    #[must_use]
    pub const fn token(self, tokens: &'static Tokens) -> Metric {
        Metric { kind: Kind::Token(tokens), ..self }
    }

    /// Returns the same metric, of tokens of a list, separated by commas.
    #[must_use]
    pub const fn tokens(self, tokens: &'static Tokens) -> Metric {
        Metric { kind: Kind::Tokens(tokens), ..self }
    }

    /// Returns the same metric, of any text.
    #[must_use]
    pub const fn text(self) -> Metric {
        Metric { kind: Kind::Text, ..self }
    }

    /// Returns the same metric, of a histogram.
    #[must_use]
    pub const fn histogram(self) -> Metric {
        Metric { kind: Kind::Histogram, ..self }
    }

    /// Returns the same metric, of a share of a whole.
    #[must_use]
    pub const fn share(self) -> Metric {
        Metric { bounds: Bounds::SHARE, ..self }
    }

    /// Returns the same metric, of a difference, which may be negative.
    #[must_use]
    pub const fn signed(self) -> Metric {
        Metric { bounds: Bounds::ANY, ..self }
    }

    /// Returns the same metric; a smaller value is better.
    #[must_use]
    pub const fn less_is_better(self) -> Metric {
        Metric { better: Better::Less, ..self }
    }

    /// Returns the same metric; a larger value is better.
    #[must_use]
    pub const fn more_is_better(self) -> Metric {
        Metric { better: Better::More, ..self }
    }

    /// Returns the same metric with these fields of detail.
    #[must_use]
    pub const fn detail(self, detail: &'static [Field]) -> Metric {
        Metric { detail, ..self }
    }

    /// Returns the same metric, of a time that was measured.
    #[must_use]
    pub const fn timed(self) -> Metric {
        Metric { timed: true, ..self }
    }

    /// Returns the same metric, shown by these comparisons.
    #[must_use]
    pub const fn compared(self, compared: Compared) -> Metric {
        Metric { compared, ..self }
    }

    /// Returns the axes, in the order of the name.
    pub fn axes(&self) -> impl Iterator<Item = Axis> {
        self.parts().filter_map(|part| part.err())
    }

    /// Returns the parts of the name: a text, or an axis. A part in braces that names no axis would count as text; a test
    /// checks that there is none.
    pub fn parts(&self) -> impl Iterator<Item = Result<&'static str, Axis>> {
        self.pattern.split('.').map(|part| {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            match name.and_then(Axis::of) {
                Some(axis) => Err(axis),
                None => Ok(part),
            }
        })
    }
}

/// Declares metrics as statics, and the list `ALL` of them in display order:
/// `IDENTIFIER "pattern" ["unit", ...] "about" .modifier() ...;`
#[macro_export]
macro_rules! metrics {
    ($($id:ident $pattern:literal [$($unit:literal),*] $about:literal $(.$with:ident($($argument:expr)?))*;)*) => {
        $(
            #[doc = concat!("`", $pattern, "`: ", $about, ".")]
            pub static $id: $crate::findings::Metric =
                $crate::findings::Metric::new($pattern, &[$($unit),*], $about)$(.$with($($argument)?))*;
        )*
        /// The metrics, in display order.
        pub static ALL: &[&$crate::findings::Metric] = &[$(&$id,)*];
    };
}
pub(crate) use metrics;
