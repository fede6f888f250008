//! Compares the mirror with the header: with its text, and with a C compiler's result.

use std::collections::BTreeMap;
use std::process::Command;

use super::*;

const HEADER: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../driver/include/uapi/fathom.h"));
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../driver/include/uapi");

/// Names with numbers: values of constants, and sizes and offsets of `struct.size` and `struct.field`.
type Numbers = BTreeMap<String, u64>;

/// Returns the mirror's names.
fn mirrored() -> Numbers {
    let mut all: Numbers = CONSTANTS.iter().map(|(name, value)| (format!("FATHOM_{name}"), *value)).collect();
    for (name, bytes, fields) in LAYOUTS {
        all.insert(format!("{name}.size"), *bytes as u64);
        for (field, offset, bytes) in *fields {
            let field = field.trim_start_matches("r#");
            all.insert(format!("{name}.{field}"), *offset as u64);
            all.insert(format!("{name}.{field}.size"), *bytes as u64);
        }
    }
    all
}

/// A header's text with the layout of the psABIs of x86-64 and AArch64: each field at the next multiple of its
/// alignment, which is its size or that of its largest member.
#[derive(Default)]
struct Text {
    numbers: Numbers,
    /// Size and alignment of each type.
    types: BTreeMap<String, (u64, u64)>,
}

impl Text {
    fn parse(header: &str) -> Text {
        let mut text = Text::default();
        text.types.insert("char".into(), (1, 1));
        text.types.insert("__u32".into(), (4, 4));
        text.types.insert("__u64".into(), (8, 8));
        let plain = without_comments(header);
        let mut inside: Option<(String, u64, u64)> = None;
        for line in plain.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("#define FATHOM_") {
                let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let value = text.value(value.trim());
                text.numbers.insert(format!("FATHOM_{name}"), value);
            } else if let Some(name) = line.strip_prefix("struct ").and_then(|l| l.strip_suffix(" {")) {
                inside = Some((name.to_owned(), 0, 1));
            } else if let Some((name, bytes, align)) = inside.take_if(|_| line == "};") {
                let bytes = bytes.next_multiple_of(align);
                text.numbers.insert(format!("{name}.size"), bytes);
                text.types.insert(format!("struct {name}"), (bytes, align));
            } else if let Some((name, bytes, align)) = &mut inside {
                let declared = line.strip_suffix(';').unwrap_or_else(|| panic!("no field: {line}"));
                let (kind, field) = declared.rsplit_once(' ').unwrap_or_else(|| panic!("no field: {line}"));
                let (size, mirror) = *text.types.get(kind).unwrap_or_else(|| panic!("no type: {line}"));
                let (field, count) = match field.strip_suffix(']').and_then(|f| f.split_once('[')) {
                    Some((field, "")) => (field, 0),
                    Some((field, count)) => (field, text.value(count)),
                    None => (field, 1),
                };
                let offset = bytes.next_multiple_of(mirror);
                text.numbers.insert(format!("{name}.{field}"), offset);
                text.numbers.insert(format!("{name}.{field}.size"), size * count);
                (*bytes, *align) = (offset + size * count, (*align).max(mirror));
            } else {
                assert!(line.starts_with('#'), "what is this? {line}");
            }
        }
        text
    }

    /// Returns the value of a macro's text: a number, a name, a shift, or a request.
    fn value(&self, text: &str) -> u64 {
        let text = text.trim();
        if let Some((word, rest)) = text.strip_prefix("_IO").and_then(|rest| rest.split_once('(')) {
            let mut arguments = rest.trim_end_matches(')').split(',').map(str::trim);
            let (magic, number) = (arguments.next().unwrap_or(""), arguments.next().unwrap_or(""));
            let bytes = arguments.next().map_or(0, |of| self.types[of].0);
            let direction = ["", "W", "R", "WR"].iter().position(|w| *w == word).expect("a direction") as u64;
            return direction << 30 | bytes << 16 | self.value(magic) << 8 | self.value(number);
        }
        let text = text.trim_start_matches('(').trim_end_matches(')');
        if let Some((left, right)) = text.split_once("<<") {
            return self.value(left) << self.value(right);
        }
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let digits = text.trim_end_matches(['U', 'L']);
        let number = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        number.unwrap_or_else(|_| panic!("no number: {text}"))
    }
}

fn without_comments(header: &str) -> String {
    let mut plain = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = after.split_once("*/").expect("a comment's end").1;
    }
    plain + rest
}

/// Returns the differences between the mirror and a header's numbers, including names on one side only.
fn differences(header: &Numbers) -> Vec<String> {
    let mirror = mirrored();
    let names = mirror.keys().chain(header.keys().filter(|name| !mirror.contains_key(*name)));
    names
        .filter(|name| mirror.get(*name) != header.get(*name))
        .map(|name| format!("{name}: {:?} here, {:?} in the header", mirror.get(name), header.get(name)))
        .collect()
}

#[test]
fn mirror_equals_the_header() {
    let text = Text::parse(HEADER).numbers;
    assert_eq!(differences(&text), [""; 0]);
    // The numbers of structures and constants, counted by lines of the header.
    let count = |what: &str| HEADER.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(count("struct "), LAYOUTS.len());
    assert_eq!(count("#define FATHOM_"), CONSTANTS.len());
    assert!(LAYOUTS.len() >= 14 && CONSTANTS.len() >= 60);
}

/// Every difference in a header is detected.
#[test]
fn changed_headers_are_detected() {
    for (from, to, expected) in [
        ("FATHOM_CLOCK_CYCLES	3", "FATHOM_CLOCK_CYCLES	4", "FATHOM_CLOCK_CYCLES"),
        ("FATHOM_IOC_MAGIC		0xF7", "FATHOM_IOC_MAGIC		0xF6", "FATHOM_IOC_INFO"),
        ("(1U << 3)", "(1U << 6)", "FATHOM_HAS_WAKES"),
        ("	__u32 colour;\n	__u32 colours;", "	__u32 colours;\n	__u32 colour;", "fathom_region.colour:"),
        ("	__u64 raw_types;\n", "", "fathom_translate.raw_types:"),
        ("	__u32 wrong;\n	__u32 flags;", "	__u32 wrong;\n	__u64 flags;", "fathom_dma_sample.size"),
        ("	__u64 clidr;", "	__u64 clidr_el1;", "fathom_cache_id.clidr_el1:"),
        ("_IOWR(FATHOM_IOC_MAGIC, 3,", "_IOR(FATHOM_IOC_MAGIC, 3,", "FATHOM_IOC_TRANSLATE"),
        ("_IO(FATHOM_IOC_MAGIC, 11)", "_IO(FATHOM_IOC_MAGIC, 12)", "FATHOM_IOC_WAKE_STOP"),
        ("#define FATHOM_POLICIES", "#define FATHOM_POLICY_X\t3\n#define FATHOM_POLICIES", "FATHOM_POLICY_X"),
        ("#define FATHOM_POLICIES		3\n", "", "FATHOM_POLICIES"),
        (
            "#ifndef _UAPI_FATHOM_H",
            "struct fathom_more {\n	__u32 one;\n};\n#ifndef _UAPI_FATHOM_H",
            "fathom_more.size",
        ),
    ] {
        assert!(HEADER.contains(from), "the header has changed: {from}");
        let found = differences(&Text::parse(&HEADER.replacen(from, to, 1)).numbers);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected} after {to:?}: {found:?}");
    }
}

/// Returns a program that prints the header's own numbers under the mirror's names.
fn program() -> String {
    let mut lines =
        String::from("#include <stddef.h>\n#include <stdio.h>\n#include \"fathom.h\"\nint main(void)\n{\n");
    let mut print = |name: &str, expression: &str| {
        lines += &format!("\tprintf(\"{name} %llu\\n\", (unsigned long long)({expression}));\n");
    };
    for (name, _) in CONSTANTS {
        print(&format!("FATHOM_{name}"), &format!("FATHOM_{name}"));
    }
    for (name, _, fields) in LAYOUTS {
        print(&format!("{name}.size"), &format!("sizeof(struct {name})"));
        for (field, _, bytes) in *fields {
            let field = field.trim_start_matches("r#");
            print(&format!("{name}.{field}"), &format!("offsetof(struct {name}, {field})"));
            // A flexible array has no size in C.
            let size =
                if *bytes == 0 { "0".to_owned() } else { format!("sizeof(((struct {name} *)0)->{field})") };
            print(&format!("{name}.{field}.size"), &size);
        }
    }
    lines + "\treturn 0;\n}\n"
}

/// Compiles and runs a program; returns its output, or the reason why that is not possible.
fn compiled(program: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (source, binary) = (folder.path().join("numbers.c"), folder.path().join("numbers"));
    std::fs::write(&source, program).expect("a file");
    let cc = Command::new("cc").arg("-I").arg(FOLDER).arg("-o").arg(&binary).arg(&source).output();
    let cc = cc.map_err(|error| format!("cc: {error}"))?;
    if !cc.status.success() {
        return Err(String::from_utf8_lossy(&cc.stderr).into_owned());
    }
    let output = Command::new(&binary).output().map_err(|error| format!("the program: {error}"))?;
    assert!(output.status.success(), "{output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn c_compiler_gives_the_mirrored_numbers() {
    if let Err(why) = compiled("#include <stdio.h>\n#include <linux/types.h>\nint main(void) { return 0; }\n")
    {
        fathom_skip::skipped!(
            Unchecked,
            "the header by a C compiler: no compiler here builds for Linux: {why}"
        );
        return;
    }
    // Every name of the mirror is in the header, or this does not compile; the test of the text covers the other
    // direction.
    let reported = compiled(&program()).expect("a program of the header's names");
    let numbers: Numbers = reported
        .lines()
        .map(|line| line.split_once(' ').expect("a name and a number"))
        .map(|(name, number)| (name.to_owned(), number.parse().expect("a number")))
        .collect();
    assert_eq!(differences(&numbers), [""; 0]);
}
