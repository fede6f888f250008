//! A whole guest instead of a program: QEMU's command line, to which the plugin and what makes a run repeatable are added.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use fathom_simulation::protocol::{Answer, GuestCalls, GuestRequest, Request, Span};

use super::conversation::{Asked, Ran};
use super::counters_page::CountersPage;
use super::kernel::{Kernel, SWITCH};
use super::launch;
use super::program::on_path;
use crate::failure::{Failure, print_message};
use crate::output::shell;

/// Emulators of whole machines, each with the first address of the code of Linux: of AArch64 the upper half of all addresses, of ARM
/// the modules before 3 GiB (Documentation/arm/memory.rst).
const EMULATORS: [(&str, u64); 2] = [("qemu-system-aarch64", 1 << 63), ("qemu-system-arm", 0xbf00_0000)];

/// The emulator in whose guests calls and tasks are followed.
const FOLLOWED: &str = "qemu-system-aarch64";

/// What is added to the command line if it does not have the option: a clock that counts instructions, 4 ns each as in
/// `scripts/lab`, and skips idle time; one thread for all CPUs; a calendar that the host's does not change.
const ADDED: [(&str, &str); 3] = [
    ("-accel", "tcg,thread=single"),
    ("-icount", "shift=2,sleep=off"),
    ("-rtc", "base=2020-01-01T00:00:00,clock=vm"),
];

/// Options of a guest.
#[derive(Clone, Debug, Default, Args)]
pub struct SystemOptions {
    /// Simulate a whole guest, kernel and programs: the command is that of qemu-system-aarch64 or qemu-system-arm. Options that make
    /// the run repeatable are added (-icount, -rtc, -seed, -accel), or checked.
    #[arg(long, conflicts_with_all = ["trace", "sysroot", "cpu"])]
    pub system: bool,
    /// The guest kernel's symbols, as its /proc/kallsyms has them; also for the trace of a guest.
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
    /// A program of the guest, by its file here: its functions are named, and its regions count.
    #[arg(long, value_name = "FILE", requires = "system")]
    program: Option<PathBuf>,
    /// Tell what each task of the guest does, by number and name: a region from each switch to it to the next one. Needs --symbols.
    #[arg(long, requires = "system")]
    tasks: bool,
    /// Give the guest a page of memory in which it reads the counts of the first machine while it runs: a PCI device (ivshmem-plain),
    /// for include/fathom_guest.h.
    #[arg(long, requires = "system")]
    counters: bool,
    /// Time from each entry of an address to the next entry of another on the same CPU: el1h_64_irq..ret_to_kernel, or 0x addresses.
    /// May be repeated.
    #[arg(long, value_name = "FROM..TO", requires = "system", value_parser = Between::parse)]
    between: Vec<Between>,
}

/// Two addresses or symbols.
#[derive(Clone, Debug)]
struct Between {
    from: String,
    to: String,
}

impl Between {
    fn parse(text: &str) -> Result<Between, String> {
        let found = text.split_once("..").filter(|(from, to)| !from.is_empty() && !to.is_empty());
        let (from, to) = found.ok_or("write two symbols or addresses, FROM..TO")?;
        Ok(Between { from: from.to_owned(), to: to.to_owned() })
    }

    fn typed(&self) -> String {
        format!("{}..{}", self.from, self.to)
    }

    fn span(&self, kernel: &Kernel) -> Result<Span, Failure> {
        let address = |text: &str| {
            let wrong =
                |(what, remedy)| Failure::usage(format!("--between {}: {what}", self.typed()), remedy);
            kernel.address(text).map_err(wrong)
        };
        Ok(Span { name: self.typed(), from: address(&self.from)?, to: address(&self.to)? })
    }
}

impl SystemOptions {
    /// Checks what the options need that other ones have.
    ///
    /// # Errors
    /// An option is missing.
    pub fn check(&self, source: bool, trace: bool) -> Result<(), Failure> {
        if self.symbols.is_some() && !self.system && !trace {
            return Err(Failure::usage(
                "--symbols without --system",
                "they are those of a guest's kernel: add --system, or --trace with the trace of a guest",
            ));
        }
        if self.system && source && self.program.is_none() {
            return Err(Failure::usage(
                "--source: the source of a guest is that of one program of it",
                "name its file on this host: --program FILE",
            ));
        }
        Ok(())
    }

    /// Returns the kernel of a guest whose trace has been simulated; `None` for another trace.
    ///
    /// # Errors
    /// The symbols cannot be read, or the trace is of a program.
    pub fn kernel_of(&self, answer: &Answer) -> Result<Option<Kernel>, Failure> {
        match (&answer.guest, &self.symbols) {
            (Some(guest), symbols) => Kernel::read(guest.kernel, symbols.as_deref()).map(Some),
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(Failure::usage("--symbols: this is no trace of a guest", "leave --symbols out"))
            }
        }
    }

    /// Returns the options as typed, each after a blank.
    pub fn typed(&self) -> String {
        let mut text = String::new();
        if self.system {
            text += " --system";
        }
        if self.tasks {
            text += " --tasks";
        }
        if self.counters {
            text += " --counters";
        }
        for (option, file) in [("--symbols", &self.symbols), ("--program", &self.program)] {
            if let Some(file) = file {
                text += &format!(" {option} {}", shell(&file.display().to_string()));
            }
        }
        self.between.iter().for_each(|of| text += &format!(" --between {}", shell(&of.typed())));
        text
    }
}

/// A guest to simulate.
#[derive(Debug)]
pub struct System {
    emulator: PathBuf,
    name: &'static str,
    arguments: Vec<OsString>,
    /// Its kernel.
    pub kernel: Kernel,
    guest: GuestRequest,
    /// Whether it has a page for counters.
    counters: bool,
}

impl System {
    /// Finds the emulator, and completes its command line. `calls` are asked for.
    ///
    /// # Errors
    /// An emulator or an option with which guests are not simulated, or a file that cannot be read; with the remedy.
    pub fn find(
        options: &SystemOptions,
        command: &[OsString],
        seed: u64,
        calls: bool,
    ) -> Result<System, Failure> {
        let given = Path::new(&command[0]);
        let of = |(name, _): &&(&str, u64)| given.file_name() == Some(OsStr::new(name));
        let Some((name, start)) = EMULATORS.iter().find(of) else {
            let what = format!("--system: {} is no emulator that is known", given.display());
            let names = EMULATORS.map(|(name, _)| name).join(" or ");
            return Err(Failure::usage(what, format!("write QEMU's command line: {names}, and its options")));
        };
        let path = if given.components().count() > 1 { Some(given.to_owned()) } else { on_path(&command[0]) };
        let emulator = path.filter(|file| file.is_file()).ok_or_else(|| {
            let what = format!("{} is not there, and emulates the guest", given.display());
            Failure::new(what, "install it: Debian's package is qemu-system-arm")
        })?;
        let arguments = completed(&command[1..], seed)?;
        let kernel = Kernel::read(*start, options.symbols.as_deref())?;
        tell_of_random_addresses(options, &arguments);
        let program = options.program.as_deref().map(absolute).transpose()?;
        let spans = options.between.iter().map(|between| between.span(&kernel));
        let guest = GuestRequest {
            kernel: kernel.start,
            program,
            spans: spans.collect::<Result<Vec<_>, _>>()?,
            calls: calls.then(|| calls_of(name, &kernel)).transpose()?,
            tasks: options.tasks.then(|| tasks_of(name, &kernel)).transpose()?,
            counters: None,
        };
        Ok(System { emulator, name, arguments, kernel, guest, counters: options.counters })
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        format!("guest of {}", self.name)
    }

    /// Runs the guest until it powers off, or until a signal.
    ///
    /// # Errors
    /// As [`launch::start`].
    pub fn run(&self, request: Request, divert: bool, quiet: bool) -> Result<Ran, Failure> {
        let page = self.counters.then(CountersPage::create).transpose()?;
        let counters = page.as_ref().map(CountersPage::path);
        let request = Request { guest: Some(GuestRequest { counters, ..self.guest.clone() }), ..request };
        let asked = Asked { request: &request, qemu: self.name, program: None, quiet };
        let terminal = rustix::termios::tcgetattr(std::io::stdin()).ok();
        let ran = launch::start(&asked, &self.emulator, divert, |qemu, _, _| {
            qemu.args(&self.arguments);
            if let Some(page) = &page {
                qemu.args(page.arguments());
            }
        });
        // QEMU restores what it has changed for a console on stdio, unless it was killed.
        if let Some(terminal) = terminal {
            let _ = rustix::termios::tcsetattr(
                std::io::stdin(),
                rustix::termios::OptionalActions::Now,
                &terminal,
            );
        }
        let ran = ran?;
        let nothing = ran.answer.places.iter().all(|place| place.executed == 0);
        if nothing && ran.signal.is_none() {
            let what = format!("{} ended ({}) before the guest executed anything", self.name, ran.status());
            return Err(Failure::new(what, "its message is above: check the command line without fathom"));
        }
        Ok(ran)
    }
}

/// Returns by what tasks are told.
fn tasks_of(emulator: &str, kernel: &Kernel) -> Result<u64, Failure> {
    if emulator != FOLLOWED {
        let what = format!("--tasks: tasks are told in guests of {FOLLOWED} only");
        return Err(Failure::usage(what, "leave --tasks out"));
    }
    let wrong = |(what, remedy)| Failure::usage(format!("--tasks: {what}"), remedy);
    kernel.address(SWITCH).map_err(wrong)
}

/// Returns by what calls are told.
fn calls_of(emulator: &str, kernel: &Kernel) -> Result<GuestCalls, Failure> {
    if emulator != FOLLOWED {
        let what = format!("--calls: calls are followed in guests of {FOLLOWED} only");
        let why = "where an exception ends is not told from other branches on 32-bit ARM: leave --calls out";
        return Err(Failure::usage(what, why));
    }
    let wrong = |(what, remedy)| Failure::usage(format!("--calls: {what}"), remedy);
    kernel.calls().map_err(wrong)
}

/// Returns the path of a file by which the plugin finds it, too.
fn absolute(file: &Path) -> Result<String, Failure> {
    let wrong = |what: String| {
        Failure::usage(format!("--program {}: {what}", file.display()), "name its file on this host")
    };
    let found = file.canonicalize().map_err(|e| wrong(e.to_string()))?;
    let bytes = std::fs::read(&found).map_err(|e| wrong(e.to_string()))?;
    if !bytes.starts_with(&object::elf::ELFMAG) {
        return Err(wrong("this is not an ELF file".to_owned()));
    }
    found.into_os_string().into_string().map_err(|_| wrong("its path is no text".to_owned()))
}

/// Symbols are those of one boot, unless the kernel is always at the same addresses.
fn tell_of_random_addresses(options: &SystemOptions, arguments: &[OsString]) {
    let kernel_line = value(arguments, "-append").unwrap_or_default();
    if options.symbols.is_some() && !kernel_line.split(' ').any(|word| word == "nokaslr") {
        print_message(&Failure::new(
            "--symbols: the guest's kernel may be at other addresses than when they were written",
            "boot it with `nokaslr` in -append both times",
        ));
    }
}

/// Returns the value of an option of QEMU, which takes one or two dashes.
fn value(arguments: &[OsString], option: &str) -> Option<String> {
    let is_it = |word: &OsString| {
        word.to_str().is_some_and(|word| word == option || word.strip_prefix('-') == Some(option))
    };
    let at = arguments.iter().position(is_it)?;
    Some(arguments.get(at + 1).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default())
}

/// An option, what its value must be, and the remedy.
type Check = (&'static str, fn(&str) -> bool, &'static str);

/// Returns QEMU's arguments with what makes a run repeatable.
fn completed(arguments: &[OsString], seed: u64) -> Result<Vec<OsString>, Failure> {
    let refuse =
        |option: &str, remedy: &str| Failure::usage(format!("--system: {option}"), remedy.to_owned());
    let has = |option: &str| value(arguments, option);
    let all = [has("-accel"), has("-M"), has("-machine"), has("-enable-kvm").map(|_| "kvm".to_owned())];
    if all.iter().flatten().any(|of| of.split(',').any(|word| word.trim_start_matches("accel=") == "kvm")) {
        return Err(refuse(
            "KVM executes the guest on this host's CPU",
            "leave out kvm: plugins need QEMU's own (tcg)",
        ));
    }
    if has("-plugin").is_some() {
        return Err(refuse("-plugin is Fathom's own", "leave it out"));
    }
    let checks: [Check; 2] = [
        (
            "-icount",
            |of| of.contains("sleep=off") && !of.contains("auto"),
            "write -icount shift=2,sleep=off, or leave it out",
        ),
        (
            "-rtc",
            |of| of.contains("clock=vm") && of.contains("base=20"),
            "write -rtc base=2020-01-01T00:00:00,clock=vm, or leave it out",
        ),
    ];
    for (option, is_repeatable, remedy) in checks {
        if let Some(given) = has(option).filter(|given| !is_repeatable(given)) {
            return Err(refuse(&format!("{option} {given} makes each run another one"), remedy));
        }
    }
    let mut all = arguments.to_vec();
    let seed = ("-seed", seed.to_string());
    let added = ADDED.iter().map(|(option, value)| (*option, (*value).to_owned())).chain([seed]);
    for (option, value) in added.filter(|(option, _)| has(option).is_none()) {
        all.extend([OsString::from(option), OsString::from(value)]);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_makes_a_run_repeatable_is_added_once() {
        let all = completed(&words("-M virt --icount shift=0,sleep=off"), 7).expect("repeatable");
        let text: Vec<_> = all.iter().map(|word| word.to_string_lossy()).collect();
        assert_eq!(
            text.join(" "),
            "-M virt --icount shift=0,sleep=off -accel tcg,thread=single -rtc base=2020-01-01T00:00:00,clock=vm -seed 7"
        );
    }

    #[test]
    fn what_cannot_be_repeated_or_seen_is_refused() {
        for (text, said) in [
            ("-M virt,accel=kvm", "KVM"),
            ("-enable-kvm", "KVM"),
            ("-icount shift=auto,sleep=off", "-icount"),
            ("-icount shift=2", "-icount"),
            ("-rtc base=utc,clock=vm", "-rtc"),
            ("-plugin file=x", "-plugin"),
        ] {
            assert!(completed(&words(text), 1).is_err_and(|e| e.what.contains(said)), "{text}");
        }
        for text in ["", "a", "..b", "a.."] {
            assert!(Between::parse(text).is_err(), "{text}");
        }
    }
}
