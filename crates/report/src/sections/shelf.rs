//! The findings of a report, each taken once: what no section takes is printed as it is.

use fathom_analysis::findings::Finding;

/// The findings, and which of them have been taken.
pub struct Shelf<'a> {
    findings: &'a [Finding],
    taken: Vec<bool>,
}

impl<'a> Shelf<'a> {
    /// All findings, none taken.
    pub fn new(findings: &'a [Finding]) -> Shelf<'a> {
        Shelf { findings, taken: vec![false; findings.len()] }
    }

    /// Takes the first finding of this name. A second one of the same name stays, and is printed
    /// with what nobody took.
    pub fn take(&mut self, name: &str) -> Option<&'a Finding> {
        let at = (0..self.findings.len()).find(|&i| !self.taken[i] && self.findings[i].name == name)?;
        self.taken[at] = true;
        Some(&self.findings[at])
    }

    /// Takes the findings whose dotted name `key` reads, in ascending order of what it reads; the
    /// first of each key only.
    pub fn take_by<K: Ord>(&mut self, key: impl Fn(&[&str]) -> Option<K>) -> Vec<(K, &'a Finding)> {
        let mut found = self.find(key);
        found.dedup_by(|b, a| a.0 == b.0);
        self.mark(found)
    }

    /// The same, with all of each key, those of one key in the report's order.
    pub fn take_all<K: Ord>(&mut self, key: impl Fn(&[&str]) -> Option<K>) -> Vec<(K, &'a Finding)> {
        let found = self.find(key);
        self.mark(found)
    }

    fn find<K: Ord>(&self, key: impl Fn(&[&str]) -> Option<K>) -> Vec<(K, usize)> {
        let mut found: Vec<(K, usize)> = Vec::new();
        for (i, f) in self.findings.iter().enumerate().filter(|(i, _)| !self.taken[*i]) {
            let parts: Vec<&str> = f.name.split('.').collect();
            if let Some(k) = key(&parts) {
                found.push((k, i));
            }
        }
        // Stable, so that of equal keys the first in the report stays first.
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    fn mark<K>(&mut self, found: Vec<(K, usize)>) -> Vec<(K, &'a Finding)> {
        for (_, i) in &found {
            self.taken[*i] = true;
        }
        found.into_iter().map(|(k, i)| (k, &self.findings[i])).collect()
    }

    /// What nobody took, in the report's order.
    pub fn rest(self) -> Vec<&'a Finding> {
        self.findings.iter().zip(self.taken).filter(|(_, taken)| !taken).map(|(f, _)| f).collect()
    }
}

/// A whole number from 1 as it is written in a name.
pub fn whole(part: &str) -> Option<u64> {
    part.parse().ok().filter(|n: &u64| *n >= 1 && n.to_string() == part)
}
