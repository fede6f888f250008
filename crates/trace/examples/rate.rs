//! Rates of reading traces, and traces of any length for other programs.
//!
//! ```text
//! cargo run --release -p fathom-trace --example rate                     # million accesses per CPU second
//! cargo run --release -p fathom-trace --example rate -- din random 1000000000 | fathom simulate --on bcm2837 --trace -
//! ```
//!
//! Patterns are loads of 8 bytes: `sequential` and `random` over 64 MiB, `small` sequential over 16 KiB, with an instruction before each
//! in formats that have them.

use std::io::{self, BufWriter, Cursor, Write};

use fathom_model::Access;
use fathom_simulation::protocol::{Answer, End, HeapSites, Place};
use fathom_trace::{Batch, Format, Header, Reader, Writer};

/// Accesses of a measurement.
const COUNT: u64 = 20_000_000;
/// Address of the first instruction of a loop of 16 bytes.
const CODE: u64 = 0x40_1000;
/// Address of the data.
const DATA: u64 = 0x7f00_0000_0000;

/// Returns the addresses of a pattern: xorshift64 with (13, 7, 17), or in order.
fn addresses(pattern: &str) -> Option<Box<dyn FnMut() -> u64>> {
    let mut state = 88_172_645_463_325_252u64;
    let mut next = 0u64;
    let in_order = move |bytes: u64| {
        next += 8;
        DATA + (next - 8) % bytes
    };
    Some(match pattern {
        "sequential" => Box::new({
            let mut in_order = in_order;
            move || in_order(64 << 20)
        }),
        "small" => Box::new({
            let mut in_order = in_order;
            move || in_order(16 << 10)
        }),
        "random" => Box::new(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            DATA + ((state >> 20) & ((64 << 20) - 1) & !7)
        }),
        _ => return None,
    })
}

/// Writes a trace with `count` loads.
fn write(format: Format, pattern: &str, count: u64, to: impl Write) -> io::Result<()> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidInput, "patterns are sequential, random and small");
    let mut next = addresses(pattern).ok_or_else(unknown)?;
    let mut to = BufWriter::with_capacity(1 << 20, to);
    match format {
        Format::Din => (0..count).try_for_each(|_| writeln!(to, "0 {:x}", next()))?,
        Format::Lackey => {
            (0..count).try_for_each(|n| write!(to, "I  {:08x},4\n L {:x},8\n", CODE + 4 * (n % 4), next()))?
        }
        Format::ChampSim => (0..count).try_for_each(|n| {
            let mut record = [0; 64];
            record[..8].copy_from_slice(&(CODE + 4 * (n % 4)).to_le_bytes());
            record[32..40].copy_from_slice(&next().to_le_bytes());
            to.write_all(&record)
        })?,
        Format::Fathom => return write_own(count, next, to),
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "formats are din, lackey, champsim and fathom",
            ));
        }
    }
    to.flush()
}

fn write_own(count: u64, mut next: impl FnMut() -> u64, to: impl Write) -> io::Result<()> {
    let mut writer = Writer::new(to, &Header { program: "rate".into(), fetch_shift: Some(5), guest: false })?;
    writer.add(0, &[Access::fetch(CODE, 4).at(0)])?;
    let mut batch = Vec::new();
    let mut left = count;
    while left > 0 {
        batch.clear();
        batch.extend((0..left.min(4096)).map(|_| Access::load(next(), 8).at(1)));
        left -= batch.len() as u64;
        writer.add(0, &batch)?;
    }
    let place = |pc, loads| Place { pc, executed: count, loads, stores: 0 };
    let run = Answer {
        end: End::Complete,
        status: 0,
        target: "aarch64".into(),
        threads: 1,
        unseen: vec![],
        places: vec![place(CODE, 0), place(CODE + 4, count)],
        mappings: vec![],
        regions: vec![],
        heap: HeapSites::default(),
        calls: None,
        guest: None,
        machines: vec![],
    };
    writer.finish(&run).map(drop)
}

/// Returns the CPU time of this thread, s (proc(5), /proc/PID/schedstat: nanoseconds on a CPU).
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let spent: u64 = text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number");
    spent as f64 / 1e9
}

/// Prints the rates of a format: written and read.
fn measure(format: Format, pattern: &str) -> io::Result<()> {
    let mut trace = Vec::new();
    let before = cpu_seconds();
    write(format, pattern, COUNT, &mut trace)?;
    let written = cpu_seconds() - before;
    let bytes = trace.len();
    let before = cpu_seconds();
    let read = (|| {
        let mut reader = Reader::open(Cursor::new(trace), None, Some(6))?;
        let (mut batch, mut count) = (Batch::default(), 0u64);
        while reader.read(&mut batch)? {
            count += batch.accesses.iter().filter(|access| access.kind as u8 == 0).count() as u64;
        }
        Ok::<_, fathom_trace::Error>((reader.format(), count))
    })();
    let spent = cpu_seconds() - before;
    let (read_as, count) = read.map_err(|e| io::Error::other(e.to_string()))?;
    assert_eq!((read_as, count), (format, COUNT));
    println!(
        "{:10} {pattern:12} {:8.1} {:8.1} {:8.2}",
        format.name(),
        COUNT as f64 / 1e6 / spent,
        COUNT as f64 / 1e6 / written,
        bytes as f64 / COUNT as f64
    );
    Ok(())
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [format, pattern, count] = arguments.as_slice() {
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let format = Format::named(format).map_err(wrong)?;
        let count = count.parse().map_err(|_| wrong(format!("{count} is no number")))?;
        return write(format, pattern, count, io::stdout().lock());
    }
    println!("format     pattern          read  written  bytes of an access (millions per CPU second)");
    for format in [Format::Din, Format::Lackey, Format::ChampSim, Format::Fathom] {
        for pattern in ["sequential", "random", "small"] {
            measure(format, pattern)?;
        }
    }
    Ok(())
}
