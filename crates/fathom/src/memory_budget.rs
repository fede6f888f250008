//! Memory that the command may take to judge a record: what comes from strangers must not fill the machine.

use fathom_experiment::record::Record;

/// Lines between two looks: what they can hold is small against any machine's memory.
const EVERY: u64 = 256;

/// How much may be had, looked up once.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes: u64,
    limit: String,
    lines: u64,
}

impl MemoryBudget {
    /// What there is now.
    #[cfg(target_os = "linux")]
    pub fn now() -> MemoryBudget {
        let fathom_host::MemoryLimit { bytes, limit, .. } = fathom_host::command_memory_limit();
        MemoryBudget { bytes, limit, lines: 0 }
    }

    /// Where nothing tells, a gibibyte.
    #[cfg(not(target_os = "linux"))]
    pub fn now() -> MemoryBudget {
        MemoryBudget { bytes: 1 << 30, limit: "what is assumed here".to_owned(), lines: 0 }
    }

    /// Looks from time to time whether what `record` needs beside `taken` bytes may still be had: the reason
    /// where it may not.
    pub fn look(&mut self, record: &Record, taken: u64) -> Option<String> {
        if let Some(excess) = record.excess() {
            return Some(excess.to_owned());
        }
        self.lines += 1;
        if !self.lines.is_multiple_of(EVERY) {
            return None;
        }
        self.lacks(record.needs().saturating_add(taken))
            .map(|lack| format!("after {} lines {lack}", self.lines))
    }

    /// Why `bytes` may not be had, if that is so.
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
