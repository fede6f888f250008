use super::*;

/// Files below `events`, concatenated; each begins with its name.
pub(crate) const X86: &str = include_str!("../formats/x86_64-6.18.txt");
pub(crate) const ARM: &str = include_str!("../formats/arm64-rt-6.1.txt");

/// Returns one of those files, by `header_page` or `GROUP/EVENT/format`.
pub(crate) fn file(all: &str, path: &str) -> Option<String> {
    let name = path.trim_end_matches("/format").rsplit('/').next()?;
    let from = all.find(&format!("name: {name}\n"))?;
    let end = all[from + 1..].find("\nname: ").map_or(all.len(), |end| from + 1 + end);
    Some(all[from..end].to_owned())
}

#[test]
fn formats_of_two_kernels_are_read() {
    for (all, id, offset, state) in [(X86, 372, 24, 32), (ARM, 225, 28, 40)] {
        let switch =
            Format::parse(&file(all, "sched/sched_switch/format").expect("there")).expect("a format");
        assert_eq!(switch.id, id);
        assert_eq!(switch.field("common_type"), Some(Field { offset: 0, size: 2 }));
        assert_eq!(switch.field("prev_pid"), Some(Field { offset, size: 4 }));
        assert_eq!(switch.field("prev_comm"), Some(Field { offset: offset - 16, size: 16 }));
        assert_eq!(switch.field("prev_state"), Some(Field { offset: state, size: 8 }));
        assert_eq!(switch.field("prev"), None);
        let irq = Format::parse(&file(all, "irq/irq_handler_entry").expect("there")).expect("a format");
        assert_eq!(irq.field("name").map(|name| name.size), Some(4));
        let start = Format::parse(&file(all, "timer/hrtimer_start").expect("there")).expect("a format");
        assert_eq!(start.field("hrtimer").map(|pointer| pointer.size), Some(8));
    }
    // The text of a softirq's format has lines that are not fields.
    let softirq = file(X86, "irq/softirq_entry").expect("there");
    assert!(softirq.contains("print fmt") && Format::parse(&softirq).is_some());
    assert_eq!(Format::parse("name: nothing\nformat:\n"), None);
}

#[test]
fn page_layout_is_parsed_from_header_page() {
    for all in [X86, ARM] {
        let header = file(all, "header_page").expect("there");
        let layout = PageLayout::parse(&header).expect("a layout");
        assert_eq!(layout.timestamp, Field { offset: 0, size: 8 });
        assert_eq!(layout.commit, Field { offset: 8, size: 8 });
        assert_eq!((layout.data, layout.bytes()), (Field { offset: 16, size: 4080 }, 4096));
        // A page without records, and one of an impossible size.
        assert_eq!(PageLayout::parse(&header.replace("4080", "4081")), None);
        assert_eq!(PageLayout::parse(&header.replace("4080", &(usize::MAX - 15).to_string())), None);
        assert_eq!(PageLayout::parse(&header.replace("4080", &((1u64 << 40) - 16).to_string())), None);
        assert_eq!(PageLayout::parse(&header.replace("commit", "commits")), None);
    }
}

#[test]
fn fields_are_limited_to_the_record() {
    let record = [1, 2, 3, 4, 5, 6, 7, 8, b'a', b'b', 2, 0];
    let number = |offset, size| Field { offset, size }.number(&record);
    assert_eq!(number(0, 2), Some(0x0201));
    assert_eq!(number(0, 8), Some(0x0807_0605_0403_0201));
    assert_eq!(number(0, 9), None, "wider than a number");
    assert_eq!(number(8, 8), None, "beyond the record");
    assert_eq!(number(usize::MAX, 2), None);
    // Two bytes at offset eight.
    let place = [8, 0, 2, 0, 0, 0, 0, 0, b'h', b'i'];
    let data_loc = |offset| Field { offset, size: 4 }.data_loc(&place);
    assert_eq!(data_loc(0), Some(&b"hi"[..]));
    assert_eq!(data_loc(2), Some(&[][..]), "an empty one");
    assert_eq!(Field { offset: 0, size: 4 }.data_loc(&place[..9]), None);
}

proptest::proptest! {
    #![proptest_config(crate::cases::fixed())]

    #[test]
    fn random_text_does_not_panic(text in "(\tfield:[a-z_ *\\[\\]0-9]{0,20};\toffset:[0-9]{1,22};\tsize:[0-9]{1,22};|ID: [0-9]{0,22}|.{0,30}\n){0,20}") {
        let _ = PageLayout::parse(&text);
        if let Some(format) = Format::parse(&text) {
            for (_, field) in &format.fields {
                let _ = (field.number(&[0; 16]), field.data_loc(&[0xff; 16]));
            }
        }
    }
}
