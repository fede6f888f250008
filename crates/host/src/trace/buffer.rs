//! One CPU's ring buffer in a trace instance.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use fathom_probe::machine::Refusal;

use super::format::PageLayout;
use super::ring::{self, Record};
use super::trace_fs::{Instance, refused, set};
use crate::procfs::Root;

/// Maximum size of the buffer, bytes: it is kernel memory, unavailable to other processes.
const MAX_BUFFER_BYTES: u64 = 64 << 20;

/// A ring buffer. Its instance is removed when this is dropped.
pub(crate) struct Buffer {
    root: Root,
    cpu: u32,
    layout: PageLayout,
    // These two are dropped in this order: an instance with an open file cannot be removed.
    /// Raw pages of the CPU. Kept open, so that other processes cannot remove the instance.
    pipe: File,
    instance: Instance,
}

impl Buffer {
    /// Opens the buffer of `cpu` in `instance`, disabled. The instance's `tracer` (`nop` for none) is fixed: it
    /// cannot be changed while the pages are open (EBUSY), and ends with the instance.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the kernel rejects a setting.
    pub(crate) fn open(root: &Root, instance: Instance, cpu: u32, tracer: &str) -> Result<Buffer, Refusal> {
        let path = instance.path();
        let set = |file: &str, value: &str| set(root, &path.join(file), value);
        set("tracing_on", "0")?;
        set("trace_clock", "mono")?;
        set("tracing_cpumask", &mask(cpu))?;
        set("options/overwrite", "0")?;
        // A new instance has 1.4 MiB for each CPU; only one CPU's buffer is used.
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

    /// Returns the instance's directory.
    pub(crate) fn path(&self) -> &Path {
        self.instance.path()
    }

    /// Makes room for `bytes` bytes of records, at most [`MAX_BUFFER_BYTES`]; the buffer's content is lost.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the kernel does not have enough memory.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), Refusal> {
        let kib = bytes.clamp(1024, MAX_BUFFER_BYTES).div_ceil(1024);
        self.set(&format!("per_cpu/cpu{}/buffer_size_kb", self.cpu), &kib.to_string())
    }

    /// Writes a file of the instance. An empty value truncates it, which clears `trace` and `set_event`.
    ///
    /// # Errors
    /// Returns a [`Refusal`] with the kernel's error.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<(), Refusal> {
        set(&self.root, &self.path().join(file), value)
    }

    /// Returns the text of a file of the instance.
    pub(crate) fn text(&self, file: &str) -> Option<String> {
        read(&self.path().join(file))
    }

    /// Reads all records, and returns how many were lost. Recording must be disabled.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the kernel does not permit the read.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Record)) -> Result<u64, Refusal> {
        let mut page = vec![0; self.layout.bytes()];
        let (mut bytes, mut reported) = (0, 0u64);
        // The loop ends by itself; the bound protects against a faulty kernel.
        while bytes <= 2 * MAX_BUFFER_BYTES {
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
        // Pages and statistics report the same losses, if both do.
        let stats = self.text(&format!("per_cpu/cpu{}/stats", self.cpu)).unwrap_or_default();
        Ok(reported.max(lost(&stats)))
    }
}

/// Returns a text of the kernel. Its first read is a long one: `header_page` has no second.
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

/// Returns the refusal for a file of the trace that is missing, or in an unknown format.
pub(super) fn unknown(name: &str) -> Refusal {
    Refusal::new(
        format!("this kernel's trace has no {name} in a known format"),
        "use a kernel with CONFIG_EVENT_TRACING and high resolution timers",
    )
}

/// Returns the sum of the losses in a CPU's `stats`.
fn lost(stats: &str) -> u64 {
    let count = |line: &str| -> Option<u64> {
        let (name, count) = line.split_once(':')?;
        ["overrun", "commit overrun", "dropped events"].contains(&name).then(|| count.trim().parse().ok())?
    };
    stats.lines().filter_map(count).fold(0, u64::saturating_add)
}

/// Returns a mask of one CPU, as the kernel parses it: words of 32 bits in hexadecimal, the highest first.
fn mask(cpu: u32) -> String {
    let high = format!("{:x}", 1u32 << (cpu % 32));
    (0..cpu / 32).fold(high, |mask, _| mask + ",00000000")
}

#[cfg(test)]
mod tests;
