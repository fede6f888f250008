//! Machine for Linux: mappings, pages, clocks, counters, disturbance.
