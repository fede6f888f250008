//! Trees of calls in records.

/// Share of the whole from which on a call is in a report: a pixel of a figure.
pub(crate) const LEAST_CALL: f64 = 0.001;

/// Returns what each call has with its callees, from what it has alone. `callers` are the numbers of the calls that made
/// them, from 1 and smaller than their own; 0 if none did.
pub(crate) fn with_callees(callers: &[u64], alone: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut totals: Vec<u64> = alone.collect();
    for at in (0..totals.len()).rev() {
        if let Some(caller) = callers.get(at).and_then(|caller| (*caller as usize).checked_sub(1)) {
            totals[caller] = totals[caller].saturating_add(totals[at]);
        }
    }
    totals
}
