//! scratch
#[path = "oracle/random.rs"]
mod random;
use fathom_experiment::conflict;
use fathom_experiment::record::Run;
use fathom_experiment::session::{InProcess, Session};
use fathom_model::description::{Description, Holds};
use fathom_model::{Model, catalog};

fn show(d: &Description) -> String {
    let run = Run {
        experiment: conflict::NAME.into(),
        subject: d.name.clone(),
        seed: 1,
        budget_ms: 10_000,
        ..Run::default()
    };
    if std::env::var("V").is_ok() {
        eprintln!("{}", d.name);
    }
    let (_, record) = InProcess::new(Session::new(conflict::plan, run)).run(&mut Model::new(d, 1));
    let report = conflict::read(&record);
    let spent: u64 = record.trials.iter().filter_map(|t| t.done).map(|d| d.watch.accesses).sum();
    let conf: u64 = record
        .of(fathom_probe::wire::PatternKind::Conflict)
        .filter_map(|t| t.done)
        .map(|d| d.watch.accesses)
        .sum();
    let mut out = format!(
        "{} {}M conf {}M trials {}\n",
        d.name,
        spent / 1_000_000,
        conf / 1_000_000,
        record.trials.len()
    );
    for (n, l) in d.levels.iter().filter(|l| l.holds != Holds::Instructions).enumerate() {
        let f = |what: &str| {
            report
                .findings
                .iter()
                .find(|f| f.name == format!("tier.{}.{what}", n + 1))
                .map(|f| format!("{:?}", f.value))
        };
        let r =
            report.refusals.iter().find(|r| r.what == format!("tier {}", n + 1)).map(|r| r.reason.clone());
        let ok = f("ways") == Some(format!("{:?}", fathom_analysis::findings::Value::Number(l.ways.into())))
            && f("sets") == Some(format!("{:?}", fathom_analysis::findings::Value::Number(l.sets() as f64)));
        let pol = f("policies").or_else(|| {
            report
                .refusals
                .iter()
                .find(|r| r.what == format!("tier.{}.policies", n + 1))
                .map(|r| format!("REF {}", r.reason))
        });
        let polok = match &pol {
            None => "POLNONE",
            Some(p) if p.starts_with("REF") => "POLREF",
            Some(p) if p.contains(&format!("{}", l.replacement.word())) => "POLOK",
            Some(_) => "POLBAD",
        };
        out += &format!("      {polok} {pol:?}\n");
        out += &format!(
            "   {} {} {}K line {} ways {} sets {} {:?} {:?} lat {:?} -> {:?} {:?} {}\n",
            if ok {
                "OK "
            } else if r.is_some() || f("ways").is_none() {
                "ref"
            } else {
                "BAD"
            },
            l.name,
            l.size / 1024,
            l.line,
            l.ways,
            l.sets(),
            l.replacement,
            l.inclusion,
            l.latency,
            f("ways"),
            (f("sets"), f("line")),
            r.unwrap_or_default()
        );
    }
    out
}

#[test]
fn scratch() {
    let from: u64 = std::env::var("FROM").map_or(1000, |n| n.parse().unwrap());
    let count: u64 = std::env::var("COUNT").map_or(0, |n| n.parse().unwrap());
    let all: Vec<Description> = if count == 0 {
        catalog::names().map(|name| catalog::load(name).unwrap().unwrap()).collect()
    } else {
        (0..count).map(|i| random::description(from + i, random::Spacing::Apart)).collect()
    };
    let next = std::sync::atomic::AtomicUsize::new(0);
    let out = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while let Some(d) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let t = show(d);
                    out.lock().unwrap().push(t);
                }
            });
        }
    });
    let mut out = out.into_inner().unwrap();
    out.sort();
    for o in &out {
        print!("{o}");
    }
    let c = |w: &str| out.iter().map(|o| o.matches(w).count()).sum::<usize>();
    println!("OK {} BAD {} ref {}", c("   OK "), c("   BAD "), c("   ref "));
    println!("POL OK {} BAD {} REF {} NONE {}", c("POLOK"), c("POLBAD"), c("POLREF"), c("POLNONE"));
}
