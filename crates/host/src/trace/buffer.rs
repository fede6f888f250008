//! One CPU's ring buffer in a trace instance of our own.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use fathom_probe::machine::Refusal;

use super::format::PageLayout;
use super::place::{Instance, refused, set};
use super::ring::{self, Record};
use crate::procfs::Root;

/// Largest buffer, bytes: it is memory that the kernel does not give to anybody else.
const LARGEST: u64 = 64 << 20;

/// The buffer. Its instance is removed when this is dropped.
pub(crate) struct Buffer {
    root: Root,
    cpu: u32,
    layout: PageLayout,
    // The order of these two is the order in which they go: an instance with an open file cannot be removed.
    /// The CPU's raw pages. Open as long as the instance is ours, which keeps others from removing it.
    pipe: File,
    instance: Instance,
}

impl Buffer {
    /// The buffer of `cpu` in `instance`, switched off. The instance's `tracer` (`nop` is none) is its for good: it
    /// cannot be changed while the pages are open (EBUSY), and goes with the instance.
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel does not do as it is told.
    pub(crate) fn open(root: &Root, instance: Instance, cpu: u32, tracer: &str) -> Result<Buffer, Refusal> {
        let path = instance.path();
        let set = |file: &str, value: &str| set(root, &path.join(file), value);
        set("tracing_on", "0")?;
        set("trace_clock", "mono")?;
        set("tracing_cpumask", &mask(cpu))?;
        set("options/overwrite", "0")?;
        // A new instance has 1.4 MiB for each CPU there is; one CPU's is used.
        set("buffer_size_kb", "1")?;
        set("current_tracer", tracer)?;
        let layout = read(&path.join("events/header_page")).and_then(|text| PageLayout::parse(&text));
        let layout = layout.ok_or_else(|| unknown("events/header_page"))?;
        let pipe = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))
            .map_err(|e| refused(root, "open trace_pipe_raw", &e))?;
        Ok(Buffer { root: root.clone(), cpu, layout, pipe, instance })
    }

    /// The instance's directory.
    pub(crate) fn path(&self) -> &Path {
        self.instance.path()
    }

    /// Makes room for so many bytes of records, within [`LARGEST`]; what is in the buffer is lost.
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel has not so much memory.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), Refusal> {
        let kib = bytes.clamp(1024, LARGEST).div_ceil(1024);
        self.set(&format!("per_cpu/cpu{}/buffer_size_kb", self.cpu), &kib.to_string())
    }

    /// Writes a file of the instance; an empty value cuts it to nothing, which clears `trace` and `set_event`.
    ///
    /// # Errors
    /// A [`Refusal`] with the kernel's answer.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<(), Refusal> {
        set(&self.root, &self.path().join(file), value)
    }

    /// A file of the instance.
    pub(crate) fn text(&self, file: &str) -> Option<String> {
        read(&self.path().join(file))
    }

    /// Takes all records out, and returns how many were lost. Nobody may write meanwhile.
    ///
    /// # Errors
    /// A [`Refusal`] where the kernel does not hand them out.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Record)) -> Result<u64, Refusal> {
        let mut page = vec![0; self.layout.bytes()];
        let (mut bytes, mut reported) = (0, 0u64);
        // This ends; the bound is for a kernel that would not.
        while bytes <= 2 * LARGEST {
            match self.pipe.read(&mut page) {
                Ok(0) => break,
                Ok(length) => {
                    bytes += page.len() as u64;
                    let page = page.get(..length).unwrap_or_default();
                    let Some((records, lost)) = ring::records(page, &self.layout) else { continue };
                    records.for_each(&mut each);
                    reported = reported.saturating_add(lost);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(refused(&self.root, "read trace_pipe_raw", &e)),
            }
        }
        // The pages tell of the same losses as the statistics, where both do.
        let stats = self.text(&format!("per_cpu/cpu{}/stats", self.cpu)).unwrap_or_default();
        Ok(reported.max(lost(&stats)))
    }
}

/// A text of the kernel's. Its first read is a long one: `header_page` has no second.
pub(super) fn read(path: &Path) -> Option<String> {
    // The longest format, with its `print fmt`, has some KiB; no file that is read here may have more than 64.
    let mut text = vec![0; 64 << 10];
    let mut file = File::open(path).ok()?;
    let mut length = 0;
    while let Ok(more @ 1..) = file.read(text.get_mut(length..)?) {
        length += more;
    }
    text.truncate(length);
    String::from_utf8(text).ok()
}

/// The refusal for a file of the trace that is not there, or not understood.
pub(super) fn unknown(name: &str) -> Refusal {
    Refusal::new(
        format!("this kernel's trace has no {name} that is understood"),
        "a kernel with CONFIG_EVENT_TRACING and high resolution timers has it",
    )
}

/// The sum of what a CPU's `stats` count as lost.
fn lost(stats: &str) -> u64 {
    let count = |line: &str| -> Option<u64> {
        let (name, count) = line.split_once(':')?;
        ["overrun", "commit overrun", "dropped events"].contains(&name).then(|| count.trim().parse().ok())?
    };
    stats.lines().filter_map(count).fold(0, u64::saturating_add)
}

/// A set of one CPU, as the kernel reads it: words of 32 bits in hexadecimal, the highest first.
fn mask(cpu: u32) -> String {
    let high = format!("{:x}", 1u32 << (cpu % 32));
    (0..cpu / 32).fold(high, |mask, _| mask + ",00000000")
}

#[cfg(test)]
mod tests;
