//! Machine for a description: levels, TLBs, memory; deterministic.
