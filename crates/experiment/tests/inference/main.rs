//! Inference: sessions on described machines, whose reports must give the descriptions back.
//!
//! Every module is about one experiment or one part of its report. What more than one test needs is measured once
//! ([`sessions`]).
//!
//! The full tier (`scripts/test --full`) takes all committed machines and two hundred random ones, the default tier
//! machines with small last levels and few random ones.

#[path = "../common/asked.rs"]
mod asked;
mod built;
mod colours;
#[path = "../common/mod.rs"]
mod common;
mod drafts;
mod entries;
mod geometry;
mod latency;
mod machines;
mod policies;
mod random;
mod scattered;
mod sessions;
mod survey;
