//! Tests of laps that are counted instead of run.

use fathom_probe::machine::{Counters, Stream};

use super::*;
use crate::catalog;

/// Returns a model with a stream over `bytes` bytes that has run for some time.
fn running(name: &str, bytes: u64) -> Model {
    let description = catalog::load(name).expect("embedded").expect("sound");
    let mut model = Model::new(&description, 1);
    model.start(&[Stream { cpu: 1, bytes }]).expect("a second CPU");
    model
}

#[test]
fn counted_laps_leave_the_state_of_executed_loads() {
    let mut spared = Vec::new();
    for name in ["am5728", "am5728-l2-off", "bcm2711", "zen3"] {
        for bytes in [64, 200, 4096, 16 << 10, 48 << 10, 256 << 10, 2 << 20] {
            let (mut run, mut counted) = (running(name, bytes), running(name, bytes));
            for microseconds in [1, 300, 3000, 7, 1000] {
                for model in [&mut run, &mut counted] {
                    let units = model.timer.units_hz as u64 / 1_000_000 * microseconds;
                    model.advance(units);
                }
                run.catch_up();
                let loads = counted.streams[0].loads;
                let accesses = counted.accesses;
                counted.catch_up_after_sleep();
                if counted.accesses - accesses > counted.streams[0].loads - loads {
                    spared.push((name, bytes));
                }
                assert_eq!(run.counters(), counted.counters(), "{name} {bytes}");
                let clocks = |model: &Model| model.agents.iter().map(|a| a.clock).collect::<Vec<u64>>();
                assert_eq!(clocks(&run), clocks(&counted), "{name} {bytes}");
                assert_eq!(run.streams[0].cursor.offset, counted.streams[0].cursor.offset);
                assert_eq!(run.streams[0].loads % UNROLL, counted.streams[0].loads % UNROLL);
                assert!(run.hierarchy.state_equals(&counted.hierarchy), "{name} {bytes}");
                assert!(run.agents[1].tlbs.state_equals(&counted.agents[1].tlbs), "{name} {bytes}");
                assert_eq!(run.agents[1].tlbs.walks, counted.agents[1].tlbs.walks);
            }
        }
    }
    assert!(spared.contains(&("am5728", 16 << 10)) && spared.contains(&("am5728", 256 << 10)), "{spared:?}");
    assert!(
        !spared.contains(&("am5728", 2 << 20)),
        "its lines and descriptors do not all fit in the caches: {spared:?}"
    );
}
