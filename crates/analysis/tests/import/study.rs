//! Consistency of the published table of the study.

use fathom_analysis::import::Place;
use fathom_analysis::import::study::{Column, DISPUTED, Load, PLACES};

fn at(load: Load, place: Place) -> Column {
    *PLACES.iter().find(|column| column.load == load && column.place == place).expect("a column")
}

#[test]
fn study_has_every_place_under_both_loads_in_time_order() {
    for load in [Load::CpuIoDisk, Load::CpuIoDiskVm] {
        let [user, kernel, irq] = Place::ALL.map(|place| at(load, place));
        assert!(user.max_us > kernel.max_us && kernel.max_us > irq.max_us);
        assert!(user.mean_us > kernel.mean_us && kernel.mean_us > irq.mean_us);
    }
    // The study's finding: with --vm the largest latency of the tasks about doubles, and that of the IRQ does not.
    let grows = |place| at(Load::CpuIoDiskVm, place).max_us / at(Load::CpuIoDisk, place).max_us;
    assert!(grows(Place::User) > 1.9 && grows(Place::Kernel) > 1.9 && grows(Place::Irq) < 1.1);
    let all = PLACES.into_iter().chain(DISPUTED.map(|row| row.column));
    assert!(all.clone().all(|column| column.min_us < column.mean_us && column.mean_us < column.max_us));
    assert!(all.filter(|column| column.stddev_us.is_some()).all(|c| c.load == Load::CpuIoDiskVm));
    assert!(Load::CpuIoDiskVm.arguments().starts_with(Load::CpuIoDisk.arguments()));
}
