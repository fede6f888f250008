use fathom_probe::pattern::Beside;

use super::*;

fn under(load: &str) -> Trial {
    let load = Load::parse(load).expect("a load");
    Trial { beside: Beside { load, ..Beside::default() }, ..Trial::of(Wake::default()) }
}

#[test]
fn load_without_blocks_is_on_no_curve() {
    for load in ["cpu*2", "io", "disk*2", "none", "vm cpu"] {
        assert_eq!(of(&under(load)), None, "{load}");
    }
    let (curve, bytes) = of(&under("vm*2:8M:4K:hang2")).expect("a cell");
    assert_eq!((curve.token().as_str(), bytes), ("vm.hang2.4096", 8 << 20));
    // A trial that is put together, and not read, may have any stride.
    let mut none = under("vm*2:8M");
    none.beside.load.stressors[0].stride = 0;
    assert_eq!(of(&none), None);
    // Nor a trial with a stream of a described machine: no worker of a sweep is one.
    let stream = fathom_probe::machine::Stream { cpu: 1, bytes: 1 << 20 };
    for load in ["none", "vm*2:8M:4K"] {
        let mut streamed = under(load);
        streamed.beside.streams.push(stream);
        assert_eq!(of(&streamed), None, "{load}");
    }
}

#[test]
fn each_hang_is_a_curve_of_its_own() {
    let curve = |keep| Curve { kind: Stress::Vm, stride: 4096, mode: keep };
    let all = [BlockMode::Free, BlockMode::Kept, BlockMode::Hang(2), BlockMode::Hang(4)]
        .map(|keep| curve(keep).token());
    assert_eq!(all, ["vm.free.4096", "vm.keep.4096", "vm.hang2.4096", "vm.hang4.4096"]);
}
