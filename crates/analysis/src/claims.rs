//! Claims: what firmware, identification registers and descriptions say of the levels.
