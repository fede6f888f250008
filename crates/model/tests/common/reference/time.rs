//! What an access takes by who serves it; less, if its line is one of a run, which is prefetched.

use super::Reference;

impl Reference {
    fn memory_time(&mut self, now: u64, address: u64) -> u64 {
        let memory = self.d.memory.clone();
        let mut cost = self.units(memory.latency);
        if let Some(rows) = memory.rows {
            let row = address / rows.row;
            let bank = row % u64::from(rows.banks);
            if self.open_rows.insert(bank, row) == Some(row) {
                cost = self.units(rows.open);
            }
        }
        let spread = self.units(memory.spread);
        if spread > 0 {
            cost = cost - spread.min(cost) + self.spread.throw(2 * spread + 1);
        }
        if let Some(refresh) = memory.refresh {
            let (every, takes) = (self.units(refresh.every), self.units(refresh.takes));
            let left = every - now % every;
            if left <= takes {
                cost += left;
            }
        }
        cost
    }

    pub(super) fn time_of(&mut self, hit_level: Option<usize>, now: u64, address: u64) -> u64 {
        match hit_level {
            Some(level) => self.units(self.level(level).latency),
            None => self.memory_time(now, address),
        }
    }

    /// Returns the time of a load or store of data at `now`, without translation.
    pub(super) fn time_of_data(&mut self, cpu: u32, served_by: Option<usize>, now: u64, address: u64) -> u64 {
        let time = self.time_of(served_by, now, address);
        let Some(&nearest) = self.path(false).first() else { return time };
        let Some(streams) = self.d.core.streams else { return time };
        if served_by == Some(nearest) {
            return time;
        }
        let line = (address / self.level(nearest).line) as i64;
        let most = self.units(streams.cost);
        let runs = self.runs.entry(cpu).or_default();
        let find = |runs: &[(i64, i64)], wanted: &dyn Fn(i64, i64) -> bool| {
            runs.iter().rposition(|&(last, step)| wanted(last, step))
        };
        let continued = find(runs, &|last, step| step != 0 && last + step == line);
        let again = find(runs, &|last, _| last == line);
        let begun = find(runs, &|last, step| step == 0 && (last - line).abs() == 1);
        if let Some(at) = continued {
            let (_, step) = runs.remove(at);
            runs.push((line, step));
            return time.min(most);
        }
        if let Some(at) = again {
            let run = runs.remove(at);
            runs.push(run);
        } else if let Some(at) = begun {
            let (last, _) = runs.remove(at);
            runs.push((line, line - last));
        } else {
            if runs.len() == streams.number as usize {
                runs.remove(0);
            }
            runs.push((line, 0));
        }
        time
    }
}
