//! What `fathom stride` finds.

use super::{NamePattern, number, word};

/// Times by working set, step and operation.
pub(super) const NAMES: &[NamePattern] = &[
    number(
        "stride.BYTES.STEP.OP.time_per_access",
        &["ns"],
        "time of one of many independent accesses, STEP bytes apart, round a working set of BYTES",
    ),
    number(
        "stride.BYTES.STEP.OP.time_per_line",
        &["ns"],
        "the same for all accesses to a line; the notes say how long a line is taken to be",
    ),
    number("stride.BYTES.STEP.OP.ratio", &[""], "time an access over that at the smallest step"),
    number(
        "stride.BYTES.STEP.OP.unfaulted.time_per_access",
        &["ns"],
        "the same where each page is touched for the first time while it is timed",
    ),
    number(
        "stride.BYTES.STEP.OP.unfaulted.faults_per_page",
        &[""],
        "page faults a page that was touched, as the kernel counted them",
    ),
    number(
        "stride.BYTES.STEP.OP.unfaulted.added_per_page",
        &["ns"],
        "what the accesses to a page take more than in memory that is there",
    ),
    number(
        "stride.BYTES.line",
        &["bytes"],
        "step from which on a read takes no longer; null where prefetch or overlap hides it, as the notes say",
    ),
    word(
        "stride.BYTES.answer",
        "ANSWER",
        "what answers dependent loads round a working set of BYTES; the sentence is in the notes",
    ),
    number(
        "stride.ratio",
        &[""],
        "a lap of the largest working set at the smallest step over one at 64 bytes, as study S3 has it",
    ),
];
