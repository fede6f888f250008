//! What holds the lines of a record together: its first line, and the numbers and checksums of the probe's lines.

use fathom_probe::wire::{Line, WireError};

use super::{Record, VERSION};

impl Record {
    /// Checks a probe line's sequence number, which must be the last one plus one. A gap is noted. A repeated or late
    /// line is rejected. A greeting always has the first number: a board that was reset greets in the middle of a
    /// session.
    pub(super) fn take_seq(&mut self, line: &Line, sealed: bool) -> Result<(), WireError> {
        let Some(seq) = line.seq.filter(|_| sealed) else {
            return Err(WireError::new(format!("'{}' without number and checksum: cut off", line.word)));
        };
        if line.word == "probe" && seq == 1 {
            self.gone = false;
            self.greeted();
        } else if let Some(last) = self.last_seq {
            if seq <= last {
                return Err(WireError::new(format!(
                    "number {seq} after {last}: the line is repeated or out of order; it is left out"
                )));
            }
            if seq != last + 1 {
                self.losses.gaps += 1;
                self.problem(&format!("number {seq} follows {last}: lines of the probe are missing"));
            }
        }
        self.last_seq = Some(seq);
        Ok(())
    }
}

/// Returns whether the line ends in a checksum. Parsing has then verified it.
pub(super) fn sealed(text: &str) -> bool {
    // A checksum inside a quoted text does not count: parsing treats such a line as unsealed.
    let last = text.trim_end().rsplit_once(' ').map(|(_, last)| last);
    last.is_some_and(|last| last.starts_with("crc=0x") && !last.contains('"'))
}

/// Checks the first line of a record.
pub(super) fn first(text: &str) -> Result<(), String> {
    let hint = "a record begins with 'fathom.record version=1'";
    let line = Line::parse(text).map_err(|e| format!("line 1: {e}; {hint}"))?;
    if line.word != "fathom.record" {
        return Err(format!("line 1 begins with '{}'; {hint}", line.word));
    }
    let mut f = line.fields();
    let version = f.need_int("version").map_err(|e| e.what)?;
    f.finish().map_err(|e| e.what)?;
    if version != VERSION {
        return Err(format!(
            "record version {version}; this program reads version {VERSION}: read it with the version of fathom that made it"
        ));
    }
    Ok(())
}
