//! Facts in a record. Long facts are sent in parts.

use fathom_analysis::claims::FactValue;
use fathom_probe::wire::{Line, WireError};

use super::Record;

impl Record {
    pub(super) fn take_fact(&mut self, line: &Line) -> Result<(), WireError> {
        let mut f = line.fields();
        let name = f.text("name")?.unwrap_or_default().to_owned();
        let part = f.int("part")?.unwrap_or(0);
        let of = f.int("of")?.unwrap_or(1);
        let value = match (f.int("int")?, f.text("text")?, f.hex("hex")?) {
            (Some(v), None, None) => FactValue::Int(v),
            (None, Some(t), None) => FactValue::Text(t.to_owned()),
            (None, None, Some(b)) => FactValue::Bytes(b.to_vec()),
            _ => return Err(WireError::new(format!("fact {name}: needs one of int, text, hex"))),
        };
        f.finish()?;
        self.held += (size_of::<(String, FactValue)>() + name.len() + length(&value)) as u64;
        if part == 0 {
            self.drop_unfinished();
            self.pairs.push((name, value));
            self.parts = (of > 1).then_some((1, of));
            return Ok(());
        }
        if !self.append(&name, part, of, value) {
            return Err(WireError::new(format!("fact {name}: part {part} without the part before it")));
        }
        Ok(())
    }

    /// Appends part `part` of `of` to the last fact, if it is the next part of that fact.
    fn append(&mut self, name: &str, part: u64, of: u64, value: FactValue) -> bool {
        if self.parts != Some((part, of)) {
            return false;
        }
        match (self.pairs.last_mut(), value) {
            (Some((last, FactValue::Text(t))), FactValue::Text(more)) if last == name => t.push_str(&more),
            (Some((last, FactValue::Bytes(b))), FactValue::Bytes(more)) if last == name => b.extend(more),
            _ => return false,
        }
        self.parts = (part + 1 < of).then_some((part + 1, of));
        true
    }

    /// Drops a fact with missing parts: half a table decodes to nonsense.
    pub(super) fn drop_unfinished(&mut self) {
        if let Some((had, of)) = self.parts.take()
            && let Some((name, _)) = self.pairs.pop()
        {
            self.problem(&format!("fact {name}: only {had} of {of} parts were received; it is left out"));
        }
    }

    /// Ends the current list of facts.
    pub(super) fn close_facts(&mut self) {
        self.drop_unfinished();
        if !self.pairs.is_empty() {
            self.facts.extend(core::mem::take(&mut self.pairs));
        }
    }
}

/// Returns the heap bytes of a fact's value.
fn length(value: &FactValue) -> usize {
    match value {
        FactValue::Int(_) => 0,
        FactValue::Text(text) => text.len(),
        FactValue::Bytes(bytes) => bytes.len(),
    }
}
