//! Inference: the reports of sessions on described machines must agree with the descriptions.
//!
//! Every module tests one experiment or one part of its report. Sessions that several tests need are run once
//! ([`sessions`]).
//!
//! The full tier (`scripts/test --full`) has all committed machines and two hundred random ones; the default tier has
//! machines with small last levels and few random ones.

mod adversarial;
#[path = "../common/asked.rs"]
mod asked;
mod built;
mod colours;
#[path = "../common/mod.rs"]
mod common;
mod comparison;
mod curves;
mod drafts;
mod entries;
mod frames;
#[path = "../common/full.rs"]
mod full;
mod geometry;
mod latency;
mod machines;
mod neighbours;
mod policies;
mod random;
mod ranges;
mod scattered;
mod sessions;
mod survey;
mod wide;
