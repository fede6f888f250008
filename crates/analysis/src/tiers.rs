//! Tiers: plateau-and-ramp segmentation of a latency curve.
