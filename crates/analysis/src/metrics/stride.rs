//! Metrics of `fathom stride`.

use crate::findings::{Field, metrics, tokens};

/// Line size that is assumed in [`STRIDE_TIME_PER_LINE`].
pub const LINE_BYTES: Field = Field::new("line_bytes", "line size that is assumed, bytes");
/// Source of the claim of that line size.
pub const LINE_SOURCE: Field =
    Field::new("line_source", "source of the claim of that size; without it the size is a default")
        .of(&tokens::SOURCE);
/// Share of a lap that is timed.
pub const LAP_SHARE: Field =
    Field::new("lap_share", "share of a lap that a trial times, if less than a whole lap, 0 to 1");
/// Stride at which the time stops growing for another reason than the line size.
pub const HIDDEN_AT: Field = Field::new(
    "hidden_at",
    "stride at which the time stops growing, bytes, if prefetch or overlap may be the reason: the value is null",
);
/// Capacity of the levels in front of the one that serves the loads.
pub const BEYOND: Field = Field::new(
    "beyond",
    "capacity of the nearer levels, bytes, if a farther level or memory serves the loads",
);
/// Capacity of the level that serves the loads.
pub const UP_TO: Field =
    Field::new("up_to", "capacity of the level that serves the loads, bytes, if it is one level");
/// No second level serves the loads, and none is claimed.
pub const ONE_LEVEL: Field = Field::new(
    "one_level",
    "true if memory serves the loads beyond the first level, and no source claims a second level",
);
/// The claimed level that does not serve the loads.
pub const ABSENT_LEVEL: Field = Field::new(
    "absent_level",
    "level that is claimed to hold the working set, although memory serves the loads",
);
/// Claimed size of that level.
pub const ABSENT_BYTES: Field = Field::new("absent_bytes", "claimed size of that level, bytes");
/// Source of the claim of that level.
pub const ABSENT_SOURCE: Field =
    Field::new("absent_source", "source of the claim of that level").of(&tokens::SOURCE);

metrics! {
    STRIDE_TIME_PER_ACCESS "stride.{size}.{stride}.{operation}.time_per_access" ["ns"]
        "time per access of many independent accesses at a stride, cyclically over a working set"
        .less_is_better().timed().detail(&[LAP_SHARE]);
    STRIDE_TIME_PER_LINE "stride.{size}.{stride}.{operation}.time_per_line" ["ns"]
        "time of all accesses to one line"
        .less_is_better().detail(&[LINE_BYTES, LINE_SOURCE]);
    STRIDE_RATIO "stride.{size}.{stride}.{operation}.ratio" [""]
        "ratio of the time per access to that at the smallest stride";
    STRIDE_FIRST_TOUCH_TIME_PER_ACCESS "stride.{size}.{stride}.{operation}.first_touch.time_per_access" ["ns"]
        "time per access when each page is touched for the first time"
        .less_is_better().timed();
    STRIDE_FIRST_TOUCH_FAULTS_PER_PAGE "stride.{size}.{stride}.{operation}.first_touch.faults_per_page" [""]
        "page faults per touched page, counted by the kernel";
    STRIDE_FIRST_TOUCH_ADDED_PER_PAGE "stride.{size}.{stride}.{operation}.first_touch.added_per_page" ["ns"]
        "time that first touch adds to the accesses of a page, compared with memory that is already mapped"
        .signed();
    STRIDE_LINE "stride.{size}.line" ["bytes"]
        "smallest stride from which the time per read is constant; null if prefetch or overlap hides it, or if the time still grows"
        .detail(&[HIDDEN_AT]);
    STRIDE_SERVED_BY "stride.{size}.served_by" [""]
        "what serves dependent loads in a working set"
        .token(&tokens::SERVED_BY).detail(&[BEYOND, UP_TO, ONE_LEVEL, ABSENT_LEVEL, ABSENT_BYTES, ABSENT_SOURCE]);
    STRIDE_LAPS_RATIO "stride.study.lap_ratio" [""]
        "ratio of a lap of the largest working set at the smallest stride to one at 64 bytes, as in study S3";
}
