use std::process::Command;

use super::*;

/// Samples of a shell that computes in a child of a child.
fn sampled(rate: u64, callers: Callers) -> Option<Vec<SampledEvent>> {
    let Ok(mut sampling) = ProgramSampling::open(SampledBy::CpuClock, Pace::PerSecond(rate), callers) else {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return None;
    };
    // Work of this thread.
    crate::clock::alu(1 << 24);
    let shell = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; :";
    let status = Command::new("sh").args(["-c", shell]).status().expect("a shell");
    assert!(status.success());
    Some(sampling.take())
}

#[test]
fn programs_are_sampled_in_code_that_they_have_mapped() {
    let Some(mut events) = sampled(1000, Callers::Unknown) else { return };
    events.sort_by_key(|event| event.time);
    let own = std::process::id();
    let mut mapped: Vec<(u32, std::ops::Range<u64>)> = Vec::new();
    let (mut samples, mut known, mut weight) = (0u64, 0u64, 0u64);
    let mut executed = 0;
    for event in &events {
        match &event.what {
            Sampled::Sample { process, address, weight: ns, .. } => {
                assert_ne!(*process, own, "this process is not sampled");
                samples += 1;
                weight += ns;
                known += u64::from(mapped.iter().any(|(of, range)| of == process && range.contains(address)));
            }
            Sampled::Mapped { process, start, bytes, .. } => mapped.push((*process, *start..start + bytes)),
            Sampled::Executed { .. } => executed += 1,
            Sampled::Started { .. } | Sampled::Lost(_) | Sampled::Throttled | Sampled::Gap(_) => {}
        }
    }
    // Two programs, and the loop takes some 50 ms or more.
    assert!(executed >= 2 && samples >= 5, "{executed} programs, {samples} samples of {}", events.len());
    assert_eq!(weight, samples * 1_000_000, "each stands for a millisecond");
    // The first page of a program may be the dynamic linker's before its mapping is told.
    assert!(known * 10 >= samples * 9, "{known} of {samples} in mapped code");
}

/// Each program faults in some tens of its pages and its libraries' at least.
#[test]
fn events_that_are_not_sampled_are_counted() {
    let Ok(mut sampling) = ProgramSampling::open(SampledBy::PageFaults, Pace::Each(3), Callers::Unknown)
    else {
        fathom_skip::skipped!(Unchecked, "perf_event_open is not permitted here");
        return;
    };
    assert!(Command::new("true").status().expect("true").success());
    let weights: u64 = sampling
        .take()
        .iter()
        .map(|event| match event.what {
            Sampled::Sample { weight, .. } => weight,
            _ => 0,
        })
        .sum();
    let counted = sampling.counted().expect("open").expect("faults are counted");
    assert!(counted >= 20 && weights <= counted, "{weights} of {counted}");
    let Ok(mut clock) = ProgramSampling::open(SampledBy::CpuClock, Pace::PerSecond(100), Callers::Unknown)
    else {
        return;
    };
    assert_eq!(clock.counted().expect("open"), None);
}

/// The rings are read after the program's end only: a slow shell fills them, which is no failure of this test.
#[test]
fn samples_have_what_tells_their_callers() {
    for callers in [Callers::FramePointers, Callers::BEST] {
        let Some(events) = sampled(200, callers) else { return };
        let stacks: Vec<Stack> = events
            .into_iter()
            .filter_map(|event| match event.what {
                Sampled::Sample { stack, .. } => Some(stack),
                _ => None,
            })
            .collect();
        let told = |stack: &Stack| match stack {
            Stack::Unknown => false,
            Stack::Callers(_) => callers == Callers::FramePointers,
            Stack::Memory(memory) => callers == Callers::Tables && !memory.bytes.is_empty(),
        };
        assert!(!stacks.is_empty() && stacks.iter().all(told), "{callers:?}: {stacks:?}");
    }
}

#[test]
fn mappings_of_a_process_are_read() {
    let all = |line: &str| {
        mapping(7, line).map(|event| match event.what {
            Sampled::Mapped { process: 7, start, bytes, offset, file, is_code, build: None } => {
                (start, bytes, offset, file, is_code)
            }
            other => panic!("{other:?}"),
        })
    };
    let line =
        "55d0c8a00000-55d0c8a02000 r-xp 00001000 fe:01 1234                       /opt/my program (deleted)";
    let program = "/opt/my program (deleted)".to_owned();
    assert_eq!(all(line), Some((0x55d0_c8a0_0000, 0x2000, 0x1000, program, true)));
    let line = "7ffd3b5f1000-7ffd3b5f3000 r-xp 00000000 00:00 0                          [vdso]";
    assert_eq!(all(line), Some((0x7ffd_3b5f_1000, 0x2000, 0, "[vdso]".to_owned(), true)));
    let line = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ";
    assert_eq!(all(line), Some((0x7f00_0000_0000, 0x1000, 0, NO_FILE.to_owned(), false)));
    for none in [
        "7f0000001000-7f0000000000 r-xp 00000000 fe:01 99                         /lib/libc.so.6",
        "7f0000000000 r-xp 00000000 fe:01 99 /lib/libc.so.6",
        "x-y r-xp 00000000 fe:01 99 /lib/libc.so.6",
        "",
    ] {
        assert_eq!(all(none), None, "{none}");
    }
    // Allocated before the mappings are read: afterwards it may be in memory that was mapped only then.
    let on_heap = Box::new(7u64);
    let (here, data) = (mapped as *const () as u64, &raw const *on_heap as u64);
    let [code, with_data] = [false, true].map(|has_data| mapped(std::process::id(), has_data));
    let has = |all: &[SampledEvent], address: u64| {
        all.iter().any(|event| match &event.what {
            Sampled::Mapped { start, bytes, .. } => (*start..start + bytes).contains(&address),
            _ => false,
        })
    };
    assert!(has(&code, here), "{here:#x}: {code:?}");
    assert!(!has(&code, data), "{data:#x}: {code:?}");
    assert!(has(&with_data, here), "{here:#x}: {with_data:?}");
    assert!(has(&with_data, data), "{data:#x}: {with_data:?}");
}
