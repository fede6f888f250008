use super::*;
use crate::fixture;
use crate::process::{allowed_cpus, choose_cpu};
use crate::trace::format::PageLayout;
use crate::trace::format::tests::{ARM, file};
use crate::trace::ring::records;

fn kind() -> TimerlatFormat {
    TimerlatFormat::parse(&file(ARM, "ftrace/timerlat").expect("there")).expect("a format")
}

/// Text of the same kernel:
///
/// ```text
/// <...>-189  [000] d..h.11  4.785771: #1  context    irq timer_latency   3120 ns
/// <...>-188  [000] .......  4.785793: #1  context thread timer_latency  25248 ns
/// <...>-189  [000] d..h...  4.786772: #2  context    irq timer_latency   3696 ns
/// <...>-188  [000] .......  4.786790: #2  context thread timer_latency  22464 ns
/// <...>-190  [000] d.Lh2..  4.787778: #3  context    irq timer_latency   9696 ns
/// <...>-188  [000] .......  4.787798: #3  context thread timer_latency  29984 ns
/// ```
#[test]
fn real_timerlat_page_is_decoded() {
    let layout = PageLayout::parse(&file(ARM, "header_page").expect("there")).expect("a layout");
    let page = include_bytes!("../formats/arm64-rt-6.1.timerlat.page");
    let mut rows = Vec::new();
    records(page, &layout).expect("a page").0.for_each(|record| kind().add(record.data, &mut rows));
    let row = |seq, irq, thread| Row { seq, irq_ns: Some(irq), thread_ns: Some(thread) };
    assert_eq!(rows[..3], [row(1, 3120, 25248), row(2, 3696, 22464), row(3, 9696, 29984)]);
    let seqs: Vec<u64> = rows.iter().map(|row| row.seq).collect();
    assert_eq!(seqs, (1..=rows.len() as u64).collect::<Vec<u64>>());
}

#[test]
fn incomplete_wakeups_are_rows() {
    let record = |kind: u16, seq: u32, context: u32, ns: u64| {
        let mut record = vec![0; 32];
        record[..2].copy_from_slice(&kind.to_le_bytes());
        record[12..16].copy_from_slice(&seq.to_le_bytes());
        record[16..20].copy_from_slice(&context.to_le_bytes());
        record[24..].copy_from_slice(&ns.to_le_bytes());
        record
    };
    let mut rows = Vec::new();
    for (id, seq, context, ns) in
        [(17, 5, 1, 50), (17, 6, 0, 6), (16, 6, 1, 9), (17, 7, 0, 7), (17, 7, 2, 8), (17, 7, 1, 70)]
    {
        kind().add(&record(id, seq, context, ns), &mut rows);
    }
    kind().add(&record(17, 8, 0, 1)[..31], &mut rows);
    let row = |seq, irq_ns, thread_ns| Row { seq, irq_ns, thread_ns };
    assert_eq!(rows, [row(5, None, Some(50)), row(6, Some(6), None), row(7, Some(7), Some(70))]);
}

#[test]
fn missing_or_busy_timerlat_is_refused() {
    let refusal = |files: &[(&str, &str)], period| {
        let (keep, root) = fixture::root(files);
        std::fs::create_dir_all(keep.path().join("sys/kernel/tracing/instances")).expect("a directory");
        let refusal = timerlat(&root, 0, period, Duration::ZERO, |_| Ok(())).expect_err("refused");
        assert!(!refusal.remedy.is_empty());
        refusal.reason
    };
    let tracers = |all| ("/sys/kernel/tracing/available_tracers", all);
    assert!(refusal(&[tracers("timerlat nop\n")], 99).contains("99 us"));
    assert!(refusal(&[tracers("blk function nop\n")], 1000).contains("no timerlat"));
    let available = tracers("timerlat osnoise nop\n");
    assert!(refusal(&[available], 1000).contains("osnoise/timerlat_period_us"));
    let used = ("/sys/kernel/tracing/instances/rtla/current_tracer", "osnoise\n");
    assert!(refusal(&[available, used], 1000).contains("instances/rtla"));
}

#[test]
fn timerlat_runs_and_restores_its_settings() {
    let root = Root::system();
    let cpu = choose_cpu(&root, &allowed_cpus(&root), None).expect("a CPU");
    let settings = || OsnoiseSettings::read(&TraceFs::find(&root).ok()?);
    let before = settings();
    match timerlat(&root, cpu, 2000, Duration::from_millis(400), |_| Ok(())) {
        Ok(reported) => {
            eprintln!(
                "{} wake-ups, the last {:?}, {} lost",
                reported.rows.len(),
                reported.rows.last(),
                reported.lost
            );
            assert_eq!(reported.lost, 0);
            // 200 if nothing delays the run.
            assert!((20..=201).contains(&reported.rows.len()), "{}", reported.rows.len());
            assert!(reported.rows.iter().any(|row| row.irq_ns < row.thread_ns && row.irq_ns.is_some()));
            assert!(before.is_some());
        }
        Err(refusal) => {
            assert!(!refusal.remedy.is_empty(), "{refusal:?}");
            fathom_skip::skipped!(Unchecked, "a run of timerlat: {}: {}", refusal.reason, refusal.remedy);
        }
    }
    assert_eq!(settings(), before);
}
