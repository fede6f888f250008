//! Inferred against described machines: lines, ways, sets and replacement of caches; entries, ways and sets of TLBs.
//! Refused values are counted separately; reported values must be right.

use fathom_analysis::findings::Report;
use fathom_model::description::Description;

use crate::comparison::{self, Quantity, Verdict};

/// Results for one kind of value.
#[derive(Debug, Default)]
pub struct Tally {
    /// Number of right values.
    pub right: usize,
    /// Values without result, with the reason if any.
    pub refused: Vec<String>,
    /// Wrong values.
    pub wrong: Vec<String>,
}

impl Tally {
    /// Returns the number of reported values.
    pub fn decided(&self) -> usize {
        self.right + self.wrong.len()
    }

    /// Adds a value: right, wrong, or refused (None).
    fn add(&mut self, what: String, right: Option<bool>) {
        match right {
            None => self.refused.push(what),
            Some(true) => self.right += 1,
            Some(false) => self.wrong.push(what),
        }
    }

    /// Adds the counts of another tally.
    pub fn take(&mut self, other: Tally) {
        self.right += other.right;
        self.refused.extend(other.refused);
        self.wrong.extend(other.wrong);
    }
}

/// Results of machines by kind of value.
#[derive(Debug, Default)]
pub struct Built {
    /// Lines, ways and sets of caches.
    pub caches: Tally,
    /// Replacement of caches.
    pub policies: Tally,
    /// Entries of TLBs.
    pub entries: Tally,
    /// Ways and sets of TLBs.
    pub tlbs: Tally,
}

impl Built {
    /// Prints the results of each kind and their sum; `ORACLE_REFUSED=1` prints refused values too.
    pub fn print(&self, what: &str) {
        let mut whole = (0, 0, 0, 0);
        for (of, tally) in self.kinds() {
            let (decided, right) = (tally.decided(), tally.right);
            let (wrong, refused) = (tally.wrong.len(), tally.refused.len());
            println!("  {of}: {decided} decided, {right} right, {wrong} wrong, {refused} refused");
            tally.wrong.iter().for_each(|wrong| println!("    {wrong}"));
            if std::env::var_os("ORACLE_REFUSED").is_some() {
                tally.refused.iter().for_each(|refused| println!("    refused: {refused}"));
            }
            whole = (whole.0 + decided, whole.1 + right, whole.2 + wrong, whole.3 + refused);
        }
        let (decided, right, wrong, refused) = whole;
        println!("oracle: {what}: {decided} decided, {right} right, {wrong} wrong, {refused} refused");
    }

    /// Returns each kind with its name.
    pub fn kinds(&self) -> [(&'static str, &Tally); 4] {
        [
            ("lines, ways and sets", &self.caches),
            ("replacement", &self.policies),
            ("entries of TLBs", &self.entries),
            ("ways and sets of TLBs", &self.tlbs),
        ]
    }

    /// Returns the tally of a quantity of the geometry.
    fn tally(&mut self, of: Quantity) -> &mut Tally {
        match of {
            Quantity::Policy => &mut self.policies,
            Quantity::TlbEntries | Quantity::HugeEntries => &mut self.entries,
            Quantity::TlbSets => &mut self.tlbs,
            _ => &mut self.caches,
        }
    }

    /// Adds the counts of another result.
    pub fn take(&mut self, other: Built) {
        self.caches.take(other.caches);
        self.policies.take(other.policies);
        self.entries.take(other.entries);
        self.tlbs.take(other.tlbs);
    }
}

/// Compares a report with the description.
pub fn judge(d: &Description, report: &Report) -> Built {
    let mut built = Built::default();
    for row in comparison::geometry(d, report) {
        let text = match row.quantity {
            Quantity::TlbEntries => format!("{}: {}", d.name, row.text),
            _ => row.text.clone(),
        };
        let right = match row.verdict {
            Verdict::Refused => None,
            verdict => Some(verdict == Verdict::Right),
        };
        built.tally(row.quantity).add(text, right);
    }
    built
}
