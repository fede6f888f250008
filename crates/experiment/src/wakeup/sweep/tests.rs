use fathom_probe::pattern::CoRunning;

use super::*;

fn under(load: &str) -> Trial {
    let load = Load::parse(load).expect("a load");
    Trial { beside: CoRunning { load, ..CoRunning::default() }, ..Trial::of(Wake::default()) }
}

#[test]
fn trials_without_blocks_belong_to_no_curve() {
    for load in ["cpu*2", "io", "disk*2", "none", "vm cpu"] {
        assert_eq!(of(&under(load)), None, "{load}");
    }
    let (curve, bytes) = of(&under("vm*2:8M:4K:hold2")).expect("a case");
    assert_eq!((curve.token().as_str(), bytes), ("vm.hold2.4096", 8 << 20));
    // A trial that is constructed, not parsed, may have any stride.
    let mut none = under("vm*2:8M");
    none.beside.load.stressors[0].stride = 0;
    assert_eq!(of(&none), None);
    // Trials with a stream of a described machine do not belong to a curve either.
    let stream = fathom_probe::machine::Stream { cpu: 1, bytes: 1 << 20 };
    for load in ["none", "vm*2:8M:4K"] {
        let mut streamed = under(load);
        streamed.beside.streams.push(stream);
        assert_eq!(of(&streamed), None, "{load}");
    }
}

#[test]
fn each_mode_is_a_separate_curve() {
    let curve = |mode| Curve { kind: Stress::Vm, stride: 4096, mode };
    let all = [BlockMode::Free, BlockMode::Kept, BlockMode::Hold(2), BlockMode::Hold(4)]
        .map(|mode| curve(mode).token());
    assert_eq!(all, ["vm.free.4096", "vm.keep.4096", "vm.hold2.4096", "vm.hold4.4096"]);
}
