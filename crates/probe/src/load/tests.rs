use alloc::format;
use alloc::string::ToString as _;

use super::*;

#[test]
fn load_text_round_trips() {
    for kind in Stress::ALL {
        for workers in [1, 16] {
            for (bytes, stride) in [kind.defaults(), (96 << 20, 1), (12_345, 64)] {
                for keep in [BlockMode::Free, BlockMode::Kept, BlockMode::Hold(2)] {
                    let usual = Stressor { workers, ..Stressor::of(*kind) };
                    let stressor = match (usual.bytes > 0, kind.allocates()) {
                        (false, _) => usual,
                        (true, false) => Stressor { bytes: bytes.max(4096), ..usual },
                        (true, true) => Stressor { bytes, stride, mode: keep, ..usual },
                    };
                    let load = Load { stressors: alloc::vec![stressor, Stressor::of(Stress::Cpu)] };
                    assert_eq!(Load::parse(&load.to_string()), Ok(load.clone()), "{load}");
                }
            }
        }
    }
    assert_eq!(Load::parse("none"), Ok(Load::default()));
    assert_eq!(Load::default().to_string(), "none");
}

#[test]
fn load_text_omits_default_sizes() {
    let load = Load::parse("cpu*16 io*4 disk*2:256M vm*2:128M").expect("a load");
    assert_eq!(load.to_string(), "cpu*16 io*4 disk*2 vm*2:128M");
    let vm = load.stressors[3];
    assert_eq!((vm.workers, vm.bytes, vm.stride, vm.mode), (2, 128 << 20, 4096, BlockMode::Free));
    assert_eq!(Load::parse("vm*2:128M:4096:hold2").expect("a load").to_string(), "vm*2:128M:4K:hold2");
}

#[test]
fn wrong_load_is_refused_with_correct_form() {
    for (word, named) in [
        ("vn*2", "expected one of: cpu io"),
        ("vm*0", "from 1 to 256"),
        ("vm*2:12Q", "12Q"),
        ("cpu*2:4K", "4K"),
        ("read*2:64M:8", "stride"),
        ("vm:64M:0", "stride"),
        ("vm:64M:128M", "stride"),
        ("vm:64M:4K:hold", "holdN"),
        ("vm:64M:4K:hold0", "holdN"),
        ("read:64M:64:keep", "stride"),
        ("vm:64M:4K:free:x", ":x"),
        ("vm:99999999999G", "size"),
    ] {
        let error = Load::parse(word).expect_err(word);
        assert!(error.contains(named), "{word}: {error}");
    }
    let many = "cpu ".repeat(MAX_STRESSORS + 1);
    assert!(Load::parse(&many).is_err());
}

#[test]
fn worker_counts_round_trip() {
    for shared in [None, Some(7)] {
        let load_stats = LoadStats { stressor: 1, ns: 2, passes: 3, lines: 4, faults: 5, bytes: 6, shared };
        assert_eq!(LoadStats::read(&load_stats.line(7)), Ok((7, load_stats)));
    }
    let stalls = Stalls { cpu_us: 1, memory_us: 2, memory_full_us: 3, io_us: 4, io_full_us: 5 };
    assert_eq!(Stalls::read(&stalls.line(7)), Ok((7, stalls)));
    let unknown =
        Line::parse("stalls trial=1 cpu_us=1 memory_us=1 memory_full_us=1 io_us=1 io_full_us=1 x=1");
    let error = Stalls::read(&unknown.expect("a line")).expect_err("x");
    assert!(format!("{error:?}").contains('x'));
}
