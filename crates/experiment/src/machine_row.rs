//! The row of a machine in the table of machines that `fathom share` prints.

use fathom_analysis::findings::{Finding, Key, Report};
use fathom_analysis::metrics::common::{CLOCK_CORE_HZ, DISTURBANCE_STATE};
use fathom_analysis::metrics::survey::{TIER_CAPACITY, TIER_LATENCY, TLB_ENTRIES, WALK_LATENCY};
use fathom_report::number;
use fathom_report::share::Column;

/// The columns after the machine's name and its clock trust.
pub static MACHINE_COLUMNS: &[Column] = &[
    Column { head: "core", cell: |report| number_with_unit(report, &CLOCK_CORE_HZ).unwrap_or_default() },
    Column { head: "tiers (capacity, latency)", cell: tiers },
    Column { head: "TLBs", cell: tlbs },
    Column { head: "walk", cell: |report| number_with_unit(report, &WALK_LATENCY).unwrap_or_default() },
    Column {
        head: "disturbance",
        cell: |report| number_with_unit(report, &DISTURBANCE_STATE).unwrap_or_default(),
    },
];

fn number_with_unit(report: &Report, key: impl Into<Key>) -> Option<String> {
    let finding: &Finding = report.find(key)?;
    let (shown, unit) = number::in_cells(finding);
    Some(format!("{} {unit}", shown.value).trim_end().to_owned())
}

fn tiers(report: &Report) -> String {
    let tiers = (1_u64..).map_while(|n| {
        let latency = number_with_unit(report, TIER_LATENCY.at([n.into()]))?;
        let capacity = number_with_unit(report, TIER_CAPACITY.at([n.into()]));
        Some(format!("{} {latency}", capacity.unwrap_or_else(|| "beyond".to_owned())))
    });
    tiers.collect::<Vec<_>>().join("; ")
}

fn tlbs(report: &Report) -> String {
    let entries = (1_u64..).map_while(|n| number_with_unit(report, TLB_ENTRIES.at([n.into()])));
    entries.collect::<Vec<_>>().join(", ")
}
