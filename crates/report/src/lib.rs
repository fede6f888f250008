//! Findings to terminal, JSON. Strings out, nothing else.
