//! The code of a guest's kernel: where it begins, and its symbols as /proc/kallsyms has them.

use std::path::Path;

use fathom_simulation::protocol::OTHER_PROGRAMS;

use crate::failure::Failure;
use crate::program::symbols::{Named, UNKNOWN};

/// Name of code of programs that are not told apart.
const OTHERS: &str = "user code (address space unknown)";
/// Symbols below are those of pages that the kernel copies elsewhere (32-bit ARM links its exception vectors at 0).
const LOWEST: u64 = 0x1000_0000;
/// Alignment of the kernel's first address, if symbols tell it: modules of 32-bit ARM are within 16 MiB below.
const ALIGNED: u64 = 16 << 20;

/// A kernel.
#[derive(Debug, Default)]
pub struct Kernel {
    /// First address of its code.
    pub start: u64,
    /// Symbols of code, in the order of addresses: address, name, module.
    symbols: Vec<(u64, String, String)>,
}

impl Kernel {
    /// Reads the symbols of a kernel whose code begins at `start`, or where its symbols begin.
    ///
    /// # Errors
    /// The file cannot be read, or is no list of symbols with addresses.
    pub fn read(start: u64, file: Option<&Path>) -> Result<Kernel, Failure> {
        let Some(file) = file else { return Ok(Kernel { start, symbols: Vec::new() }) };
        let wrong = |what: &str, remedy: &str| {
            Failure::usage(format!("--symbols {}: {what}", file.display()), remedy.to_owned())
        };
        let text = std::fs::read(file).map_err(|e| wrong(&e.to_string(), "name a file that can be read"))?;
        let symbols = parsed(&String::from_utf8_lossy(&text)).map_err(|number| {
            let what = format!("line {number} is no symbol");
            wrong(&what, "write it in the guest: cat /proc/kallsyms; scripts/lab --kallsyms FILE does")
        })?;
        let Some((lowest, ..)) = symbols.first() else {
            return Err(wrong(
                "no symbol of code has an address",
                "read /proc/kallsyms in the guest as root",
            ));
        };
        Ok(Kernel { start: start.min(lowest / ALIGNED * ALIGNED), symbols })
    }

    /// Returns the name of an instruction; `None` for one of the program that is told apart.
    pub fn name(&self, pc: u64) -> Option<Named> {
        let named = |function: &str, at: u64, file: &str| Named {
            function: function.to_owned(),
            at,
            file: file.to_owned(),
            source: None,
        };
        if pc == OTHER_PROGRAMS {
            return Some(named(OTHERS, 0, "programs"));
        }
        if pc < self.start {
            return None;
        }
        let after = self.symbols.partition_point(|(at, ..)| *at <= pc);
        let found = after.checked_sub(1).map(|at| &self.symbols[at]);
        Some(found.map_or_else(|| named(UNKNOWN, 0, "kernel"), |(at, name, file)| named(name, *at, file)))
    }

    /// Returns the address of a symbol, or a hexadecimal address.
    ///
    /// # Errors
    /// What is wrong, and the remedy.
    pub fn address(&self, text: &str) -> Result<u64, (String, String)> {
        if let Some(digits) = text.strip_prefix("0x") {
            let wrong = |_| (format!("'{text}' is no address"), "write it as 0xffff800008011a40".to_owned());
            return u64::from_str_radix(digits, 16).map_err(wrong);
        }
        let all: Vec<u64> =
            self.symbols.iter().filter(|(_, name, _)| name == text).map(|(at, ..)| *at).collect();
        match all.as_slice() {
            [one] => Ok(*one),
            [] if self.symbols.is_empty() => Err((
                format!("'{text}' is a symbol, and none are known"),
                "name the kernel's: --symbols FILE".to_owned(),
            )),
            [] => Err((
                format!("the kernel has no symbol '{text}'"),
                "grep it in the file of --symbols".to_owned(),
            )),
            many => {
                let shown: Vec<String> = many.iter().map(|at| format!("{at:#x}")).collect();
                Err((
                    format!("several symbols are called '{text}'"),
                    format!("name an address: {}", shown.join(", ")),
                ))
            }
        }
    }
}

/// Parses lines as `ffff800008010000 T _stext` and `ffff800001210000 t helper [module]`: symbols of code. Of several names of an
/// address, the first one by name counts, a global one before others.
fn parsed(text: &str) -> Result<Vec<(u64, String, String)>, usize> {
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err(number);
        };
        let address = u64::from_str_radix(address, 16).map_err(|_| number)?;
        if kind.len() != 1 {
            return Err(number);
        }
        let module = words.next().map_or("kernel", |word| word.trim_matches(['[', ']']));
        // Names of the assembler for kinds of contents begin with $ (ELF for the Arm Architecture, 5.5.5).
        if matches!(kind, "t" | "T" | "w" | "W") && address >= LOWEST && !name.starts_with('$') {
            all.push((address, kind != "T", name.to_owned(), module.to_owned()));
        }
    }
    all.sort();
    all.dedup_by_key(|symbol| symbol.0);
    Ok(all.into_iter().map(|(address, _, name, module)| (address, name, module)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(text: &str) -> Kernel {
        Kernel { start: 0xbf00_0000, symbols: parsed(text).expect("symbols") }
    }

    #[test]
    fn code_has_the_name_of_the_symbol_before_it() {
        let of = kernel(
            "00000000 t vectors\nc0008000 T stext\nc0008100 t local\nc0008100 T global\nc0008100 t $a\n\
             c0009000 d data\nbf000000 t helper\t[driver]\n",
        );
        let name = |pc| of.name(pc).map(|named| (named.function, named.file));
        let found = |function: &str, file: &str| Some((function.to_owned(), file.to_owned()));
        assert_eq!(name(0xbf00_0010), found("helper", "driver"));
        assert_eq!(name(0xc000_80fc), found("stext", "kernel"));
        assert_eq!(name(0xc000_9004), found("global", "kernel"), "data are no code");
        assert_eq!(name(0x1_0000), None);
        assert_eq!(name(OTHER_PROGRAMS), found(OTHERS, "programs"));
    }

    #[test]
    fn addresses_are_found_or_refused() {
        let of = kernel("c0008000 T one\nc0008100 t two\nc0008200 t two\n");
        assert_eq!(of.address("one"), Ok(0xc000_8000));
        assert_eq!(of.address("0xc0008004"), Ok(0xc000_8004));
        for (text, said) in [("two", "0xc0008100, 0xc0008200"), ("three", "grep"), ("0xyz", "write it as")] {
            assert!(of.address(text).is_err_and(|(_, remedy)| remedy.contains(said)), "{text}");
        }
        assert!(kernel("").address("one").is_err_and(|(_, remedy)| remedy.contains("--symbols")));
        assert_eq!(parsed("c0008000 T one\nnot a symbol\n"), Err(2));
    }
}
