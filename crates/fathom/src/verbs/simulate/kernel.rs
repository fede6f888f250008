//! A guest's kernel: where its addresses begin, and its symbols as /proc/kallsyms has them.

use std::path::Path;

use fathom_simulation::protocol::{GuestCalls, OTHER_PROGRAMS};

use crate::failure::Failure;
use crate::program::objects::Datum;
use crate::program::symbols::{Named, UNKNOWN};

/// The function of AArch64's Linux that switches tasks (arch/arm64/kernel/entry.S).
pub const SWITCH: &str = "cpu_switch_to";
/// Name of code of programs that are not told apart.
const OTHERS: &str = "user code (address space unknown)";
/// Symbols below are those of pages that the kernel copies elsewhere (32-bit ARM links its exception vectors at 0).
const LOWEST: u64 = 0x1000_0000;
/// Bytes of a symbol, at most, where it names data: the list has no sizes, and what follows the last symbol of a part has none.
const LONGEST: u64 = 1 << 20;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Alignment of the kernel's first address, if symbols tell it: modules of 32-bit ARM are within 16 MiB below.
const ALIGNED: u64 = 16 << 20;

/// A kernel.
#[derive(Debug, Default)]
pub struct Kernel {
    /// First address of its code.
    pub start: u64,
    /// Symbols of code, in the order of addresses.
    symbols: Vec<Symbol>,
    /// Symbols of all kinds, in the order of addresses.
    all: Vec<Symbol>,
}

/// A symbol: address, name, module.
type Symbol = (u64, String, String);

impl Kernel {
    /// Reads the symbols of a kernel whose code begins at `start`, or where its symbols begin.
    ///
    /// # Errors
    /// The file cannot be read, or is no list of symbols with addresses.
    pub fn read(start: u64, file: Option<&Path>) -> Result<Kernel, Failure> {
        let Some(file) = file else { return Ok(Kernel { start, ..Kernel::default() }) };
        let wrong = |what: &str, remedy: &str| {
            Failure::usage(format!("--symbols {}: {what}", file.display()), remedy.to_owned())
        };
        let text = std::fs::read(file).map_err(|e| wrong(&e.to_string(), "name a file that can be read"))?;
        let text = String::from_utf8_lossy(&text);
        let symbols = parsed(&text, is_code).map_err(|number| {
            let what = format!("line {number} is no symbol");
            wrong(&what, "write it in the guest: cat /proc/kallsyms; scripts/lab --kallsyms FILE does")
        })?;
        let Some((lowest, ..)) = symbols.first() else {
            return Err(wrong(
                "no symbol of code has an address",
                "read /proc/kallsyms in the guest as root",
            ));
        };
        let all = parsed(&text, |_| true).unwrap_or_default();
        Ok(Kernel { start: start.min(lowest / ALIGNED * ALIGNED), symbols, all })
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

    /// Returns by what calls are told.
    ///
    /// # Errors
    /// Symbols are missing; and the remedy.
    pub fn calls(&self) -> Result<GuestCalls, (String, String)> {
        // arch/arm64/kernel/entry.S and fs/exec.c of Linux.
        Ok(GuestCalls {
            functions: self.symbols.iter().map(|(at, ..)| *at).collect(),
            vectors: self.address("vectors")?,
            switch: self.address(SWITCH)?,
            new_task: self.address("ret_from_fork").ok(),
            new_program: self.address("begin_new_exec").ok(),
        })
    }

    /// Returns what is at an address of the kernel: the symbol, if one covers it, else the page; `None` for an address of a program.
    pub fn datum(&self, address: u64) -> Option<Datum> {
        if address < self.start {
            return None;
        }
        let after = self.all.partition_point(|(at, ..)| *at <= address);
        let next = self.all.get(after).map_or(0, |(at, ..)| *at);
        let found = after.checked_sub(1).map(|at| &self.all[at]);
        let found = found.filter(|(at, ..)| next.saturating_sub(*at) <= LONGEST && address < next);
        Some(match found {
            Some((at, name, file)) => {
                Datum { object: name.clone(), file: file.clone(), offset: address - at }
            }
            None => {
                let page = address / PAGE * PAGE;
                let object = format!("kernel memory at {page:#x}");
                Datum { object, file: "kernel".to_owned(), offset: address - page }
            }
        })
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

/// Returns whether symbols of a kind are code, by the letter that nm(1) has for it.
fn is_code(kind: &str) -> bool {
    matches!(kind, "t" | "T" | "w" | "W")
}

/// Parses lines as `ffff800008010000 T _stext` and `ffff800001210000 t helper [module]`: symbols of wanted kinds. Of several names of an
/// address, the first one by name counts, a global one before others.
fn parsed(text: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<Symbol>, usize> {
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
        if wanted(kind) && address >= LOWEST && !name.starts_with('$') {
            all.push((address, !kind.starts_with(char::is_uppercase), name.to_owned(), module.to_owned()));
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
        let symbols = |wanted: fn(&str) -> bool| parsed(text, wanted).expect("symbols");
        Kernel { start: 0xbf00_0000, symbols: symbols(is_code), all: symbols(|_| true) }
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
    fn data_have_the_name_of_the_symbol_that_covers_them_or_of_their_page() {
        let of = kernel("c0008000 T code\nc0009000 d table\nc0009100 b zeros\nc0a00000 D _end\n");
        let datum = |address| of.datum(address).map(|datum| (datum.object, datum.offset));
        let found = |object: &str, offset| Some((object.to_owned(), offset));
        assert_eq!(datum(0xc000_90ff), found("table", 0xff));
        assert_eq!(datum(0xc000_8008), found("code", 8));
        assert_eq!(
            datum(0xc000_9108),
            found("kernel memory at 0xc0009000", 0x108),
            "the next one is too far"
        );
        assert_eq!(datum(0xc0b0_0010), found("kernel memory at 0xc0b00000", 0x10), "behind the last one");
        assert_eq!(datum(0x40_0000), None);
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
        assert_eq!(parsed("c0008000 T one\nnot a symbol\n", is_code), Err(2));
    }
}
