//! What limits the results of a guest.

use fathom_analysis::findings::Report;
use fathom_analysis::metrics::simulate as metrics;

use crate::record::Simulated;

/// What the time of a guest does not tell, and what translation is.
const CLOCK: &str = "the guest's clock counts instructions, not these cycles: timers expire, and interrupts come, after a number of \
                     instructions, however long the accesses take; so the guest does what it would do on a machine without misses";
const SPACES: &str = "address spaces are not known: an entry of a TLB is a virtual page with the physical page that it is in; pages that \
                      tasks share at one address share an entry, and all pages have the size of the model's base page";
const TABLES: &str = "walks read the model's own page tables, not the guest's";

/// Adds notes about the guest to the times that they limit.
pub(super) fn notes(simulated: &Simulated, report: &mut Report) {
    if simulated.guest.is_none() {
        return;
    }
    for finding in &mut report.findings {
        if finding.is(&metrics::CYCLES) {
            finding.notes.push(CLOCK.to_owned());
        } else if finding.is(&metrics::WALK_COUNT) {
            finding.notes.extend([SPACES, TABLES].map(str::to_owned));
        }
    }
}

/// Tells what has no physical address, with the remedy, if that is more than the first instructions.
pub(super) fn unplaced(simulated: &Simulated) -> Option<(String, &'static str)> {
    let all: u64 = simulated.accesses.iter().sum();
    let unplaced = simulated.guest?.unplaced;
    (unplaced > all / 1000).then(|| {
        let text = format!(
            "{unplaced} accesses are not simulated: where they went in physical memory is not known, as of code in memory of which no \
             instruction has loaded from its own page"
        );
        (text, "boot the kernel with QEMU's -kernel, without other firmware")
    })
}
