//! What `fathom stride` finds.

use crate::findings::{Field, metrics, words};

/// Length of a line in [`STRIDE_TIME_PER_LINE`].
pub const LINE_BYTES: Field = Field::new("line_bytes", "length that a line is taken to have, bytes");
/// Source of the claim of that length.
pub const LINE_SOURCE: Field =
    Field::new("line_source", "who claims that length; without it the length is assumed").of(&words::SOURCE);
/// Part of a lap that is timed.
pub const LAP_SHARE: Field =
    Field::new("lap_share", "part of a lap that a trial times, where that is less than a whole one, 0 to 1");
/// Step at which the time stops growing for another reason than a line's end.
pub const HIDDEN_AT: Field = Field::new(
    "hidden_at",
    "step at which the time stops growing, bytes, where prefetch or overlap may be the reason: the value is null",
);
/// Capacity of the levels in front of the one that serves the loads.
pub const BEYOND: Field =
    Field::new("beyond", "capacity of the nearer levels, bytes, where a farther level or memory answers");
/// Capacity of the level that answers.
pub const UP_TO: Field =
    Field::new("up_to", "capacity of the level that answers, bytes, where it is one level alone");
/// No second level serves, and none is claimed.
pub const ONE_LEVEL: Field = Field::new(
    "one_level",
    "true where memory answers beyond the first level, and no source claims a level that should",
);
/// The level that should answer where memory does.
pub const ABSENT_LEVEL: Field =
    Field::new("absent_level", "level that is claimed to hold the working set, where memory answers");
/// Size of the level that should answer.
pub const ABSENT_BYTES: Field = Field::new("absent_bytes", "size of that level as it is claimed, bytes");
/// Source of the claim of the level that should answer.
pub const ABSENT_SOURCE: Field = Field::new("absent_source", "who claims that level").of(&words::SOURCE);

metrics! {
    STRIDE_TIME_PER_ACCESS "stride.{size}.{stride}.{operation}.time_per_access" ["ns"]
        "time of one of many independent accesses at a step, round a working set"
        .less_is_better().timed().detail(&[LAP_SHARE]);
    STRIDE_TIME_PER_LINE "stride.{size}.{stride}.{operation}.time_per_line" ["ns"]
        "the same for all accesses to a line"
        .less_is_better().detail(&[LINE_BYTES, LINE_SOURCE]);
    STRIDE_RATIO "stride.{size}.{stride}.{operation}.ratio" [""]
        "time an access over that at the smallest stride";
    STRIDE_FIRST_TOUCH_TIME_PER_ACCESS "stride.{size}.{stride}.{operation}.first_touch.time_per_access" ["ns"]
        "the same where each page is touched for the first time while it is timed"
        .less_is_better().timed();
    STRIDE_FIRST_TOUCH_FAULTS_PER_PAGE "stride.{size}.{stride}.{operation}.first_touch.faults_per_page" [""]
        "page faults a page that was touched, as the kernel counted them";
    STRIDE_FIRST_TOUCH_ADDED_PER_PAGE "stride.{size}.{stride}.{operation}.first_touch.added_per_page" ["ns"]
        "what the accesses to a page take more than in memory that is there"
        .signed();
    STRIDE_LINE "stride.{size}.line" ["bytes"]
        "stride from which on a read takes no longer; null where prefetch or overlap hides it, or it grows on"
        .detail(&[HIDDEN_AT]);
    STRIDE_SERVED_BY "stride.{size}.served_by" [""]
        "what answers dependent loads round a working set"
        .word(&words::SERVED_BY).detail(&[BEYOND, UP_TO, ONE_LEVEL, ABSENT_LEVEL, ABSENT_BYTES, ABSENT_SOURCE]);
    STRIDE_LAPS_RATIO "stride.ratio" [""]
        "a lap of the largest working set at the smallest stride over one at 64 bytes, as study S3 has it";
}
