//! Descriptions: parsing, writing, and refusal with a reason.

mod common;

use common::{random_description, random_neighbours};
use fathom_model::description::{Coherence, Frames, Index, Replacement, Streams, Time, WithoutStudy};
use fathom_model::{Description, DescriptionError};
use fathom_probe::machine::dma::Maintenance;
use fathom_units::facts::{Study, ValueClass};
use proptest::prelude::*;

/// Returns the example in the document of the format.
fn example() -> String {
    let readme = include_str!("../../../machines/README.md");
    let start = readme.find("```toml\n").expect("the document has an example") + 8;
    let end = start + readme[start..].find("```").expect("and it ends");
    readme[start..end].to_string()
}

fn refusal(text: &str) -> DescriptionError {
    Description::parse("m.toml", text).expect_err("this is no description")
}

/// Returns the example with one line replaced.
fn with(old: &str, new: &str) -> String {
    let text = example();
    assert_eq!(text.matches(old).count(), 1, "{old}");
    text.replace(old, new)
}

#[test]
fn the_documents_example_is_a_description() {
    let d = Description::parse("machines/pi.toml", &example()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(d.name, "pi");
    assert_eq!(d.core.clock_hz, 600e6);
    assert_eq!((d.levels[0].size, d.levels[0].sets()), (32768, 128));
    assert_eq!(d.memory.latency.in_cycles(d.core.clock_hz), 78.0);
    assert_eq!(d.memory.rows.as_ref().map(|r| r.row), Some(8192));
    assert_eq!(d.walk.as_ref().map(|w| w.fetches), Some(1));
    assert_eq!(d.tlbs[0].splits, Some(4096));
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest() {
    let e = refusal(&with("replacement = \"random\"", "replacment = \"random\""));
    assert_eq!(&*e.value, "replacment");
    assert_eq!(e.column, 1);
    assert!(example().lines().nth(e.line - 1).unwrap().starts_with("replacement"), "{e}");
    assert!(e.help.contains("`replacement`"), "{e}");
    let shown = e.to_string();
    assert!(shown.contains("--> m.toml:") && shown.contains("^^^^^^^^^^"), "{shown}");
}

#[test]
fn a_wrong_unit_says_what_is_expected() {
    let cases = [
        ("latency = \"3 cycles\"", "latency = \"3 ticks\"", "cycles"),
        ("latency = \"3 cycles\"", "latency = \"3 us\"", "3000 ns"),
        ("latency = \"3 cycles\"", "latency = \"3\"", "unit"),
        ("latency = \"3 cycles\"", "latency = 3", "text"),
        ("latency = \"3 cycles\"", "latency = \"-3 cycles\"", "time"),
        ("latency = \"3 cycles\"", "latency = \"1e3 cycles\"", "unit"),
        ("latency = \"3 cycles\"", "latency = \"9999999999 cycles\"", "1000000 cycles"),
        ("size = \"32K\"", "size = \"32k\"", "32K"),
        ("size = \"32K\"", "size = \"32 KB\"", "32K"),
        ("size = \"32K\"", "size = \"1.5K\"", "whole"),
        ("size = \"32K\"", "size = \"99999999999999T\"", "64 bits"),
        ("size = \"32K\"", "size = \"K\"", "size"),
        ("ways = 4 ", "ways = \"4\"", "integer"),
        ("ways = 4 ", "ways = -4", "integer"),
        ("ways = 4 ", "ways = 0", "ways"),
        ("replacement = \"random\"", "replacement = \"lur\"", "\"lru\""),
        ("replacement = \"random\"", "replacement = \"bit-lru\"", "\"bit-plru\""),
        ("replacement = \"random\"", "replacement = \"qlru\"", "qlru-h00-m1-r2-u1"),
        ("replacement = \"random\"", "replacement = \"not-mru\"", "not-mru-random"),
        ("index = \"bits\"", "index = \"hash\"", "\"hashed\""),
        ("index = \"bits\"", "index = 1", "text"),
        ("frames = \"contiguous\"", "frames = \"scatterd\"", "\"scattered\""),
        ("frames = \"contiguous\"", "frame = \"scattered\"", "`frames`"),
        ("write = \"back\"", "write = \"write-back\"", "back"),
        ("allocate = true", "allocate = \"true\"", "true or false"),
        ("shared = false", "# shared", "lacks `shared`"),
        ("format = 1", "format = 2\nfuture = true", "format 1"),
        ("format = 1", "# none", "lacks `format`"),
        ("about = \"Raspberry", "about = \"two\\nlines", "one line"),
        ("from = \"memory\"", "from = \"L1\"", "L1D"),
        ("from = \"memory\"", "from = \"none\"", "fetches = 0"),
        ("resolution = 1 ", "resolution = 0", "multiple"),
        ("refresh_takes = \"350 ns\"", "refresh_takes = \"9000 ns\"", "7800 ns"),
        ("open = \"100 ns\"", "# none", "lacks `open`"),
        ("spread = \"10 ns\"", "spread = \"110 ns\"", "100 ns"),
        ("line = \"64\"", "line = \"48\"", "64"),
        ("entries = 10", "entries = 12", "10 and 20"),
        ("bursts = [\"1 ms\", \"10 s\"]", "bursts = [\"10 s\", \"1 ms\"]", "the shorter one first"),
        ("bursts = [\"1 ms\", \"10 s\"]", "bursts = [\"1 ms\", \"1e9 s\"]", "not a unit of a duration"),
        ("bursts = [\"1 ms\", \"10 s\"]", "bursts = [\"1 ms\", \"9999 s\"]", "1000 s"),
        ("bursts = [\"1 ms\", \"10 s\"]", "bursts = [\"1 ms\"]", "list of two"),
        ("bursts = [\"1 ms\", \"10 s\"]", "bursts = \"1 ms\"", "list of two"),
        ("bursts = [\"1 ms\", \"10 s\"]", "burst = [\"1 ms\", \"10 s\"]", "`bursts`"),
        ("pauses = [\"20 ms\", \"5 s\"]", "# none", "lacks `pauses`"),
        ("levels = [\"L1D\"]", "levels = [\"L1\"]", "\"L1D\""),
        ("levels = [\"L1D\"]", "levels = [\"L1D\", \"L1D\"]", "twice"),
        ("tlbs = [\"uTLB\"]", "tlbs = [7]", "quoted names"),
        ("ways_taken = [25, 75]", "# none", "`levels` without `ways_taken`"),
        ("ways_taken = [25, 75]", "ways_taken = [1, 5]", "less than one of 4"),
        ("ways_taken = [25, 75]", "ways_taken = [25, 100]", "from 1 to 99"),
        ("ways_taken = [25, 75]", "ways_taken = [\"25\", \"75\"]", "two integers"),
        ("memory_slower = [10, 200]", "memory_slower = [0, 200]", "from 1 to 900"),
        ("clock_slower = [3, 30]", "clock_slower = [30, 3]", "the smaller one first"),
        ("splits = \"4K\"", "splits = \"64K\"", "splits = \"4K\""),
        ("splits = \"4K\"", "splits = 4096", "text"),
        ("splits = \"4K\"", "split = \"4K\"", "`splits`"),
        ("pages = [\"4K\", \"64K\", \"2M\"]", "pages = [\"4K\"]", "no page larger than 4K"),
        ("clock = \"600 MHz\"\ncpus", "clock = \"600 Mhz\"\ncpus", "600 MHz"),
    ];
    for (old, new, expected) in cases {
        let e = refusal(&with(old, new));
        let shown = e.to_string();
        assert!(shown.contains(expected), "{new}: {shown}");
        assert!(e.line > 0 && e.column > 0 && shown.contains("m.toml:"), "{shown}");
    }
}

#[test]
fn defaults_are_index_by_bits_and_contiguous_frames() {
    let text = example().replace("index = \"bits\"", "").replace("frames = \"contiguous\"", "");
    let d = Description::parse("m", &text).unwrap();
    assert_eq!((d.levels[0].index, d.memory.frames), (Index::Bits, Frames::Contiguous));
    let shown = d.to_toml();
    assert!(shown.contains("index = \"bits\"") && shown.contains("frames = \"contiguous\""), "{shown}");
    for policy in Replacement::ALL {
        let text = with("replacement = \"random\"", &format!("replacement = \"{}\"", policy.word()));
        let d = Description::parse("m", &text).unwrap();
        assert_eq!(d.levels[0].replacement, *policy);
        assert_eq!(Description::parse("m", &d.to_toml()).unwrap(), d);
    }
}

#[test]
fn uncached_memory_is_described_by_keys_that_belong_together() {
    let d = Description::parse("m.toml", &example()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(d.uncached.gathering.as_ref().map(|g| (g.buffers, g.gather)), Some((4, 16)));
    for (old, new, key, says) in [
        ("drain = \"10 ns\"", "drian = \"10 ns\"", "drian", "`drain`"),
        ("drain = \"10 ns\"", "", "drain", "drain = "),
        ("device_store = \"150 ns\"", "", "device_store", "device_store = "),
        ("gather = \"16\"", "gather = \"24\"", "24", "power of two"),
        ("gather = \"16\"", "gather = \"4\"", "4", "from 8"),
        ("buffers = 4 ", "buffers = 0", "0 buffers", "from 1"),
        ("write_through = \"normal-nc\"", "write_through = \"wt\"", "wt", "write-through, normal-nc"),
        ("mixed = \"normal-nc\"", "mixed = \"outer\"", "outer", "normal-nc, inner"),
        ("\nload = \"150 ns\"", "\n#", "`load`", "load = "),
        ("store = \"0 cycles\"", "store = \"0\"", "`store`", "unit"),
    ] {
        let reported = refusal(&with(old, new)).to_string();
        assert!(reported.contains(key) && reported.contains(says), "{old} -> {new}: {reported}");
    }
    let plain = example();
    let plain = &plain[..plain.find("[uncached]").expect("only [dma] and [wakeup] follow")];
    let d = Description::parse("m.toml", plain).unwrap_or_else(|e| panic!("{e}"));
    assert!(!d.to_toml().contains("[uncached]"), "what is not said is not written");
}

#[test]
fn device_section_includes_kernel_costs() {
    let d = Description::parse("m.toml", &example()).unwrap_or_else(|e| panic!("{e}"));
    let device = d.dma.as_ref().expect("the example has one");
    assert_eq!((device.rate, device.burst, device.widest), (24e6, 64, 32));
    assert_eq!((device.coherence, device.maintenance), (Coherence::None, Some(Maintenance::MapAndUnmap)));
    assert_eq!(Description::parse("m.toml", &d.to_toml()).unwrap(), d);
    for (old, new, key, says) in [
        ("rate = \"24 MB/s\"", "rate = \"24 Mbit/s\"", "Mbit/s", "decimal"),
        ("rate = \"24 MB/s\"", "rate = \"0 MB/s\"", "`rate`", "1 kB/s"),
        ("burst = \"64\"", "burst = \"48\"", "48", "power of two"),
        ("setup = \"3000 ns\"", "setup = \"3 us\"", "`setup`", "3000 ns"),
        ("coherence = \"none\"", "coherence = \"non\"", "non", "none, snooped, stashed"),
        ("coherence = \"none\"", "coherence = \"snooped\"", "`maintenance`", "or remove it"),
        ("maintenance = \"map-and-unmap\"", "", "`maintenance`", "map-and-unmap"),
        ("maintenance = \"map-and-unmap\"", "maintenance = \"unmap\"", "unmap", "whole-cache"),
        ("maintain = \"20 cycles\"", "", "cost per line", "[core]"),
        ("widest = \"32\"", "widest = \"128\"", "128", "to 64"),
        ("\ninterrupt = ", "\ninterupt = ", "interupt", "`interrupt`"),
    ] {
        let reported = refusal(&with(old, new)).to_string();
        assert!(reported.contains(key) && reported.contains(says), "{old} -> {new}: {reported}");
    }
}

#[test]
fn accesses_that_overlap_are_counts_within_limits() {
    let d = Description::parse("m.toml", &example()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((d.core.outstanding, d.core.window), (Some(3), Some(64)));
    assert_eq!(d.core.set_fill, Some(Time::cycles(8.0)));
    assert_eq!(d.core.streams, Some(Streams { cost: Time::cycles(9.0), number: 16 }));
    assert_eq!(d.core.events.as_deref(), Some("cortex-a53"));
    let plain = Description::parse("m.toml", &with("window = 64 ", "")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((plain.core.outstanding, plain.core.window), (Some(3), None));
    assert_eq!(Description::parse("m.toml", &plain.to_toml()).unwrap(), plain);
    for (old, new, key, says) in [
        ("outstanding = 3 ", "outstanding = 0 ", "0 outstanding", "1 (the core waits for each miss)"),
        ("outstanding = 3 ", "outstanding = 257 ", "257 outstanding", "256"),
        ("outstanding = 3 ", "outstanding = \"3\" ", "`outstanding`", "outstanding = 4"),
        ("outstanding = 3 ", "", "`window` without `outstanding`", "outstanding = 4"),
        ("window = 64 ", "window = 2 ", "window of 2", "from `outstanding`, 3, to 4096"),
        ("window = 64 ", "window = 4097 ", "window of 4097", "to 4096"),
        ("window = 64 ", "windows = 64 ", "windows", "`window`"),
        ("index = \"bits\" ", "index = \"hashed\" ", "hashed index of L1D", "index = \"bits\""),
        ("set_fill = \"8 cycles\"", "set_fill = 8", "`set_fill`", "130 ns"),
        ("streams = 16 ", "streams = 0 ", "0 streams", "from 1 to 256"),
        ("streams = 16 ", "streams = 257 ", "257 streams", "from 1 to 256"),
        ("streams = 16 ", "", "lacks `streams`", "streams = 4"),
        ("stream = \"9 cycles\"", "", "lacks `stream`", "130 ns"),
        ("stream = \"9 cycles\"", "stream = \"2.5 cycles\"", "2.5 cycles", "from 3 cycles on"),
        ("stream = \"9 cycles\"", "stream = 9", "`stream`", "130 ns"),
        ("events = \"cortex-a53\" ", "events = \"Cortex A53\" ", "not a name", "letters, digits"),
        ("events = \"cortex-a53\" ", "events = 53 ", "`events`", "events = \"cortex-a53\""),
    ] {
        let reported = refusal(&with(old, new)).to_string();
        assert!(reported.contains(key) && reported.contains(says), "{old} -> {new}: {reported}");
    }
}

#[test]
fn a_wake_up_is_described_stage_by_stage() {
    let d = Description::parse("m.toml", &example()).unwrap_or_else(|e| panic!("{e}"));
    let wakeup = d.wakeup.as_ref().expect("the example has one");
    assert_eq!(wakeup.stages.map(|stage| stage.instructions), [7091, 813, 1232, 1687, 1036]);
    assert_eq!((wakeup.stages[0].code, wakeup.stages[4].data, wakeup.within), (21120, 2624, 16 << 20));
    assert_eq!(Description::parse("m.toml", &d.to_toml()).unwrap(), d);
    for (old, new, key, says) in [
        ("[wakeup.switch]", "[wakeup.swich]", "swich", "`switch`"),
        ("[wakeup.switch]                 #", "[wakeup.timer] #", "[wakeup]", "known keys"),
        ("instructions = 813", "instruction = 813", "[wakeup.irq]", "`instructions`"),
        ("instructions = 813", "instructions = 0", "0 instructions", "from 1"),
        ("instructions = 813", "instructions = \"813\"", "`instructions`", "an integer"),
        ("instructions = 813", "", "[wakeup.irq] lacks `instructions`", "instructions = 1100"),
        ("code = \"8640\"", "code = \"0\"", "`code`", "from 1"),
        ("code = \"8640\"", "code = \"8M\"", "8M", "4M"),
        ("data = \"1792\"", "", "[wakeup.switch] lacks `data`", "data = "),
        ("common = \"1K\"", "comon = \"1K\"", "comon", "`common`"),
        ("within = \"16M\"", "within = \"17M\"", "17M", "power of two"),
        ("within = \"16M\"", "within = \"64K\"", "64K", "half"),
        ("instruction = \"1 cycles\"", "instruction = \"1\"", "`instruction`", "unit"),
        ("inclusion = \"neither\"", "inclusion = \"inclusive-dta\"", "inclusive-dta", "\"inclusive-data\""),
    ] {
        let reported = refusal(&with(old, new)).to_string();
        assert!(reported.contains(key) && reported.contains(says), "{old} -> {new}: {reported}");
    }
    let missing = example().replace("[wakeup.user]", "[wakeup.irq2]");
    assert!(refusal(&missing).to_string().contains("irq2"));
}

#[test]
fn classes_say_where_values_come_from() {
    let plain = Description::parse("m.toml", &example()).unwrap_or_else(|e| panic!("{e}"));
    let class = |d: &Description, table: &str, key: &str| {
        let mut values = d.values().into_iter();
        values.find(|(value, _)| value.table == table && value.key == key).expect("a value").1
    };
    let core =
        "classes = { manual = [\"cpus\"], study = { S3 = [\"clock\"] }, assumed = [\"alu\", \"branch\"] }";
    assert!(example().contains(core));
    assert_eq!(class(&plain, "core", "clock"), Some(ValueClass::Study(Study::S3)));
    assert_eq!((class(&plain, "core", "maintain"), class(&plain, "timer", "clock")), (None, None));
    assert!(plain.values().iter().all(|(value, _)| value.key != "holds" && value.key != "name"));
    assert!(plain.to_toml().contains(core), "{}", plain.to_toml());
    // A description without classes is read as before.
    let without = Description::parse("m.toml", &with(core, "")).unwrap_or_else(|e| panic!("{e}"));
    assert!(
        without.values().iter().all(|(_, class)| class.is_none()) && !without.to_toml().contains("classes")
    );
    assert_eq!(Description { classes: plain.classes.clone(), ..without }, plain);
    // A value that is as if absent is written if it has a class.
    let mixed = with("mixed = \"normal-nc\"", "mixed = \"normal-nc\"\nclasses = { manual = [\"mixed\"] }");
    let mixed = Description::parse("m.toml", &mixed).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(class(&mixed, "uncached", "mixed"), Some(ValueClass::Manual));
    assert_eq!(Description::parse("m.toml", &mixed.to_toml()).unwrap(), mixed);
    for (new, value, says) in [
        ("classes = { manual = [\"cpu\"] }", "\"cpu\"", "did you mean `cpus`?"),
        ("classes = { manual = [\"rate\"] }", "\"rate\"", "values of this table: clock, cpus"),
        ("classes = { manual = [\"classes\"] }", "\"classes\"", "not a key in [core]"),
        ("classes = { manual = [\"alu\", \"alu\"] }", "\"alu\"", "each key once"),
        ("classes = { manual = [\"alu\"], assumed = [\"alu\"] }", "\"alu\"", "listed twice"),
        ("classes = { manuals = [\"alu\"] }", "manuals", "did you mean `manual`?"),
        ("classes = { x = [\"alu\"] }", "x", "classes: manual, measured, study, assumed"),
        ("classes = { manual = \"alu\" }", "\"alu\"", "a list of quoted keys"),
        ("classes = { manual = [3] }", "3", "a list of quoted keys"),
        ("classes = { study = [\"alu\"] }", "[\"alu\"]", "study = { S3 = [\"clock\"] }"),
        ("classes = { study = { S9 = [\"alu\"] } }", "S9", "studies: S0, S1, S2, S3, S4"),
        ("classes = { study = { S3 = \"alu\" } }", "\"alu\"", "a list of quoted keys"),
        ("classes = { study = { S3 = [\"alu\"] }, manual = [\"alu\"] }", "\"alu\"", "listed twice"),
        ("classes = \"manual\"", "\"manual\"", "for example: classes = { manual"),
        ("clases = { manual = [\"alu\"] }", "clases", "did you mean `classes`?"),
    ] {
        let e = refusal(&with(core, new));
        assert!(*e.value == *value && e.line > 1 && e.to_string().contains(says), "{new}: {e}");
    }
    let named = with("name = \"L1D\"", "classes = { assumed = [\"name\"] }\nname = \"L1D\"");
    assert!(refusal(&named).message.contains("not a value"));
    let top = with("format = 1", "format = 1\nclasses = { assumed = [\"about\"] }");
    assert!(refusal(&top).message.contains("unknown key `classes` at the top"));
}

#[test]
fn ranges_of_values_are_given_or_half_and_double() {
    let given = "ranges = { alu = [\"0 cycles\", \"3 cycles\"], cpus = [1, 8] }";
    let d = Description::parse("m.toml", &with("cpus = 4", &format!("cpus = 4\n{given}"))).unwrap();
    assert_eq!(Description::parse("m.toml", &d.to_toml()).unwrap(), d, "{}", d.to_toml());
    let ends = |path: &str| {
        let one = d.variations().into_iter().find(|v| v.key.to_string() == path);
        one.map(|v| v.ends.map(|end| end.replace('"', "")).join(".."))
    };
    assert_eq!(ends("core.alu").as_deref(), Some("0 cycles..3 cycles"));
    assert_eq!(ends("core.clock").as_deref(), Some("300 MHz..1.2 GHz"), "of a study: the default range");
    assert_eq!(ends("core.cpus"), None, "from a manual");
    let alu = d.variations().into_iter().find(|v| v.key.key == "alu").unwrap();
    let other = d.with(&[(alu.key, alu.ends[1].clone())].into()).unwrap();
    assert_eq!((other.core.alu, d.core.alu), (Time::cycles(3.0), Time::cycles(1.0)));
    for (new, value, says) in [
        ("ranges = { alu = [\"1 cycles\"] }", "[\"1 cycles\"]", "two values"),
        ("ranges = { alu = [\"1\", \"2 cycles\"] }", "[\"1\", \"2 cycles\"]", "not possible"),
        ("ranges = { alu = [\"1 cycles\", \"1 cycles\"] }", "[\"1 cycles\", \"1 cycles\"]", "equal ends"),
        ("ranges = { al = [1, 2] }", "al", "did you mean `alu`?"),
        ("ranges = [1]", "[1]", "for example: ranges"),
        ("range = { alu = [1, 2] }", "range", "did you mean `ranges`?"),
    ] {
        let e = refusal(&with("cpus = 4", &format!("cpus = 4\n{new}")));
        assert!(*e.value == *value && e.to_string().contains(says), "{new}: {e}");
    }
}

#[test]
fn values_of_a_study_have_others_instead() {
    let given = "instead = { manual = { clock = \"1.2 GHz\" } }";
    let d = Description::parse("m.toml", &with("cpus = 4", &format!("cpus = 4\n{given}"))).unwrap();
    assert_eq!(Description::parse("m.toml", &d.to_toml()).unwrap(), d, "{}", d.to_toml());
    let without = d.without(Study::S3).unwrap();
    assert_eq!((d.core.clock_hz, without.core.clock_hz), (600e6, 1.2e9));
    let of = |study| without.values().iter().any(|(_, class)| *class == Some(ValueClass::Study(study)));
    assert!(
        Study::ALL.iter().all(|study| !of(*study)) && without.to_toml().contains("manual = [\"clock\", ")
    );
    assert!(without.alternatives.instead.is_empty());
    let none = Description::parse("m.toml", &example()).unwrap();
    assert_eq!(none.without(Study::S3), Err(WithoutStudy::Missing(vec!["core.clock".to_owned()])));
    assert_eq!(none.without(Study::S0).as_ref(), Ok(&none));
    for (new, value, says) in [
        ("instead = { manual = { alu = \"1 cycles\" } }", "alu", "not a value of a study"),
        ("instead = { manual = { clock = \"1\" } }", "clock", "without study S3"),
        ("instead = { study = { clock = \"1 GHz\" } }", "study", "unknown class"),
        ("instead = { manual = { clok = \"1 GHz\" } }", "clok", "did you mean `clock`?"),
        ("instead = { manual = [\"clock\"] }", "[\"clock\"]", "for example: instead"),
        (
            "instead = { manual = { clock = \"1 GHz\" }, assumed = { clock = \"1 GHz\" } }",
            "clock",
            "each key once",
        ),
    ] {
        let e = refusal(&with("cpus = 4", &format!("cpus = 4\n{new}")));
        assert!(*e.value == *value && e.to_string().contains(says), "{new}: {e}");
    }
}

#[test]
fn a_hash_onto_sets_that_are_no_power_of_two_is_refused() {
    let hashed = with("index = \"bits\"", "index = \"hashed\"").replace("\nset_fill = ", "\n# ");
    assert!(Description::parse("m", &hashed).is_ok());
    let e = refusal(&hashed.replace("size = \"32K\"", "size = \"33K\""));
    assert_eq!(&*e.value, "\"hashed\"");
    assert!(e.message.contains("132 sets"), "{e}");
    assert!(e.help.contains("32K (128 sets)") && e.help.contains("64K (256 sets)"), "{e}");
}

#[test]
fn a_policy_with_a_bit_a_way_has_at_most_64_ways() {
    let wide = |policy: &str| {
        with("ways = 4 ", "ways = 65 ").replace("\"32K\"", "\"65K\"").replace("\"random\"", policy)
    };
    for policy in ["nru", "bit-plru", "nru-random", "srrip", "qlru-h00-m1-r2-u1", "tree-plru"] {
        let e = refusal(&wide(&format!("\"{policy}\"")));
        assert!(e.message.contains(policy) && e.help.contains("64 ways"), "{e}");
    }
    for policy in ["lru", "fifo", "random", "not-mru-random"] {
        assert!(Description::parse("m", &wide(&format!("\"{policy}\""))).is_ok(), "{policy}");
    }
}

#[test]
fn impossible_size_is_refused_with_nearest_possible_ones() {
    // 4 ways x 64 bytes: 33 KiB is 132 sets, which is possible; 32 KiB and 100 bytes is not.
    assert!(Description::parse("m", &with("size = \"32K\"", "size = \"33K\"")).is_ok());
    let e = refusal(&with("size = \"32K\"", "size = \"32868\""));
    assert_eq!(&*e.value, "\"32868\"");
    assert!(e.help.contains("32K (128 sets)") && e.help.contains("33024 (129 sets)"), "{e}");
}

#[test]
fn levels_that_contradict_each_other_are_refused() {
    let level = |inclusion: &str, line: &str, shared: &str| {
        format!(
            "[[level]]\nname = \"L2\"\nholds = \"unified\"\nsize = \"512K\"\nline = \"{line}\"\nways = 16\n\
             latency = \"15 cycles\"\nreplacement = \"lru\"\nwrite = \"back\"\nallocate = true\n\
             inclusion = \"{inclusion}\"\nshared = {shared}\n\n[[tlb]]"
        )
    };
    let tlb = "[[tlb]]                         ";
    assert!(Description::parse("m", &with(tlb, &level("exclusive", "64", "true"))).is_ok());
    assert!(refusal(&with(tlb, &level("exclusive", "128", "true"))).message.contains("line differs"));
    assert!(refusal(&with(tlb, &level("neither", "32", "true"))).message.contains("beyond"));
    let first = with("inclusion = \"neither\"", "inclusion = \"exclusive\"");
    assert!(refusal(&first).message.contains("first level"));
    let shared_first = with("shared = false", "shared = true").replace(tlb, &level("neither", "64", "false"));
    assert!(refusal(&shared_first).message.contains("private level beyond"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_description_reads_back_equal(seed: u64) {
        let mut description = random_description(seed);
        description.neighbours = random_neighbours(&description, seed);
        if !description.neighbours.is_empty() {
            // Other ways may leave a neighbour less than one of them, which is refused.
            description.alternatives.ranges.clear();
            description.alternatives.instead.clear();
        }
        let text = description.to_toml();
        let file = format!("somewhere/{}.toml", description.name);
        match Description::parse(&file, &text) {
            Ok(again) => prop_assert_eq!(again, description),
            Err(e) => prop_assert!(false, "{}", e),
        }
    }

    #[test]
    fn hostile_text_is_refused_without_a_panic(text in "\\PC*") {
        let error = Description::parse("x", &text).expect_err("a random text is no machine");
        prop_assert!(!error.to_string().is_empty());
    }

    #[test]
    fn a_damaged_description_never_panics(
        seed: u64, from in 0usize..2000, cut in 0usize..40, insert in "[ -~\n\"=\\[\\]é]{0,8}",
    ) {
        let mut text = if seed.is_multiple_of(2) { example() } else { random_description(seed).to_toml() };
        let mut start = from % text.len();
        let mut end = (start + cut).min(text.len());
        while !text.is_char_boundary(start) { start -= 1; }
        while !text.is_char_boundary(end) { end += 1; }
        text.replace_range(start..end, &insert);
        match Description::parse("x.toml", &text) {
            Ok(description) => prop_assert!(description.check().is_ok()),
            Err(error) => prop_assert!(error.to_string().contains("x.toml:")),
        }
    }
}

#[test]
fn hostile_text_is_quoted_short_and_escaped() {
    // A line of megabytes with the fault at its end, and a key with terminal control characters.
    let long = format!("format = 1\nabout = \"{}\" oops\n", "x".repeat(1 << 20));
    let reported = Description::parse("a.toml", &long).unwrap_err().to_string();
    assert!(
        reported.len() < 1000 && reported.contains("--> a.toml:2:") && reported.contains("oops"),
        "{reported}"
    );
    let marker = reported.lines().find(|l| l.contains('^')).expect("a marker");
    let line = reported.lines().find(|l| l.starts_with("2 | ")).expect("the line");
    let column = marker.chars().position(|c| c == '^').expect("a place");
    assert_eq!(line.chars().skip(column).take(4).collect::<String>(), "oops");
    let escape = "format = 1\n\"\\u001b[31m\u{9b}\" = 1\n";
    let reported = Description::parse("a.toml", escape).unwrap_err().to_string();
    assert!(!reported.contains(['\u{1b}', '\u{9b}']) && reported.contains("unknown key"), "{reported:?}");
}
