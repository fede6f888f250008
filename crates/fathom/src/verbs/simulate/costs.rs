//! What the simulated machines cost, in a unit of the user's: for `--best-of`.

use super::vary::Vary;
use crate::failure::Failure;

/// The machines of `--on`, in place of a value.
const ON: &str = "on";

/// Costs of the values of `--vary`, or of the machines of `--on`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Name of the value, such as `l2.size`, or [`ON`].
    path: String,
    /// One for each value, in its order.
    each: Vec<f64>,
}

impl Cost {
    /// Reads `l2.size=0,3,10`.
    ///
    /// # Errors
    /// Another form, or no number from 0.
    pub fn parse(text: &str) -> Result<Cost, String> {
        let example = "for example l2.size=0,3,10, for --vary l2.size=0,256K,1M, or on=5,7 for --on a,b";
        let (path, each) = text.split_once('=').ok_or_else(|| format!("no costs: {example}"))?;
        let number =
            |cost: &str| cost.trim().parse::<f64>().ok().filter(|cost| cost.is_finite() && *cost >= 0.0);
        let each: Option<Vec<f64>> = each.split(',').map(number).collect();
        let each = each.ok_or_else(|| format!("a cost is no number from 0: {example}"))?;
        Ok(Cost { path: path.trim().to_owned(), each })
    }
}

/// Returns the costs of the machines, in the order of [`vary::all`](super::vary::all): those of `on` machines and of the values of each
/// `--vary` added up; nothing if none is given.
///
/// # Errors
/// Costs of what is not varied, another number of them, or costs given twice.
pub fn of(on: usize, varied: &[Vary], costs: &[Cost]) -> Result<Vec<Option<f64>>, Failure> {
    let is_of = |cost: &Cost, path: &str| cost.path.eq_ignore_ascii_case(path);
    let known = |cost: &Cost| cost.path == ON || varied.iter().any(|vary| is_of(cost, vary.path()));
    if let Some(unknown) = costs.iter().find(|cost| !known(cost)) {
        let what = format!("--cost {}: it is not varied", unknown.path);
        return Err(Failure::usage(what, "name a value of --vary, or on for the machines of --on"));
    }
    let of_path = |path: &str, count: usize| {
        let mut given = costs.iter().filter(|cost| is_of(cost, path));
        let first = given.next();
        if given.next().is_some() {
            return Err(Failure::usage(format!("--cost {path} twice"), "give all its costs in one option"));
        }
        match first {
            None => Ok(vec![0.0; count]),
            Some(cost) if cost.each.len() == count => Ok(cost.each.clone()),
            Some(cost) => {
                let what = format!("--cost {path}: {} costs for {count} values", cost.each.len());
                Err(Failure::usage(what, "give one for each, in the same order"))
            }
        }
    };
    let all = varied.iter().try_fold(of_path(ON, on)?, |all, vary| {
        let each = of_path(vary.path(), vary.count())?;
        Ok(all.iter().flat_map(|before| each.iter().map(move |cost| before + cost)).collect())
    })?;
    Ok(all.into_iter().map(|cost: f64| Some(cost).filter(|_| !costs.is_empty())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(on: usize, varied: &[&str], costs: &[&str]) -> Result<Vec<Option<f64>>, Failure> {
        let varied: Vec<Vary> = varied.iter().map(|text| Vary::parse(text).unwrap()).collect();
        let costs: Vec<Cost> = costs.iter().map(|text| Cost::parse(text).unwrap()).collect();
        of(on, &varied, &costs)
    }

    #[test]
    fn costs_add_up_in_the_order_of_the_machines() {
        let numbers =
            |of: Result<Vec<Option<f64>>, Failure>| of.unwrap().into_iter().flatten().collect::<Vec<_>>();
        let varied = ["l2.size=0,256K,1M", "L1D.ways=2,4"];
        assert_eq!(
            numbers(costs(2, &varied, &["L2.size=0,3,10", "l1d.ways=0,1", "on=100,200"])),
            [100.0, 101.0, 103.0, 104.0, 110.0, 111.0, 200.0, 201.0, 203.0, 204.0, 210.0, 211.0]
        );
        assert_eq!(numbers(costs(1, &varied[1..], &["L1D.ways=2.5,4"])), [2.5, 4.0]);
        assert_eq!(costs(2, &varied[1..], &[]).unwrap(), [None; 4]);
    }

    #[test]
    fn other_costs_are_refused() {
        for (text, why) in
            [("l2.size", "no costs"), ("l2.size=1,x", "no number"), ("l2.size=-1", "no number")]
        {
            assert!(Cost::parse(text).unwrap_err().contains(why), "{text}");
        }
        for (given, why) in [
            (vec!["l3.size=1,2"], "not varied"),
            (vec!["l2.size=1"], "1 costs for 2 values"),
            (vec!["l2.size=1,2", "L2.size=1,2"], "twice"),
            (vec!["on=1,2"], "2 costs for 1 values"),
        ] {
            assert!(costs(1, &["l2.size=0,1M"], &given).unwrap_err().what.contains(why), "{given:?}");
        }
    }
}
