//! The pages of `--html` in a browser: figures are drawn without errors and react to mouse and keys, at desktop and
//! phone widths. `FATHOM_SHOTS=DIR` keeps the screenshots.

mod browser;

use std::path::{Path, PathBuf};
use std::process::Command;

use browser::{Browser, chromium};
use fathom_experiment::report_kinds::{REPORT_KINDS, kind};
use fathom_report::html::Entry;
use serde_json::{Value, json};

const DESKTOP_WIDTH: u64 = 1280;
const PHONE_WIDTH: u64 = 390;

fn fathom(home: &Path, args: &[&str]) {
    let out = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(args)
        .env("XDG_DATA_HOME", home)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("fathom runs");
    // 3: reported with warnings, which a budget of one second may cause.
    assert!(matches!(out.status.code(), Some(0 | 3)), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Creates one page of each kind; returns its name and the expected kinds of its figures.
fn pages(dir: &Path) -> Vec<(&'static str, Vec<&'static str>)> {
    let file = |name: &str| dir.join(name).display().to_string();
    let guest = "crates/fathom/tests/documents/guest.fathom";
    fathom(dir, &["report", guest, "--html", &file("survey.html")]);
    fathom(dir, &["report", "records/v1-bcm2835-latency.fathom", "--html", &file("latency.html")]);
    fathom(dir, &["report", "records/v1-bcm2837-cacheability.fathom", "--html", &file("cacheability.html")]);
    let transfers = ["dma", "--on", "omap3-sdio", "--bytes", "64,1536,16K", "--budget", "4s", "--html"];
    fathom(dir, &[&transfers[..], &[&file("dma.html")]].concat());
    let sweep = ["stride", "--on", "am5728", "--bytes", "16K,256K", "--budget", "2s", "--html"];
    fathom(dir, &[&sweep[..], &[&file("stride.html")]].concat());
    let conflict = ["conflict", "--on", "cortex-a8", "--budget", "4s", "--html"];
    fathom(dir, &[&conflict[..], &[&file("conflict.html")]].concat());
    let colours = ["conflict", "--on", "bcm2711", "--colours", "1,2,4", "--budget", "8s", "--html"];
    fathom(dir, &[&colours[..], &[&file("colours.html")]].concat());
    for seed in ["1", "2"] {
        let record = file(&format!("{seed}.fathom"));
        fathom(dir, &["survey", "--on", "bcm2835", "--budget", "1s", "--seed", seed, "--record", &record]);
    }
    fathom(dir, &["compare", &file("1.fathom"), &file("2.fathom"), "--html", &file("compare.html")]);
    fathom(dir, &["report", guest, &file("1.fathom"), "--html", &file("records.html")]);
    documents(dir);
    let calls = calls(dir).then(|| ("calls", vec!["calls"]));
    // With one second bcm2835 has no pairs of loads.
    let (survey, short) = (["latency_curve", "pairs", "pages"], ["latency_curve", "pages"]);
    machines(dir);
    let pages = [
        ("machines", vec!["together"]),
        ("survey", survey.to_vec()),
        ("latency", vec!["histogram"; 3]),
        ("cacheability", vec!["attributes"; 2]),
        ("dma", ["transfers", "transferparts"].repeat(2).into_iter().chain(["pollution"; 2]).collect()),
        ("stride", ["stride", "heat"].repeat(3)),
        ("conflict", vec!["evicted", "pairs", "rounds", "rounds"]),
        ("wakeup", [vec!["wakeups"; 5], vec!["stages"], vec!["effects"; 2]].concat()),
        ("wakeup-sweep", ["sweep", "sweepheat"].repeat(2)),
        ("colours", vec!["pairs", "rounds", "rounds", "colours", "colours"]),
        ("compare", [&["overlay", "change"][..], &short, &short].concat()),
        ("records", [&["overlay"][..], &survey, &short].concat()),
    ];
    pages.into_iter().chain(calls).collect()
}

/// Creates the page of a simulated program's calls. Returns false, and tells it, where none can be simulated.
fn calls(dir: &Path) -> bool {
    let program = dir.join("calls");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/calls.c");
    let built = Command::new("gcc").args(["-O1", "-static", "-o"]).arg(&program).arg(source).status();
    if !built.is_ok_and(|status| status.success()) {
        fathom_skip::skipped!(Unchecked, "no gcc that compiles examples/calls.c");
        return false;
    }
    if !Path::new(env!("CARGO_BIN_EXE_fathom")).with_file_name("libfathom_plugin.so").is_file() {
        fathom_skip::skipped!(Unchecked, "no libfathom_plugin.so: scripts/simulate builds it");
        return false;
    }
    let page = dir.join("calls.html").display().to_string();
    fathom(
        dir,
        &["simulate", "--on", "bcm2837", "--calls", "--html", &page, "--", &program.display().to_string()],
    );
    true
}

/// Creates the page of a trace on four variants of a machine.
fn machines(dir: &Path) {
    let trace = dir.join("trace.din");
    let accesses: String = (0..20_000u64).map(|n| format!("0 {:x}\n", n * 64 % (96 << 10))).collect();
    std::fs::write(&trace, accesses).expect("a trace");
    let (trace, page) = (trace.display().to_string(), dir.join("machines.html").display().to_string());
    let vary = ["--vary", "l1d.size=32K,64K", "--vary", "l2.size=64K,1M"];
    let simulate =
        ["simulate", "--on", "bcm2837", "--trace", &trace, "--trace-format", "din", "--html", &page];
    fathom(dir, &[&simulate[..], &vary[..]].concat());
}

/// Creates pages from committed reports, because these measurements need a machine and minutes.
fn documents(dir: &Path) {
    for name in ["wakeup", "wakeup-sweep"] {
        let file = format!("../experiment/tests/report/golden/{name}.json");
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("a document");
        let report = fathom_report::from_json(&text, &REPORT_KINDS).expect("findings");
        let entry = Entry { name, report: &report, kind: kind(&report.experiment).expect("a kind") };
        let page = fathom_report::html(&[entry], &[], &[], true).expect("a page");
        std::fs::write(dir.join(format!("{name}.html")), page).expect("a file");
    }
}

#[test]
fn every_kind_of_page_is_drawn_and_interactive() {
    let program = match chromium() {
        Ok(program) => program,
        Err(why) => return fathom_skip::skipped!(Browser, "pages in a browser: {why}"),
    };
    let dir = tempfile::tempdir().expect("a directory");
    let screenshots = std::env::var_os("FATHOM_SHOTS").map(PathBuf::from);
    let pages = pages(dir.path());
    let mut browser = Browser::start(&program);
    for (name, figures) in pages {
        let page = dir.path().join(format!("{name}.html"));
        for (kind, width, dark) in
            [("desk", DESKTOP_WIDTH, false), ("phone", PHONE_WIDTH, false), ("dark", DESKTOP_WIDTH, true)]
        {
            let about = format!("{name}, {kind}");
            browser.open(&page, width, 900, dark);
            assert_eq!(browser.complaints, Vec::<String>::new(), "{about}");
            assert_drawn(&mut browser, &figures, width, &about);
            if let Some(dir) = &screenshots {
                browser.screenshot(&dir.join(format!("{name}-{kind}.png")));
            }
        }
        browser.open(&page, DESKTOP_WIDTH, 900, false);
        assert_interactive(&mut browser, name);
        match name {
            "stride" => heat(&mut browser),
            "conflict" => policies(&mut browser),
            "machines" => together(&mut browser),
            "wakeup" => wakeups(&mut browser),
            "wakeup-sweep" => sweep(&mut browser),
            _ => {}
        }
        assert!(browser.printed() > 10_000, "{name}: nothing is printed");
        assert_eq!(browser.complaints, Vec::<String>::new(), "{name}, after use");
    }
}

/// Asserts that every figure is drawn with marks, and that nothing is wider than the window.
fn assert_drawn(browser: &mut Browser, figures: &[&str], width: u64, about: &str) {
    let found = browser.value(
        "[...document.querySelectorAll('figure.chart')].map((f) => [f.dataset.chart, \
         f.querySelectorAll('.plot svg path').length, Number(f.dataset.items), f.querySelector('pre') === null, \
         f.querySelector('.plot > div')?.getAttribute('aria-label') ?? f.querySelector('.plot').getAttribute('aria-label')])",
    );
    let found: Vec<Value> = found.as_array().expect("a list").clone();
    let kinds: Vec<&str> = found.iter().filter_map(|f| f[0].as_str()?.split('.').next()).collect();
    assert_eq!(kinds, figures, "{about}");
    for f in &found {
        assert!(f[1].as_u64() > Some(3), "{about}: an empty drawing: {f}");
        assert!(f[2].as_u64() > Some(0) && f[3] == json!(true), "{about}: {f}");
        assert!(f[4].as_str().is_some_and(|label| label.len() > 20), "{about}: no description: {f}");
    }
    // A phone's window grows with wide content, so the requested width is compared.
    let wide = browser.value("document.documentElement.scrollWidth").as_u64().expect("a width");
    assert!(wide <= width, "{about}: {wide} wide in {width}");
}

/// The figure with most items.
const FIRST: &str =
    "[...document.querySelectorAll('figure.chart')].sort((a, b) => b.dataset.items - a.dataset.items)[0]";

fn caption(browser: &mut Browser) -> String {
    browser
        .value(&format!("{FIRST}.querySelector('figcaption').textContent"))
        .as_str()
        .unwrap_or("")
        .to_string()
}

/// Returns the markup of that figure, to detect changes.
fn drawing(browser: &mut Browser) -> Value {
    browser.value(&format!("{FIRST}.querySelector('svg').innerHTML"))
}

/// Returns its texts, sorted, in one line: a redrawn figure may have them in another order.
fn labels(browser: &mut Browser) -> String {
    let all = browser.value(&format!(
        "[...{FIRST}.querySelectorAll('svg text')].map((t) => t.textContent).sort().join(' ')"
    ));
    all.as_str().expect("text").to_string()
}

/// Waits for a drawing that differs from `before`, within the next frames; returns None if there is none.
fn redrawn(browser: &mut Browser, before: &Value) -> Option<Value> {
    // Five seconds, which detects hangs and does not measure speed.
    for _ in 0..250 {
        let now = drawing(browser);
        if now != *before {
            return Some(now);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    None
}

/// Asserts that keys read and zoom, that the mouse shows tooltips, and that the theme changes.
fn assert_interactive(browser: &mut Browser, about: &str) {
    browser.value(&format!("{FIRST}.focus(); {FIRST}.scrollIntoView(); 0"));
    let explains = caption(browser);
    browser.press("ArrowRight");
    let first = caption(browser);
    browser.press("ArrowRight");
    let second = caption(browser);
    assert!(first != explains && second != first, "{about}: keys do not read: {first:?}, {second:?}");
    browser.press("Escape");
    assert_eq!(caption(browser), explains, "{about}");

    let (whole, axes) = (drawing(browser), labels(browser));
    browser.press("+");
    assert!(redrawn(browser, &whole).is_some(), "{about}: + does not zoom");
    // The item that is read is scrolled into view.
    browser.press("+");
    browser.press("+");
    browser.press("Home");
    let (tip, plot) = (tip(browser), frame(browser));
    assert!(
        tip[0] >= plot[0] - 5.0 && tip[0] <= plot[0] + plot[2] + 5.0,
        "{about}: the tooltip at {tip:?} is outside of the plot {plot:?}"
    );
    assert_ne!(labels(browser), axes, "{about}: + shows the same axes");
    browser.press("0");
    let all = (0..250).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        labels(browser) == axes
    });
    assert!(all, "{about}: 0 does not show all: {axes}, {}", labels(browser));

    tooltip(browser, about);
    legend(browser, about);

    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(ground);
    let before = drawing(browser);
    browser.value("document.getElementById('theme').click(); 0");
    assert_ne!(browser.value(ground), light, "{about}: no other theme");
    assert!(redrawn(browser, &before).is_some(), "{about}: the figure keeps its colours");
    browser.value("document.getElementById('theme').click(); 0");
}

/// Asserts that a heat map has one rectangle per cell in several colours, with numbers, and can be read with keys and
/// mouse.
fn heat(browser: &mut Browser) {
    let first = "document.querySelector('figure[data-chart^=heat]')";
    let cells = browser.value(&format!("Number({first}.dataset.items)")).as_u64().expect("cells");
    assert_eq!(cells, 2 * 8, "two sizes by eight steps");
    let colours = browser.value(&format!(
        "new Set([...{first}.querySelectorAll('svg path')].map((p) => p.getAttribute('fill'))).size"
    ));
    assert!(colours.as_u64() > Some(3), "{colours} colours");
    let numbers = browser.value(&format!(
        "[...{first}.querySelectorAll('svg text')].filter((t) => /^\\d+(\\.\\d+)?$/.test(t.textContent)).length"
    ));
    assert!(numbers.as_u64() >= Some(cells), "{numbers} numbers for {cells} cells");
    browser.value(&format!("{first}.focus(); {first}.scrollIntoView(); 0"));
    for expected in ["16 KiB at a stride of 8 B", "16 KiB at a stride of 16 B"] {
        browser.press("ArrowRight");
        let read = browser.value(&format!("{first}.querySelector('figcaption').textContent"));
        assert!(read.as_str().is_some_and(|t| t.starts_with(expected) && t.contains("ns/line")), "{read}");
    }
    let tip = browser.value(&format!(
        "new Promise((done) => setTimeout(() => done([...{first}.querySelectorAll('.plot > div')].map((d) => \
         d.innerText).join(' ')), 200))"
    ));
    assert!(tip.as_str().is_some_and(|t| t.contains("16 KiB at a stride of 16 B")), "the tooltip says {tip}");
    browser.press("Escape");
}

/// Asserts that conditions can be switched, that the worst activations are bars of stages, and that effects have
/// intervals.
fn wakeups(browser: &mut Browser) {
    let user = "document.querySelector('figure[data-chart=\"wakeups.user\"]')";
    let shown = browser.value(&format!(
        "[...{user}.querySelectorAll('.legend button[aria-pressed=true]')].map((b) => b.textContent)"
    ));
    assert_eq!(shown, json!(["unloaded", "stress-mix", "stress-mix-vm"]));
    let marks = format!("{user}.querySelectorAll('svg path').length");
    let before = browser.value(&marks).as_u64();
    browser.value(&format!("{user}.querySelector('.legend button[aria-pressed=false]').focus(); 0"));
    browser.press("Enter");
    let more = (0..250).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        browser.value(&marks).as_u64() > before
    });
    assert!(more, "a condition that was hidden does not appear");
    for (figure, key, expected) in [
        (r#"figure[data-chart="wakeups.user"]"#, "ArrowRight", "of 6000 activations"),
        ("figure[data-chart=stages]", "ArrowRight", "1, unloaded: 53990 us: before-irq 17.2"),
        (r#"figure[data-chart="effects.effect"]"#, "End", "copy with fault: 0.8 (-0.6..2.2) us"),
        (r#"figure[data-chart="effects.explained"]"#, "ArrowRight", "increase: 14.8 (12.6..17) us"),
    ] {
        let read = read(browser, figure, key);
        assert!(read.contains(expected), "{figure}: {read}");
    }
    let first = "document.querySelector('figure[data-chart=stages]')";
    let stages =
        browser.value(&format!("[...{first}.querySelectorAll('.legend button')].map((b) => b.textContent)"));
    assert_eq!(stages, json!(["before-irq", "irq-to-wakeup", "wakeup-to-switch", "switch-to-user"]));
}

/// Asserts that machines have a row each, of cycles by who answered.
fn together(browser: &mut Browser) {
    let figure = "figure[data-chart=together]";
    let rows = browser.value(&format!("Number(document.querySelector('{figure}').dataset.items)"));
    assert_eq!(rows, json!(4));
    let (first, last) = (read(browser, figure, "Home"), read(browser, figure, "End"));
    assert!(first.starts_with("l1d.size=32K, l2.size=64K: ") && first.contains("memory "), "{first}");
    assert!(last.starts_with("l1d.size=64K, l2.size=1M: ") && last.contains("data from L2 "), "{last}");
}

/// Returns a figure's caption after a key.
fn read(browser: &mut Browser, figure: &str, key: &str) -> String {
    browser.value(&format!("document.querySelector('{figure}').focus(); 0"));
    browser.press(key);
    let read = browser.value(&format!("document.querySelector('{figure} figcaption').textContent"));
    browser.press("Escape");
    read.as_str().unwrap_or_default().to_owned()
}

/// Asserts that a sweep shows its changepoint as a labelled band, and a heat map of sizes by strides.
fn sweep(browser: &mut Browser) {
    let words = |browser: &mut Browser, mode: &str| {
        let all = browser.value(&format!(
            "[...document.querySelectorAll('figure[data-chart$=\"malloc.{mode}\"] svg text')].map((t) => t.textContent).join('; ')"
        ));
        all.as_str().expect("text").to_owned()
    };
    let changes = words(browser, "free");
    assert!(changes.contains("1: step, tail") && changes.contains("25.7"), "{changes}");
    assert!(!words(browser, "keep").contains("step"));
    let at = r#"figure[data-chart^="sweepheat"]"#;
    let cells = browser.value(&format!("Number(document.querySelector('{at}').dataset.items)"));
    assert_eq!(cells, json!(20), "ten sizes by two strides");
    let read = read(browser, at, "End");
    assert!(read.starts_with("256 MiB at a stride of 4096 B: 25.3 us"), "{read}");
}

/// Asserts that textbook policies are labelled in the chart of misses, equal ones together, and can be read with keys.
fn policies(browser: &mut Browser) {
    let first = "document.querySelector('figure[data-chart=\"rounds.misses\"]')";
    let all = browser
        .value(&format!("[...{first}.querySelectorAll('svg text')].map((t) => t.textContent).join('; ')"));
    let all = all.as_str().expect("text");
    for policy in ["lru, fifo", "random", "bit-plru"] {
        assert!(all.contains(policy), "no {policy} in {all}");
    }
    browser.value(&format!("{first}.focus(); 0"));
    browser.press("End");
    let read = browser.value(&format!("{first}.querySelector('figcaption').textContent"));
    assert!(
        read.as_str().is_some_and(|t| t.contains(" reads with ") && t.contains("expected misses per round")),
        "{read}"
    );
    browser.press("Escape");
}

/// Returns position and size of the plot in the window.
fn frame(browser: &mut Browser) -> [f64; 4] {
    let place = browser.value(&format!(
        "(() => {{ const r = {FIRST}.querySelector('.plot').getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }})()"
    ));
    [0, 1, 2, 3].map(|i| place[i].as_f64().expect("a place"))
}

/// Returns the position of the visible tooltip.
fn tip(browser: &mut Browser) -> [f64; 2] {
    for _ in 0..250 {
        let place = browser.value(&format!(
            "(() => {{ const t = [...{FIRST}.querySelectorAll('.plot > div')].find((d) => /\\d/.test(d.innerText) && d.style.visibility !== 'hidden'); \
             if (!t) return null; const r = t.getBoundingClientRect(); return [r.x, r.y]; }})()"
        ));
        if let (Some(x), Some(y)) = (place[0].as_f64(), place[1].as_f64()) {
            return [x, y];
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("no tooltip");
}

/// Moves the mouse over the figure until a tooltip shows numbers.
fn tooltip(browser: &mut Browser, about: &str) {
    let [x, y, width, height] = frame(browser);
    // The centres of the series' paths, after the view has settled.
    let inside = |p: &Value| {
        let (px, py) = (p[0].as_f64().unwrap_or(-1.0), p[1].as_f64().unwrap_or(-1.0));
        (px > x && px < x + width && py > y + 30.0 && py < y + height - 50.0).then_some((px, py))
    };
    let mut spots: Vec<(f64, f64)> = Vec::new();
    for _ in 0..250 {
        let all = browser.value(&format!(
            "[...{FIRST}.querySelectorAll('svg path')].map((p) => p.getBoundingClientRect()) \
             .filter((r) => r.width > 2 && r.width < 60 && r.height > 2) \
             .map((r) => [r.x + r.width / 2, r.y + r.height / 2])"
        ));
        spots = all.as_array().expect("spots").iter().filter_map(inside).collect();
        if !spots.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!spots.is_empty(), "{about}: no marks");
    for (px, py) in spots {
        browser.hover(px, py);
        let shown = browser.value(&format!(
            "new Promise((done) => setTimeout(() => done([...{FIRST}.querySelectorAll('.plot > div')].map((d) => \
             getComputedStyle(d).visibility === 'hidden' || d.style.opacity === '0' ? '' : d.innerText).join(' ')), 60))"
        ));
        if shown.as_str().is_some_and(|t| t.chars().any(|c| c.is_ascii_digit())) {
            return;
        }
    }
    panic!("{about}: no tooltip anywhere");
}

/// Asserts that the first button of the legend hides its series, and that a redraw keeps it hidden.
fn legend(browser: &mut Browser, about: &str) {
    let button = format!("{FIRST}.querySelector('.legend button')");
    if browser.value(&format!("{button} === null")) == json!(true) {
        return assert!(["compare", "calls"].contains(&about), "{about}: no legend");
    }
    let before = drawing(browser);
    browser.value(&format!("{button}.focus(); 0"));
    browser.press("Enter");
    let without = redrawn(browser, &before).unwrap_or_else(|| panic!("{about}: the legend does nothing"));
    assert_eq!(browser.value(&format!("{button}.getAttribute('aria-pressed')")), json!("false"), "{about}");
    browser.value("document.getElementById('theme').click(); 0");
    redrawn(browser, &without).unwrap_or_else(|| panic!("{about}: no other theme"));
    browser.value("document.getElementById('theme').click(); 0");
    // The same number of marks: the hidden series is still hidden.
    let count = format!("{FIRST}.querySelectorAll('svg path').length");
    let away = browser.value(&count);
    browser.press("Enter");
    let back = (0..250).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        browser.value(&count).as_u64() > away.as_u64()
    });
    assert!(back, "{about}: the legend brings nothing back");
}
