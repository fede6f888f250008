//! Plans: few activations, options out of range, truncated records.

use super::*;

#[test]
fn long_period_has_few_activations_without_panic() {
    for (period, at_least) in [("60ms", 100), ("250ms", 100)] {
        for swept in [false, true] {
            let typed = [("period", period), ("conditions", "unloaded")];
            let of_sweep = [("sweep", ""), ("modes", "free"), ("bytes", "1M")];
            let typed = [&typed[..], if swept { &of_sweep } else { &[] }].concat();
            let (_, record) = session(&mut Paper::new(|_| 0), run(7_200_000, &typed));
            let series = |r: &&fathom_experiment::record::TrialRun| r.done.is_some() && r.trial.round > 1;
            let wakes = record.trials.iter().filter(series).filter(|r| r.trial.loads == 1);
            let all: Vec<u64> = wakes.map(|r| r.trial.samples).collect();
            assert!(!all.is_empty() && all.iter().all(|n| *n >= at_least), "{period}: {all:?}");
        }
    }
}

#[test]
fn record_with_option_out_of_range_is_refused() {
    for (key, wrong, allowed) in [
        ("bytes", "0", "from 4K to 1024G"),
        ("strides", "0", "from 1 to 4K"),
        ("strides", "1048576", "from 1 to 4K"),
        ("period", "\"18446744073709551615ms\"", "from 10us to 250ms"),
        ("period", "\"10s\"", "from 10us to 250ms"),
    ] {
        let text = format!(
            "run experiment=\"wakeup\" subject=\"paper\" seed=1 budget_ms=10000 sweep=\"yes\" {key}={wrong}"
        );
        let run = Run::of_line(&Line::parse(&text).expect("a line")).expect("a run");
        let (_, record) = session(&mut Paper::new(|_| 0), run);
        let why = fathom_experiment::check(&record).map(|e| e.name).expect_err(wrong);
        assert!(why.contains(key) && why.contains(allowed), "{why}");
    }
}

#[test]
fn resumed_record_completes_a_cut_session() {
    let (whole, _) = session(&mut Paper::new(step_at_32_mib), sweep(100_000));
    // In the middle of a trial's lines.
    let cut: Vec<String> = whole[..whole.len() / 2].to_vec();
    let trials = Record::parse(&cut.join("\n")).expect("a record").trials.len();
    let run = Run { experiment: wakeup::NAME.into(), subject: "paper".into(), seed: 1, ..sweep(100_000) };
    let session = Session::resumed(wakeup::plan, run, cut);
    let (transcript, record) = InProcess::new(session).run(&mut Paper::new(step_at_32_mib));
    assert_eq!(record.problems, Vec::<String>::new());
    assert!(record.trials.len() > trials, "nothing was added");
    assert_eq!(record.losses.restarts, 0, "the new probe was asked to greet");
    let again = Record::parse(&transcript.join("\n")).expect("a record");
    assert_eq!(wakeup::read(&again), wakeup::read(&record));
    let done =
        |record: &Record| record.trials.iter().filter(|r| r.done.is_some() && r.trial.loads == 1).count();
    let (_, uncut) = self::session(&mut Paper::new(step_at_32_mib), sweep(100_000));
    // Only the rest of the interrupted round is lost, at most nine sizes.
    assert!(done(&record) + 9 >= done(&uncut), "{} against {}", done(&record), done(&uncut));
}
