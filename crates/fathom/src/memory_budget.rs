//! Memory limit for reading a record: untrusted input must not exhaust the machine.

use fathom_experiment::record::Record;

/// Lines between two checks. Their memory is negligible on any machine.
const CHECK_INTERVAL: u64 = 256;

/// Memory limit, determined once.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes: u64,
    limit: String,
    lines: u64,
}

impl MemoryBudget {
    /// Returns the limit at this time.
    #[cfg(target_os = "linux")]
    pub fn now() -> MemoryBudget {
        let fathom_host::MemoryLimit { bytes, limit, .. } = fathom_host::command_memory_limit();
        MemoryBudget { bytes, limit, lines: 0 }
    }

    /// Returns one GiB: the limit is unknown on this system.
    #[cfg(not(target_os = "linux"))]
    pub fn now() -> MemoryBudget {
        MemoryBudget { bytes: 1 << 30, limit: "what is assumed here".to_owned(), lines: 0 }
    }

    /// Checks at intervals that the needs of `record` and `taken` other bytes are within the limit. Returns the reason if
    /// they are not.
    pub fn look(&mut self, record: &Record, taken: u64) -> Option<String> {
        if let Some(excess) = record.excess() {
            return Some(excess.to_owned());
        }
        self.lines += 1;
        if !self.lines.is_multiple_of(CHECK_INTERVAL) {
            return None;
        }
        self.lacks(record.needs().saturating_add(taken))
            .map(|lack| format!("after {} lines {lack}", self.lines))
    }

    /// Returns the reason why `bytes` exceed the limit, if they do.
    pub fn lacks(&self, bytes: u64) -> Option<String> {
        (bytes > self.bytes).then(|| {
            format!(
                "it needs {} MiB of memory and more, and {} MiB may be taken here, limited by {}",
                bytes >> 20,
                self.bytes >> 20,
                self.limit
            )
        })
    }
}
