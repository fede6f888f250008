//! Parser for command lines found in result files: options and their values.

/// Returns the command in a line, if any: the program's name (possibly with a path, after a prompt or `#`) and its
/// options.
pub fn in_line(line: &str, program: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let mut at_start = true;
    for word in words.by_ref() {
        let named = word.rsplit('/').next().unwrap_or(word);
        if at_start && named == program {
            let options: Vec<&str> = words.collect();
            let is_one = options.first().is_none_or(|first| first.starts_with('-'));
            return is_one.then(|| [&[program], options.as_slice()].concat().join(" "));
        }
        // A prompt ends with one of these; `sudo`, `chrt` and similar may precede the program.
        let prompt = word.ends_with(['#', '$', '>', '%']);
        at_start = prompt || (at_start && matches!(word, "sudo" | "taskset" | "chrt" | "xeno" | "time"));
    }
    None
}

/// Returns the words of a command that are short options, one or more letters after a dash.
fn short_words(command: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = command.split_whitespace().enumerate();
    words.filter_map(|(at, word)| {
        let rest = word.strip_prefix('-')?;
        (!rest.starts_with('-')).then_some((at, rest))
    })
}

/// Returns the value of a short option (`-p80`, `-p 80`, `-mp80`) or a long one (`--priority=80`, `--priority 80`).
pub fn number(command: &str, short: char, long: &str) -> Option<u64> {
    let words: Vec<&str> = command.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        let Some(rest) = word.strip_prefix("--").and_then(|word| word.strip_prefix(long)) else { continue };
        let value = rest.strip_prefix('=').or_else(|| words.get(at + 1).copied().filter(|_| rest.is_empty()));
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            return Some(value);
        }
    }
    for (at, word) in short_words(command) {
        let letters = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        let Some(place) = word[..letters].rfind(short) else { continue };
        let rest = &word[place + short.len_utf8()..];
        let value = if rest.is_empty() { words.get(at + 1).copied() } else { Some(rest) };
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            return Some(value);
        }
    }
    None
}

/// Returns whether an option was given, with or without a value.
pub fn given(command: &str, short: char, long: &str) -> bool {
    let spelt = command.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    let mut names = spelt.map(|word| word.split('=').next().unwrap_or(word));
    names.any(|name| name == long)
        || short_words(command)
            .any(|(_, word)| word.chars().take_while(char::is_ascii_alphabetic).any(|letter| letter == short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_all_forms() {
        for command in
            ["cyclictest -p80 -i 250", "cyclictest -mSp80 -i250", "cyclictest -m --priority=80 -qi250"]
        {
            assert_eq!(number(command, 'p', "priority"), Some(80), "{command}");
            assert_eq!(number(command, 'i', "interval"), Some(250), "{command}");
        }
        assert_eq!(number("cyclictest --priority 80", 'p', "priority"), Some(80));
        assert_eq!(number("cyclictest --priospread 80 -p", 'p', "priority"), None);
        assert_eq!(number("cyclictest --json=-p80", 'p', "priority"), None);
        assert!(given("cyclictest -mNq", 'N', "nsecs"));
        assert!(given("cyclictest --nsecs -p 80", 'N', "nsecs"));
        assert!(!given("cyclictest --policy=N -p 80 -i N", 'N', "nsecs"));
    }

    #[test]
    fn command_follows_a_prompt_and_sentences_are_not_commands() {
        for line in [
            "latency -t 1 -B 100",
            "# latency -t 1 -B 100",
            "root@board:~# sudo /usr/bin/latency -t 1 -B 100",
        ] {
            assert_eq!(in_line(line, "latency").as_deref(), Some("latency -t 1 -B 100"), "{line}");
        }
        assert_eq!(in_line("Warning! some latency peaks may have been", "latency"), None);
        assert_eq!(in_line("# latency peaks", "latency"), None);
        assert_eq!(in_line("", "latency"), None);
    }
}
